// SPDX-License-Identifier: MIT
/// @file mimalloc.h
/// The interface of the mimalloc memory allocator.
///
/// C99 to C23, C++98 to C++23; needs only the C library's `stddef.h` and `stdbool.h`. Link with
/// `-lmimalloc`; a program may use these calls beside the system's `malloc`, but must give each
/// block back to the allocator that it came from (they are the same one where mimalloc overrides
/// `malloc`, see mimalloc-override.h for programs that do so in their source).
///
/// This header is one file because it is installed as one file. In order:
/// - @ref version, @ref attributes, @ref types;
/// - @ref malloc, @ref extended, @ref aligned, @ref zeroinit;
/// - @ref heap, @ref theap, @ref arenas, @ref subproc;
/// - @ref options, @ref stats, @ref runtime;
/// - @ref posix, @ref cpp, @ref compat, @ref typed;
/// - types and option numbers of the older generation (MI_API_VERSION 1 and 2);
/// - C++ classes: allocators for containers, and memory resources.
///
/// Rules that hold for every call that allocates, unless its comment says otherwise:
/// - Sizes and alignments are in bytes. A block is aligned to at least 16 bytes.
/// - Size 0, or a count of 0, gives a block of its own that can be freed. NULL is always a failure.
/// - On failure the result is NULL, errno is ENOMEM, and a block that was passed in stays valid
///   and unchanged. A size above PTRDIFF_MAX, or a product count * size that does not fit in
///   size_t, always fails so. On success errno keeps its value.
/// - Any thread may call, at any time, also before `main` and after a thread's own clean-up; a
///   block may be freed, resized and queried by another thread than the one that got it. Two
///   threads must not free or resize the same block at once.
/// - Freeing NULL does nothing. Whether a block came from an ordinary, an aligned or a heap call,
///   mi_free() takes it.
/// - None of the calls may be used in a signal handler, except mi_version().
#ifndef MIMALLOC_H
#define MIMALLOC_H

// ------------------------------------------------------------------------------------------------
// Version
// ------------------------------------------------------------------------------------------------

/// @defgroup version Version
/// Which release this header belongs to, and which generation of the interface it declares.
/// @{

/// The release as major * 10000 + minor * 100 + patch; mi_version() gives that of the library.
#define MI_MALLOC_VERSION 30500

/// The generation of the interface: 3, or 2 (also 1, which is the same) when the program defines
/// it before the first include. The older generation has
/// - `int` arena ids and `void*` sub-process ids,
/// - `int heap_tag` as the last field of ::mi_heap_area_t, and the shorter statistics record,
/// - the option numbers of versions 1 and 2,
/// - the block or heap before the type in mi_reallocn_tp() and the other typed macros,
/// - a `const` heap in mi_heap_visit_blocks().
///
/// Each source file may choose for itself: files of both generations link into one program.
#ifndef MI_API_VERSION
#define MI_API_VERSION 3
#elif MI_API_VERSION < 1 || MI_API_VERSION > 3
#error "MI_API_VERSION must be 1, 2 or 3"
#endif

/// @}

// ------------------------------------------------------------------------------------------------
// Attributes
// ------------------------------------------------------------------------------------------------

/// @defgroup attributes Attributes
/// What the declarations below tell the compiler. Programs that wrap these calls may use them too;
/// each is empty where the compiler has nothing like it.
/// @{

/// @def mi_attr_noexcept
/// The call throws no C++ exception.
#if defined(__cplusplus) && (__cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900))
#define mi_attr_noexcept noexcept
#elif defined(__cplusplus)
#define mi_attr_noexcept throw()
#else
#define mi_attr_noexcept
#endif

/// @def mi_decl_nodiscard
/// Warn when the result is not used.
#if defined(__cplusplus) && \
  (__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#define mi_decl_nodiscard [[nodiscard]]
#elif (defined(__GNUC__) && __GNUC__ >= 4) || defined(__clang__)
#define mi_decl_nodiscard __attribute__((warn_unused_result))
#elif defined(_HAS_NODISCARD)
#define mi_decl_nodiscard _NODISCARD
#elif defined(_MSC_VER) && _MSC_VER >= 1700
#define mi_decl_nodiscard _Check_return_
#else
#define mi_decl_nodiscard
#endif

/// @def mi_decl_export
/// Visible outside the shared library. `MI_SHARED_LIB` says that the shared library is used,
/// `MI_SHARED_LIB_EXPORT` beside it that it is being built.
#if defined(_MSC_VER) || defined(__MINGW32__)
#if defined(MI_SHARED_LIB) && defined(MI_SHARED_LIB_EXPORT)
#define mi_decl_export __declspec(dllexport)
#elif defined(MI_SHARED_LIB)
#define mi_decl_export __declspec(dllimport)
#else
#define mi_decl_export
#endif
#elif (defined(__GNUC__) || defined(__clang__)) && defined(MI_SHARED_LIB) && \
  defined(MI_SHARED_LIB_EXPORT)
#define mi_decl_export __attribute__((visibility("default")))
#else
#define mi_decl_export
#endif

/// @def mi_decl_restrict
/// The result aliases nothing (Microsoft's compiler; others have ::mi_attr_malloc).
#if defined(_MSC_VER) && _MSC_VER >= 1900 && !defined(__clang__)
#define mi_decl_restrict __declspec(allocator) __declspec(restrict)
#elif defined(_MSC_VER)
#define mi_decl_restrict __declspec(restrict)
#else
#define mi_decl_restrict
#endif

/// @def mi_attr_malloc
/// The result aliases nothing that the program can reach.
#if (defined(__GNUC__) || defined(__clang__)) && !defined(_MSC_VER)
#define mi_attr_malloc __attribute__((malloc))
#else
#define mi_attr_malloc
#endif

/// @def mi_attr_alloc_size
/// Parameter `i` (from 1) is the size of the result.
/// @def mi_attr_alloc_size2
/// Parameters `i` and `j` multiplied are the size of the result.
#if !defined(_MSC_VER) && \
  ((defined(__clang__) && __clang_major__ >= 4) || (!defined(__clang__) && \
                                                    defined(__GNUC__) && __GNUC__ >= 5))
#define mi_attr_alloc_size(i) __attribute__((alloc_size(i)))
#define mi_attr_alloc_size2(i, j) __attribute__((alloc_size(i, j)))
#else
#define mi_attr_alloc_size(i)
#define mi_attr_alloc_size2(i, j)
#endif

/// @def mi_attr_alloc_align
/// Parameter `k` (from 1) is the alignment of the result.
#if !defined(_MSC_VER) && !defined(__INTEL_COMPILER) && \
  ((defined(__clang__) && __clang_major__ >= 4) || (!defined(__clang__) && \
                                                    defined(__GNUC__) && __GNUC__ >= 5))
#define mi_attr_alloc_align(k) __attribute__((alloc_align(k)))
#else
#define mi_attr_alloc_align(k)
#endif

/// @def mi_cdecl
/// The calling convention of callbacks on Windows.
#if defined(_WIN32)
#define mi_cdecl __cdecl
#else
#define mi_cdecl
#endif

/// @}

// ------------------------------------------------------------------------------------------------
// Types
// ------------------------------------------------------------------------------------------------

#ifdef __cplusplus
#include <cstddef>
#else
#include <stdbool.h>
#include <stddef.h>
#endif

/// @defgroup types Types and constants
/// @{

/// The largest request, in words, for mi_malloc_small() and its like.
#define MI_SMALL_WSIZE_MAX 128

/// The largest request, in bytes, for mi_malloc_small() and its like (1024 on 64-bit systems).
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void*))

// The library's own functions are declared with the types of version 3. An older program sees
// them under these names, and gets `mi_arena_id_t` and `mi_subproc_id_t` of its own at the end.
#if MI_API_VERSION < 3
#define mi_arena_id_t mi_v3_arena_id_t
#define mi_subproc_id_t mi_v3_subproc_id_t
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// A first-class heap; opaque. See the @ref heap group.
typedef struct mi_heap_s mi_heap_t;

/// One thread's part of a heap; opaque. See the @ref theap group.
typedef struct mi_theap_s mi_theap_t;

/// Names an arena; NULL is none. The value is a small positive number in the shape of a pointer
/// (it also fits into an `int`): compare it, but never dereference it.
typedef void* mi_arena_id_t;

/// Names a sub-process: one pointer in a structure, so that it is not mistaken for a block.
typedef struct mi_subproc_id_s {
  void* opaque;  ///< for the library only; NULL is no sub-process
} mi_subproc_id_t;

/// A run of equal-sized blocks inside a heap, as a visitor sees it. All sizes in bytes.
typedef struct mi_heap_area_s {
  void* blocks;            ///< where the blocks begin
  size_t reserved;         ///< the size of the area
  size_t committed;        ///< how much of it blocks have been made from so far
  size_t used;             ///< how many blocks are live (a count, not bytes)
  size_t block_size;       ///< usable size of each block
  size_t full_block_size;  ///< distance from block to block, with padding where there is any
#if MI_API_VERSION < 3
  int heap_tag;  ///< the tag given to mi_heap_new_ex(), else 0
#else
  void* reserved1;  ///< for later use
#endif
} mi_heap_area_t;

/// Called for each area (then `block` is NULL) and each live block in it.
/// @returns false to stop the visit
typedef bool(mi_cdecl mi_block_visit_fun)(const mi_heap_t* heap, const mi_heap_area_t* area,
                                          void* block, size_t block_size, void* arg);

/// Called for each heap of a sub-process.
/// @returns false to stop the visit
typedef bool(mi_cdecl mi_heap_visit_fun)(mi_heap_t* heap, void* arg);

#if defined(__GNUC__) && defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"  // C++98 has none of its own
#endif

/// Called from time to time by an allocating thread, so that a run-time system can free what it
/// has put off. It may allocate and free, and is not called again from within itself.
/// @param force     true when the thread is collecting (mi_collect() with force): free everything
/// @param heartbeat rises by a regular amount of allocation in this thread, never by time
/// @param arg       as given to mi_register_deferred_free()
typedef void(mi_cdecl mi_deferred_free_fun)(bool force, unsigned long long heartbeat, void* arg);

#if defined(__GNUC__) && defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

/// Receives text of the library: whole lines or parts of lines, with a terminating zero.
typedef void(mi_cdecl mi_output_fun)(const char* msg, void* arg);

/// Told of an error: EAGAIN double free; EFAULT corrupted memory or a write past a block; ENOMEM
/// out of memory; EOVERFLOW too large a request; EINVAL an invalid pointer or argument.
typedef void(mi_cdecl mi_error_fun)(int err, void* arg);

/// Commits (`commit` true) or decommits a part of an arena given to mi_manage_memory().
/// @param commit   what to do
/// @param start    where, aligned to an OS page
/// @param size     how many bytes, a multiple of the OS page size
/// @param is_zero  set to true after a commit that leaves nothing but zero bytes; may be NULL
/// @param user_arg as given to mi_manage_memory()
/// @returns whether it was done
typedef bool(mi_cdecl mi_commit_fun_t)(bool commit, void* start, size_t size, bool* is_zero,
                                       void* user_arg);

/// @}

// ------------------------------------------------------------------------------------------------
// Basic allocation
// ------------------------------------------------------------------------------------------------

/// @defgroup malloc Basic allocation
/// The calls of ISO C and POSIX under the prefix `mi_`. The rules at the top of mimalloc.h hold.
/// @{

/// Allocates `size` bytes; their contents are undefined.
/// @returns the block, or NULL with errno ENOMEM
///
/// Standard: ISO C `malloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_malloc(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);

/// Allocates `count` elements of `size` bytes each. The whole block is zero, including what
/// mi_usable_size() reports beyond the request.
/// @returns the block, or NULL with errno ENOMEM, also when the product overflows
///
/// Standard: ISO C `calloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_calloc(size_t count, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// Changes the size of block `p` to `newsize` bytes. It stays where it is if it still fits and is
/// not made smaller than half; otherwise a new block gets the contents and `p` is freed. Where there
/// is no memory for that, one that shrinks, but not to 0, stays all the same; errno is ENOMEM then, and
/// an error handler was told. Debug builds refuse it, hardened ones some that are alone in their page
/// or begin inside a block. A block of another heap than the thread's default one always moves there.
/// @param p        a block, or NULL, which makes the call the same as mi_malloc()
/// @param newsize  0 frees `p` and gives a new minimal block whose first byte is zero
/// @returns the block, or NULL with errno ENOMEM; then `p` is unchanged
///
/// Standard: ISO C `realloc` (which leaves the case of size 0 open).
mi_decl_nodiscard mi_decl_export void* mi_realloc(void* p, size_t newsize) mi_attr_noexcept
  mi_attr_alloc_size(2);

/// Resizes block `p` without moving it.
/// @returns `p` if `newsize` bytes fit into its usable size (shrinking always does, and changes
///          nothing); otherwise NULL, also for a NULL `p`, with the block unchanged and errno as
///          it was. Always NULL in builds with padding (debug, and secure from level 3 on), where
///          the usable size is exactly the requested one; these report a pointer that stands for no
///          block as error EINVAL.
mi_decl_export void* mi_expand(void* p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);

/// Frees a block. NULL is allowed, errno is kept.
///
/// A pointer that is not a live block is an error of the program. All builds report an address in no
/// page of the library's, such as 0x3990080, as EINVAL, and leave it alone. Debug and secure builds
/// report every pointer that is no live block; others may be corrupted by one into their pages.
///
/// What follows a report is for the option ::mi_option_abort_on_error to say. Unless it is set, debug
/// and release builds ignore the pointer and go on, and **secure builds end the process** (abort),
/// for an address in no page as for all others.
///
/// Standard: ISO C `free`; POSIX.1-2024 for errno.
mi_decl_export void mi_free(void* p) mi_attr_noexcept;

