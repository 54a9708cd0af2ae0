// SPDX-License-Identifier: MIT
// A C++ program that knows nothing of the library, run with it preloaded (or linked): the operators
// are the library's, fail as the standard says, and blocks cross threads and modules.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../throws.h"

static int failures;

static void expect(bool holds, int line, const char* text) {
  if (holds) return;
  std::fprintf(stderr, "override.cpp:%d: not so: %s\n", line, text);
  failures++;
}

#define EXPECT(e) expect((e), __LINE__, #e)

// No C library here has a malloc_size; ours gives 0 for what is not its own.
static std::size_t (*size_of)(const void*);

static bool is_ours(const void* p) { return size_of(p) > 0; }

static void* keep(void* p) {
  void* volatile hidden = p;
  return hidden;
}

static const volatile std::size_t too_large = SIZE_MAX - 100;

struct alignas(4096) wide {
  char bytes[5000];
};

static void test_operators() {
  std::unique_ptr<int> one(new int(1));
  std::unique_ptr<int[]> many(new int[1000]);
  EXPECT(is_ours(one.get()) && is_ours(many.get()));
  std::unique_ptr<wide> w(new wide);
  std::unique_ptr<wide[]> ws(new wide[3]);
  EXPECT(is_ours(w.get()) && reinterpret_cast<std::uintptr_t>(keep(w.get())) % 4096 == 0);
  EXPECT(is_ours(ws.get()) && reinterpret_cast<std::uintptr_t>(keep(ws.get())) % 4096 == 0);
  void* const p = std::malloc(100);
  EXPECT(is_ours(p));
  std::free(p);
}

static int handled;

static void handler() {
  if (++handled == 2) std::set_new_handler(nullptr);
}

static void thrower() {
  handled++;
  throw std::bad_alloc();
}

static void test_failures() {
  EXPECT(throws_bad_alloc([] { keep(::operator new(too_large)); }));
  EXPECT(throws_bad_alloc([] { keep(::operator new[](too_large, std::align_val_t(64))); }));
  EXPECT(throws_bad_alloc([] { std::vector<char> v(PTRDIFF_MAX); }));
  EXPECT(keep(::operator new(too_large, std::nothrow)) == nullptr);
  EXPECT(keep(::operator new(too_large, std::align_val_t(64), std::nothrow)) == nullptr);
  const volatile std::size_t none = 0;
  EXPECT(keep(::operator new(8, std::align_val_t(none), std::nothrow)) == nullptr);
  EXPECT(keep(::operator new[](8, std::align_val_t(none), std::nothrow)) == nullptr);
  std::set_new_handler(thrower);  // what it throws ends in the operator
  EXPECT(keep(::operator new(too_large, std::nothrow)) == nullptr && handled == 1);
  EXPECT(keep(::operator new(too_large, std::align_val_t(64), std::nothrow)) == nullptr);
  EXPECT(handled == 2);
  handled = 0;
  std::set_new_handler(handler);
  EXPECT(throws_bad_alloc([] { keep(::operator new(too_large)); }) && handled == 2);
  // Out of a thread, and through a future.
  std::future<bool> far = std::async(std::launch::async, [] {
    return throws_bad_alloc([] { keep(::operator new(too_large)); });
  });
  EXPECT(far.get());
}

static void test_library() {
  std::ostringstream out;
  for (int i = 0; i < 1000; i++) out << i << ' ';
  const std::string text = out.str();
  EXPECT(is_ours(text.data()) && text.size() == 3890);
  const std::regex number("[0-9]+");
  std::map<std::string, int> seen;
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    seen[it->str()]++;
  }
  EXPECT(seen.size() == 1000);
  std::ifstream file("/proc/self/maps");
  std::string line;
  std::size_t lines = 0;
  while (std::getline(file, line)) lines++;
  EXPECT(lines > 5);
}

static thread_local std::string kept_by_thread;

static void test_threads() {
  std::vector<std::shared_ptr<std::string>> shared(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&shared, t] {
      for (std::size_t i = std::size_t(t); i < shared.size(); i += 4) {
        shared[i] = std::make_shared<std::string>(i % 400 + 20, 'x');
      }
      kept_by_thread.assign(1000, 'y');  // freed by a destructor at the thread's end
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < shared.size(); i++) EXPECT(shared[i]->size() == i % 400 + 20);
}

// Made before main and freed after it.
static std::vector<std::string> global(100, std::string(100, 'g'));

int main() {
  void* const found = dlsym(RTLD_DEFAULT, "malloc_size");
  if (found == nullptr) {
    std::fprintf(stderr, "the library is not there\n");
    return 1;
  }
  std::memcpy(&size_of, &found, sizeof(found));
  EXPECT(is_ours(global.data()) && is_ours(global[99].data()));
  test_operators();
  test_failures();
  test_library();
  test_threads();
  if (failures == 0) std::puts("override of C++: all as expected");
  return failures != 0;
}
