// SPDX-License-Identifier: MIT
// The C++ that late_cxx.c loads.
#include <cstdint>
#include <cstdio>
#include <new>

static const volatile std::size_t too_large = SIZE_MAX - 100;
static int handled, thrown;

static void handler() {
  if (++handled == 2) std::set_new_handler(nullptr);
}

static void thrower() {
  thrown++;
  throw std::bad_alloc();
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
  // What the handler throws ends in the forms that do not throw.
  std::set_new_handler(thrower);
  void* const none[] = {::operator new(too_large, std::nothrow),
                        ::operator new[](too_large, std::nothrow),
                        ::operator new(too_large, std::align_val_t(64), std::nothrow),
                        ::operator new[](too_large, std::align_val_t(64), std::nothrow)};
  for (void* const each : none) failures += (each != nullptr);
  if (thrown != 4) {
    std::fprintf(stderr, "the throwing handler was called %d times\n", thrown);
    failures++;
  }
  std::set_new_handler(nullptr);
  return failures;
}
