// SPDX-License-Identifier: MIT
// How the names of other libraries are defined: visible to all, with C linkage, and promising
// what their own headers promise to C++.
#ifndef MX_OVERRIDE_OVERRIDE_H
#define MX_OVERRIDE_OVERRIDE_H

#include "../../include/mimalloc.h"
#include "../base/config.h"

// The build asks for the override; ports for systems with other object files have files of theirs.
#if defined(MI_MALLOC_OVERRIDE) && (defined(__ELF__) || defined(__wasm__))
#define MX_OVERRIDE_ELF 1
#else
#define MX_OVERRIDE_ELF 0
#endif

// The DLL redirects the calls of programs that know nothing of it.
#if defined(_WIN32) && defined(MI_WIN_REDIRECT) && defined(MI_SHARED_LIB_EXPORT) && \
    (defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86))
#define MX_OVERRIDE_WINDOWS 1
#else
#define MX_OVERRIDE_WINDOWS 0
#endif

#define MX_EXPORT MX_EXTERN_C __attribute__((visibility("default")))

// A program may bring a malloc of its own, or operators of C++, which then go before ours wherever
// they are called by name. What the C and C++ libraries define in terms of malloc and of the basic
// operators calls these by name, so ours does, too. A name is called through a pointer that the
// loader sets: compilers and linkers may take a call within the library for one of its own.
#if MX_OVERRIDE_ELF
typedef struct mx_bound_s {
  void* (*allocate)(size_t size);              // malloc
  void* (*allocate_aligned)(size_t alignment, size_t size);
  void* (*resize)(void* p, size_t size);       // realloc
  void (*release)(void* p);                    // free
} mx_bound_t;

// Volatile, so that nobody takes the value for known; the loader makes it read-only.
#if defined(__wasm__)
#define MX_BOUND const volatile
#else
#define MX_BOUND __attribute__((section(".data.rel.ro.bound"))) const volatile
#endif

MX_BEGIN_DECLS
extern const volatile mx_bound_t mx_bound mx_hidden;
// Whether malloc and free, called by name, are the library's.
bool mx_owns_malloc(void) mx_hidden;
bool mx_owns_free(void) mx_hidden;
// Brings atfork.c along when a program takes malloc out of an archive.
extern const bool mx_orders_forks mx_hidden;
MX_END_DECLS
#endif

// Another name of a function, which nobody goes before: the function's own address. Where there is
// no loader (WebAssembly), a name has one meaning.
#define MX_NAME_OF(name) MX_NAME_OF_(name)
#define MX_NAME_OF_(name) #name
#if defined(__wasm__)
#define MX_OWN_NAME(own, type, name, parameters)
#define MX_IS_OWN(bound, own) true
#else
// gcc warns of an alias that lacks attributes which a header gives the name.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#define MX_LIKE(name) __attribute__((copy(name)))
#else
#define MX_LIKE(name)
#endif
#define MX_OWN_NAME(own, type, name, parameters) \
  MX_EXTERN_C MX_LIKE(name) type own parameters  \
      __attribute__((visibility("hidden"), alias(MX_NAME_OF(name))));
#define MX_IS_OWN(bound, own) ((bound) == (own))
#endif

// glibc's headers declare these functions as never throwing; others say nothing.
#if defined(__cplusplus) && defined(__GLIBC__)
#define MX_NOTHROW noexcept
#else
#define MX_NOTHROW
#endif

#endif
