// SPDX-License-Identifier: MIT
// A C++ program that replaces the two basic operators new and delete, as the standard lets it, run
// with the library preloaded: all other forms must end in these two, as those of the C++ library
// do. The program's blocks lie behind a head of its own, so that a block which goes past it shows.
// With OWN_ALIGNED it replaces the two basic forms with an alignment as well.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

// That the sized forms are left to the library is the point.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

static int failures;
// Compilers may take it that operator new and delete change nothing that a program sees
// (-fassume-sane-operators-new-delete, which gcc 16 does unasked).
static volatile int live, made;

static void expect(bool holds, int line, const char* text) {
  if (holds) return;
  std::fprintf(stderr, "own_new.cpp:%d: not so: %s\n", line, text);
  failures++;
}

#define EXPECT(e) expect((e), __LINE__, #e)

namespace {
struct head {
  std::size_t mark, size;
};
constexpr std::size_t mark = 0x5EEDu;
volatile bool refuse;
}  // namespace

void* operator new(std::size_t size) {
  if (refuse) throw std::bad_alloc();
  head* const h = static_cast<head*>(std::malloc(size + sizeof(head)));
  if (h == nullptr) throw std::bad_alloc();
  *h = head{mark, size};
  live = live + 1;
  made = made + 1;
  return h + 1;
}

void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  head* const h = static_cast<head*>(p) - 1;
  if (h->mark != mark) {
    std::fprintf(stderr, "a block in operator delete that operator new did not make\n");
    failures++;
    return;
  }
  h->mark = 0;
  live = live - 1;
  std::free(h);
}

#if defined(OWN_ALIGNED)
void* operator new(std::size_t size, std::align_val_t align) {
  const std::size_t a = static_cast<std::size_t>(align);
  if (refuse) throw std::bad_alloc();
  char* const p = static_cast<char*>(std::aligned_alloc(a, (size + 2 * a - 1) / a * a));
  if (p == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(p) = mark;
  live = live + 1;
  made = made + 1;
  return p + a;
}

void operator delete(void* p, std::align_val_t align) noexcept {
  if (p == nullptr) return;
  char* const block = static_cast<char*>(p) - static_cast<std::size_t>(align);
  if (*reinterpret_cast<std::size_t*>(block) != mark) {
    std::fprintf(stderr, "a block in the aligned operator delete that its new did not make\n");
    failures++;
    return;
  }
  *reinterpret_cast<std::size_t*>(block) = 0;
  live = live - 1;
  std::free(block);
}
#endif

struct shape {
  virtual ~shape() = default;
  int corners = 3;
};

// What an optimiser cannot see through, so that each new and delete is made.
template <class T>
static T* keep(T* p) {
  T* volatile hidden = p;
  return hidden;
}

template <class Make, class End>
static void test_form(const char* name, Make make, End end) {
  const int before = made, alive = live;
  void* const p = keep(make());
  const bool seen = (made == before + 1);
  end(p);
  if (seen && live == alive) return;
  std::fprintf(stderr, "%s: %s\n", name, seen ? "not given back" : "not by the program's new");
  failures++;
}

static void test_forms() {
  const auto one = [] { return ::operator new(100); };
  const auto many = [] { return ::operator new[](100); };
  test_form("delete", one, [](void* p) { ::operator delete(p); });
  test_form("delete nothrow", one, [](void* p) { ::operator delete(p, std::nothrow); });
  test_form("delete[]", many, [](void* p) { ::operator delete[](p); });
  test_form("delete[] nothrow", many, [](void* p) { ::operator delete[](p, std::nothrow); });
#if defined(__cpp_sized_deallocation)
  test_form("delete sized", one, [](void* p) { ::operator delete(p, 100); });
  test_form("delete[] sized", many, [](void* p) { ::operator delete[](p, 100); });
#endif
  test_form("new nothrow", [] { return ::operator new(100, std::nothrow); },
            [](void* p) { ::operator delete(p); });
  test_form("new[] nothrow", [] { return ::operator new[](100, std::nothrow); },
            [](void* p) { ::operator delete[](p); });
  refuse = true;
  EXPECT(keep(::operator new(100, std::nothrow)) == nullptr);
  EXPECT(keep(::operator new[](100, std::nothrow)) == nullptr);
  refuse = false;
}

static void test_objects() {
  const int before = live;
  {
    std::unique_ptr<shape> s(keep(new shape));
    std::unique_ptr<shape[]> many(keep(new shape[5]));
    std::vector<std::string> words(100, std::string(100, 'w'));
    std::shared_ptr<std::string> shared = std::make_shared<std::string>(500, 's');
    EXPECT(live >= before + 104);
  }
  EXPECT(live == before);
}

// These have basic forms of their own.
struct alignas(256) wide {
  char bytes[300];
};

static void test_aligned() {
  const int before = made;
  std::unique_ptr<wide> w(keep(new wide));
  std::unique_ptr<wide[]> ws(keep(new wide[3]));
#if defined(OWN_ALIGNED)
  EXPECT(made == before + 2);
  constexpr std::align_val_t align{64};
  const auto one = [] { return ::operator new(100, align); };
  const auto many = [] { return ::operator new[](100, align); };
  test_form("delete aligned", one, [](void* p) { ::operator delete(p, align); });
  test_form("delete[] aligned", many, [](void* p) { ::operator delete[](p, align); });
  test_form("delete aligned nothrow", one,
            [](void* p) { ::operator delete(p, align, std::nothrow); });
  test_form("delete[] aligned nothrow", many,
            [](void* p) { ::operator delete[](p, align, std::nothrow); });
#if defined(__cpp_sized_deallocation)
  test_form("delete aligned sized", one, [](void* p) { ::operator delete(p, 100, align); });
  test_form("delete[] aligned sized", many, [](void* p) { ::operator delete[](p, 100, align); });
#endif
  test_form("new aligned nothrow", [] { return ::operator new(100, align, std::nothrow); },
            [](void* p) { ::operator delete(p, align); });
  test_form("new[] aligned nothrow", [] { return ::operator new[](100, align, std::nothrow); },
            [](void* p) { ::operator delete[](p, align); });
  refuse = true;
  EXPECT(keep(::operator new(100, align, std::nothrow)) == nullptr);
  EXPECT(keep(::operator new[](100, align, std::nothrow)) == nullptr);
  refuse = false;
#else
  EXPECT(made == before);
#endif
}

int main() {
  test_forms();
  test_objects();
  test_aligned();
  std::printf("own_new: %d blocks, %d failures\n", made, failures);
  return failures == 0 ? 0 : 1;
}