/// Copies the string `s` into a new block.
/// @returns the copy, to be freed with mi_free(), or NULL: with errno ENOMEM, or if `s` is NULL
///
/// Standard: POSIX and C23 `strdup`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_strdup(const char* s) mi_attr_noexcept
  mi_attr_malloc;

/// Copies at most `n` characters of `s` into a new block and adds the terminating zero.
/// @returns the copy, to be freed with mi_free(), or NULL: with errno ENOMEM, or if `s` is NULL
///
/// Standard: POSIX and C23 `strndup`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_strndup(const char* s, size_t n)
  mi_attr_noexcept mi_attr_malloc;

/// Resolves a file name to its absolute path without links.
/// @param fname          the name
/// @param resolved_name  a buffer of PATH_MAX bytes for the result, or NULL for a new block
/// @returns the path (to be freed with mi_free() if `resolved_name` was NULL), or NULL with errno
///          as the system's `realpath` sets it, or ENOMEM. Not available on WASI.
///
/// Standard: POSIX `realpath`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_realpath(const char* fname,
                                                                    char* resolved_name)
  mi_attr_noexcept;

/// @}

// ------------------------------------------------------------------------------------------------
// Extended allocation
// ------------------------------------------------------------------------------------------------

/// @defgroup extended Extended allocation
/// What the standards lack: zeroed blocks, checked products, small blocks, block sizes.
/// @{

/// Allocates at most ::MI_SMALL_SIZE_MAX bytes, a little faster than mi_malloc().
/// @param size  in bytes; above the limit the behaviour is undefined (debug builds assert)
/// @returns the block, or NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_malloc_small(size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_malloc_small(), but the whole block is zero.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_zalloc_small(size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// Allocates `size` bytes, all zero to the end of the usable size.
/// @returns the block, or NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_zalloc(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);

