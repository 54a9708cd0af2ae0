// SPDX-License-Identifier: MIT
// Owns how the names of other libraries are defined: visible to all, with C linkage, and promising
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
// The libc of WebAssembly may bring strdup along, whose parts cannot be told apart.
#if defined(__wasm__)
#define MX_EXPORT_TEXT MX_EXTERN_C __attribute__((weak, visibility("default")))
#else
#define MX_EXPORT_TEXT MX_EXPORT
#endif

// glibc's headers declare these functions as never throwing; others say nothing.
#if defined(__cplusplus) && defined(__GLIBC__)
#define MX_NOTHROW noexcept
#else
#define MX_NOTHROW
#endif

#endif
