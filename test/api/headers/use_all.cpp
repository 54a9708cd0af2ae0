// SPDX-License-Identifier: MIT
// Uses every function and macro of mimalloc.h, mimalloc-prof.h and mimalloc-stats.h from C++, in either generation,
// and all the classes that the chosen standard has.
//
// It must compile without a warning from C++98 to C++23, link, and run: the addresses of all
// functions are taken in a branch that no run reaches, containers are used. From C++17 on, it also
// checks that exactly those functions are noexcept that are listed so.
#include <mimalloc-prof.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>

#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "checks.h"
#include "use_typed.h"

#if __cplusplus >= 201103L
#include <deque>
#include <memory>
#include <scoped_allocator>
#include <type_traits>
#include <unordered_map>
#endif

namespace {

typedef void any_fun_t();
any_fun_t* volatile sink;
volatile std::size_t sink_size;

void use(any_fun_t* fun) { sink = fun; }

#if MI_API_VERSION < 3
#define V2_CONST const
#else
#define V2_CONST
#endif

void use_functions() {
#define MI_FUN(result, name, params, throws)     \
  {                                              \
    result(*const fun) params = &name;           \
    use(reinterpret_cast<any_fun_t*>(fun));      \
  }
#include "functions.h"
#undef MI_FUN
}

#if __cplusplus >= 201703L
#define NOTHROW true
#define MAY_THROW false
template <class R, class... A>
constexpr bool is_nothrow(R (*)(A...)) {
  return false;
}
template <class R, class... A>
constexpr bool is_nothrow(R (*)(A...) noexcept) {
  return true;
}
#define MI_FUN(result, name, params, nothrow) static_assert(is_nothrow(&name) == nothrow);
#include "functions.h"
#undef MI_FUN
#endif

mi_decl_nodiscard mi_decl_restrict void* own_alloc(std::size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_nodiscard void* own_alloc_n(std::size_t alignment, std::size_t count, std::size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(1);

void* own_alloc(std::size_t size) mi_attr_noexcept { return mi_malloc(size); }
void* own_alloc_n(std::size_t alignment, std::size_t count, std::size_t size) mi_attr_noexcept {
  return mi_calloc_aligned(count, size, alignment);
}

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"  // C++98 has none of its own
#endif
void mi_cdecl on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  if (force || arg) sink_size = static_cast<std::size_t>(heartbeat);
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

bool mi_cdecl on_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                       std::size_t block_size, void* arg) {
  sink_size = area->used + block_size + (block == area->blocks);
  return heap && !arg;
}
bool mi_cdecl on_heap(mi_heap_t* heap, void* arg) { return heap != arg; }
void mi_cdecl on_output(const char* msg, void* arg) {
  if (arg) sink_size = static_cast<std::size_t>(msg[0]);
}
void mi_cdecl on_error(int err, void* arg) {
  if (arg) sink_size = static_cast<std::size_t>(err);
}
bool mi_cdecl on_commit(bool commit, void* start, std::size_t size, bool* is_zero, void* arg) {
  if (is_zero) *is_zero = false;
  return commit && start != arg && size > 0;
}

void use_callbacks(mi_heap_t* heap) {
  mi_arena_id_t arena = 0;
  mi_register_deferred_free(&on_deferred, NULL);
  mi_register_output(&on_output, NULL);
  mi_register_error(&on_error, NULL);
  if (mi_heap_visit_blocks(heap, true, &on_block, NULL)) sink_size = 1;
  if (mi_subproc_visit_heaps(mi_subproc_main(), &on_heap, NULL)) sink_size = 2;
  if (mi_manage_memory(&arena, 1, true, true, true, -1, false, &on_commit, NULL, &arena)) {
    sink_size = 3;
  }
}

void use_stats() {
  mi_stats_t_decl(stats);
  mi_stats_t again;
  mi_stats_init(&again);
  if (mi_stats_get(&stats) && stats.version == MI_STAT_VERSION) {
    sink_size = static_cast<std::size_t>(stats.malloc_bins[MI_BIN_HUGE].peak);
  }
}

void use_stl() {
  std::vector<int, mi_stl_allocator<int> > numbers(3, 1);
  std::list<int, mi_stl_allocator<int> > chain(3, 1);
  std::map<int, int, std::less<int>, mi_stl_allocator<std::pair<const int, int> > > table;
  std::basic_string<char, std::char_traits<char>, mi_stl_allocator<char> > text("text");
  table[numbers[0]] = chain.front();
  sink_size = text.size() + table.size();
  if (mi_stl_allocator<int>() != mi_stl_allocator<char>()) sink_size = 0;
}

}  // namespace

// All members, used or not.
template struct mi_stl_allocator<int>;
template struct mi_stl_allocator<std::string>;

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)

template struct mi_heap_stl_allocator<int>;
template struct mi_heap_stl_allocator<std::string>;
template struct mi_heap_destroy_stl_allocator<int>;
template struct mi_heap_destroy_stl_allocator<std::string>;

