// SPDX-License-Identifier: MIT
// C++ on the library: every form of new and delete (those of mimalloc-new-delete.h), the
// new-handler and std::bad_alloc out of a library that is C, containers on the allocators, and the
// memory resource.
#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <mimalloc-new-delete.h>

#include "../throws.h"
#include "expect.h"

// Sizes are hidden from the compiler, which may remove a new with its delete.
static std::size_t seen(std::size_t size) {
  volatile std::size_t hidden = size;
  return hidden;
}

static void* keep(void* p) {
  void* volatile hidden = p;
  return hidden;
}

static const std::size_t too_large = SIZE_MAX - 100;
static const std::size_t sizes[] = {0, 1, 8, 16, 24, 100, 1024, 1025, 5000, 70000, 700000};

// ---- the operators -----------------------------------------------------------------------------

static void test_plain() {
  for (const std::size_t size : sizes) {
    void* blocks[4] = {keep(::operator new(seen(size))), keep(::operator new[](seen(size))),
                       keep(::operator new(seen(size), std::nothrow)),
                       keep(::operator new[](seen(size), std::nothrow))};
    for (void* p : blocks) {
      EXPECT_AT(size, p != nullptr && is_multiple(p, 16) && is_usable_for(p, size));
      EXPECT_AT(size, mi_is_in_heap_region(p));
      std::memset(p, 1, size);
    }
    ::operator delete(blocks[0]);
    ::operator delete[](blocks[1]);
    ::operator delete(blocks[2], std::nothrow);
    ::operator delete[](blocks[3], std::nothrow);
    ::operator delete(keep(::operator new(seen(size))), size);
    ::operator delete[](keep(::operator new[](seen(size))), size);
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
  EXPECT(error_count == 0);
}

static void test_aligned() {
  for (std::size_t align = 1; align <= 65536 * 4; align *= 2) {
    const std::align_val_t al = std::align_val_t(align);
    for (const std::size_t size : sizes) {
      void* blocks[6] = {keep(::operator new(seen(size), al)),
                         keep(::operator new[](seen(size), al)),
                         keep(::operator new(seen(size), al, std::nothrow)),
                         keep(::operator new[](seen(size), al, std::nothrow)),
                         keep(::operator new(seen(size), al)),
                         keep(::operator new[](seen(size), al))};
      for (void* p : blocks) {
        EXPECT_AT(align, p != nullptr && is_multiple(p, align) && is_usable_for(p, size));
        EXPECT_AT(align, mi_is_in_heap_region(p));
        std::memset(p, 1, size);
      }
      ::operator delete(blocks[0], al);
      ::operator delete[](blocks[1], al);
      ::operator delete(blocks[2], al, std::nothrow);
      ::operator delete[](blocks[3], al, std::nothrow);
      ::operator delete(blocks[4], size, al);
      ::operator delete[](blocks[5], size, al);
    }
  }
  EXPECT(error_count == 0);
}

static void test_bad_alloc() {
  const std::align_val_t al = std::align_val_t(64);
  EXPECT(throws_bad_alloc([] { keep(::operator new(seen(too_large))); }));
  EXPECT(throws_bad_alloc([] { keep(::operator new[](seen(too_large))); }));
  EXPECT(throws_bad_alloc([=] { keep(::operator new(seen(too_large), al)); }));
  EXPECT(throws_bad_alloc([=] { keep(::operator new[](seen(too_large), al)); }));
  EXPECT(throws_bad_alloc([] { keep(mi_new(seen(too_large))); }));
  EXPECT(throws_bad_alloc([] { keep(mi_new_aligned(seen(too_large), 64)); }));
  EXPECT(throws_bad_alloc([] { keep(mi_new_aligned(10, seen(24))); }));
  EXPECT(throws_bad_alloc([] { keep(mi_new_n(seen(SIZE_MAX / 2), 3)); }));
  EXPECT(throws_bad_alloc([] { keep(mi_heap_alloc_new(nullptr, seen(too_large))); }));
  EXPECT(throws_bad_alloc([] { keep(mi_heap_alloc_new_n(nullptr, seen(SIZE_MAX / 2), 3)); }));
  EXPECT(throws_bad_alloc([] { std::vector<char> v(seen((std::size_t)PTRDIFF_MAX)); }));
  EXPECT(throws_bad_alloc([] { keep(new char[seen((std::size_t)PTRDIFF_MAX)]); }));
  char* const p = static_cast<char*>(mi_new(10));
  std::strcpy(p, "kept");
  EXPECT(throws_bad_alloc([=] { keep(mi_new_realloc(p, seen(too_large))); }));
  EXPECT(throws_bad_alloc([=] { keep(mi_new_reallocn(p, seen(SIZE_MAX / 2), 3)); }));
  EXPECT(std::strcmp(p, "kept") == 0);
  mi_free(p);
  EXPECT_ERRNO(keep(::operator new(seen(too_large), std::nothrow)), ENOMEM);
  EXPECT_ERRNO(keep(::operator new[](seen(too_large), std::nothrow)), ENOMEM);
  EXPECT_ERRNO(keep(::operator new(seen(too_large), al, std::nothrow)), ENOMEM);
  const std::align_val_t none = std::align_val_t(seen(0));
  EXPECT_ERRNO(keep(::operator new(seen(8), none, std::nothrow)), EINVAL);
  EXPECT_ERRNO(keep(::operator new[](seen(8), none, std::nothrow)), EINVAL);
  EXPECT_ERRNO(keep(mi_new_nothrow(seen(too_large))), ENOMEM);
  EXPECT_ERRNO(keep(mi_new_aligned_nothrow(seen(too_large), 64)), ENOMEM);
}

// ---- the new-handler ---------------------------------------------------------------------------

static int handled;

static void give_up_at_third() {
  if (++handled == 3) std::set_new_handler(nullptr);
}

struct own_error : std::bad_alloc {};

static void throw_own() {
  handled++;
  throw own_error();
}

// Runs `f` with a handler that gives up when it is called for the third time.
template <class F>
static int calls_of_handler(F f) {
  handled = 0;
  std::set_new_handler(give_up_at_third);
  f();
  std::set_new_handler(nullptr);
  return handled;
}

static void test_new_handler() {
  EXPECT(calls_of_handler([] {
           EXPECT(throws_bad_alloc([] { keep(::operator new(seen(too_large))); }));
         }) == 3);
  EXPECT(calls_of_handler([] {
           EXPECT(throws_bad_alloc([] { keep(mi_new_aligned(seen(too_large), 64)); }));
         }) == 3);
  EXPECT(calls_of_handler([] {
           EXPECT(throws_bad_alloc([] { keep(mi_new_realloc(nullptr, seen(too_large))); }));
         }) == 3);
  EXPECT(calls_of_handler([] {
           EXPECT(keep(::operator new(seen(too_large), std::nothrow)) == nullptr);
         }) == 3);
  EXPECT(calls_of_handler([] { keep(mi_new_aligned_nothrow(seen(too_large), 64)); }) == 3);
  EXPECT(calls_of_handler([] {
           EXPECT(throws_bad_alloc([] { keep(mi_heap_alloc_new(nullptr, seen(too_large))); }));
         }) == 3);
  // An impossible alignment is not the handler's business.
  EXPECT(calls_of_handler([] {
           EXPECT(throws_bad_alloc([] { keep(mi_new_aligned(10, seen(3))); }));
         }) == 0);
  EXPECT(calls_of_handler([] { ::operator delete(keep(::operator new(seen(100)))); }) == 0);
  // The handler's own exception goes through the library.
  handled = 0;
  std::set_new_handler(throw_own);
  bool own = false;
  try {
    keep(::operator new(seen(too_large)));
  } catch (const own_error&) {
    own = true;
  }
  EXPECT(own && handled == 1);
  // But not out of the forms that do not throw.
  const std::align_val_t al = std::align_val_t(64);
  EXPECT(keep(::operator new(seen(too_large), std::nothrow)) == nullptr && handled == 2);
  EXPECT(keep(::operator new[](seen(too_large), std::nothrow)) == nullptr && handled == 3);
  EXPECT(keep(::operator new(seen(too_large), al, std::nothrow)) == nullptr && handled == 4);
  EXPECT(keep(::operator new[](seen(too_large), al, std::nothrow)) == nullptr && handled == 5);
  std::set_new_handler(nullptr);
}

// ---- containers --------------------------------------------------------------------------------

struct alignas(256) wide {
  int value;
  char rest[300];
};

struct counted {
  static int live;
  int value;
  explicit counted(int v = 0) : value(v) { live++; }
  counted(const counted& other) : value(other.value) { live++; }
  counted& operator=(const counted&) = default;
  ~counted() { live--; }
};
int counted::live = 0;

template <template <class> class A>
static void use_containers() {
  {
    std::vector<int, A<int>> v;
    for (int i = 0; i < 10000; i++) v.push_back(i * 7 % 10000);
    std::sort(v.begin(), v.end());
    EXPECT(v[9999] == 9999 && mi_is_in_heap_region(v.data()));
    std::vector<int, A<int>> copy(v), moved(std::move(v));
    EXPECT(copy == moved);
    std::list<counted, A<counted>> list;
    for (int i = 0; i < 1000; i++) list.emplace_back(i);
    list.remove_if([](const counted& c) { return c.value % 2 == 0; });
    EXPECT(list.size() == 500 && counted::live == 500);
    std::map<int, counted, std::less<int>, A<std::pair<const int, counted>>> map;
    for (int i = 0; i < 1000; i++) map.emplace(i, i);
    EXPECT(map.size() == 1000 && mi_is_in_heap_region(&*map.begin()));
    std::basic_string<char, std::char_traits<char>, A<char>> text;
    for (int i = 0; i < 1000; i++) text += "some text ";
    EXPECT(text.size() == 10000 && mi_is_in_heap_region(text.data()));
    std::vector<wide, A<wide>> wides(17);
    for (const wide& w : wides) EXPECT(is_multiple(&w, 256));
  }
  EXPECT(counted::live == 0);
  A<int> a;
  EXPECT(a.max_size() == (std::size_t)PTRDIFF_MAX / sizeof(int));
  EXPECT(throws_bad_alloc([&] { keep(a.allocate(seen(SIZE_MAX / 2))); }));
  EXPECT(throws_bad_alloc([&] { keep(a.allocate(seen(a.max_size()))); }));
  typename A<int>::template rebind<char>::other b(a);
  EXPECT(b == A<char>(a));
}

static void test_allocators() {
  use_containers<mi_stl_allocator>();
  use_containers<mi_heap_stl_allocator>();
  use_containers<mi_heap_destroy_stl_allocator>();
  EXPECT(mi_stl_allocator<int>() == mi_stl_allocator<char>());
  mi_heap_stl_allocator<int> one, two, same(one);
  EXPECT(one != two && one == same);
  EXPECT(mi_heap_stl_allocator<int>(nullptr) == mi_heap_stl_allocator<char>(mi_heap_main()));
  // Blocks of a deleted heap stay valid, those of a borrowed one stay in it.
  int* kept;
  {
    mi_heap_stl_allocator<int> a;
    kept = a.allocate(100);
    kept[99] = 99;
  }
  EXPECT(kept[99] == 99 && mi_heap_of(kept) == mi_heap_main());
  mi_free(kept);
  mi_heap_t* const heap = mi_heap_new();
  {
    std::vector<int, mi_heap_stl_allocator<int>> v{mi_heap_stl_allocator<int>(heap)};
    v.assign(1000, 1);
    EXPECT(mi_heap_of(v.data()) == heap);
  }
  void* const p = mi_heap_malloc(heap, 10);
  EXPECT(mi_heap_of(p) == heap);
  mi_heap_destroy(heap);
}

struct throws_t {
  int value;
  explicit throws_t(int v) : value(v) {
    if (v < 0) throw v;
  }
};

static void test_partition() {
  mi_partition texts, trees;
  std::vector<char, mi_heap_stl_allocator<char>> text(1000, 'x', texts.allocator<char>());
  throws_t* const tree = trees.create<throws_t>(7);
  EXPECT(texts.contains(text.data()) && trees.contains(tree) && tree->value == 7);
  EXPECT(mi_heap_of(tree) == trees.heap() && !texts.contains(tree));
  EXPECT((mi_partition_of(tree) != mi_partition_of(text.data())) == MX_ISOLATE);
  bool has_thrown = false;
  try {
    trees.create<throws_t>(-1);
  } catch (int) {
    has_thrown = true;
  }
  EXPECT(has_thrown);
  trees.destroy(tree);
  trees.destroy<throws_t>(nullptr);
}

#if defined(MI_HAS_HEAP_MEMORY_RESOURCE)
static void test_memory_resource() {
  mi_heap_memory_resource own;
  EXPECT(own.heap() != mi_heap_main());
  {
    std::pmr::vector<std::pmr::string> texts(&own);
    for (int i = 0; i < 1000; i++) texts.emplace_back(std::size_t(50 + i), 'x');
    EXPECT(mi_heap_of(texts.data()) == own.heap() && mi_heap_of(texts[999].data()) == own.heap());
    std::pmr::unordered_map<int, wide> map(&own);
    for (int i = 0; i < 100; i++) EXPECT(is_multiple(&map[i], 256));
    std::pmr::monotonic_buffer_resource buffer(&own);
    std::pmr::list<int> list(&buffer);
    for (int i = 0; i < 10000; i++) list.push_back(i);
    std::pmr::unsynchronized_pool_resource pool(&own);
    std::pmr::map<int, int> numbers(&pool);
    for (int i = 0; i < 1000; i++) numbers[i] = i;
    EXPECT(numbers.size() == 1000 && list.size() == 10000);
  }
  void* const p = own.allocate(100, 4096);
  EXPECT(is_multiple(p, 4096));
  std::thread([&] { own.deallocate(p, 100, 4096); }).join();
  EXPECT(throws_bad_alloc([&] { keep(own.allocate(seen(too_large), 8)); }));
  mi_heap_memory_resource main_resource(nullptr), also_main(mi_heap_main());
  EXPECT(main_resource == also_main && main_resource != own);
  EXPECT(error_count == 0 || error_last == ENOMEM);
}
#endif

// ---- others' frees -----------------------------------------------------------------------------

static void test_threads() {
  std::vector<std::unique_ptr<std::string>> made(5000);
  std::thread([&] {
    for (std::size_t i = 0; i < made.size(); i++) made[i].reset(new std::string(i % 300, 'y'));
  }).join();
  std::vector<std::thread> users;
  for (std::size_t t = 0; t < 4; t++) {
    users.emplace_back([&made, t] {
      for (std::size_t i = t; i < made.size(); i += 4) {
        EXPECT(made[i]->size() == i % 300);
        made[i].reset(new std::string(200, 'z'));
      }
    });
  }
  for (std::thread& user : users) user.join();
  made.clear();
}

int main() {
  expect_errors();
  test_plain();
  test_aligned();
  test_allocators();
  test_partition();
  test_threads();
  test_bad_alloc();
  test_new_handler();
#if defined(MI_HAS_HEAP_MEMORY_RESOURCE)
  test_memory_resource();
#endif
  return expect_end("C++");
}