/// Allocates `count` elements of `size` bytes each; their contents are undefined.
/// @returns the block, or NULL with errno ENOMEM, also when the product overflows
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_mallocn(size_t count, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As mi_realloc() to `count` elements of `size` bytes each.
/// @returns the block, or NULL with errno ENOMEM, also when the product overflows; `p` is kept
mi_decl_nodiscard mi_decl_export void* mi_reallocn(void* p, size_t count, size_t size)
  mi_attr_noexcept mi_attr_alloc_size2(2, 3);

/// As mi_realloc(), but frees `p` when it fails.
/// @returns the block, or NULL with errno ENOMEM, and then `p` is no longer valid
///
/// Standard: BSD `reallocf`.
mi_decl_nodiscard mi_decl_export void* mi_reallocf(void* p, size_t newsize) mi_attr_noexcept
  mi_attr_alloc_size(2);

/// How many bytes of block `p` the program may use: at least what it asked for. Exactly that in
/// builds with padding (debug, and secure from level 3 on).
/// @returns bytes; 0 for NULL, and for a pointer that stands for no block. Builds that check frees
///          (debug, and secure from level 3 on) report such a pointer, of a freed block, too, as
///          error EINVAL; in others that of a freed block is an error of the program that nobody
///          sees. mi_malloc_size() may be asked of any address
mi_decl_nodiscard mi_decl_export size_t mi_usable_size(const void* p) mi_attr_noexcept;

/// The block size that a request for `size` bytes gets at the least, so that a container can grow to
/// it. Up to 8 KiB it is what mi_usable_size() says of the block in builds without padding, in a
/// process of fewer than 16 threads; else the block may be larger.
/// @returns bytes, at least `size`; above PTRDIFF_MAX, where no request succeeds, `size` itself
mi_decl_nodiscard mi_decl_export size_t mi_good_size(size_t size) mi_attr_noexcept;

/// Frees a block of mi_malloc_small() or mi_zalloc_small(), and of nothing else; NULL is allowed.
mi_decl_export void mi_free_small(void* p) mi_attr_noexcept;

/// @name Calls that also tell the block size
/// As the calls without `u`; they save a run-time system the separate mi_usable_size(). A
/// `block_size` may be NULL. It counts the whole block, in bytes, and is left as it was when the
/// call fails. In builds that check ends a program may write to the size that it asked for only.
/// @{

/// As mi_malloc(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_umalloc(size_t size, size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_calloc(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_ucalloc(size_t count, size_t size,
                                                                   size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As mi_realloc(), and stores the size of the block before (0 if `p` is NULL; also stored when
/// the call fails) and after.
mi_decl_nodiscard mi_decl_export void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre,
                                                   size_t* block_size_post) mi_attr_noexcept
  mi_attr_alloc_size(2);

/// As mi_free(), and stores the size of the block that was freed, nothing if `p` is NULL.
mi_decl_export void mi_ufree(void* p, size_t* block_size) mi_attr_noexcept;

/// As mi_malloc_aligned(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_umalloc_aligned(size_t size,
                                                                           size_t alignment,
                                                                           size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As mi_zalloc_aligned(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_uzalloc_aligned(size_t size,
                                                                           size_t alignment,
                                                                           size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As mi_malloc_small(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_umalloc_small(size_t size,
                                                                         size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_zalloc_small(), and stores the size of the block.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_uzalloc_small(size_t size,
                                                                         size_t* block_size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// @}
/// @}

// ------------------------------------------------------------------------------------------------
// Aligned allocation
// ------------------------------------------------------------------------------------------------

/// @defgroup aligned Aligned allocation
/// The alignment is in bytes, follows the size, and is any power of two; the size need not be a
/// multiple of it. An alignment of 0 or one that is no power of two gives NULL and errno EINVAL.
/// The calls whose names end in `_at` align the address `p + offset` instead of `p`; the offset
/// may exceed the size. With an offset other than 0, alignments above 64 KiB may be refused (NULL,
/// errno EOVERFLOW). Blocks are freed with mi_free() as any other.
/// @{

/// Allocates `size` bytes at a multiple of `alignment`.
/// @returns the block, or NULL with errno ENOMEM or EINVAL
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_malloc_aligned(size_t size,
                                                                          size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// Allocates `size` bytes such that byte `offset` lies at a multiple of `alignment`.
/// @returns the block, or NULL with errno ENOMEM, EINVAL or EOVERFLOW
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_malloc_aligned_at(size_t size,
                                                                             size_t alignment,
                                                                             size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_malloc_aligned(), but the whole block is zero.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_zalloc_aligned(size_t size,
                                                                          size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As mi_malloc_aligned_at(), but the whole block is zero.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_zalloc_aligned_at(size_t size,
                                                                             size_t alignment,
                                                                             size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_zalloc_aligned() for `count` elements of `size` bytes each; NULL with errno ENOMEM when
/// the product overflows.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_calloc_aligned(size_t count, size_t size,
                                                                          size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2) mi_attr_alloc_align(3);

/// As mi_zalloc_aligned_at() for `count` elements of `size` bytes each; NULL with errno ENOMEM
/// when the product overflows.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_calloc_aligned_at(size_t count,
                                                                             size_t size,
                                                                             size_t alignment,
                                                                             size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As mi_realloc(), with the result at a multiple of `alignment`. The alignment of a block is not
/// remembered: pass it each time. It stays in place if it fits, is aligned and not made smaller
/// than half.
/// @returns the block, or NULL with errno ENOMEM or EINVAL; then `p` is unchanged
mi_decl_nodiscard mi_decl_export void* mi_realloc_aligned(void* p, size_t newsize, size_t alignment)
  mi_attr_noexcept mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As mi_realloc_aligned(), with byte `offset` at a multiple of `alignment`.
/// @returns the block, or NULL with errno ENOMEM, EINVAL or EOVERFLOW; then `p` is unchanged
mi_decl_nodiscard mi_decl_export void* mi_realloc_aligned_at(void* p, size_t newsize,
                                                             size_t alignment, size_t offset)
  mi_attr_noexcept mi_attr_alloc_size(2);

/// @}

// ------------------------------------------------------------------------------------------------
// Zeroed reallocation
// ------------------------------------------------------------------------------------------------

/// @defgroup zeroinit Zeroed reallocation
/// Resizing of blocks that were zeroed when they were allocated (mi_zalloc(), mi_calloc() and
/// their like, or one of these calls): all bytes that were never written stay zero, those of the
/// grown part included. On other blocks the bytes between the requested and the usable size are
/// undefined; so they are on a block that was made smaller where it is, to half at least: what was
/// written there is there when it grows again. A NULL `p` makes each the zeroed allocation. On
/// failure `p` is unchanged.
/// @{

/// Resizes `p` to `newsize` bytes; what is new is zero.
/// @returns the block, or NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export void* mi_rezalloc(void* p, size_t newsize) mi_attr_noexcept
  mi_attr_alloc_size(2);

/// Resizes `p` to `newcount` elements of `size` bytes each; what is new is zero.
/// @returns the block, or NULL with errno ENOMEM, also when the product overflows
///
/// Standard: as Microsoft's `_recalloc`.
mi_decl_nodiscard mi_decl_export void* mi_recalloc(void* p, size_t newcount, size_t size)
  mi_attr_noexcept mi_attr_alloc_size2(2, 3);

/// As mi_rezalloc(), at a multiple of `alignment`; errno EINVAL if that is no power of two.
mi_decl_nodiscard mi_decl_export void* mi_rezalloc_aligned(void* p, size_t newsize,
                                                           size_t alignment) mi_attr_noexcept
  mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As mi_rezalloc_aligned(), with byte `offset` at a multiple of `alignment`.
mi_decl_nodiscard mi_decl_export void* mi_rezalloc_aligned_at(void* p, size_t newsize,
                                                              size_t alignment, size_t offset)
  mi_attr_noexcept mi_attr_alloc_size(2);

/// As mi_recalloc(), at a multiple of `alignment`; errno EINVAL if that is no power of two.
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept
  mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);

/// As mi_recalloc_aligned(), with byte `offset` at a multiple of `alignment`.
mi_decl_nodiscard mi_decl_export void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size,
                                                              size_t alignment, size_t offset)
  mi_attr_noexcept mi_attr_alloc_size2(2, 3);

/// @}

// ------------------------------------------------------------------------------------------------
// Heaps
// ------------------------------------------------------------------------------------------------

/// @defgroup heap First-class heaps
/// A heap is a separate set of blocks that can be given up as a whole. Every thread may allocate
/// from every heap and free into it; blocks are freed with mi_free(). A program has one main heap
/// from the start and can have tens of thousands of others at once.
///
/// A NULL heap means the main heap in all of these calls, save mi_heap_delete() and
/// mi_heap_destroy(), which ignore it. To use a heap after, or while another thread is at, its
/// deletion or destruction is an error of the program.
/// @{

/// Makes a heap.
/// @returns the heap, to be given up by mi_heap_delete() or mi_heap_destroy(); NULL with errno
///          ENOMEM
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new(void);

/// Makes a heap that takes memory from one arena only; when that is used up, allocation fails. An
/// exclusive arena serves only heaps made so. In hardened builds a block of 0 bytes lies outside of
/// it (see mi_heap_of()).
/// @param arena_id  the arena; NULL makes it the same as mi_heap_new()
/// @returns the heap; NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new_in_arena(mi_arena_id_t arena_id);

/// Gives up a heap and keeps its blocks: those still live belong to the main heap from then on and
/// are freed as ever. NULL is ignored; so is the main heap, with a warning.
mi_decl_export void mi_heap_delete(mi_heap_t* heap);

/// Gives up a heap and all its blocks at once, whichever thread got them; they must not be touched
/// or freed afterwards. No destructors run. NULL is ignored; so is the main heap, with a warning.
mi_decl_export void mi_heap_destroy(mi_heap_t* heap);

/// Asks that memory which the heap takes from now on lie near a processor group (NUMA node).
/// @param heap       the heap
/// @param numa_node  the node, taken modulo how many there are; -1 for no preference
mi_decl_export void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node);

/// Frees what the calling thread's part of the heap holds without need.
/// @param heap   the heap
/// @param force  also look through full pages and give memory back to the system at once
mi_decl_export void mi_heap_collect(mi_heap_t* heap, bool force);

/// The main heap of the thread's sub-process; never NULL.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_main(void);

/// The heap that a block belongs to, in constant time.
/// @param p  a block or an address inside one; any other is no error
/// @returns the heap; NULL for NULL and for memory that is not ours. In builds that check frees
///          (debug, and secure from level 3 on) also NULL for an address in a freed block or behind
///          the bytes that were asked for; others cannot tell. So do the questions that follow.
///          In debug builds and secure ones from level 4 on a block of 0 bytes lies where nobody can
///          access anything, outside of all heaps: whichever was asked, the answer is the main heap,
///          in whose visits it does not occur; of one that is aligned at an offset it is NULL.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_of(const void* p);

/// The partition that a block's addresses belong to, in constant time.
///
/// In the hardened builds (secure and full) each heap that mi_heap_new() makes is a partition: what
/// addresses it once had no other heap is ever given, neither the main heap nor a heap that is made
/// later, also when it has been deleted or destroyed. So a pointer into it that was kept too long
/// never meets an object of another heap. The number is the heap's and never comes again; blocks
/// that outlive their heap (mi_heap_delete()) keep it.
///
/// Heaps in an arena of the program's (mi_heap_new_in_arena()) are no partitions, nor are any where
/// addresses cannot be chosen: 32-bit systems, those with less than 47 bits of addresses, Windows,
/// and processes that start with the option `disallow_os_alloc`.
/// @param p  a block or an address inside one; any other is no error
/// @returns the partition's number; 0 for a block of the main heap or of a heap that is no partition,
///          for NULL, a block of no bytes, and what is no block. Release and debug builds have no
///          partitions, and always answer 0.
mi_decl_nodiscard mi_decl_export size_t mi_partition_of(const void* p) mi_attr_noexcept;

/// Whether `p`, a block or an address inside one, belongs to this heap; in constant time.
mi_decl_nodiscard mi_decl_export bool mi_heap_contains(const mi_heap_t* heap, const void* p);

/// Whether `p` is an address in a block of any heap; in constant time. False for NULL.
mi_decl_nodiscard mi_decl_export bool mi_any_heap_contains(const void* p);

/// @name Allocation from a heap
/// Each is the call without `heap_` for one heap: same results, alignments and errors.
/// A reallocation of a block of another heap moves it into this one.
/// @{

/// As mi_malloc(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_malloc(mi_heap_t* heap, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_zalloc(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_zalloc(mi_heap_t* heap, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_calloc(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_calloc(mi_heap_t* heap,
                                                                       size_t count, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// As mi_mallocn(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_mallocn(mi_heap_t* heap,
                                                                        size_t count, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// As mi_malloc_small(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_malloc_small(mi_heap_t* heap,
                                                                             size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_zalloc_small(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_zalloc_small(mi_heap_t* heap,
                                                                             size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_realloc(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc(mi_heap_t* heap, void* p, size_t newsize)
  mi_attr_noexcept mi_attr_alloc_size(3);

/// As mi_reallocn(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count,
                                                        size_t size) mi_attr_noexcept
  mi_attr_alloc_size2(3, 4);

/// As mi_reallocf(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_reallocf(mi_heap_t* heap, void* p, size_t newsize)
  mi_attr_noexcept mi_attr_alloc_size(3);

/// As mi_strdup(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_heap_strdup(mi_heap_t* heap,
                                                                       const char* s)
  mi_attr_noexcept mi_attr_malloc;

/// As mi_strndup(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_heap_strndup(mi_heap_t* heap,
                                                                        const char* s, size_t n)
  mi_attr_noexcept mi_attr_malloc;

/// As mi_realpath(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict char* mi_heap_realpath(mi_heap_t* heap,
                                                                         const char* fname,
                                                                         char* resolved_name)
  mi_attr_noexcept;

/// As mi_malloc_aligned(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_malloc_aligned(mi_heap_t* heap,
                                                                               size_t size,
                                                                               size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As mi_malloc_aligned_at(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_malloc_aligned_at(mi_heap_t* heap,
                                                                                  size_t size,
                                                                                  size_t alignment,
                                                                                  size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_zalloc_aligned(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_zalloc_aligned(mi_heap_t* heap,
                                                                               size_t size,
                                                                               size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As mi_zalloc_aligned_at(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_zalloc_aligned_at(mi_heap_t* heap,
                                                                                  size_t size,
                                                                                  size_t alignment,
                                                                                  size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_calloc_aligned(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_calloc_aligned(mi_heap_t* heap,
                                                                               size_t count,
                                                                               size_t size,
                                                                               size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);

/// As mi_calloc_aligned_at(), from `heap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_calloc_aligned_at(mi_heap_t* heap,
                                                                                  size_t count,
                                                                                  size_t size,
                                                                                  size_t alignment,
                                                                                  size_t offset)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// As mi_realloc_aligned(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc_aligned(mi_heap_t* heap, void* p,
                                                               size_t newsize, size_t alignment)
  mi_attr_noexcept mi_attr_alloc_size(3) mi_attr_alloc_align(4);

/// As mi_realloc_aligned_at(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p,
                                                                  size_t newsize, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept
  mi_attr_alloc_size(3);

/// As mi_rezalloc(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc(mi_heap_t* heap, void* p, size_t newsize)
  mi_attr_noexcept mi_attr_alloc_size(3);

/// As mi_recalloc(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount,
                                                        size_t size) mi_attr_noexcept
  mi_attr_alloc_size2(3, 4);

/// As mi_rezalloc_aligned(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newsize, size_t alignment)
  mi_attr_noexcept mi_attr_alloc_size(3) mi_attr_alloc_align(4);

/// As mi_rezalloc_aligned_at(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p,
                                                                   size_t newsize, size_t alignment,
                                                                   size_t offset) mi_attr_noexcept
  mi_attr_alloc_size(3);

/// As mi_recalloc_aligned(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p,
                                                                size_t newcount, size_t size,
                                                                size_t alignment) mi_attr_noexcept
  mi_attr_alloc_size2(3, 4) mi_attr_alloc_align(5);

/// As mi_recalloc_aligned_at(), into `heap`.
mi_decl_nodiscard mi_decl_export void* mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p,
                                                                   size_t newcount, size_t size,
                                                                   size_t alignment, size_t offset)
  mi_attr_noexcept mi_attr_alloc_size2(3, 4);

/// As mi_new(), from `heap`: may call the new-handler and throw `std::bad_alloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_alloc_new(mi_heap_t* heap,
                                                                          size_t size)
  mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_new_n(), from `heap`: may call the new-handler and throw `std::bad_alloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_heap_alloc_new_n(mi_heap_t* heap,
                                                                            size_t count,
                                                                            size_t size)
  mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// @}
/// @name Looking into a heap
/// @{

/// Visits all areas of a heap, those of other and of ended threads included. The visitor may not
/// allocate or free in this heap, and no other thread may do so meanwhile.
/// @param heap          the heap
/// @param visit_blocks  false: only areas; true: each area, then each of its live blocks
/// @param visitor       called with block NULL for an area, else with the block and its size
/// @param arg           handed to the visitor
/// @returns whether all was visited, false if the visitor stopped it or is NULL
mi_decl_export bool mi_heap_visit_blocks(
#if MI_API_VERSION < 3
  const
#endif
  mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun* visitor, void* arg);

/// Verifies the ends of all blocks of a heap, live and free ones, and reports each place where
/// somebody wrote as error EFAULT, with the block, its size and the bytes. Builds without padding
/// (release) have nothing to verify. No thread may use the heap meanwhile. See also the option
/// `check_every`.
/// @param heap  the heap, or NULL for the main one
/// @returns true if nothing was found; false only where the program's own error handler
///          (mi_register_error()) goes on after such an error, which else ends the process
mi_decl_export bool mi_heap_verify(mi_heap_t* heap);

/// As mi_heap_visit_blocks(), but only areas whose thread has ended or has given them up.
mi_decl_export bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks,
                                                   mi_block_visit_fun* visitor, void* arg);

/// Whether it may pay to move block `p` elsewhere, for programs that defragment their data. To be
/// called by the thread that owns the block's area; an estimate, never an error.
/// @param heap            the heap that `p` must belong to, or NULL for any
/// @param p               a block
/// @param perc_threshold  in percent, 0 to 100
/// @returns true if at most that share of the area's blocks is in use; false for NULL, a foreign
///          pointer, another heap, a full area, and an area that is being allocated from
mi_decl_export bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p,
                                                          size_t perc_threshold) mi_attr_noexcept;

/// @}
/// @}

// ------------------------------------------------------------------------------------------------
// Thread-heaps
// ------------------------------------------------------------------------------------------------

/// @defgroup theap Thread-heaps
/// A thread-heap (theap) is one thread's part of a heap. With it in hand, allocation need not look
/// it up. It is valid only in the thread that got it, until that thread or its heap ends; every
/// call here is for that thread alone. Blocks are freed with mi_free(), by any thread.
/// @{

/// The calling thread's part of a heap, made if there is none yet; NULL with errno ENOMEM.
mi_decl_export mi_theap_t* mi_heap_theap(mi_heap_t* heap);

/// Lets mi_malloc(), the operators `new` and an overridden `malloc` of this thread use `theap`. What
/// the C library allocates meanwhile, and keeps, goes with a heap that is destroyed.
/// @returns the one used before; NULL, and no change, if `theap` is NULL
mi_decl_export mi_theap_t* mi_theap_set_default(mi_theap_t* theap);

/// The thread-heap that mi_malloc() uses in this thread; never NULL unless memory is out.
mi_decl_export mi_theap_t* mi_theap_get_default(void);

/// As mi_heap_collect() for this thread-heap.
mi_decl_export void mi_theap_collect(mi_theap_t* theap, bool force) mi_attr_noexcept;

/// As mi_malloc(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_malloc(mi_theap_t* theap,
                                                                        size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_zalloc(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_zalloc(mi_theap_t* theap,
                                                                        size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_calloc(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_calloc(mi_theap_t* theap,
                                                                        size_t count, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(2, 3);

/// As mi_malloc_small(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_malloc_small(mi_theap_t* theap,
                                                                              size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_zalloc_small(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_zalloc_small(mi_theap_t* theap,
                                                                              size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);

/// As mi_malloc_aligned(), from `theap`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_theap_malloc_aligned(mi_theap_t* theap,
                                                                                size_t size,
                                                                                size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);

/// As mi_realloc(), into `theap`.
mi_decl_nodiscard mi_decl_export void* mi_theap_realloc(mi_theap_t* theap, void* p, size_t newsize)
  mi_attr_noexcept mi_attr_alloc_size(3);

/// As mi_heap_visit_blocks(), but only the areas of this thread-heap. Those of which all blocks are
/// in use it may have given up, and blocks that are alone in their area are the heap's.
mi_decl_export bool mi_theap_visit_blocks(const mi_theap_t* theap, bool visit_blocks,
                                          mi_block_visit_fun* visitor, void* arg);

/// Puts one in `sample_rate` later allocations of this thread-heap against an inaccessible page,
/// so that writing past its end faults (see ::mi_option_guarded_sample_rate).
/// @param theap        the thread-heap
/// @param sample_rate  1 for every allocation, 0 for none
/// @param seed         where in the interval to begin, 0 for a random point
mi_decl_export void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate,
                                                     size_t seed);

/// Limits that to requests of `min` to `max` bytes, both included.
mi_decl_export void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min, size_t max);

/// @}

// ------------------------------------------------------------------------------------------------
// Arenas
// ------------------------------------------------------------------------------------------------

/// @defgroup arenas Arenas and reserved memory
/// An arena is a large range of addresses that heaps take their memory from. The library makes
/// arenas as it needs them; a program can make some beforehand, of huge OS pages, or of memory
/// that it brings itself. Arenas stay until the process ends. Sizes in bytes; any thread may call.
/// The calls that return `int` return 0 or an error number (ENOMEM); they do not use errno.
/// @{

/// Reserves an arena. It serves from then on, before those that were there, as soon as a request needs
/// fresh memory or memory that lies there.
/// @param size         at least mi_arena_min_size()
/// @param commit       make the memory usable at once, not when it is needed
/// @param allow_large  take large OS pages (2 MiB, always committed) if the system gives them
/// @returns 0, or ENOMEM
mi_decl_export int mi_reserve_os_memory(size_t size, bool commit, bool allow_large)
  mi_attr_noexcept;

/// As mi_reserve_os_memory().
/// @param size         at least mi_arena_min_size()
/// @param commit       make the memory usable at once
/// @param allow_large  take large OS pages if the system gives them
/// @param exclusive    only for heaps of mi_heap_new_in_arena()
/// @param arena_id     gets the id, or NULL (none) on failure; may be NULL
/// @returns 0, or ENOMEM
mi_decl_export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
                                           bool exclusive, mi_arena_id_t* arena_id)
  mi_attr_noexcept;

/// Makes an arena of memory that the program has from elsewhere. It must stay valid until the
/// process ends.
/// @param start         where it begins, rounded up to mi_arena_min_alignment()
/// @param size          after that rounding at least mi_arena_min_size()
/// @param is_committed  it can be read and written as it is
/// @param is_pinned     it may never be decommitted (locked memory, large OS pages)
/// @param is_zero       it holds nothing but zero bytes
/// @param numa_node     the node it lies on, or -1
/// @returns false if it is too small, was brought before, or no record of it could be made
mi_decl_export bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                        bool is_zero, int numa_node) mi_attr_noexcept;

/// As mi_manage_os_memory().
/// @param start         where it begins
/// @param size          how large it is
/// @param is_committed  it can be read and written as it is
/// @param is_pinned     it may never be decommitted
/// @param is_zero       it holds nothing but zero bytes
/// @param numa_node     the node it lies on, or -1
/// @param exclusive     only for heaps of mi_heap_new_in_arena()
/// @param arena_id      gets the id, or NULL on failure; may be NULL
/// @returns false if it is too small, was brought before, or no record of it could be made
mi_decl_export bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed,
                                           bool is_pinned, bool is_zero, int numa_node,
                                           bool exclusive, mi_arena_id_t* arena_id)
  mi_attr_noexcept;

/// As mi_manage_os_memory_ex(), for memory that the system's calls cannot commit and decommit.
/// @param start           where it begins
/// @param size            how large it is
/// @param is_committed    it can be read and written as it is
/// @param is_pinned       it may never be decommitted
/// @param is_zero         it holds nothing but zero bytes
/// @param numa_node       the node it lies on, or -1
/// @param exclusive       only for heaps of mi_heap_new_in_arena()
/// @param commit_fun      called by any thread to commit or decommit a part; it may not allocate
///                        from this library; NULL for the system's own way
/// @param commit_fun_arg  handed to it
/// @param arena_id        gets the id, or NULL on failure; may be NULL
/// @returns false if it is too small, was brought before, or no record of it could be made
mi_decl_export bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                     bool is_zero, int numa_node, bool exclusive,
                                     mi_commit_fun_t* commit_fun, void* commit_fun_arg,
                                     mi_arena_id_t* arena_id) mi_attr_noexcept;

/// Reserves huge OS pages of 1 GiB, spread evenly over NUMA nodes. Getting less than asked for is
/// a success (verbose messages tell how much).
/// @param pages          how many; 0 does nothing and succeeds
/// @param numa_nodes     over how many nodes, 0 for all there are
/// @param timeout_msecs  milliseconds, shared out over the nodes; 0 for no limit
/// @returns 0, or ENOMEM if there was not one page
mi_decl_export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                       size_t timeout_msecs) mi_attr_noexcept;

/// Reserves huge OS pages of 1 GiB on one NUMA node. Getting less than asked for is a success.
/// @param pages          how many; 0 does nothing and succeeds
/// @param numa_node      the node, modulo how many there are; -1 for any
/// @param timeout_msecs  in milliseconds; 0 for no limit
/// @returns 0, or ENOMEM if there was not one page
mi_decl_export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_msecs)
  mi_attr_noexcept;

/// As mi_reserve_huge_os_pages_at().
/// @param pages          how many; 0 does nothing and succeeds
/// @param numa_node      the node, modulo how many there are; -1 for any
/// @param timeout_msecs  in milliseconds; 0 for no limit
/// @param exclusive      only for heaps of mi_heap_new_in_arena()
/// @param arena_id       gets the id, or NULL on failure; may be NULL
/// @returns 0, or ENOMEM if there was not one page
mi_decl_export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                                  bool exclusive, mi_arena_id_t* arena_id)
  mi_attr_noexcept;

/// Where an arena lies.
/// @param arena_id  the arena
/// @param size      gets its size in bytes, 0 for NULL; may be NULL
/// @returns its start; NULL for NULL
mi_decl_export void* mi_arena_area(mi_arena_id_t arena_id, size_t* size);

/// Whether the address `p` lies in an arena; false for arena NULL.
mi_decl_export bool mi_arena_contains(mi_arena_id_t arena_id, const void* p);

/// The alignment, in bytes, that the start of an arena is rounded up to.
mi_decl_export size_t mi_arena_min_alignment(void);

/// The smallest arena, in bytes.
mi_decl_export size_t mi_arena_min_size(void);

/// Prints a map of all arenas where messages go (see mi_register_output()).
mi_decl_export void mi_arenas_print(void) mi_attr_noexcept;

/// The older name of mi_arenas_print().
mi_decl_export void mi_debug_show_arenas(void) mi_attr_noexcept;

/// @}

// ------------------------------------------------------------------------------------------------
// Sub-processes
// ------------------------------------------------------------------------------------------------

/// @defgroup subproc Sub-processes
/// Sub-processes share nothing: each has its own arenas, heaps and abandoned memory, as an
/// interpreter needs it that runs several programs in one process. A thread belongs to one; all
/// belong to the main one at first. A block may still be freed from any thread.
/// @{

/// The main sub-process, which is always there.
mi_decl_export mi_subproc_id_t mi_subproc_main(void);

/// The sub-process of the calling thread.
mi_decl_export mi_subproc_id_t mi_subproc_current(void);

/// Makes a sub-process; its id is NULL with errno ENOMEM on failure.
mi_decl_export mi_subproc_id_t mi_subproc_new(void);

/// Gives up a sub-process and frees everything in it. Its threads must have ended. The main one
/// and NULL are ignored; one that was given up before is an error, EINVAL, until mi_subproc_new()
/// gives its id out again.
///
/// Where malloc is the library's, that includes what the C library allocated for these threads and
/// keeps: of a thread that they started, say, whose stack serves a later one. They should start none,
/// or the sub-process be given up by mi_subproc_delete().
mi_decl_export void mi_subproc_destroy(mi_subproc_id_t subproc);

/// Moves the calling thread to a sub-process. The thread must be in the main one still and must
/// not have allocated; otherwise a warning is printed and nothing happens.
mi_decl_export void mi_subproc_add_current_thread(mi_subproc_id_t subproc);

/// Visits all heaps of a sub-process. The visitor may not make or give up heaps in it.
/// @param subproc  the sub-process
/// @param visitor  called for each heap
/// @param arg      handed to the visitor
/// @returns whether all were visited, false if the visitor stopped it or is NULL
mi_decl_export bool mi_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun* visitor,
                                           void* arg);

/// @}

// ------------------------------------------------------------------------------------------------
// Options
// ------------------------------------------------------------------------------------------------

/// @defgroup options Options
/// Each option is also read from the environment, as `MIMALLOC_` and its name in any case, when it
/// is first needed: `MIMALLOC_PURGE_DELAY=0`. A value set by mi_option_set() comes before that of
/// the environment, and that before mi_option_set_default(). Switches take 1 / 0, `true`, `yes`,
/// `on` and their opposites. Sizes are kept in KiB; in the environment they may have a suffix
/// (`512MiB`), and mean bytes without one. Set options early, best before the first allocation:
/// many are looked at only once. Any thread may call.
/// @{

#if MI_API_VERSION >= 3

/// The options, with their defaults in parentheses. The numbers stay the same within version 3 of
/// the interface.
typedef enum mi_option_e {
  mi_option_show_errors,                    ///< print errors and warnings (0; 1 in debug builds)
  mi_option_show_stats,                     ///< print statistics when the process ends (0)
  mi_option_verbose,                        ///< print messages (0); 2 traces
  mi_option_deprecated_eager_commit,        ///< no effect
  mi_option_arena_eager_commit,             ///< commit arenas: 0, 1, or 2 if the OS overcommits (2)
  mi_option_purge_decommits,                ///< purge by decommit (1) or by reset, lazily (0) (1)
  mi_option_allow_large_os_pages,           ///< use large OS pages, 2 or 4 MiB, where they fit (0)
  mi_option_reserve_huge_os_pages,          ///< reserve so many 1 GiB pages at the start (0)
  mi_option_reserve_huge_os_pages_at,       ///< on this NUMA node, -1 for all (-1)
  mi_option_reserve_os_memory,              ///< reserve an arena of this size at the start (0 KiB)
  mi_option_deprecated_segment_cache,       ///< no effect
  mi_option_deprecated_page_reset,          ///< no effect
  mi_option_deprecated_abandoned_page_purge, ///< no effect
  mi_option_deprecated_segment_reset,       ///< no effect
  mi_option_deprecated_eager_commit_delay,  ///< no effect
  mi_option_purge_delay,                    ///< keep free memory for so many ms; -1: until asked for (1000)
  mi_option_use_numa_nodes,                 ///< pretend so many NUMA nodes, 0 as found (0)
  mi_option_disallow_os_alloc,              ///< use only arenas reserved beforehand (0)
  mi_option_os_tag,                         ///< tag of our memory on macOS, 100 to 255 (100)
  mi_option_max_errors,                     ///< print at most so many errors (32)
  mi_option_max_warnings,                   ///< print at most so many warnings (32)
  mi_option_deprecated_max_segment_reclaim, ///< no effect
  mi_option_destroy_on_exit,                ///< free all memory when the process ends (0)
  mi_option_arena_reserve,                  ///< size of the first arena (1 GiB, in KiB)
  mi_option_arena_purge_mult,               ///< purge_delay is multiplied by it in arenas (1)
  mi_option_deprecated_purge_extend_delay,  ///< no effect
  mi_option_disallow_arena_alloc,           ///< reserved arenas only for heaps that ask (0)
  mi_option_retry_on_oom,                   ///< Windows: try again for so many ms (400)
  mi_option_visit_abandoned,                ///< allow mi_abandoned_visit_blocks() (0)
  mi_option_guarded_min,                    ///< guard blocks of at least so many bytes (0)
  mi_option_guarded_max,                    ///< guard blocks of at most so many bytes (1 GiB)
  mi_option_guarded_precise,                ///< guard from the very last byte on, unaligned (0)
  mi_option_guarded_sample_rate,            ///< guard one allocation in so many, 0 none (0)
  mi_option_guarded_sample_seed,            ///< where sampling begins, 0 at random (0)
  mi_option_generic_collect,                ///< collect every so many slow allocations (10000)
  mi_option_page_reclaim_on_free,           ///< a free takes an abandoned page: -1, 0, 1 (0)
  mi_option_page_full_retain,               ///< keep so many full pages of a size (2)
  mi_option_page_max_candidates,            ///< look at so many pages for the best (4)
  mi_option_max_vabits,                     ///< bits of an address, 0 as found (0)
  mi_option_pagemap_commit,                 ///< commit the whole map of pages at once (0)
  mi_option_page_commit_on_demand,          ///< commit inside pages as they fill (0)
  mi_option_page_max_reclaim,               ///< reclaim at most so many pages, -1 any (-1)
  mi_option_page_cross_thread_max_reclaim,  ///< the same across threads (32)
  mi_option_allow_thp,                      ///< transparent huge pages: 0 no, 1 for filled blocks, 2 all over (1)
  mi_option_minimal_purge_size,             ///< purge at least so much at once, 0 auto (0 KiB)
  mi_option_arena_max_object_size,          ///< larger blocks come from the OS (2 GiB, in KiB)
  mi_option_arena_is_numa_local,            ///< use only arenas of the thread's node (0)
  mi_option_background_purge,               ///< a sleeping thread purges when all is idle (0)
  mi_option_memory_limit,                   ///< purge harder near this size; 0 no limit (0 KiB)
  mi_option_memory_limit_hard,              ///< and fail allocations with ENOMEM above it (0)
  mi_option_cgroup_limit,                   ///< follow the cgroup's limit and pressure (0)
  mi_option_abort_on_error,                 ///< end on misuse: 0 no, 1 yes, -1 as built (-1)
  mi_option_zero_on_free,                   ///< overwrite every freed block with zero bytes (0)
  mi_option_leak_report,                    ///< list live blocks when the process ends (0)
  mi_option_purge_holes,                    ///< also give back free OS pages inside used pages (1)
  mi_option_ignore_deepbind,                ///< libraries are opened without RTLD_DEEPBIND (0)
  mi_option_show_report,                    ///< print mi_report() when the process ends (0)
  mi_option_report_signal,                  ///< print mi_report() after this signal (0: none)
  mi_option_prof,                           ///< take heap profiles, see mimalloc-prof.h (0)
  mi_option_prof_rate,                      ///< mean bytes between two samples of it (524288)
  mi_option_prof_depth,                     ///< frames of a call stack, 0 to 128 (64)
  mi_option_prof_memory,                    ///< bound on the profiler's records (16 MiB, in KiB)
  mi_option_prof_at_exit,                   ///< write one at exit, where prof_file names it (1)
  mi_option_prof_signal,                    ///< write one after this signal (0: none)
  mi_option_prof_interval,                  ///< write one every so many bytes (0: never)
  mi_option_prof_peak,                      ///< write one at each peak so much higher (0: never)
  mi_option_prof_at_limit,                  ///< write one when memory runs out (0)
  mi_option_prof_pins,                      ///< look what keeps free memory, see MI_PROF_PINNED (0)
  mi_option_check_every,                    ///< verify blocks every so many slow allocations (0)
  mi_option_theap_retain,                   ///< keep so many ended threads' pages together (8)
  _mi_option_last,                          ///< how many options there are
  // Names of older releases.
  mi_option_large_os_pages = mi_option_allow_large_os_pages,  ///< older name
  mi_option_eager_region_commit = mi_option_arena_eager_commit,  ///< older name
  mi_option_reset_decommits = mi_option_purge_decommits,  ///< older name
  mi_option_reset_delay = mi_option_purge_delay,  ///< older name
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc,  ///< older name
  mi_option_decommit_delay = mi_option_purge_delay,  ///< older name
  mi_option_allow_decommit = mi_option_purge_decommits,  ///< older name
  mi_option_eager_commit = mi_option_deprecated_eager_commit,  ///< no effect
  mi_option_segment_cache = mi_option_deprecated_segment_cache,  ///< no effect
  mi_option_page_reset = mi_option_deprecated_page_reset,  ///< no effect
  mi_option_segment_reset = mi_option_deprecated_segment_reset,  ///< no effect
  mi_option_abandoned_page_purge = mi_option_deprecated_abandoned_page_purge,  ///< no effect
  mi_option_abandoned_page_reset = mi_option_deprecated_abandoned_page_purge,  ///< no effect
  mi_option_abandoned_page_decommit = mi_option_deprecated_abandoned_page_purge,  ///< no effect
  mi_option_eager_commit_delay = mi_option_deprecated_eager_commit_delay,  ///< no effect
  mi_option_max_segment_reclaim = mi_option_deprecated_max_segment_reclaim,  ///< no effect
  mi_option_purge_extend_delay = mi_option_deprecated_purge_extend_delay,  ///< no effect
  mi_option_decommit_extend_delay = mi_option_deprecated_purge_extend_delay,  ///< no effect
  mi_option_abandoned_reclaim_on_free = mi_option_page_reclaim_on_free,  ///< older name
  mi_option_target_segments_per_thread = mi_option_deprecated_segment_cache,  ///< no effect
  mi_option_segment_decommit_delay = mi_option_deprecated_segment_reset  ///< no effect
} mi_option_t;

#else

// The numbers of versions 1 and 2; the option calls translate them (see the end of this header).
typedef enum mi_option_e {
  mi_option_show_errors,
  mi_option_show_stats,
  mi_option_verbose,
  mi_option_eager_commit,
  mi_option_arena_eager_commit,
  mi_option_purge_decommits,
  mi_option_allow_large_os_pages,
  mi_option_reserve_huge_os_pages,
  mi_option_reserve_huge_os_pages_at,
  mi_option_reserve_os_memory,
  mi_option_deprecated_segment_cache,
  mi_option_deprecated_page_reset,
  mi_option_abandoned_page_purge,
  mi_option_deprecated_segment_reset,
  mi_option_eager_commit_delay,
  mi_option_purge_delay,
  mi_option_use_numa_nodes,
  mi_option_disallow_os_alloc,
  mi_option_os_tag,
  mi_option_max_errors,
  mi_option_max_warnings,
  mi_option_max_segment_reclaim,
  mi_option_destroy_on_exit,
  mi_option_arena_reserve,
  mi_option_arena_purge_mult,
  mi_option_purge_extend_delay,
  mi_option_abandoned_reclaim_on_free,
  mi_option_disallow_arena_alloc,
  mi_option_retry_on_oom,
  mi_option_visit_abandoned,
  mi_option_guarded_min,
  mi_option_guarded_max,
  mi_option_guarded_precise,
  mi_option_guarded_sample_rate,
  mi_option_guarded_sample_seed,
  mi_option_target_segments_per_thread,
  mi_option_generic_collect,
  mi_option_allow_thp,
  _mi_option_last,
  _mi_option_none = 0x3FFF,  // no number that any version has
  // Names of still older releases.
  mi_option_large_os_pages = mi_option_allow_large_os_pages,
  mi_option_eager_region_commit = mi_option_arena_eager_commit,
  mi_option_reset_decommits = mi_option_purge_decommits,
  mi_option_allow_decommit = mi_option_purge_decommits,
  mi_option_reset_delay = mi_option_purge_delay,
  mi_option_decommit_delay = mi_option_purge_delay,
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc,
  mi_option_segment_cache = mi_option_deprecated_segment_cache,
  mi_option_page_reset = mi_option_deprecated_page_reset,
  mi_option_segment_reset = mi_option_deprecated_segment_reset,
  mi_option_abandoned_page_reset = mi_option_abandoned_page_purge,
  mi_option_abandoned_page_decommit = mi_option_abandoned_page_purge,
  mi_option_decommit_extend_delay = mi_option_purge_extend_delay,
  mi_option_segment_decommit_delay = mi_option_deprecated_segment_reset
} mi_option_t;

#endif

/// Whether an option's value is not 0; false for a number that is no option.
mi_decl_nodiscard mi_decl_export bool mi_option_is_enabled(mi_option_t option);

/// Sets an option to 1.
mi_decl_export void mi_option_enable(mi_option_t option);

/// Sets an option to 0.
mi_decl_export void mi_option_disable(mi_option_t option);

/// Sets an option to 1 or 0.
mi_decl_export void mi_option_set_enabled(mi_option_t option, bool enable);

/// Sets an option to 1 or 0 unless the environment or the program has set it already.
mi_decl_export void mi_option_set_enabled_default(mi_option_t option, bool enable);

/// The value of an option; KiB for sizes, 0 for a number that is no option.
mi_decl_nodiscard mi_decl_export long mi_option_get(mi_option_t option);

/// The value of an option, but no less than `min` and no more than `max`. The option is unchanged.
mi_decl_nodiscard mi_decl_export long mi_option_get_clamp(mi_option_t option, long min, long max);

/// The value of a size option in bytes, of another option as it is; 0 if it is negative.
mi_decl_nodiscard mi_decl_export size_t mi_option_get_size(mi_option_t option);

/// Sets an option; KiB for sizes. A value beyond the option's range becomes the nearest that the
/// option can have, with a warning. A number that is no option is ignored.
mi_decl_export void mi_option_set(mi_option_t option, long value);

/// Sets an option unless the environment or the program has set it already.
mi_decl_export void mi_option_set_default(mi_option_t option, long value);

/// Prints version, build and all options where messages go (see mi_register_output()).
mi_decl_export void mi_options_print(void) mi_attr_noexcept;

/// As mi_options_print(), to `out`; NULL for where messages go.
mi_decl_export void mi_options_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// @}

// ------------------------------------------------------------------------------------------------
// Statistics
// ------------------------------------------------------------------------------------------------

/// @defgroup stats Statistics
/// Text and JSON; mimalloc-stats.h adds the numbers as a record. An `out` of NULL prints where
/// messages go (see mi_register_output()); another is called line by line. Text may be laid out
/// differently in a later release, JSON only gains keys. Numbers count the whole process unless a
/// call says otherwise; any thread may call.
/// @{

/// Prints the statistics of the sub-process, to `out` with `arg`.
mi_decl_export void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// Prints the statistics of the calling thread, to `out` with `arg`.
mi_decl_export void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// Prints the statistics of one heap (NULL: the main one), to `out` with `arg`.
mi_decl_export void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun* out, void* arg)
  mi_attr_noexcept;

/// Prints the sums of one sub-process, to `out` with `arg`.
mi_decl_export void mi_subproc_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun* out,
                                               void* arg) mi_attr_noexcept;

/// Prints the sums of one sub-process, then each of its heaps, to `out` with `arg`.
mi_decl_export void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun* out,
                                                    void* arg) mi_attr_noexcept;

/// Prints the statistics in the text format that Prometheus reads from a server (version 0.0.4),
/// each with a `# HELP` and a `# TYPE` line, to `out` with `arg`. This is no OpenMetrics, which
/// names counters in another way. What the system does not tell is left out: without `/proc` there
/// is no `mimalloc_resident_bytes`.
mi_decl_export void mi_stats_print_prometheus(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// What mi_report() prints.
typedef enum mi_report_format_e {
  MI_REPORT_TEXT,    ///< tables for people
  MI_REPORT_JSON,    ///< one JSON object
  MI_REPORT_METRICS  ///< the OpenMetrics text format, which Prometheus reads as well
} mi_report_format_t;

/// Prints where the resident memory of the process is: each byte of it in one row, from live blocks
/// to the stacks of threads, and what would make it less. The rows add up to the resident size that
/// the system tells, or, where it does not, are the library's own alone. Other threads may go on
/// meanwhile. Allocates nothing.
/// @param format  text, JSON or metrics
/// @param out     gets the text, some lines at a time; NULL: where messages go
/// @param arg     goes to `out`
/// @returns false, with nothing printed, for a format that there is not
mi_decl_export bool mi_report(mi_report_format_t format, mi_output_fun* out, void* arg)
  mi_attr_noexcept;

/// The statistics of the sub-process as JSON.
/// @param buf_size  the size of `buf` in bytes
/// @param buf       gets the text, cut off if it does not fit but always ended by a zero byte; or
///                  NULL for a new block, to be freed with mi_free()
/// @returns the text; NULL with errno ENOMEM if there was no memory for it
mi_decl_export char* mi_stats_get_json(size_t buf_size, char* buf) mi_attr_noexcept;

/// As mi_stats_get_json() for one heap (NULL: the main one).
mi_decl_export char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size, char* buf)
  mi_attr_noexcept;

/// As mi_stats_get_json() for one sub-process.
mi_decl_export char* mi_subproc_stats_get_json(mi_subproc_id_t subproc_id, size_t buf_size,
                                               char* buf) mi_attr_noexcept;

/// The largest block, in bytes, that statistics count under `bin` (0 to ::MI_BIN_HUGE, an index
/// of `malloc_bins` and `page_bins`); 0 for any other number.
mi_decl_export size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept;

/// Adds what is counted in a heap's own record to its sub-process, and starts that again at 0. What
/// is there now (pages, live blocks) is counted on.
mi_decl_export void mi_heap_stats_merge_to_subproc(mi_heap_t* heap);

/// mi_heap_stats_merge_to_subproc() of the main heap.
mi_decl_export void mi_stats_reset(void) mi_attr_noexcept;

/// Adds the calling thread's statistics to those of the process.
mi_decl_export void mi_stats_merge(void) mi_attr_noexcept;

/// The older form of mi_stats_print_out().
/// @param out  a function of type ::mi_output_fun; NULL, `stdout` and `stderr` mean where messages
///             go
mi_decl_export void mi_stats_print(void* out) mi_attr_noexcept;

/// The oldest form of mi_thread_stats_print_out(); `out` as in mi_stats_print().
mi_decl_export void mi_thread_stats_print(void* out) mi_attr_noexcept;

/// What the system and the library know of the process. Each pointer may be NULL.
/// @param elapsed_msecs   gets milliseconds since the process began to use the library
/// @param user_msecs      gets milliseconds of processor time in the program
/// @param system_msecs    gets milliseconds of processor time in the system
/// @param current_rss     gets bytes of memory resident now, as the system counts them
/// @param peak_rss        gets bytes, the most that was resident
/// @param current_commit  gets bytes that this library has committed now
/// @param peak_commit     gets bytes, the most that it had committed
/// @param page_faults     gets how many page faults had to read from a device
mi_decl_export void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                                    size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                                    size_t* peak_commit, size_t* page_faults) mi_attr_noexcept;

/// Prints what mi_process_info() tells where messages go.
mi_decl_export void mi_process_info_print(void) mi_attr_noexcept;

/// As mi_process_info_print(), to `out` with `arg`.
mi_decl_export void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// @}

// ------------------------------------------------------------------------------------------------
// Run-time hooks
// ------------------------------------------------------------------------------------------------

/// @defgroup runtime Run-time hooks
/// Collecting, handlers, and the life of processes and threads.
/// @{

/// The version of the library at run time, as ::MI_MALLOC_VERSION is that of the header.
mi_decl_export int mi_version(void) mi_attr_noexcept;

/// Frees what is held without need: runs the deferred-free handler, takes in what other threads
/// freed for this one, and gives up empty areas of the thread's default thread-heap.
/// @param force  also look through full areas, and purge all arenas and holes at once
mi_decl_export void mi_collect(bool force) mi_attr_noexcept;

/// Gives free OS pages inside areas that are partly in use back to the system: areas of the
/// calling thread and those that belong to no thread. mi_collect() with force includes it.
/// @returns how many bytes were given back
mi_decl_export size_t mi_purge_holes(void) mi_attr_noexcept;

/// Sets the handler that frees what the program has put off; one for the process.
/// @param deferred_free  called at times by each allocating thread, and from a forced mi_collect();
///                       NULL for none
/// @param arg            handed to it
mi_decl_export void mi_register_deferred_free(mi_deferred_free_fun* deferred_free, void* arg)
  mi_attr_noexcept;

/// Sets where messages go; one handler for the process. Not to be called while another thread may
/// be printing.
/// @param out  gets at once what was printed before, then all later messages; it may allocate,
///             but messages caused by that are dropped; NULL for standard error
/// @param arg  handed to it
mi_decl_export void mi_register_output(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// Sets the handler of errors, called after the message was formatted, printed or not, in the
/// thread that met the error; it may allocate, free and collect. Of what a pass through a thread's
/// pages finds in builds with canaries it is told when the pass is over, of more than 14 errors the
/// first 14.
/// @param fun  the handler; NULL for the library's own, which ends the program on corrupted memory
///             in secure and debug builds (see ::mi_option_abort_on_error)
/// @param arg  handed to it
mi_decl_export void mi_register_error(mi_error_fun* fun, void* arg);

/// Starts the library; done by itself at the first use. More calls do nothing.
mi_decl_export void mi_process_init(void) mi_attr_noexcept;

/// Ends the library as at process exit: collects, and prints statistics if asked for. Done by
/// itself; blocks stay valid and calls keep working afterwards.
mi_decl_export void mi_process_done(void) mi_attr_noexcept;

/// Prepares the calling thread; done by itself when it first allocates.
mi_decl_export void mi_thread_init(void) mi_attr_noexcept;

/// Ends the calling thread's use of the library: its live blocks stay valid, the rest is freed.
/// Done by itself when a thread ends; a later allocation prepares the thread anew.
mi_decl_export void mi_thread_done(void) mi_attr_noexcept;

/// Tells that the calling thread belongs to a pool and lives long without work, so it should not
/// take over the memory of ended threads.
mi_decl_export void mi_thread_set_in_threadpool(void) mi_attr_noexcept;

/// Whether the C run-time's allocation was redirected to this library when it was loaded. True on
/// Windows only; elsewhere overriding works by symbols and this is false.
mi_decl_nodiscard mi_decl_export bool mi_is_redirected(void) mi_attr_noexcept;

/// Whether `p` is an address inside a block of this library; in constant time, for any address.
mi_decl_nodiscard mi_decl_export bool mi_is_in_heap_region(const void* p) mi_attr_noexcept;

/// The older name of mi_any_heap_contains().
mi_decl_export bool mi_check_owned(const void* p);

/// Collects with force until the calling thread holds little memory without need.
/// @param target_thread_owned  in bytes, what it may go on holding; 0 for as little as can be
mi_decl_export void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept;

/// The older form of mi_reserve_huge_os_pages_interleave() over all nodes.
/// @param pages           how many pages of 1 GiB
/// @param max_secs        time-out in seconds, 0 for none
/// @param pages_reserved  gets `pages` on success, else 0; may be NULL
/// @returns 0, or ENOMEM if there was not one page
mi_decl_export int mi_reserve_huge_os_pages(size_t pages, double max_secs, size_t* pages_reserved)
  mi_attr_noexcept;

/// @}

// ------------------------------------------------------------------------------------------------
// POSIX, Unix, Windows
// ------------------------------------------------------------------------------------------------

/// @defgroup posix POSIX, Unix and Windows
/// The calls that C libraries offer beside ISO C's, with their own argument orders and errors.
/// @{

/// Frees a block if it is one of ours, and ignores any other pointer.
///
/// Standard: old Unix `cfree`, made safe.
mi_decl_export void mi_cfree(void* p) mi_attr_noexcept;

/// As mi_expand(), with errno ENOMEM when the result is NULL.
///
/// Standard: Microsoft `_expand`.
mi_decl_export void* mi__expand(void* p, size_t newsize) mi_attr_noexcept;

/// As mi_usable_size(), but an address in none of our pages is no error, and gives 0 without a
/// report.
///
/// Standard: macOS `malloc_size`.
mi_decl_nodiscard mi_decl_export size_t mi_malloc_size(const void* p) mi_attr_noexcept;

/// As mi_good_size().
///
/// Standard: macOS `malloc_good_size`.
mi_decl_nodiscard mi_decl_export size_t mi_malloc_good_size(size_t size) mi_attr_noexcept;

/// As mi_usable_size().
///
/// Standard: glibc and BSD `malloc_usable_size`.
mi_decl_nodiscard mi_decl_export size_t mi_malloc_usable_size(const void* p) mi_attr_noexcept;

/// Allocates `size` bytes at a multiple of `alignment`.
/// @param p          gets the block; unchanged on failure
/// @param alignment  a power of two and a multiple of `sizeof(void*)`
/// @param size       in bytes; 0 gives a block of its own
/// @returns 0; EINVAL for a NULL `p` or a wrong alignment; ENOMEM. errno is not used.
///
/// Standard: POSIX `posix_memalign`.
mi_decl_export int mi_posix_memalign(void** p, size_t alignment, size_t size);

/// Allocates `size` bytes at a multiple of `alignment`, a power of two.
/// @returns the block, or NULL with errno ENOMEM or EINVAL
///
/// Standard: SunOS, glibc `memalign`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_memalign(size_t alignment, size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(1);

/// Allocates `size` bytes at a multiple of the OS page size.
/// @returns the block, or NULL with errno ENOMEM
///
/// Standard: BSD, glibc `valloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_valloc(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);

/// As mi_valloc(), with the size rounded up to whole OS pages.
///
/// Standard: glibc `pvalloc`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_pvalloc(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);

/// Allocates `size` bytes at a multiple of `alignment`, a power of two; the size need not be a
/// multiple of it.
/// @returns the block, or NULL with errno ENOMEM or EINVAL
///
/// Standard: ISO C11 `aligned_alloc`, as relaxed by C17.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_aligned_alloc(size_t alignment,
                                                                         size_t size)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(1);

/// As mi_reallocn(), but with errno EOVERFLOW when the product overflows.
///
/// Standard: OpenBSD, POSIX.1-2024 `reallocarray`.
mi_decl_nodiscard mi_decl_export void* mi_reallocarray(void* p, size_t count, size_t size)
  mi_attr_noexcept mi_attr_alloc_size2(2, 3);

/// Resizes the block that a pointer points to, and stores the new address there.
/// @param ptrp   the address of the pointer
/// @param count  how many elements; 0 frees the block and stores NULL
/// @param size   bytes in each; not 0
/// @returns 0; EINVAL for a NULL `ptrp` or size 0; EOVERFLOW; ENOMEM. errno gets the same number;
///          on failure pointer and block are unchanged.
///
/// Standard: NetBSD `reallocarr`.
mi_decl_nodiscard mi_decl_export int mi_reallocarr(void* ptrp, size_t count, size_t size)
  mi_attr_noexcept;

/// As mi_recalloc_aligned().
///
/// Standard: Microsoft `_aligned_recalloc`.
mi_decl_nodiscard mi_decl_export void* mi_aligned_recalloc(void* p, size_t newcount, size_t size,
                                                           size_t alignment) mi_attr_noexcept;

/// As mi_recalloc_aligned_at().
///
/// Standard: Microsoft `_aligned_offset_recalloc`.
mi_decl_nodiscard mi_decl_export void* mi_aligned_offset_recalloc(void* p, size_t newcount,
                                                                  size_t size, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept;

/// As mi_free() for a block that was allocated with `size` bytes. Checked builds compare.
///
/// Standard: C++14 sized `operator delete`.
mi_decl_export void mi_free_size(void* p, size_t size) mi_attr_noexcept;

/// As mi_free_size() for a block that was allocated at a multiple of `alignment`.
///
/// Standard: C++17 sized and aligned `operator delete`.
mi_decl_export void mi_free_size_aligned(void* p, size_t size, size_t alignment) mi_attr_noexcept;

/// As mi_free() for a block that was allocated at a multiple of `alignment`.
///
/// Standard: C++17 aligned `operator delete`.
mi_decl_export void mi_free_aligned(void* p, size_t alignment) mi_attr_noexcept;

/// As mi_free_size().
///
/// Standard: C23 `free_sized`.
mi_decl_export void mi_free_sized(void* p, size_t size) mi_attr_noexcept;

/// As mi_free_size_aligned(), in the order of the C standard.
///
/// Standard: C23 `free_aligned_sized`.
mi_decl_export void mi_free_aligned_sized(void* p, size_t alignment, size_t size) mi_attr_noexcept;

/// The largest power of two that the address `p` is a multiple of; 0 for NULL. The pointer is not
/// followed.
///
/// Standard: C23 `memalignment`.
mi_decl_nodiscard mi_decl_export size_t mi_memalignment(const void* p) mi_attr_noexcept;

/// Copies the value of an environment variable into a new block.
/// @param buf   gets the copy, to be freed with mi_free(); NULL if there is no such variable
/// @param size  gets its size in bytes with the terminating zero, 0 if there is none; may be NULL
/// @param name  the variable
/// @returns 0, also if there is no such variable; EINVAL for a NULL `buf` or `name`; ENOMEM
///
/// Standard: Microsoft `_dupenv_s`.
mi_decl_export int mi_dupenv_s(char** buf, size_t* size, const char* name) mi_attr_noexcept;

/// As mi_dupenv_s() for wide characters, on Windows only.
/// @param buf   gets the copy; NULL elsewhere
/// @param size  gets its length with the terminating zero; may be NULL
/// @param name  the variable
/// @returns as mi_dupenv_s(); always EINVAL on other systems
///
/// Standard: Microsoft `_wdupenv_s`.
mi_decl_export int mi_wdupenv_s(wchar_t** buf, size_t* size, const wchar_t* name) mi_attr_noexcept;

/// As mi_strdup() for wide characters.
///
/// Standard: Microsoft `_wcsdup`, POSIX `wcsdup`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict wchar_t* mi_wcsdup(const wchar_t* s)
  mi_attr_noexcept mi_attr_malloc;

/// As mi_strdup() for multi-byte strings.
///
/// Standard: Microsoft `_mbsdup`.
mi_decl_nodiscard mi_decl_export mi_decl_restrict unsigned char* mi_mbsdup(const unsigned char* s)
  mi_attr_noexcept mi_attr_malloc;

/// @}

// ------------------------------------------------------------------------------------------------
// C++ semantics
// ------------------------------------------------------------------------------------------------

/// @defgroup cpp C++
/// Allocation that fails as the operator `new` does, the operators themselves (in
/// mimalloc-new-delete.h), allocators for containers, and a memory resource.
///
/// When memory is out, these calls run the handler of `std::set_new_handler` and try again, as
/// long as there is one. Without one, they throw `std::bad_alloc` if the program has C++, also
/// when the library itself was compiled as C; in a program without C++, or compiled without
/// exceptions, the result is NULL with errno ENOMEM. A product that overflows fails likewise. The
/// calls can be made from C. Blocks are freed with mi_free().
/// @{

/// Standard: C++ `operator new(size)`.
/// @returns the block, of at least `size` bytes
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new(size_t size) mi_attr_malloc
  mi_attr_alloc_size(1);

/// Standard: C++17 `operator new(size, std::align_val_t)`.
/// @returns the block at a multiple of `alignment`, which is a power of two
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new_aligned(size_t size,
                                                                       size_t alignment)
  mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// Standard: C++ `operator new(size, std::nothrow)`.
/// A new-handler that throws ends the program here; the operators of C++ catch that.
/// @returns the block, or NULL with errno ENOMEM once there is no new-handler
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new_nothrow(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);

/// Standard: C++17 `operator new(size, std::align_val_t, std::nothrow)`.
/// @returns the block at a multiple of `alignment`, or NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new_aligned_nothrow(size_t size,
                                                                               size_t alignment)
  mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);

/// As mi_new() for `count` elements of `size` bytes each.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* mi_new_n(size_t count, size_t size)
  mi_attr_malloc mi_attr_alloc_size2(1, 2);

/// As mi_realloc(), failing as mi_new() does; `p` is kept then.
mi_decl_nodiscard mi_decl_export void* mi_new_realloc(void* p, size_t newsize)
  mi_attr_alloc_size(2);

/// As mi_reallocn(), failing as mi_new() does; `p` is kept then.
mi_decl_nodiscard mi_decl_export void* mi_new_reallocn(void* p, size_t newcount, size_t size)
  mi_attr_alloc_size2(2, 3);

/// @}

// ------------------------------------------------------------------------------------------------
// Versions 1 and 2
// ------------------------------------------------------------------------------------------------

/// @defgroup compat Versions 1 and 2
/// Calls that only older versions had, for programs written for them. There a heap belonged to
/// one thread; here every thread may use every heap, so these programs work as they are.
/// @{

/// The main heap, under its older name; never NULL.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_backing(void);

/// The heap that mi_malloc() uses in this thread; the main one unless it was set otherwise.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_get_default(void);

/// Lets mi_malloc() and `new` of this thread use `heap`.
/// @returns the heap used before; NULL, and no change, if `heap` is NULL
mi_decl_export mi_heap_t* mi_heap_set_default(mi_heap_t* heap);

/// As mi_heap_new_in_arena().
/// @param heap_tag       a number for the program's use, of which the lowest 8 bits count, see
///                       mi_abandoned_visit_blocks()
/// @param allow_destroy  false: mi_heap_destroy() only deletes the heap and keeps its blocks
/// @param arena_id       the arena, or none
/// @returns the heap; NULL with errno ENOMEM
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy,
                                                           mi_arena_id_t arena_id);

/// As mi_heap_new_ex(), without a message when it fails.
mi_decl_nodiscard mi_decl_export mi_heap_t* mi_heap_try_new(int heap_tag, bool allow_destroy,
                                                            mi_arena_id_t arena_id);

/// As mi_heap_contains(), for an address that is a multiple of `sizeof(void*)`; else false.
mi_decl_nodiscard mi_decl_export bool mi_heap_check_owned(mi_heap_t* heap, const void* p);

/// Whether `p` is the start of a block of this heap, or, in a page with a block that an alignment
/// placed inside of another, any address in a block.
mi_decl_nodiscard mi_decl_export bool mi_heap_contains_block(mi_heap_t* heap, const void* p);

/// As mi_theap_guarded_set_sample_rate() for the calling thread's part of a heap.
mi_decl_export void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate,
                                                    size_t seed);

/// As mi_theap_guarded_set_size_bound() for the calling thread's part of a heap.
mi_decl_export void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min, size_t max);

