// SPDX-License-Identifier: MIT
// Reallocation and aligned allocation.
//
// No block is over-allocated for alignment up to 64 KiB: a block size that is a multiple of the
// alignment makes every block aligned, in pages that begin so. Where they do not (see color.h), and
// for an alignment at an offset, a larger block is taken, and the result lies inside it.
#include <string.h>

#include "../base/hooks.h"
#include "../heap/common.h"
#include "../heap/theap.h"
#include "../heap/thread_life.h"
#include "../heap/transfer.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../page/shift.h"
#include "alloc.h"
#include "fast.h"
#include "sample.h"
#include "spare.h"
#include "verify.h"

// A block has another size where it is. Others than sampled ones stay as they are.
static void note_stay(mx_page_t* page, size_t size) {
  if (mx_unlikely(mx_page_has_note(page))) mx_sample_resize(page, size);
}

// A block that is alone in its page, or has no bytes.
static void* alloc_apart_in(mx_theap_t* theap, size_t size, size_t align, bool is_growing,
                            bool zero) {
  mx_check(align > 0 && (align & (align - 1)) == 0);
  if (theap->heap == NULL) theap = mx_thread_theap();
  if (theap == NULL) return mx_alloc_failed(size);
  if (MX_ZERO_BLOCKS && size == 0) {
    void* const p = mx_zero_sized_alloc(align);
    return p != NULL ? p : mx_alloc_failed(size);
  }
  const size_t least = mx_max(size, 1);
  if (mx_unlikely(least > MX_BLOCK_MAX || align > MX_BLOCK_MAX)) return mx_alloc_failed(size);
  if (mx_unlikely(theap->sampling.is_on)) {
    void* const p = mx_sample_apart(theap, size, align, is_growing, zero);
    if (p != NULL) return p;
  }
  void* p = mx_huge_alloc(theap->heap, least, align, is_growing, zero);
  if (mx_unlikely(p == NULL)) {
    mx_alloc_on_pressure(theap);
    p = mx_huge_alloc(theap->heap, least, align, is_growing, zero);
    if (p == NULL) return mx_alloc_failed(size);
  }
  if (MX_HARDEN) mx_harden_alloc_huge(p, size, zero);
  return p;
}

mx_noinline static void* alloc_apart(mx_theap_t* theap, size_t size, size_t align, bool is_growing,
                                     bool zero) {
  mx_call_enter();
  void* const p = alloc_apart_in(theap, size, align, is_growing, zero);
  mx_call_leave();
  return p;
}

// Only its owner marks a page, and one of a huge block is nobody's: a block that was transferred
// is of another thread's page.
static bool is_markable(const mx_page_t* page) {
  return mx_page_is_huge(page) || mx_page_is_mine(page);
}

// A block into which pointers may be given out that lie behind its start.
static uint8_t* alloc_marked(mx_theap_t* theap, size_t size, size_t align, bool zero) {
  mx_check(align <= MX_SLICE_SIZE);
  if (mx_unlikely(theap->heap == NULL)) theap = mx_thread_theap();
  if (mx_unlikely(theap == NULL)) return (uint8_t*)mx_alloc_failed(size);
  mx_spare_flush(theap);  // it shall be of a page of this thread
  if (MX_COMMON_PAGES && size <= MX_BIN_MAX_SIZE - align) {
    mx_common_forgo(theap, mx_bin_of(mx_align_up(size, align)));
  }
  uint8_t* block = (uint8_t*)mx_alloc_aligned(theap, size, align, 0, zero);
  if (mx_unlikely(block == NULL)) return NULL;
  mx_page_t* page = mx_pagemap_get(block);
  if (MX_TRANSFERS && mx_unlikely(!is_markable(page))) {
    mx_free_slow(block);
    block = (uint8_t*)mx_alloc_aligned(theap, size, 2 * MX_SHARED_ALIGN_MAX, 0, zero);
    if (block == NULL) return NULL;
    page = mx_pagemap_get(block);
  }
  mx_check(is_markable(page) && mx_is_aligned(block, align));
  if (mx_load_relaxed(&page->shifted) == 0) {
    mx_store_relaxed(&page->shifted, (uint8_t)MX_OWNER_SHIFTED);
    if (!mx_page_is_huge(page)) mx_page_set_owner(page, mx_load_relaxed(&page->owner));
  }
  return block;
}

