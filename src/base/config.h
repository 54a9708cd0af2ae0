// SPDX-License-Identifier: MIT
// Every build switch: the only file of the core that reads the -D symbols of the build.
//
// Each switch becomes a constant that ordinary `if` statements test, so every mode compiles in
// every build and the compiler removes what is off. The assertions at the end state the legal
// combinations.
#ifndef MX_BASE_CONFIG_H
#define MX_BASE_CONFIG_H

#include "compiler.h"

// Version: major * 10000 + minor * 100 + patch.
#define MX_VERSION 30500

// Debug level: 0 none; 1 checks of the API's preconditions; 2 internal assertions; 3 walks that
// verify whole pages and heaps.
#if defined(MI_DEBUG)
#define MX_DEBUG MI_DEBUG
#elif defined(NDEBUG) || defined(MI_BUILD_RELEASE)
#define MX_DEBUG 0
#else
#define MX_DEBUG 2
#endif

// How far the assertions of check.h go: as far as the debug level, unless the build says otherwise.
// A release build with them asserts what debug builds leave out for their hardening: transfer
// caches, spare blocks, common pages, holes.
#if defined(MI_CHECK_LEVEL)
#define MX_CHECK_LEVEL MI_CHECK_LEVEL
#else
#define MX_CHECK_LEVEL MX_DEBUG
#endif

// Secure level, as the documents number them: 1 guarded metadata and random addresses, 2 random
// order in pages, 3 encoded links and canaries, 4 double frees, 5 a guard after every page.
#if defined(MI_SECURE)
#define MX_SECURE MI_SECURE
#else
#define MX_SECURE 0
#endif

// free() checks that a pointer is the start of a live block before it touches anything.
#if defined(MI_FREE_IS_CHECKED) || defined(MI_TRACK_VALGRIND) || defined(MI_TRACK_ASAN) || \
    MX_DEBUG > 0 || MX_SECURE >= 4
#define MX_CHECKED_FREE 1
#else
#define MX_CHECKED_FREE 0
#endif

// Blocks end in a canary that free() verifies; usable size is then exactly what was asked for.
#if (defined(MI_PADDING) && MI_PADDING) || defined(MI_TRACK_VALGRIND) || \
    defined(MI_TRACK_ASAN) || ((MX_DEBUG > 0 || MX_SECURE >= 3) && !defined(MI_NO_PADDING))
#define MX_WANT_PADDING 1
#else
#define MX_WANT_PADDING 0
#endif

// A set of mitigations to leave out, by number; see mitigations.h.
#if defined(MI_OMIT_MITIGATIONS)
#define MX_OMIT_MITIGATIONS MI_OMIT_MITIGATIONS
#else
#define MX_OMIT_MITIGATIONS 0
#endif

#include "mitigations.h"

// An external tool is told of every block: memcheck, AddressSanitizer, or none.
#if defined(MI_TRACK_VALGRIND) && MI_TRACK_VALGRIND
#define MX_TRACK 1
#define MX_TRACK_NAME "valgrind"
#elif defined(MI_TRACK_ASAN) && MI_TRACK_ASAN
#define MX_TRACK 2
#define MX_TRACK_NAME "asan"
#else
#define MX_TRACK 0
#define MX_TRACK_NAME "none"
#endif

// Out of memory and overflow abort the process instead of returning NULL.
#if defined(MI_XMALLOC)
#define MX_XMALLOC 1
#else
#define MX_XMALLOC 0
#endif

#if defined(MI_SHOW_ERRORS) || MX_DEBUG > 0
#define MX_SHOW_ERRORS 1
#else
#define MX_SHOW_ERRORS 0
#endif

#if defined(MI_SKIP_COLLECT_ON_EXIT)
#define MX_SKIP_COLLECT_ON_EXIT 1
#else
#define MX_SKIP_COLLECT_ON_EXIT 0
#endif

// The library is never unloaded: dlclose leaves it where it is.
#if defined(MI_STAYS_LOADED)
#define MX_STAYS_LOADED 1
#else
#define MX_STAYS_LOADED 0
#endif

#if UINTPTR_MAX > 0xFFFFFFFFu
#define MX_64BIT 1
#else
#define MX_64BIT 0
#endif