/// Visits the areas of a sub-process whose thread has ended. Needs ::mi_option_visit_abandoned.
/// @param subproc_id    the sub-process
/// @param heap_tag      only heaps with this tag; -1 for all
/// @param visit_blocks  false: only areas; true: each area, then each of its live blocks
/// @param visitor       called with block NULL for an area, else with the block and its size
/// @param arg           handed to the visitor
/// @returns whether all was visited; false if the visitor stopped it or is NULL, or the option is
///          off
mi_decl_export bool mi_abandoned_visit_blocks(mi_subproc_id_t subproc_id, int heap_tag,
                                              bool visit_blocks, mi_block_visit_fun* visitor,
                                              void* arg);

/// Gives up a sub-process whose threads have ended; its live blocks go to the main one. The main
/// one, NULL and one that was given up before are as with mi_subproc_destroy().
mi_decl_export void mi_subproc_delete(mi_subproc_id_t subproc);

/// @}

// ------------------------------------------------------------------------------------------------
// Typed macros
// ------------------------------------------------------------------------------------------------

/// @defgroup typed Typed macros
/// The calls for elements of a type `tp`, with results of type `tp*`; `hp` is a heap, `n` a count.
/// For types that need more than 16-byte alignment use the @ref aligned calls.
/// @{

/// @def mi_malloc_tp
/// mi_malloc() of one element
#define mi_malloc_tp(tp) ((tp*)mi_malloc(sizeof(tp)))
/// @def mi_zalloc_tp
/// mi_zalloc() of one element
#define mi_zalloc_tp(tp) ((tp*)mi_zalloc(sizeof(tp)))
/// @def mi_calloc_tp
/// mi_calloc() of `n` elements
#define mi_calloc_tp(tp, n) ((tp*)mi_calloc(n, sizeof(tp)))
/// @def mi_mallocn_tp
/// mi_mallocn() of `n` elements
#define mi_mallocn_tp(tp, n) ((tp*)mi_mallocn(n, sizeof(tp)))

