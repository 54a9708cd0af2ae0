// SPDX-License-Identifier: MIT
// The C++ that late_cxx.c loads.
#include <cstdint>
#include <cstdio>
#include <new>

static const volatile std::size_t too_large = SIZE_MAX - 100;
static int handled;

static void handler() {
  if (++handled == 2) std::set_new_handler(nullptr);
}

template <class F>
static int fails_to_throw(const char* what, F allocate) {
  try {
    void* volatile p = allocate();
    (void)p;
  } catch (const std::bad_alloc&) {
    return 0;
  }
  std::fprintf(stderr, "%s does not throw\n", what);
  return 1;
}

extern "C" int failures_of_new(void) {
  int failures = fails_to_throw("new", [] { return ::operator new(too_large); });
  failures += fails_to_throw("new[]", [] { return ::operator new[](too_large); });
  failures += fails_to_throw("aligned new", [] {
    return ::operator new(too_large, std::align_val_t(64));
  });
  std::set_new_handler(handler);
  failures += fails_to_throw("new with a handler", [] { return ::operator new(too_large); });
  if (handled != 2) {
    std::fprintf(stderr, "the handler was called %d times\n", handled);
    failures++;
  }
  void* const p = ::operator new(too_large, std::nothrow);
  if (p != nullptr) failures++;
  return failures;
}
