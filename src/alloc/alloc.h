// SPDX-License-Identifier: MIT
// The four verbs of allocation for the floors above: allocate, aligned, reallocate, free.
//
// Sizes are bytes. NULL means out of memory or a size beyond PTRDIFF_MAX, with errno ENOMEM;
// a call that succeeds leaves errno alone. `theap` is the calling thread's.
#ifndef MX_ALLOC_ALLOC_H
#define MX_ALLOC_ALLOC_H

#include <string.h>

#include "../heap/heap.h"

MX_BEGIN_DECLS
// What the fast path falls to: sizes above MX_SMALL_MAX; an exhausted or missing hot list.
void* mx_alloc_medium(size_t size, mx_theap_t* theap);
void* mx_alloc_slow(size_t size, mx_theap_t* theap, bool zero);
void* mx_alloc_small_slow(size_t size, mx_theap_t* theap);
// Gives up what this thread keeps for later: it may be just what is missing.
void mx_alloc_on_pressure(mx_theap_t* theap);
// Reports that there is no memory, sets errno, and returns NULL.
void* mx_alloc_failed(size_t size);
void mx_free_slow(void* p);
void mx_free_other(void* p, mx_page_t* page);  // of this record, by what the page map says
void mx_free_emptied(void* p);
// In hardened builds: a block of a page of this thread that is more than the simple case.
void mx_free_with_care(void* p);
// In builds that clear freed blocks: one that is too large to be cleared in place.
void mx_free_larger(void* p, mx_page_t* page);
// What mx_free_as does not know to be right; reports by the function's name what is wrong.
void mx_free_said(const char* function, void* p, size_t size, size_t align);

// What the three calls of the program are where memory has tags (tags.h).
void mx_free_tagged(void* p);
void mx_free_said_tagged(const char* function, void* p, size_t size, size_t align);
void* mx_realloc_tagged(mx_theap_t* theap, void* p, size_t size, size_t align, size_t offset,
                        bool zero);

// Zeroed memory, over the whole usable size.
void* mx_zalloc_in(mx_theap_t* theap, size_t size);
// What calloc's fast path falls to; reports a product that overflows.
void* mx_calloc_slow(size_t count, size_t size, mx_theap_t* theap);
// The same for more than 64 bytes, in builds that check nothing.
void* mx_calloc_medium(size_t total, mx_theap_t* theap);
// p + offset is a multiple of `align`, a power of two.
void* mx_alloc_aligned(mx_theap_t* theap, size_t size, size_t align, size_t offset, bool zero);
// Grows or shrinks p, in place where it can; p is kept on failure. `zero`: what lies beyond the
// old usable size reads as zero. `align` 0: none wanted.
void* mx_realloc_in(mx_theap_t* theap, void* p, size_t size, size_t align, size_t offset,
                    bool zero);
// A block below this size is copied as it is when it grows: it gets no room for more.
#define MX_ROOM_MIN (8 * MX_KIB)
// The same for a block that is known, and not to stay, to a size above 0 and below that.
void* mx_realloc_copied(mx_theap_t* theap, void* p, size_t usable, size_t size);
// The start of the block that p stands for, NULL when it is none of ours.
void* mx_block_of(const void* p);
// Usable bytes of a block, 0 when p is none of ours.
size_t mx_usable_size(const void* p);

// ---- huge blocks (huge.c) ----------------------------------------------------------------------
// A block that is_growing gets a place where it can go on.
void* mx_huge_alloc(mx_heap_t* heap, size_t size, size_t align, bool is_growing, bool zero);
void mx_huge_free(mx_page_t* page);
// Resizes in place, or by moving page tables; NULL when it cannot.
void* mx_huge_realloc(mx_page_t* page, size_t size, bool zero);
// Resizes in place only; false when it cannot.
bool mx_huge_resize(mx_page_t* page, size_t size);
MX_END_DECLS

// Clears 16 to 64 bytes, a multiple of 16, but for the canary, with stores that may overlap.
mx_inline void mx_clear_small(uint8_t* p, size_t size) {
  mx_check(size >= MX_ALIGN && size <= 4 * MX_ALIGN && size % MX_ALIGN == 0);
  static const struct { uint64_t a, b; } zero = {0, 0};
  if (MX_PADDING) {
    size -= 16;
    memcpy(p + size, &zero, 8);
    if (size == 0) return;
  }
  memcpy(p, &zero, 16);
  memcpy(p + size - 16, &zero, 16);
  if (size > 32) {
    memcpy(p + 16, &zero, 16);
    memcpy(p + size - 32, &zero, 16);
  }
}

#endif