#if MI_API_VERSION >= 3
/// @def mi_reallocn_tp
/// mi_reallocn() of `p` to `n` elements
#define mi_reallocn_tp(tp, p, n) ((tp*)mi_reallocn(p, n, sizeof(tp)))
/// @def mi_recalloc_tp
/// mi_recalloc() of `p` to `n` elements
#define mi_recalloc_tp(tp, p, n) ((tp*)mi_recalloc(p, n, sizeof(tp)))
/// @def mi_heap_malloc_tp
/// mi_heap_malloc() of one element
#define mi_heap_malloc_tp(tp, hp) ((tp*)mi_heap_malloc(hp, sizeof(tp)))
/// @def mi_heap_zalloc_tp
/// mi_heap_zalloc() of one element
#define mi_heap_zalloc_tp(tp, hp) ((tp*)mi_heap_zalloc(hp, sizeof(tp)))
/// @def mi_heap_calloc_tp
/// mi_heap_calloc() of `n` elements
#define mi_heap_calloc_tp(tp, hp, n) ((tp*)mi_heap_calloc(hp, n, sizeof(tp)))
/// @def mi_heap_mallocn_tp
/// mi_heap_mallocn() of `n` elements
#define mi_heap_mallocn_tp(tp, hp, n) ((tp*)mi_heap_mallocn(hp, n, sizeof(tp)))
/// @def mi_heap_reallocn_tp
/// mi_heap_reallocn() of `p` to `n` elements
#define mi_heap_reallocn_tp(tp, hp, p, n) ((tp*)mi_heap_reallocn(hp, p, n, sizeof(tp)))
/// @def mi_heap_recalloc_tp
/// mi_heap_recalloc() of `p` to `n` elements
#define mi_heap_recalloc_tp(tp, hp, p, n) ((tp*)mi_heap_recalloc(hp, p, n, sizeof(tp)))
#else
// The order of versions 1 and 2: heap and block before the type.
#define mi_reallocn_tp(p, tp, n) ((tp*)mi_reallocn(p, n, sizeof(tp)))
#define mi_recalloc_tp(p, tp, n) ((tp*)mi_recalloc(p, n, sizeof(tp)))
#define mi_heap_malloc_tp(hp, tp) ((tp*)mi_heap_malloc(hp, sizeof(tp)))
#define mi_heap_zalloc_tp(hp, tp) ((tp*)mi_heap_zalloc(hp, sizeof(tp)))
#define mi_heap_calloc_tp(hp, tp, n) ((tp*)mi_heap_calloc(hp, n, sizeof(tp)))
#define mi_heap_mallocn_tp(hp, tp, n) ((tp*)mi_heap_mallocn(hp, n, sizeof(tp)))
#define mi_heap_reallocn_tp(hp, p, tp, n) ((tp*)mi_heap_reallocn(hp, p, n, sizeof(tp)))
#define mi_heap_recalloc_tp(hp, p, tp, n) ((tp*)mi_heap_recalloc(hp, p, n, sizeof(tp)))
#endif

