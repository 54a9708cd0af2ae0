// SPDX-License-Identifier: MIT
// The reach into the C++ run-time, which a C program does not have. A library that is C gets
// there by weak references to the names that the Itanium ABI gives to std::get_new_handler and to
// the function that throws; one that is compiled as C++ simply says what it means.
#include "cxx.h"

#if defined(__cplusplus)
#include <new>

bool mx_cxx_find(const char*, void*) { return false; }

mx_new_handler_fn* mx_cxx_new_handler(void) { return std::get_new_handler(); }

void mx_cxx_throw_bad_alloc(void) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw std::bad_alloc();
#endif
}

#elif defined(__GNUC__) && (defined(__ELF__) || defined(_WIN32)) && !defined(MI_NO_LIBC)
#if defined(_WIN32)
#include "../os/windows_api.h"
#else
#include <dlfcn.h>
#include <errno.h>
#endif
#include <string.h>

#if defined(_WIN32) && !defined(_WIN64)
#define CXX_NAME(name) "_" name
#else
#define CXX_NAME(name) name
#endif

typedef mx_new_handler_fn* mx_get_handler_fn(void);
typedef void mx_throw_fn(void);

#if defined(_WIN32)
// An undefined weak name does not link there; one with a definition that gives way does.
#define MAY_BE(function) __attribute__((weak, alias(function)))
mx_new_handler_fn* mx_cxx_no_handler(void);
void mx_cxx_no_throw(void);
mx_new_handler_fn* mx_cxx_no_handler(void) { return NULL; }
void mx_cxx_no_throw(void) {}
#define IS_MISSING(function, instead) ((function) == (instead))
#else
#define IS_MISSING(function, instead) ((function) == NULL)
#define MAY_BE(function) __attribute__((weak))
#endif

extern mx_new_handler_fn* mx_get_new_handler(void) __asm__(CXX_NAME("_ZSt15get_new_handlerv"))
    MAY_BE("mx_cxx_no_handler");
extern void mx_throw_bad_alloc(void) __asm__(CXX_NAME("_ZSt17__throw_bad_allocv"))
    MAY_BE("mx_cxx_no_throw");

// A program that is C may load C++ later, as an interpreter does with its extensions: the run-time
// is then in the process, but no reference of ours was bound to it. A DLL is never bound to what
// its program has.
#if defined(_WIN32)
bool mx_cxx_find(const char* name, void* function) {
  static const wchar_t* const libraries[] = {L"libstdc++-6.dll", L"libc++.dll", L"libc++abi.dll"};
  void* found = NULL;
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && found == NULL; i++) {
    found = mx_windows_find(libraries[i], name);
  }
  if (found != NULL) memcpy(function, &found, sizeof(found));
  return found != NULL;
}
#else
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

bool mx_cxx_find(const char* name, void* function) {
  static const char* const libraries[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
  if (dlopen == NULL || dlsym == NULL || dlclose == NULL) return false;
  const int saved = errno;
  void* found = NULL;
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && found == NULL; i++) {
    void* const library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) continue;
    found = dlsym(library, name);
    dlclose(library);
  }
  errno = saved;
  if (found != NULL) memcpy(function, &found, sizeof(found));
  return found != NULL;
}
#endif

mx_new_handler_fn* mx_cxx_new_handler(void) {
  mx_get_handler_fn* get = mx_get_new_handler;
  if (IS_MISSING(get, mx_cxx_no_handler) && !mx_cxx_find("_ZSt15get_new_handlerv", &get)) {
    return NULL;
  }
  return get();
}

void mx_cxx_throw_bad_alloc(void) {
  mx_throw_fn* throws = mx_throw_bad_alloc;
  if (!IS_MISSING(throws, mx_cxx_no_throw) || mx_cxx_find("_ZSt17__throw_bad_allocv", &throws)) {
    throws();
  }
}

#else

bool mx_cxx_find(const char* name, void* function) {
  (void)name;
  (void)function;
  return false;
}

mx_new_handler_fn* mx_cxx_new_handler(void) { return NULL; }

void mx_cxx_throw_bad_alloc(void) {}

#endif
