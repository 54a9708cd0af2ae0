// SPDX-License-Identifier: MIT
// The answer to which system the ground floor is built for. The files of the others are empty.
#ifndef MX_OS_SYSTEM_H
#define MX_OS_SYSTEM_H

#include "../base/config.h"

#define MX_LINUX 1    // linux*.c, robust.c, unix_*.c, libc.c
#define MX_POSIX 2    // any other Unix: posix.c, unix_*.c, libc.c
#define MX_WASM 3     // wasm.c, libc.c
#define MX_WINDOWS 4  // windows*.c

#if defined(_WIN32)
#define MX_SYSTEM MX_WINDOWS
#elif defined(__wasm__)
#define MX_SYSTEM MX_WASM
#elif defined(__linux__) && !defined(MI_OS_POSIX)
#define MX_SYSTEM MX_LINUX
#else
#define MX_SYSTEM MX_POSIX
#endif

// Programs without a libc exist on Linux only; nothing of libc.c and unix_*.c is built for them.
#if defined(MI_NO_LIBC)
#define MX_HAS_LIBC 0
#else
#define MX_HAS_LIBC 1
#endif

#if MX_HAS_LIBC && (MX_SYSTEM == MX_LINUX || MX_SYSTEM == MX_POSIX)
#define MX_UNIX 1
#else
#define MX_UNIX 0
#endif

// Whether the system says in one call how much memory is present just now.
#if MX_SYSTEM == MX_POSIX && !defined(__APPLE__)
#define MX_TELLS_RESIDENT 0
#else
#define MX_TELLS_RESIDENT 1
#endif

// Whether the C library says whether the process has more rights than its starter.
#if defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || \
    defined(__DragonFly__) || defined(__sun)
#define MX_HAS_ISSETUGID 1
#else
#define MX_HAS_ISSETUGID 0
#endif

// Whether a thread can sleep until a word changes: mx_os_wait takes any word, and no lock.
#if MX_SYSTEM == MX_LINUX || MX_SYSTEM == MX_WINDOWS || \
    (MX_SYSTEM == MX_POSIX && \
     (defined(__APPLE__) || defined(__FreeBSD__) || defined(__OpenBSD__)))
#define MX_WAITS_ON_ADDRESS 1
#else
#define MX_WAITS_ON_ADDRESS 0
#endif

// Bits of an address in a program on Linux or another Unix. x86-64 gives more when asked with a
// hint, which we never do; arm64 has 48 or (small kernels) 39, which a larger map covers as well.
#if !MX_64BIT
#define MX_UNIX_VA_BITS 32
#elif defined(__aarch64__) || defined(__powerpc64__) || defined(__s390x__)
#define MX_UNIX_VA_BITS 48
#else
#define MX_UNIX_VA_BITS 47
#endif

#endif