/// @}

// ------------------------------------------------------------------------------------------------
// The older generation: types and option numbers (MI_API_VERSION 1 and 2)
// ------------------------------------------------------------------------------------------------

#if MI_API_VERSION < 3

// From here on the program's own ids are those of versions 1 and 2, and each call that has one in
// its parameters is a small inline function that converts it. A macro gives it the name of the
// call, so that taking its address works too.
#undef mi_arena_id_t
#undef mi_subproc_id_t
typedef int mi_arena_id_t;
typedef void* mi_subproc_id_t;

// An option's number in the library, which of `_mi_option_none` reads 0 and ignores a change.
static inline mi_option_t mi_v2_option(mi_option_t option) {
  static const signed char from_26_on[] = {35, 26, 27, 28, 29, 30, 31, 32, 33, -1, 34, 43};
  const int number = (int)option;
  if (number < 0 || number >= (int)_mi_option_last) return _mi_option_none;
  if (number < 26) return option;
  return from_26_on[number - 26] < 0 ? _mi_option_none : (mi_option_t)from_26_on[number - 26];
}

static inline mi_v3_arena_id_t mi_v2_arena(mi_arena_id_t id) {
  return (mi_v3_arena_id_t)(ptrdiff_t)id;
}

static inline void mi_v2_arena_out(mi_v3_arena_id_t id, mi_arena_id_t* out) {
  if (out) *out = (mi_arena_id_t)(ptrdiff_t)id;
}