namespace {

struct alignas(256) wide_t {
  char data[256];
};

// What the standard asks of an allocator A for type T.
template <class A, class T, bool always_equal>
struct requirements {
  typedef std::allocator_traits<A> traits;
  typedef typename traits::template rebind_alloc<wide_t> other;
  static_assert(std::is_same<typename traits::value_type, T>::value, "value_type");
  static_assert(std::is_same<typename traits::pointer, T*>::value, "pointer");
  static_assert(std::is_same<typename traits::size_type, std::size_t>::value, "size_type");
  static_assert(std::is_same<typename other::value_type, wide_t>::value, "rebind");
  static_assert(std::is_same<typename std::allocator_traits<other>::template rebind_alloc<T>, A>::
                  value, "rebind is its own inverse");
  static_assert(traits::propagate_on_container_copy_assignment::value, "copy");
  static_assert(traits::propagate_on_container_move_assignment::value, "move");
  static_assert(traits::propagate_on_container_swap::value, "swap");
  static_assert(A::is_always_equal::value == always_equal, "is_always_equal");
  static_assert(std::is_nothrow_copy_constructible<A>::value, "copy construction");
  static_assert(std::is_nothrow_move_constructible<A>::value, "move construction");
  static_assert(std::is_nothrow_copy_assignable<A>::value, "copy assignment");
  static_assert(std::is_nothrow_constructible<A, const other&>::value, "conversion");
  static_assert(noexcept(std::declval<const A&>() == std::declval<const A&>()), "==");
  static_assert(noexcept(std::declval<const A&>() != std::declval<const other&>()), "!=");
  static_assert(std::is_same<decltype(std::declval<A&>().allocate(1)), T*>::value, "allocate");
};

template struct requirements<mi_stl_allocator<int>, int, true>;
template struct requirements<mi_heap_stl_allocator<int>, int, false>;
template struct requirements<mi_heap_destroy_stl_allocator<int>, int, false>;

template <template <class> class A>
void use_containers(const A<int>& alloc) {
  std::vector<int, A<int>> numbers(3, 1, alloc);
  std::vector<wide_t, A<wide_t>> wide(3, wide_t(), A<wide_t>(alloc));
  std::deque<int, A<int>> queue(alloc);
  std::list<int, A<int>> chain(alloc);
  std::map<int, int, std::less<int>, A<std::pair<const int, int>>> table(
    A<std::pair<const int, int>>{alloc});
  std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, A<std::pair<const int, int>>>
    hashed{A<std::pair<const int, int>>(alloc)};
  std::basic_string<char, std::char_traits<char>, A<char>> text("text", A<char>(alloc));
  const std::shared_ptr<int> shared = std::allocate_shared<int>(alloc, 1);
  typedef std::vector<std::vector<int, A<int>>,
                      std::scoped_allocator_adaptor<A<std::vector<int, A<int>>>>> nested_t;
  nested_t nested{A<std::vector<int, A<int>>>(alloc)};
  nested.emplace_back(3, 1);
  queue.push_back(*shared);
  chain.push_back(queue.front());
  table[1] = numbers[0];
  hashed[2] = chain.front();
  std::vector<int, A<int>> moved(std::move(numbers));
  numbers = moved;
  sink_size = wide.size() + text.size() + table.size() + hashed.size() + nested.size();
}

void use_heap_allocators(mi_heap_t* heap) {
  use_containers<mi_stl_allocator>(mi_stl_allocator<int>());
  use_containers<mi_heap_stl_allocator>(mi_heap_stl_allocator<int>());
  use_containers<mi_heap_destroy_stl_allocator>(mi_heap_destroy_stl_allocator<int>(heap));
  mi_heap_stl_allocator<int> alloc(heap);
  alloc.collect(true);
  if (alloc.is_equal(mi_heap_stl_allocator<wide_t>(heap))) sink_size = 4;
}

}  // namespace

#endif  // MI_HAS_HEAP_STL_ALLOCATOR

#if __cplusplus >= 201103L && !defined(MI_HAS_HEAP_STL_ALLOCATOR)
#error "the heap allocators are missing"
#endif

#if defined(MI_HAS_HEAP_MEMORY_RESOURCE)

static_assert(std::is_base_of<std::pmr::memory_resource, mi_heap_memory_resource>::value);
static_assert(!std::is_copy_constructible<mi_heap_memory_resource>::value);
static_assert(!std::is_convertible<mi_heap_t*, mi_heap_memory_resource>::value);

namespace {

void use_memory_resource(mi_heap_t* heap) {
  mi_heap_memory_resource own;
  mi_heap_memory_resource given(heap);
  std::pmr::vector<wide_t> wide(3, &own);
  std::pmr::string text("text", &given);
  own.collect(false);
  sink_size = wide.size() + text.size() + (given.heap() == heap) + (own == given);
}

}  // namespace

#elif __cplusplus >= 201703L
#error "the memory resource is missing"
#endif

int main(int argc, char** argv) {
  if (argc > 1000 && argv) {
    mi_heap_t* const heap = mi_heap_main();
    use_functions();
    use_typed(heap);
    use_callbacks(heap);
    use_stats();
    mi_free(own_alloc(MI_SMALL_SIZE_MAX));
    mi_free(own_alloc_n(64, MI_SMALL_WSIZE_MAX, 1));
    if (!sink) return 1;
  }
  mi_heap_t* const heap = mi_heap_new();
  if (!heap) return 1;
  use_stl();
#if defined(MI_HAS_HEAP_STL_ALLOCATOR)
  use_heap_allocators(heap);
#endif
#if defined(MI_HAS_HEAP_MEMORY_RESOURCE)
  use_memory_resource(heap);
#endif
  mi_heap_destroy(heap);
  return (mi_version() / 10000 == MI_MALLOC_VERSION / 10000 ? 0 : 1);
}