// The result lies `skip` bytes behind the start of an aligned block. One of no bytes has an address
// of its own, too.
static void* alloc_shifted(mx_theap_t* theap, size_t size, size_t align, size_t skip, bool zero) {
  const size_t least = (MX_PADDING ? size : mx_max(size, 1));
  skip = mx_shift_room(skip, align);
  uint8_t* const block = alloc_marked(theap, skip + least, align, zero);
  if (block == NULL) return NULL;
  mx_shift_mark(mx_pagemap_get(block), block + skip);
  return block + skip;
}

// Whether the bin's current page has a color that does not suit the alignment, and live blocks;
// without them it makes room for another.
static bool is_of_other_color(mx_theap_t* theap, size_t size, size_t align) {
  if (theap->heap == NULL) return false;  // a thread's first call
  const size_t bin = mx_bin_of(size);
  const mx_page_t* const page = theap->bins.current[bin];
  if (mx_likely(mx_is_aligned(page->start, align))) return false;  // or there is none
  if (page->used > 1) return true;
  mx_color_raise(align);
  mx_call_enter();
  mx_theap_release_current(theap, bin);
  mx_call_leave();
  return false;
}

// A larger block, with the result inside, where pages of the size have another color. Those that
// are made from now on have not.
mx_noinline static void* alloc_inside(mx_theap_t* theap, size_t size, size_t align, bool zero) {
  mx_check(align > MX_COLOR_STEP_MIN && align <= MX_SHARED_ALIGN_MAX);
  mx_color_raise(align);
  const size_t most = mx_max(size, 1) + align - MX_COLOR_STEP_MIN;
  uint8_t* const block = alloc_marked(theap, most, MX_COLOR_STEP_MIN, zero);
  if (mx_unlikely(block == NULL)) return NULL;
  const size_t skip = (0 - (uintptr_t)block) & (align - 1);
  mx_check(skip + mx_max(size, 1) <= most);
  if (MX_PADDING) mx_harden_shrink(block, skip + size);
  note_stay(mx_pagemap_get(block), skip + size);
  mx_shift_mark(mx_pagemap_get(block), block + skip);
  return block + skip;
}

mx_inline void* alloc_padded(mx_theap_t* theap, size_t padded, bool zero) {
  return zero ? mx_zalloc_in(theap, padded - MX_PAD) : mx_alloc_in(theap, padded - MX_PAD);
}

// Once more, where a block of `padded` bytes was not aligned. A common page keeps its color; one of
// the thread's own, made now, has a color that suits.
mx_noinline static void* alloc_anew(mx_theap_t* theap, size_t size, size_t padded, size_t align,
                                    bool zero) {
  if (MX_COMMON_PAGES && mx_common_forgo(theap, mx_bin_of(padded))) {
    mx_color_raise(align);
    void* const p = alloc_padded(theap, padded, zero);
    if (mx_is_aligned(p, align)) return p;
    mx_free_slow(p);
  }
  return alloc_inside(theap, size, align, zero);
}

void* mx_alloc_aligned(mx_theap_t* theap, size_t size, size_t align, size_t offset, bool zero) {
  mx_check(align > 0 && (align & (align - 1)) == 0);
  if (mx_unlikely(size > MX_MAX_ALLOC - align)) return mx_alloc_slow(SIZE_MAX, theap, zero);
  const size_t shift = offset & (align - 1);
  if (mx_unlikely(shift != 0)) {
    return alloc_shifted(theap, size, align, align - shift, zero);
  }
  // Guarded blocks that end exactly where their memory does are as aligned as their size is.
  if (align <= MX_ALIGN && mx_likely(mx_option(guarded_precise) == 0)) {
    return zero ? mx_zalloc_in(theap, size) : mx_alloc_in(theap, size);
  }
  const size_t least = mx_max(size, 1);
  const size_t padded = (align <= MX_ALIGN ? mx_align_up(least, align) + MX_PAD
                                           : mx_align_up(least + MX_PAD, align));
  if (align > MX_SHARED_ALIGN_MAX || padded > MX_SHARED_MAX || (MX_ZERO_BLOCKS && size == 0)) {
    return alloc_apart(theap, size, align, false, zero);
  }
  const bool may_stray = (align > MX_COLOR_STEP_MIN && padded < MX_COLOR_SPAN);
  mx_check(padded >= size + MX_PAD && (align <= MX_ALIGN || padded % align == 0));
  if (mx_unlikely(may_stray) && is_of_other_color(theap, padded, align)) {
    return alloc_inside(theap, size, align, zero);
  }
  void* const p = alloc_padded(theap, padded, zero);
  if (mx_unlikely(may_stray) && mx_unlikely(!mx_is_aligned(p, align))) {
    mx_free_slow(p);  // of a page that came just now
    return alloc_anew(theap, size, padded, align, zero);
  }
  mx_check(mx_is_aligned(p, align));
  if (MX_HARDEN && p != NULL && !mx_harden_shrinks(p, size)) {
    mx_harden_shrink(p, size);
    note_stay(mx_pagemap_get(p), size);
  }
  return p;
}