#if defined(__linux__)
#define MX_IS_LINUX 1
#else
#define MX_IS_LINUX 0
#endif

#if defined(__aarch64__) && UINTPTR_MAX > 0xFFFFFFFFu
#define MX_IS_ARM64 1
#else
#define MX_IS_ARM64 0
#endif

// Of a type whose variables have OS pages to themselves, of any size that the processor knows,
// where they become read-only.
#if MX_READ_ONLY && (defined(__x86_64__) || defined(__i386__))
#define mx_own_page mx_aligned(4096)
#elif MX_READ_ONLY
#define mx_own_page mx_aligned(65536)
#else
#define mx_own_page
#endif

// A slice is what arenas hand out. Its size is also the granule of the address-to-page map.
#define MX_SLICE_SHIFT 16
#define MX_SLICE_SIZE ((size_t)1 << MX_SLICE_SHIFT)

// The largest block in pages of one slice: each has 16 of them and more, so that a thread does not
// go from page to page all the time. (The explorer tries what happens in pages of few blocks.)
#if defined(MX_EXPLORE)
#define MX_SMALL_PAGE_MAX ((size_t)8 * 1024)
#else
#define MX_SMALL_PAGE_MAX ((size_t)4 * 1024)
#endif

// Every block is aligned to this; it is also the smallest block. 16 on all 64-bit systems
// (max_align_t, and SSE code relies on it).
#define MX_ALIGN 16

// Whether the OS gives a mapping back only whole, and charges for memory when it is committed.
#if defined(_WIN32) || defined(__wasm__)
#define MX_MAPS_WHOLE 1
#else
#define MX_MAPS_WHOLE 0
#endif

// Whether an arena's memory is mapped piece by piece, behind what it has, and its other addresses
// stay nobody's until then: what a program does not use counts against no limit of it.
#define MX_PIECEWISE (MX_64BIT && !MX_MAPS_WHOLE)

// Whether an arena's records are mapped as its slices come into use. Those of builds that have
// guards around them, keep more than a page record for each slice, or have the records in another
// order than the slices, are mapped at once.
#define MX_GROWING_RECORDS \
  (MX_PIECEWISE && !MX_GUARD_METADATA && !MX_QUARANTINE && !MX_LIVE_BITS && !MX_SCATTER)

// Whether a slice can be mapped in part. Guards and tools would have to be told of what is not.
#define MX_PARTS (MX_PIECEWISE && !MX_GUARD_PAGES && MX_TRACK == 0)

// Memory of one arena by default.
#if MX_64BIT
#define MX_ARENA_RESERVE ((size_t)1 << 30)
#elif defined(__wasm__)
#define MX_ARENA_RESERVE ((size_t)1 << 25)
#else
#define MX_ARENA_RESERVE ((size_t)1 << 27)
#endif

#define MX_KIB ((size_t)1024)
#define MX_MIB (MX_KIB * 1024)
#define MX_GIB (MX_MIB * 1024)

// The largest request: sizes must fit a ptrdiff_t (C11 6.5.6).
#define MX_MAX_ALLOC ((size_t)PTRDIFF_MAX)

// So many bytes of a page are carved into blocks at once at most, if that is an OS page. Less is
// less memory for programs with few blocks of each size, and more slow calls.
#if defined(MI_CARVE_MAX)
#define MX_CARVE_MAX ((size_t)MI_CARVE_MAX)
#else
#define MX_CARVE_MAX (8 * MX_KIB)
#endif

// Whether free() of small blocks may keep them at hand by the size that its caller says: for front
// ends that know sizes, in builds that check nothing (see zig/magazine.c).
#if defined(MI_MAGAZINES) && MI_MAGAZINES
#define MX_MAGAZINES 1
#else
#define MX_MAGAZINES 0
#endif

// Whether a thread that ends leaves its pages together for the next one.
#define MX_PARKS (!MX_TRACK)

mx_static_assert(MX_SECURE >= 0 && MX_SECURE <= 5, "MI_SECURE is a level from 0 to 5");
mx_static_assert(MX_DEBUG >= 0 && MX_DEBUG <= 3, "MI_DEBUG is a level from 0 to 3");
mx_static_assert(sizeof(size_t) == sizeof(void*), "sizes and pointers are of one width");

#endif