static inline mi_v3_subproc_id_t mi_v2_subproc(mi_subproc_id_t id) {
  mi_v3_subproc_id_t subproc;
  subproc.opaque = id;
  return subproc;
}

mi_decl_nodiscard static inline bool mi_v2_option_is_enabled(mi_option_t option) {
  return mi_option_is_enabled(mi_v2_option(option));
}
static inline void mi_v2_option_enable(mi_option_t option) {
  mi_option_enable(mi_v2_option(option));
}
static inline void mi_v2_option_disable(mi_option_t option) {
  mi_option_disable(mi_v2_option(option));
}
static inline void mi_v2_option_set_enabled(mi_option_t option, bool enable) {
  mi_option_set_enabled(mi_v2_option(option), enable);
}
static inline void mi_v2_option_set_enabled_default(mi_option_t option, bool enable) {
  mi_option_set_enabled_default(mi_v2_option(option), enable);
}
mi_decl_nodiscard static inline long mi_v2_option_get(mi_option_t option) {
  return mi_option_get(mi_v2_option(option));
}
mi_decl_nodiscard static inline long mi_v2_option_get_clamp(mi_option_t option, long min,
                                                            long max) {
  return mi_option_get_clamp(mi_v2_option(option), min, max);
}
mi_decl_nodiscard static inline size_t mi_v2_option_get_size(mi_option_t option) {
  return mi_option_get_size(mi_v2_option(option));
}
static inline void mi_v2_option_set(mi_option_t option, long value) {
  mi_option_set(mi_v2_option(option), value);
}
static inline void mi_v2_option_set_default(mi_option_t option, long value) {
  mi_option_set_default(mi_v2_option(option), value);
}

mi_decl_nodiscard static inline mi_heap_t* mi_v2_heap_new_in_arena(mi_arena_id_t arena_id) {
  return mi_heap_new_in_arena(mi_v2_arena(arena_id));
}
mi_decl_nodiscard static inline mi_heap_t* mi_v2_heap_new_ex(int heap_tag, bool allow_destroy,
                                                             mi_arena_id_t arena_id) {
  return mi_heap_new_ex(heap_tag, allow_destroy, mi_v2_arena(arena_id));
}
mi_decl_nodiscard static inline mi_heap_t* mi_v2_heap_try_new(int heap_tag, bool allow_destroy,
                                                              mi_arena_id_t arena_id) {
  return mi_heap_try_new(heap_tag, allow_destroy, mi_v2_arena(arena_id));
}
static inline int mi_v2_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
                                             bool exclusive, mi_arena_id_t* arena_id)
  mi_attr_noexcept {
  mi_v3_arena_id_t id = NULL;
  const int err = mi_reserve_os_memory_ex(size, commit, allow_large, exclusive, &id);
  mi_v2_arena_out(id, arena_id);
  return err;
}
static inline bool mi_v2_manage_os_memory_ex(void* start, size_t size, bool is_committed,
                                             bool is_pinned, bool is_zero, int numa_node,
                                             bool exclusive, mi_arena_id_t* arena_id)
  mi_attr_noexcept {
  mi_v3_arena_id_t id = NULL;
  const bool ok = mi_manage_os_memory_ex(start, size, is_committed, is_pinned, is_zero, numa_node,
                                         exclusive, &id);
  mi_v2_arena_out(id, arena_id);
  return ok;
}
static inline bool mi_v2_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned,
                                       bool is_zero, int numa_node, bool exclusive,
                                       mi_commit_fun_t* commit_fun, void* commit_fun_arg,
                                       mi_arena_id_t* arena_id) mi_attr_noexcept {
  mi_v3_arena_id_t id = NULL;
  const bool ok = mi_manage_memory(start, size, is_committed, is_pinned, is_zero, numa_node,
                                   exclusive, commit_fun, commit_fun_arg, &id);
  mi_v2_arena_out(id, arena_id);
  return ok;
}
static inline int mi_v2_reserve_huge_os_pages_at_ex(size_t pages, int numa_node,
                                                    size_t timeout_msecs, bool exclusive,
                                                    mi_arena_id_t* arena_id) mi_attr_noexcept {
  mi_v3_arena_id_t id = NULL;
  const int err = mi_reserve_huge_os_pages_at_ex(pages, numa_node, timeout_msecs, exclusive, &id);
  mi_v2_arena_out(id, arena_id);
  return err;
}
static inline void* mi_v2_arena_area(mi_arena_id_t arena_id, size_t* size) {
  return mi_arena_area(mi_v2_arena(arena_id), size);
}
static inline bool mi_v2_arena_contains(mi_arena_id_t arena_id, const void* p) {
  return mi_arena_contains(mi_v2_arena(arena_id), p);
}

static inline mi_subproc_id_t mi_v2_subproc_main(void) { return mi_subproc_main().opaque; }
static inline mi_subproc_id_t mi_v2_subproc_current(void) { return mi_subproc_current().opaque; }
static inline mi_subproc_id_t mi_v2_subproc_new(void) { return mi_subproc_new().opaque; }
static inline void mi_v2_subproc_destroy(mi_subproc_id_t subproc) {
  mi_subproc_destroy(mi_v2_subproc(subproc));
}
static inline void mi_v2_subproc_delete(mi_subproc_id_t subproc) {
  mi_subproc_delete(mi_v2_subproc(subproc));
}
static inline void mi_v2_subproc_add_current_thread(mi_subproc_id_t subproc) {
  mi_subproc_add_current_thread(mi_v2_subproc(subproc));
}
static inline bool mi_v2_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun* visitor,
                                             void* arg) {
  return mi_subproc_visit_heaps(mi_v2_subproc(subproc), visitor, arg);
}
static inline bool mi_v2_abandoned_visit_blocks(mi_subproc_id_t subproc_id, int heap_tag,
                                                bool visit_blocks, mi_block_visit_fun* visitor,
                                                void* arg) {
  const mi_v3_subproc_id_t subproc =
      (subproc_id == NULL ? mi_subproc_main() : mi_v2_subproc(subproc_id));
  return mi_abandoned_visit_blocks(subproc, heap_tag, visit_blocks, visitor, arg);
}
static inline char* mi_v2_subproc_stats_get_json(mi_subproc_id_t subproc_id, size_t buf_size,
                                                 char* buf) mi_attr_noexcept {
  return mi_subproc_stats_get_json(mi_v2_subproc(subproc_id), buf_size, buf);
}
static inline void mi_v2_subproc_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun* out,
                                                 void* arg) mi_attr_noexcept {
  mi_subproc_stats_print_out(mi_v2_subproc(subproc_id), out, arg);
}
static inline void mi_v2_subproc_heap_stats_print_out(mi_subproc_id_t subproc_id,
                                                      mi_output_fun* out, void* arg)
  mi_attr_noexcept {
  mi_subproc_heap_stats_print_out(mi_v2_subproc(subproc_id), out, arg);
}

#define mi_option_is_enabled mi_v2_option_is_enabled
#define mi_option_enable mi_v2_option_enable
#define mi_option_disable mi_v2_option_disable
#define mi_option_set_enabled mi_v2_option_set_enabled
#define mi_option_set_enabled_default mi_v2_option_set_enabled_default
#define mi_option_get mi_v2_option_get
#define mi_option_get_clamp mi_v2_option_get_clamp
#define mi_option_get_size mi_v2_option_get_size
#define mi_option_set mi_v2_option_set
#define mi_option_set_default mi_v2_option_set_default
#define mi_heap_new_in_arena mi_v2_heap_new_in_arena
#define mi_heap_new_ex mi_v2_heap_new_ex
#define mi_heap_try_new mi_v2_heap_try_new
#define mi_reserve_os_memory_ex mi_v2_reserve_os_memory_ex
#define mi_manage_os_memory_ex mi_v2_manage_os_memory_ex
#define mi_manage_memory mi_v2_manage_memory
#define mi_reserve_huge_os_pages_at_ex mi_v2_reserve_huge_os_pages_at_ex
#define mi_arena_area mi_v2_arena_area
#define mi_arena_contains mi_v2_arena_contains
#define mi_subproc_main mi_v2_subproc_main
#define mi_subproc_current mi_v2_subproc_current
#define mi_subproc_new mi_v2_subproc_new
#define mi_subproc_destroy mi_v2_subproc_destroy
#define mi_subproc_delete mi_v2_subproc_delete
#define mi_subproc_add_current_thread mi_v2_subproc_add_current_thread
#define mi_subproc_visit_heaps mi_v2_subproc_visit_heaps
#define mi_abandoned_visit_blocks mi_v2_abandoned_visit_blocks
#define mi_subproc_stats_get_json mi_v2_subproc_stats_get_json
#define mi_subproc_stats_print_out mi_v2_subproc_stats_print_out
#define mi_subproc_heap_stats_print_out mi_v2_subproc_heap_stats_print_out

#endif  // MI_API_VERSION < 3

#ifdef __cplusplus
}  // extern "C"
#endif

// ------------------------------------------------------------------------------------------------
// C++ classes
// ------------------------------------------------------------------------------------------------

#ifdef __cplusplus

#include <cstdlib>
#include <new>

#if __cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900)
/// Defined to 1 where mi_heap_stl_allocator and mi_heap_destroy_stl_allocator exist (C++11).
/// @ingroup cpp
#define MI_HAS_HEAP_STL_ALLOCATOR 1
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#endif

/// @cond

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)
#define _mi_alignof(T) alignof(T)
#elif defined(_MSC_VER)
#define _mi_alignof(T) __alignof(T)
#else
#define _mi_alignof(T) __alignof__(T)
#endif

// What the classes below share. A container is never handed NULL: it would write there.
namespace mi_impl {

// Every block has this alignment unless more is asked for.
static const std::size_t natural_alignment = 16;

// The largest count of elements of `size` bytes that can be asked for.
inline std::size_t max_count(std::size_t size) mi_attr_noexcept {
  return ((~static_cast<std::size_t>(0)) >> 1) / size;
}

inline void fail() {
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

inline void* checked(void* p) {
  if (!p) fail();
  return p;
}

inline void* new_n(std::size_t count, std::size_t size, std::size_t alignment) {
  if (count > max_count(size)) fail();
  return checked(alignment <= natural_alignment ? mi_new_n(count, size)
                                                : mi_new_aligned(count * size, alignment));
}

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)

// As the operator new, from a heap, at any alignment.
inline void* heap_new(mi_heap_t* heap, std::size_t size, std::size_t alignment) {
  if (alignment <= natural_alignment) return checked(mi_heap_alloc_new(heap, size));
  for (;;) {
    void* const p = mi_heap_malloc_aligned(heap, size, alignment);
    if (p) return p;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) fail();
    handler();
  }
}

inline void* heap_new_n(mi_heap_t* heap, std::size_t count, std::size_t size,
                        std::size_t alignment) {
  if (count > max_count(size)) fail();
  return heap_new(heap, count * size, alignment);
}

inline mi_heap_t* make_heap() {
  mi_heap_t* const heap = mi_heap_new();
  if (!heap) fail();
  return heap;
}

#endif

}  // namespace mi_impl

/// @endcond

/// @addtogroup cpp
/// @{