// Whether a plain allocation of any size has this alignment.
static bool is_plain(size_t align, size_t offset) {
  return align <= MX_ALIGN && (align == 0 || (offset & (align - 1)) == 0);
}

static void* alloc_any(mx_theap_t* theap, size_t size, size_t align, size_t offset, bool zero) {
  if (align > 1) return mx_alloc_aligned(theap, size, align, offset, zero);
  return zero ? mx_zalloc_in(theap, size) : mx_alloc_in(theap, size);
}

// A block that grows by a small step will grow again: room for some more steps saves half of the
// copies. Blocks below MX_ROOM_MIN are cheap to copy.
static size_t with_room(size_t size, size_t old_usable) {
  mx_check(size > 0);
  const size_t most = MX_SHARED_MAX - MX_PAD;
  if (MX_HARDEN_SLOWLY || size < MX_ROOM_MIN || size > most) return size;
  if (size <= old_usable || size - old_usable > old_usable / 8) return size;
  return mx_min(size + size / 8, most);
}

static void* move_block(mx_theap_t* theap, void* p, size_t old_usable, size_t size, size_t align,
                        size_t offset, bool zero) {
  const bool outgrows = (size > old_usable && size > MX_SHARED_MAX && is_plain(align, offset));
  // Under canaries the size is set anew, which takes a block that begins at its start and is not
  // alone in its page.
  const bool has_room = (!outgrows && (!MX_PADDING || is_plain(align, offset)));
  const size_t asked = (has_room ? with_room(size, old_usable) : size);
  // Where large blocks lie apart, one that grows for the first time does so as well.
  const bool is_growing =
      (outgrows && (!MX_LARGE_APART || mx_page_is_huge(mx_pagemap_get(p))));
  void* const fresh = (outgrows ? alloc_apart(theap, asked, mx_max(align, 1), is_growing, false)
                                : alloc_any(theap, asked, align, offset, false));
  if (fresh == NULL) return NULL;
  mx_check(asked >= size && fresh != p);
  // With padding the usable size is what was asked for; the room is found by the next resize.
  if (MX_PADDING && asked > size) mx_harden_shrink(fresh, size);
  if (mx_unlikely(asked > size)) note_stay(mx_pagemap_get(fresh), size);
  const size_t keep = mx_min(old_usable, size);
  mx_vmem_copy(fresh, p, keep);
  if (zero) {
    const size_t usable = mx_usable_size(fresh);
    if (usable > keep) memset((uint8_t*)fresh + keep, 0, usable - keep);
  }
  mx_free_plain(p);
  return fresh;
}

// One that is alone in its page is a sampled one.
mx_noinline static bool may_be_least(const mx_theap_t* theap, const void* p, size_t size) {
  const mx_heap_t* const heap = theap->heap;
  const mx_page_t* const page = mx_pagemap_get(p);
  return size <= MX_COMMON_LINE && heap != NULL && heap == mx_page_heap(page) &&
         !mx_page_is_huge(page) && mx_common_is_due(heap);
}

// A smaller request may have had a block of this size in the first place, where threads are many.
mx_inline bool is_least_of_many(const mx_theap_t* theap, const void* p, size_t usable,
                                size_t size) {
  return MX_COMMON_PAGES && usable == MX_COMMON_LINE && may_be_least(theap, p, size);
}

// The block stays where it is with a size that is not much less than its own, or any if it must.
static bool can_stay(mx_page_t* page, void* p, size_t usable, size_t size, bool zero, bool must) {
  const bool is_sampled = mx_page_has_note(page);
  const bool stays = (MX_PADDING ? mx_harden_resize(page, p, size, zero, must)
                                 : size <= usable && (must || size >= usable / 2));
  if (stays && mx_unlikely(is_sampled)) mx_sample_resize(page, size);
  return stays;
}

// A thread that begins with a realloc, and gets no theap, would allocate from the main heap.
static bool is_of_heap(const mx_theap_t* theap, const mx_page_t* page) {
  const mx_heap_t* const heap = theap->heap;
  return mx_page_heap(page) == (mx_likely(heap != NULL) ? heap : &mx_subproc_main.main_heap);
}

