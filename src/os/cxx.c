// SPDX-License-Identifier: MIT
// Owns the reach into the C++ run-time, which a C program does not have. A library that is C gets
// there by weak references to the names that the Itanium ABI gives to std::get_new_handler and to
// the function that throws; one that is compiled as C++ simply says what it means.
#include "cxx.h"

#if defined(__cplusplus)
#include <new>

bool mx_cxx_run_new_handler(void) {
  const std::new_handler handler = std::get_new_handler();
  if (handler == NULL) return false;
  handler();
  return true;
}

void mx_cxx_throw_bad_alloc(void) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw std::bad_alloc();
#endif
}

#elif defined(__GNUC__) && defined(__ELF__)

typedef void mx_new_handler_fn(void);

extern mx_new_handler_fn* mx_get_new_handler(void) __asm__("_ZSt15get_new_handlerv")
    __attribute__((weak));
extern void mx_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

bool mx_cxx_run_new_handler(void) {
  mx_new_handler_fn* const handler = (mx_get_new_handler != NULL ? mx_get_new_handler() : NULL);
  if (handler == NULL) return false;
  handler();
  return true;
}

void mx_cxx_throw_bad_alloc(void) {
  if (mx_throw_bad_alloc != NULL) mx_throw_bad_alloc();
}

#else

bool mx_cxx_run_new_handler(void) { return false; }

void mx_cxx_throw_bad_alloc(void) {}

#endif