/// What all allocators here have in common: the types and members that containers look for.
template <class T>
struct _mi_stl_allocator_common {
  typedef T value_type;                      ///< what is allocated
  typedef std::size_t size_type;             ///< counts of elements
  typedef std::ptrdiff_t difference_type;    ///< distances of pointers
  typedef value_type& reference;             ///< C++98
  typedef value_type const& const_reference; ///< C++98
  typedef value_type* pointer;               ///< what allocate() gives
  typedef value_type const* const_pointer;   ///< C++98

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)
  using propagate_on_container_copy_assignment = std::true_type;  ///< copies go with the container
  using propagate_on_container_move_assignment = std::true_type;  ///< so moving is cheap
  using propagate_on_container_swap = std::true_type;             ///< and swapping too
  /// Makes an element at `p`.
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    ::new (const_cast<void*>(static_cast<const volatile void*>(p))) U(std::forward<Args>(args)...);
  }
  /// Ends the element at `p`, without freeing it.
  template <class U>
  void destroy(U* p) mi_attr_noexcept {
    p->~U();
  }
#else
  /// Makes an element at `p`.
  void construct(pointer p, value_type const& value) {
    ::new (static_cast<void*>(p)) value_type(value);
  }
  /// Ends the element at `p`, without freeing it.
  void destroy(pointer p) { p->~value_type(); }
#endif

  /// The largest count that allocate() can be asked for.
  size_type max_size() const mi_attr_noexcept { return mi_impl::max_count(sizeof(value_type)); }
  /// The address of an element.
  pointer address(reference x) const mi_attr_noexcept { return &x; }
  /// The address of an element.
  const_pointer address(const_reference x) const mi_attr_noexcept { return &x; }
};

/// An allocator for containers, `std::vector<int, mi_stl_allocator<int> >`. It has no state: all
/// are equal. Any alignment of T is honoured. Standard: C++ *Allocator*.
template <class T>
struct mi_stl_allocator : public _mi_stl_allocator_common<T> {
  using typename _mi_stl_allocator_common<T>::size_type;
  using typename _mi_stl_allocator_common<T>::value_type;
  using typename _mi_stl_allocator_common<T>::pointer;
  using typename _mi_stl_allocator_common<T>::const_pointer;
  /// The same allocator for another type.
  template <class U>
  struct rebind {
    typedef mi_stl_allocator<U> other;  ///< that allocator
  };

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)
  using is_always_equal = std::true_type;  ///< any may free what another gave
  mi_stl_allocator() noexcept = default;                                    ///< nothing to do
  mi_stl_allocator(const mi_stl_allocator&) noexcept = default;             ///< nothing to do
  mi_stl_allocator& operator=(const mi_stl_allocator&) noexcept = default;  ///< nothing to do
#else
  mi_stl_allocator() throw() {}  ///< nothing to do
#endif
  /// Converts from the allocator of another type.
  template <class U>
  mi_stl_allocator(const mi_stl_allocator<U>&) mi_attr_noexcept {}
  /// The allocator of a copied container: this one.
  mi_stl_allocator select_on_container_copy_construction() const { return *this; }

  /// Gets room for `count` elements.
  /// @returns never NULL; throws `std::bad_alloc` (without exceptions, the program ends)
  mi_decl_nodiscard pointer allocate(size_type count) {
    return static_cast<pointer>(
      mi_impl::new_n(count, sizeof(value_type), _mi_alignof(value_type)));
  }
  /// As allocate() without the hint, which is ignored.
  mi_decl_nodiscard pointer allocate(size_type count, const void*) { return allocate(count); }
  /// Frees what allocate() gave.
  void deallocate(pointer p, size_type) mi_attr_noexcept { mi_free(p); }
};

/// Always.
template <class T1, class T2>
bool operator==(const mi_stl_allocator<T1>&, const mi_stl_allocator<T2>&) mi_attr_noexcept {
  return true;
}
/// Never.
template <class T1, class T2>
bool operator!=(const mi_stl_allocator<T1>&, const mi_stl_allocator<T2>&) mi_attr_noexcept {
  return false;
}

#if defined(MI_HAS_HEAP_STL_ALLOCATOR)

/// The base of the two heap allocators: a heap, shared by all copies of an allocator.
/// With `_mi_destroy` the heap frees its blocks itself in the end, and deallocate() does nothing.
template <class T, bool _mi_destroy>
struct _mi_heap_stl_allocator_common : public _mi_stl_allocator_common<T> {
  using typename _mi_stl_allocator_common<T>::size_type;
  using typename _mi_stl_allocator_common<T>::value_type;
  using typename _mi_stl_allocator_common<T>::pointer;
  using typename _mi_stl_allocator_common<T>::const_pointer;
  using is_always_equal = std::false_type;  ///< only those over the same heap are

  /// Uses a heap of the program's (NULL: the main one), which must outlive the allocator and is
  /// never given up by it.
  _mi_heap_stl_allocator_common(mi_heap_t* hp)
      : heap(std::shared_ptr<mi_heap_t>(), hp != nullptr ? hp : mi_heap_main()) {}
  /// Shares the heap; moving does too, so that an allocator is never without one.
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common&) noexcept = default;
  /// Shares the heap, and leaves its own.
  _mi_heap_stl_allocator_common& operator=(const _mi_heap_stl_allocator_common&) noexcept = default;
  /// Shares the heap.
  template <class U>
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common<U, _mi_destroy>& x) noexcept
      : heap(x.heap) {}

  /// Gets room for `count` elements.
  /// @returns never NULL; throws `std::bad_alloc` (without exceptions, the program ends)
  mi_decl_nodiscard pointer allocate(size_type count) {
    return static_cast<pointer>(
      mi_impl::heap_new_n(heap.get(), count, sizeof(value_type), alignof(value_type)));
  }
  /// As allocate() without the hint, which is ignored.
  mi_decl_nodiscard pointer allocate(size_type count, const void*) { return allocate(count); }
  /// Frees what allocate() gave, or leaves it to the heap's end.
  void deallocate(pointer p, size_type) noexcept {
    if (!_mi_destroy) mi_free(p);
  }

  /// As mi_heap_collect().
  void collect(bool force) { mi_heap_collect(heap.get(), force); }
  /// Whether both use the same heap.
  template <class U>
  bool is_equal(const _mi_heap_stl_allocator_common<U, _mi_destroy>& x) const noexcept {
    return heap == x.heap;
  }

 protected:
  /// Makes a heap, given up when the last copy of this allocator goes.
  _mi_heap_stl_allocator_common()
      : heap(mi_impl::make_heap(), _mi_destroy ? &mi_heap_destroy : &mi_heap_delete) {}

  std::shared_ptr<mi_heap_t> heap;  ///< with the owner's way to give it up
  template <class U, bool D>
  friend struct _mi_heap_stl_allocator_common;
};

/// An allocator over a heap: a fresh one, deleted with the last copy of the allocator (blocks stay
/// valid), or a given one. deallocate() frees.
template <class T>
struct mi_heap_stl_allocator : public _mi_heap_stl_allocator_common<T, false> {
  /// The same allocator for another type.
  template <class U>
  struct rebind {
    typedef mi_heap_stl_allocator<U> other;  ///< that allocator
  };
  /// Makes a heap of its own.
  mi_heap_stl_allocator() : _mi_heap_stl_allocator_common<T, false>() {}
  /// Uses a heap of the program's.
  mi_heap_stl_allocator(mi_heap_t* hp) : _mi_heap_stl_allocator_common<T, false>(hp) {}
  /// Shares the other allocator's heap.
  template <class U>
  mi_heap_stl_allocator(const mi_heap_stl_allocator<U>& x) noexcept
      : _mi_heap_stl_allocator_common<T, false>(x) {}
  /// The allocator of a copied container: this one.
  mi_heap_stl_allocator select_on_container_copy_construction() const { return *this; }
};

/// Whether both use the same heap.
template <class T1, class T2>
bool operator==(const mi_heap_stl_allocator<T1>& x, const mi_heap_stl_allocator<T2>& y) noexcept {
  return x.is_equal(y);
}
/// Whether they use different heaps.
template <class T1, class T2>
bool operator!=(const mi_heap_stl_allocator<T1>& x, const mi_heap_stl_allocator<T2>& y) noexcept {
  return !x.is_equal(y);
}

/// An allocator over a heap that is destroyed, with all its blocks, when the last copy of the
/// allocator goes (a given heap is left alone). deallocate() does nothing.
template <class T>
struct mi_heap_destroy_stl_allocator : public _mi_heap_stl_allocator_common<T, true> {
  /// The same allocator for another type.
  template <class U>
  struct rebind {
    typedef mi_heap_destroy_stl_allocator<U> other;  ///< that allocator
  };
  /// Makes a heap of its own.
  mi_heap_destroy_stl_allocator() : _mi_heap_stl_allocator_common<T, true>() {}
  /// Uses a heap of the program's.
  mi_heap_destroy_stl_allocator(mi_heap_t* hp) : _mi_heap_stl_allocator_common<T, true>(hp) {}
  /// Shares the other allocator's heap.
  template <class U>
  mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator<U>& x) noexcept
      : _mi_heap_stl_allocator_common<T, true>(x) {}
  /// The allocator of a copied container: this one.
  mi_heap_destroy_stl_allocator select_on_container_copy_construction() const { return *this; }
};

/// Whether both use the same heap.
template <class T1, class T2>
bool operator==(const mi_heap_destroy_stl_allocator<T1>& x,
                const mi_heap_destroy_stl_allocator<T2>& y) noexcept {
  return x.is_equal(y);
}
/// Whether they use different heaps.
template <class T1, class T2>
bool operator!=(const mi_heap_destroy_stl_allocator<T1>& x,
                const mi_heap_destroy_stl_allocator<T2>& y) noexcept {
  return !x.is_equal(y);
}

/// A heap for objects of one kind, given up with all its blocks when this goes. In the hardened
/// builds no object elsewhere ever lies where one of these lay: see mi_partition_of().
class mi_partition {
 public:
  /// Makes a heap; throws `std::bad_alloc` when there is no memory.
  mi_partition() : heap_(mi_impl::make_heap()) {}
  mi_partition(const mi_partition&) = delete;
  mi_partition& operator=(const mi_partition&) = delete;
  /// Frees all blocks, without destructors of what still lives there.
  ~mi_partition() { mi_heap_destroy(heap_); }

  /// The heap, for calls of C; never NULL.
  mi_heap_t* heap() const noexcept { return heap_; }
  /// An allocator for containers, which must not outlive this.
  template <class T>
  mi_heap_stl_allocator<T> allocator() const {
    return mi_heap_stl_allocator<T>(heap_);
  }
  /// Makes an object here.
  /// @returns never NULL; throws `std::bad_alloc`, and what the constructor throws
  template <class T, class... Args>
  T* create(Args&&... args) {
    struct block_t {  // freed unless the constructor comes to its end
      void* p;
      ~block_t() { mi_free(p); }
    } block = {mi_impl::heap_new_n(heap_, 1, sizeof(T), alignof(T))};
    T* const object = ::new (block.p) T(std::forward<Args>(args)...);
    block.p = nullptr;
    return object;
  }
  /// Destroys an object that create() made, and frees its block; NULL is allowed.
  template <class T>
  void destroy(T* object) {
    if (object == nullptr) return;
    object->~T();
    mi_free(object);
  }
  /// Whether an address lies in a block of this heap.
  bool contains(const void* p) const noexcept { return mi_heap_contains(heap_, p); }

 private:
  mi_heap_t* heap_;
};

#endif  // MI_HAS_HEAP_STL_ALLOCATOR

/// @}

#if __cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#endif

#if defined(__cpp_lib_memory_resource)
/// Defined to 1 where mi_heap_memory_resource exists (C++17).
/// @ingroup cpp
#define MI_HAS_HEAP_MEMORY_RESOURCE 1

/// A memory resource over a heap, for the containers of `std::pmr`. Every thread may use it.
/// Standard: C++17 `std::pmr::memory_resource`.
/// @ingroup cpp
class mi_heap_memory_resource : public std::pmr::memory_resource {
 public:
  /// Makes a heap of its own, destroyed with all its blocks when the resource goes.
  mi_heap_memory_resource() : heap_(mi_impl::make_heap()), owned_(true) {}
  /// Uses a heap of the program's, which must outlive the resource; NULL for the main heap.
  explicit mi_heap_memory_resource(mi_heap_t* hp) noexcept
      : heap_(hp ? hp : mi_heap_main()), owned_(false) {}
  mi_heap_memory_resource(const mi_heap_memory_resource&) = delete;             ///< one owner
  mi_heap_memory_resource& operator=(const mi_heap_memory_resource&) = delete;  ///< one owner
  /// Destroys the heap if it is the resource's own.
  ~mi_heap_memory_resource() override {
    if (owned_) mi_heap_destroy(heap_);
  }

  /// The heap that the resource takes memory from.
  mi_decl_nodiscard mi_heap_t* heap() const noexcept { return heap_; }
  /// As mi_heap_collect().
  void collect(bool force) { mi_heap_collect(heap_, force); }

 protected:
  /// Throws `std::bad_alloc` as the operator `new` does, after the new-handler.
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return mi_impl::heap_new(heap_, bytes, alignment);
  }
  /// Frees a block, by any thread.
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    mi_free_size_aligned(p, bytes, alignment);
  }
  /// Two resources are as one when they have the same heap: its end ends the blocks of both.
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#if defined(__cpp_rtti) || defined(__GXX_RTTI) || defined(_CPPRTTI)
    const mi_heap_memory_resource* const that =
      dynamic_cast<const mi_heap_memory_resource*>(&other);
    return that && that->heap_ == heap_;
#else
    return this == &other;
#endif
  }

 private:
  mi_heap_t* heap_;
  bool owned_;
};

#endif  // __cpp_lib_memory_resource

#undef _mi_alignof

#endif  // __cplusplus

#endif  // MIMALLOC_H
