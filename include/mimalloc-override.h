// SPDX-License-Identifier: MIT
/// @file mimalloc-override.h
/// Redirects the allocation calls of one source file to mimalloc, by macros.
///
/// Include it after all other headers of the file, in every file of the program that allocates or
/// frees: a block from mi_malloc() must not reach another allocator's `free`. Where it can be had,
/// overriding for the whole program (preloading the shared library, or linking `mimalloc.o` first)
/// is the better way, since it also covers libraries.
///
/// The macros take parameters, so a pointer to `malloc` or `free` is not redirected; and they do
/// not know C++ scopes: `std::malloc(n)` does not compile, write `malloc(n)`. Blocks that the C
/// library allocates by itself, like those of `getline`, belong to its own `free`, to be reached
/// as `(free)(p)`.
#ifndef MIMALLOC_OVERRIDE_H
#define MIMALLOC_OVERRIDE_H

// First the headers that declare these names, or that remove macros of these names in C++; a
// later include of them then changes nothing.
#ifdef __cplusplus
#include <cstdlib>
#include <cstring>
#include <cwchar>
#else
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#endif
#if defined(_WIN32) || defined(__linux__)
#include <malloc.h>
#endif

#include "mimalloc.h"

// Debugging libraries define some of them as macros too.
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef strdup
#undef strndup
#undef realpath
#undef _expand
#undef _msize
#undef _recalloc
#undef _strdup
#undef _strndup
#undef _wcsdup
#undef _mbsdup
#undef _dupenv_s
#undef _wdupenv_s
#undef reallocf
#undef malloc_size
#undef malloc_usable_size
#undef malloc_good_size
#undef cfree
#undef valloc
#undef pvalloc
#undef reallocarray
#undef reallocarr
#undef memalign
#undef aligned_alloc
#undef posix_memalign
#undef _posix_memalign
#undef free_sized
#undef free_aligned_sized
#undef memalignment
#undef _aligned_malloc
#undef _aligned_realloc
#undef _aligned_recalloc
#undef _aligned_msize
#undef _aligned_free
#undef _aligned_offset_malloc
#undef _aligned_offset_realloc
#undef _aligned_offset_recalloc

/// @addtogroup override Overriding by macros
/// The names that mimalloc-override.h redirects, and to which call.
/// @{

// ISO C and POSIX

#define malloc(n) mi_malloc(n)           ///< mi_malloc()
#define calloc(c, n) mi_calloc(c, n)     ///< mi_calloc()
#define realloc(p, n) mi_realloc(p, n)   ///< mi_realloc()
#define free(p) mi_free(p)               ///< mi_free()
#define strdup(s) mi_strdup(s)           ///< mi_strdup()
#define strndup(s, n) mi_strndup(s, n)   ///< mi_strndup()
#define realpath(f, r) mi_realpath(f, r) ///< mi_realpath()

#define aligned_alloc(a, n) mi_aligned_alloc(a, n)                ///< mi_aligned_alloc()
#define posix_memalign(p, a, n) mi_posix_memalign(p, a, n)        ///< mi_posix_memalign()
#define _posix_memalign(p, a, n) mi_posix_memalign(p, a, n)       ///< mi_posix_memalign()
#define free_sized(p, n) mi_free_sized(p, n)                      ///< mi_free_sized()
#define free_aligned_sized(p, a, n) mi_free_aligned_sized(p, a, n) ///< mi_free_aligned_sized()
#define memalignment(p) mi_memalignment(p)                        ///< mi_memalignment()

// Unix

#define reallocf(p, n) mi_reallocf(p, n)                ///< mi_reallocf()
#define malloc_size(p) mi_usable_size(p)                ///< mi_usable_size()
#define malloc_usable_size(p) mi_usable_size(p)         ///< mi_usable_size()
#define malloc_good_size(n) mi_malloc_good_size(n)      ///< mi_malloc_good_size()
#define cfree(p) mi_free(p)                             ///< mi_free()
#define valloc(n) mi_valloc(n)                          ///< mi_valloc()
#define pvalloc(n) mi_pvalloc(n)                        ///< mi_pvalloc()
#define reallocarray(p, c, n) mi_reallocarray(p, c, n)  ///< mi_reallocarray()
#define reallocarr(p, c, n) mi_reallocarr(p, c, n)      ///< mi_reallocarr()
#define memalign(a, n) mi_memalign(a, n)                ///< mi_memalign()

// Windows

#define _expand(p, n) mi_expand(p, n)                  ///< mi_expand()
#define _msize(p) mi_usable_size(p)                    ///< mi_usable_size()
#define _recalloc(p, c, n) mi_recalloc(p, c, n)        ///< mi_recalloc()
#define _strdup(s) mi_strdup(s)                        ///< mi_strdup()
#define _strndup(s, n) mi_strndup(s, n)                ///< mi_strndup()
#define _wcsdup(s) mi_wcsdup(s)                        ///< mi_wcsdup()
#define _mbsdup(s) mi_mbsdup(s)                        ///< mi_mbsdup()
#define _dupenv_s(b, n, name) mi_dupenv_s(b, n, name)  ///< mi_dupenv_s()
#define _wdupenv_s(b, n, name) mi_wdupenv_s(b, n, name) ///< mi_wdupenv_s()

#define _aligned_malloc(n, a) mi_malloc_aligned(n, a)           ///< mi_malloc_aligned()
#define _aligned_realloc(p, n, a) mi_realloc_aligned(p, n, a)   ///< mi_realloc_aligned()
#define _aligned_recalloc(p, c, n, a) mi_aligned_recalloc(p, c, n, a) ///< mi_aligned_recalloc()
#define _aligned_msize(p, a, o) mi_usable_size(p)               ///< mi_usable_size()
#define _aligned_free(p) mi_free(p)                             ///< mi_free()
/// mi_malloc_aligned_at()
#define _aligned_offset_malloc(n, a, o) mi_malloc_aligned_at(n, a, o)
/// mi_realloc_aligned_at()
#define _aligned_offset_realloc(p, n, a, o) mi_realloc_aligned_at(p, n, a, o)
/// mi_aligned_offset_recalloc()
#define _aligned_offset_recalloc(p, c, n, a, o) mi_aligned_offset_recalloc(p, c, n, a, o)

/// @}

#endif  // MIMALLOC_OVERRIDE_H