// Where there is no memory to move a block to: one that shrinks stays, as large as it was. `keep`:
// what of its contents would be moved.
mx_cold static void* stay_after_all(const mx_theap_t* theap, void* p, size_t keep) {
  mx_page_t* const page = mx_pagemap_get(p);
  const size_t usable = mx_usable_size(p);
  mx_check(keep <= usable);
  const bool may_stay = (keep < usable && is_of_heap(theap, page));
  return may_stay && can_stay(page, p, usable, keep, false, true) ? p : NULL;
}

void* mx_realloc_copied(mx_theap_t* theap, void* p, size_t usable, size_t size) {
  mx_check(size > 0 && size < MX_ROOM_MIN);
  size_t keep = usable;
  if (mx_unlikely(size < usable)) {
    if (is_least_of_many(theap, p, usable, size)) return p;
    keep = size;
  }
  mx_check(keep <= usable && keep <= mx_max(size, usable));
  void* const fresh = mx_alloc_in(theap, size);
  if (mx_unlikely(fresh == NULL)) return stay_after_all(mx_tls_theap, p, keep);
  memcpy(fresh, p, keep);
  mx_free_plain(p);
  return fresh;
}

static void* resize_huge(mx_page_t* page, size_t size, bool zero) {
  mx_call_enter();
  void* const p = mx_huge_realloc(page, size, zero);
  mx_call_leave();
  return p;
}

// What a huge block was resized to counts as allocated anew.
static void* note_renewal(const mx_theap_t* theap, void* p, size_t size) {
  if (mx_unlikely(theap->sampling.is_on || mx_page_has_note(mx_pagemap_get(p)))) {
    mx_sample_renew(theap, p, size);
  }
  return p;
}

static void* realloc_huge(mx_page_t* page, size_t usable, size_t size, bool zero) {
  mx_check(mx_page_is_huge(page) && usable <= page->block_size);
  if (MX_HARDEN_SLOWLY) return NULL;  // these follow every block from its start
  if (!MX_PADDING) return resize_huge(page, size, zero);
  mx_harden_check_huge(page, page->start);
  const size_t old_bytes = page->block_size;
  uint8_t* const p = (uint8_t*)resize_huge(page, size + MX_PAD, zero);
  if (p == NULL) return NULL;
  if (zero && size > usable) memset(p + usable, 0, mx_min(old_bytes, size) - usable);
  mx_harden_alloc_huge(p, size, true);
  return p;
}

static bool find_block(const void* p, mx_page_t** page, size_t* usable) {
  *page = mx_pagemap_find(p);
  if (mx_harden_knows(p, usable)) return true;
  if (mx_block_of(p) == NULL) return false;
  *usable = mx_usable_size(p);
  return true;
}

void* mx_realloc_in(mx_theap_t* theap, void* p, size_t size, size_t align, size_t offset,
                    bool zero) {
  if (p == NULL) return alloc_any(theap, size, align, offset, zero);
  mx_check(size > 0);
  mx_page_t* page;
  size_t usable;
  if (mx_likely(mx_is_plain_block(p, &page))) {
    usable = page->block_size;
  } else if (mx_unlikely(!find_block(p, &page, &usable))) {
    if (!MX_KNOWS_LIVE) mx_error(EINVAL, "realloc: invalid pointer %p\n", p);
    else mx_verify_pointer("realloc", p);
    mx_os_set_errno(EINVAL);
    return NULL;
  }
  mx_check(usable <= page->block_size && (align & (align == 0 ? 0 : align - 1)) == 0);
  const bool aligned = mx_is_aligned((uint8_t*)p + offset, align == 0 ? MX_ALIGN : align);
  mx_theap_t* const made = (mx_likely(theap->heap != NULL) ? NULL : mx_thread_theap());
  if (mx_unlikely(made != NULL)) theap = made;
  if (aligned && is_of_heap(theap, page)) {
    if (can_stay(page, p, usable, size, zero, false)) return p;
    if (is_least_of_many(theap, p, usable, size)) return p;
    if (mx_page_is_huge(page) && p == page->start) {
      // What moves there is aligned as slices are.
      if (align > MX_SLICE_SIZE && !MX_HARDEN && !zero && mx_huge_resize(page, size)) {
        return note_renewal(theap, p, size);
      }
      void* const q = (align > MX_SLICE_SIZE ? NULL : realloc_huge(page, usable, size, zero));
      if (q != NULL) return note_renewal(theap, q, size);
    }
  }
  void* const moved = move_block(theap, p, usable, size, align, offset, zero);
  if (mx_unlikely(moved == NULL) && aligned) return stay_after_all(theap, p, mx_min(usable, size));
  return moved;
}
