// SPDX-License-Identifier: MIT
// Huge blocks: each alone in a page of its own (see heap/os_pages.c for where from).
//
// Resizing avoids copies: within the slices it has; into what is free behind it; else the page
// tables move to a new place, which costs microseconds where copying costs milliseconds. That place
// has room to grow, so that a block that grows for ever moves O(log n) times.
#include <string.h>

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/adopt.h"
#include "../heap/dense.h"
#include "../heap/huge_cache.h"
#include "../heap/os_pages.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/track.h"
#include "../page/padding.h"
#include "../page/remote.h"
#include "alloc.h"
#include "guarded.h"

// Moving page tables pays from this size on; below, copying is as fast.
#define MOVE_MIN (256 * MX_KIB)

// Blocks that grow take slices in such steps, in which page tables move elsewhere, too.
#define GROW_STEP MX_MIB

// ---- allocating and freeing --------------------------------------------------------------------

// From byte `from` to byte `to` a block will be used. All of it counts as memory in use at once,
// since no later call tells.
static void note_use(const mx_page_t* page, size_t from, size_t to) {
  mx_arena_t* const arena = page->arena;
  mx_check(to > from);
  if (arena == NULL) return;
  mx_check(mx_page_is_huge(page) && to <= mx_page_size(page));
  // Of a large OS page all is there with the first byte. A block that has some begins with one.
  const size_t end = mx_align_up(to, mx_facts.large_page);
  const bool is_large = mx_bits_test(arena->large, page->slice_index);
  if (is_large && !MX_GUARD_PAGES && end <= mx_page_size(page)) to = end;
  mx_arenas_t* const arenas = &mx_page_heap(page)->subproc->arenas;
  const size_t fresh = mx_arena_touch(arena, page->start + from, to - from);
  mx_arenas_note_fresh(arenas, fresh / mx_arena_bits_per_slice());
}

// From byte `from` to byte `to` a block may hold old data, and may have to read as zero.
static void clear_part(const mx_page_t* page, size_t from, size_t to, bool zero) {
  const mx_arena_t* const arena = page->arena;
  if (!zero || to <= from) return;
  mx_check(mx_page_is_huge(page) && to <= mx_page_size(page));
  // What the program brought may be a file's.
  const bool is_own = (arena == NULL || (arena->mapping != NULL && !arena->is_pinned));
  // Tools that watch memory would have a word on what is read there.
  if (is_own && !MX_TRACK) mx_vmem_clear(page->start + from, to - from);
  else memset(page->start + from, 0, to - from);
}

// Memory that other pages had may have moved in.
static bool is_untouched_huge(const mx_page_t* page) {
  return page->arena == NULL ||
         !mx_arena_has_present(page->arena, page->slice_index, page->slice_count);
}

static size_t slices_for(size_t bytes) {
  return mx_div_up(bytes + mx_guard_size(), MX_SLICE_SIZE);
}

// What former pages left inaccessible becomes accessible, and what lies behind the block not.
static bool guard_fresh(mx_subproc_t* subproc, mx_page_t* page) {
  if (page->arena != NULL &&
      !mx_arena_guard(page->arena, page->slice_index, page->slice_count, false)) {
    mx_slices_free(&subproc->arenas, page->arena, page->slice_index, page->slice_count);
    return false;
  }
  mx_page_guard_huge(page, true);
  return true;
}

// Slices for a block, used ones from elsewhere where fresh ones need not read as zero. A run that
// was torn is lost, and so is the chance of a second one.
static mx_page_t* get_slices(mx_heap_t* heap, size_t bytes, size_t align, bool is_growing,
                             bool is_fresh, mx_slices_t* slices) {
  mx_check(bytes > 0 && (align & (align - 1)) == 0);
  const size_t align_slices = mx_max(align / MX_SLICE_SIZE, 1);
  const size_t step = (is_growing && !mx_os_is_scarce() ? GROW_STEP / MX_SLICE_SIZE : 1);
  const size_t count = mx_align_up(slices_for(bytes), step);
  for (unsigned tries = 0; tries < 2; tries++) {
    mx_page_t* const page = mx_huge_page_alloc(heap, count, align_slices, is_growing, slices);
    if (page == NULL || is_fresh || slices->arena == NULL) return page;
    mx_arenas_t* const arenas = &heap->subproc->arenas;
    if (mx_slices_move_in(arenas, slices->arena, slices->index, slices->count)) return page;
  }
  return NULL;
}

// Up to the end of a large OS page where hardly more is taken for it than the block has.
static size_t to_large_end(size_t bytes) {
  const size_t end = mx_align_up(bytes, mx_facts.large_page);
  return !MX_GUARD_PAGES && end - bytes <= bytes / 16 ? end : bytes;
}

// A block of which no byte is in use yet. *is_zero: it reads as zero, if it is to be fresh.
static mx_page_t* make_block(mx_heap_t* heap, size_t bytes, size_t align, bool is_growing,
                             bool is_fresh, bool* is_zero) {
  mx_slices_t slices;
  bool is_dense = mx_dense_is_expected(bytes);
  mx_page_t* page;
  for (;;) {
    const size_t room = (is_dense ? to_large_end(bytes) : bytes);
    const size_t large_align = (is_dense ? mx_max(align, mx_facts.large_page) : align);
    page = get_slices(heap, room, large_align, is_growing, is_fresh, &slices);
    if (page != NULL) break;
    if (!is_dense) return NULL;
    is_dense = false;  // an arena may have room, but none of that shape
  }
  *is_zero = slices.is_zero;
  mx_check(slices.count >= slices_for(bytes) && mx_is_aligned(slices.start, align));
  mx_page_init(page, &slices, bytes, MX_BIN_HUGE, heap);
  if (MX_GUARD_PAGES && !guard_fresh(heap->subproc, page)) return NULL;
  mx_dense_begin(page, is_dense, is_untouched_huge(page));
  page->capacity = page->used = 1;
  if (!mx_huge_page_enter(page)) return NULL;
  if (MX_TRACK) mx_track_access(page->start, bytes);
  mx_check(mx_load_relaxed(&page->owner) == 0 && mx_load_relaxed(&page->remote) == MX_OWNED);
  // From now on the mark is there: whoever takes it away frees the block.
  mx_store_release(&page->owner, MX_OWNER_HUGE);
  return page;
}

// The page that was kept of the last block of about this size.
static mx_page_t* take_kept(mx_heap_t* heap, size_t bytes, size_t align) {
  mx_page_t* const page =
      mx_huge_cache_take(heap, mx_div_up(bytes, MX_SLICE_SIZE), mx_max(align / MX_SLICE_SIZE, 1));
  if (page == NULL) return NULL;
  mx_check(page->used == 0 && mx_load_relaxed(&page->owner) == 0);
  mx_check(bytes <= mx_page_size(page) && mx_is_aligned(page->start, align));
  if (bytes > page->block_size) note_use(page, page->block_size, bytes);
  page->block_size = bytes;
  page->capacity = page->used = 1;
  mx_heap_link_page(heap, page);
  mx_store_release(&page->owner, MX_OWNER_HUGE);
  return page;
}

// A large block whose end nothing lies behind, as far as its alignment lets it; see os_pages.c.
static void* alloc_at_end(mx_heap_t* heap, size_t size, size_t align, bool zero) {
  const size_t room = mx_align_up(size, mx_max(mx_min(align, MX_SLICE_SIZE), MX_ALIGN));
  size_t used;
  mx_page_t* const page = mx_huge_page_apart(heap, room, align, zero, &used);
  if (page == NULL) return NULL;
  if (MX_CLEAR_LARGE) memset(page->start, 0, used);
  mx_dense_begin(page, mx_dense_is_expected(room), used == 0);
  page->capacity = page->used = 1;
  if (!mx_huge_page_enter(page)) return NULL;
  mx_check(mx_load_relaxed(&page->owner) == 0 && mx_is_aligned(page->start, align));
  mx_store_release(&page->owner, MX_OWNER_HUGE);
  return page->start;
}

void* mx_huge_alloc(mx_heap_t* heap, size_t size, size_t align, bool is_growing, bool zero) {
  if (size > MX_BLOCK_MAX) return NULL;
  if (MX_LARGE_APART && !is_growing && size + MX_PAD > MX_SHARED_MAX) {
    void* const p = alloc_at_end(heap, size, align, zero);
    if (p != NULL) return p;
  }
  const size_t bytes = mx_align_up(size + (MX_PADDING ? 8 : 0), mx_facts.os_page);
  bool is_zero = false;
  mx_page_t* page = take_kept(heap, bytes, align);
  if (page != NULL) {
    clear_part(page, 0, bytes, zero);
    return page->start;
  }
  page = make_block(heap, bytes, align, is_growing, zero, &is_zero);
  if (page == NULL) return NULL;
  note_use(page, 0, bytes);
  clear_part(page, 0, bytes, zero && !is_zero);
  return page->start;
}

void mx_huge_free(mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  uintptr_t live = MX_OWNER_HUGE;
  if (!mx_cas_strong_acq_rel(&page->owner, &live, (uintptr_t)0)) {
    mx_error(EAGAIN, "free: double free detected of block %B (size %zu)\n", (void*)page->start,
             page->block_size);
    return;
  }
  mx_check(page->used == 1 && page->capacity == 1);
  if (mx_unlikely(mx_load_relaxed(&page->lend) != 0)) {
    if (mx_page_has_note(page)) mx_page_end_note(page);
    if (mx_page_is_guarded(page)) {
      mx_guarded_free(page);
      return;
    }
  }
  mx_store_relaxed(&page->shifted, (uint8_t)0);  // it may be kept for the next block
  mx_subproc_t* const subproc = mx_heap_unlink_page(page);
  if (mx_huge_cache_put(page)) return;
  mx_huge_page_drop(subproc, page);
  mx_arenas_purge_tick(&subproc->arenas);
}

// ---- resizing ----------------------------------------------------------------------------------

static void shrink(mx_page_t* page, size_t bytes) {
  const size_t keep = slices_for(bytes);
  const size_t drop = page->slice_count - keep;
  mx_check(keep > 0 && keep <= page->slice_count && bytes <= page->block_size);
  if (drop > 0 && page->arena != NULL) {
    mx_subproc_t* const subproc = mx_page_heap(page)->subproc;
    mx_pagemap_set(page->start + keep * MX_SLICE_SIZE, drop, NULL);
    page->slice_count = (uint32_t)keep;
    mx_slices_free(&subproc->arenas, page->arena, page->slice_index + keep, drop);
  } else if (drop > 0) {
    mx_huge_page_shorten(page, keep);
  }
  mx_huge_page_resize(page, bytes);
}

static bool extend(mx_page_t* page, size_t more, bool is_fresh) {
  mx_check(more > 0 && mx_page_is_huge(page));
  mx_arenas_t* const arenas = &mx_page_heap(page)->subproc->arenas;
  if (page->arena == NULL) return mx_huge_page_extend(page, more);
  const size_t index = page->slice_index + page->slice_count;
  if (!mx_slices_extend(arenas, page->arena, index, more, false)) return false;
  if (!is_fresh && !mx_slices_move_in(arenas, page->arena, index, more)) return false;
  const bool is_open = (!MX_GUARD_PAGES || mx_arena_guard(page->arena, index, more, false));
  if (!is_open || !mx_pagemap_set(page->start + mx_page_size(page), more, page)) {
    mx_slices_free(arenas, page->arena, index, more);
    return false;
  }
  mx_check(mx_bits_count(page->arena->free, page->slice_index, page->slice_count + more) == 0);
  page->slice_count += (uint32_t)more;
  if (mx_bits_test(page->arena->large, index - 1)) mx_arena_want_large(page->arena, index, more);
  return true;
}

static bool grow_in_place(mx_page_t* page, size_t bytes, bool zero) {
  const size_t old_bytes = page->block_size;
  const size_t need = slices_for(bytes);
  mx_check(bytes > old_bytes);
  if (need > page->slice_count) {
    const size_t more = need - page->slice_count;
    if (page->arena != NULL) mx_huge_cache_flush(true);  // it may lie in the way
    // Up to the end of a step, too, if that is free.
    uintptr_t const end = (uintptr_t)page->start + mx_page_size(page) + more * MX_SLICE_SIZE;
    const size_t step = (mx_os_is_scarce() ? MX_SLICE_SIZE : GROW_STEP);
    const size_t rest = (mx_align_up(end, step) - end) / MX_SLICE_SIZE;
    if (!extend(page, more + rest, zero) && (rest == 0 || !extend(page, more, zero))) return false;
  }
  note_use(page, old_bytes, bytes);
  clear_part(page, old_bytes, bytes, zero);
  mx_huge_page_resize(page, bytes);
  return true;
}

static bool is_mostly_present(const mx_page_t* page, size_t bytes) {
  if (page->arena == NULL) return false;
  const size_t first = page->slice_index * mx_arena_bits_per_slice();
  const size_t count = bytes / mx_facts.os_page;
  return mx_bits_count(page->arena->present, first, count) >= count - count / 4;
}

// A block that was moved out of, or torn, is nobody's from now on.
static mx_subproc_t* unlink_block(mx_page_t* page) {
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_store_relaxed(&page->shifted, (uint8_t)0);
  return mx_heap_unlink_page(page);
}

// Moves the slices that hold a block's contents to the start of another one, and frees the block.
// False: they do not lie in one mapping, and nothing was moved; *is_torn: the target is lost.
static bool move_slices(mx_page_t* page, mx_page_t* target, bool* is_torn) {
  const size_t count = slices_for(page->block_size);
  const size_t size = count * MX_SLICE_SIZE;
  *is_torn = false;
  mx_check(target != page && target->slice_count >= count);
  if (page->arena == NULL || page->arena->is_reserved) return false;
  // Page tables moved onto memory that is there already would lose it, and the next block would
  // pay more faults than the copy costs.
  if (is_mostly_present(target, page->block_size)) return false;
  // Whoever is told of its end may read it.
  if (mx_unlikely(mx_page_has_note(page))) mx_page_end_note(page);
  if (!mx_vmem_move(page->start, target->start, size, is_torn)) {
    if (*is_torn) mx_huge_page_lose(unlink_block(target), target, count);
    return false;
  }
  mx_bits_clear(page->arena->committed, page->slice_index, count);
  // The mapping moved with what was asked for it.
  if (target->arena != NULL && mx_bits_count(page->arena->large, page->slice_index, count) > 0) {
    mx_bits_set(target->arena->large, target->slice_index, count);
  }
  mx_arena_untouch(page->arena, page->start, size);
  mx_huge_page_resize(page, 0);
  mx_subproc_t* const subproc = unlink_block(page);
  mx_huge_page_drop(subproc, page);
  return true;
}

// A block that grows in small steps gets room to grow again, so that n steps move O(log n) times;
// what is not touched costs address space only.
static void* move(mx_page_t* page, size_t bytes, bool zero) {
  mx_heap_t* const heap = mx_page_heap(page);
  const size_t old_bytes = page->block_size;
  mx_check(bytes > old_bytes && !mx_page_is_guarded(page) && !mx_page_is_apart(page));
  if (old_bytes < MOVE_MIN || (page->arena != NULL && page->arena->is_pinned)) return NULL;
  const bool small_step = (bytes - old_bytes < old_bytes / 4 && !mx_os_is_scarce());
  const size_t room = (small_step ? mx_max(bytes, old_bytes + old_bytes / 2) : bytes);
  bool is_zero, is_torn;
  mx_page_t* target = make_block(heap, room, 1, true, true, &is_zero);
  if (target == NULL) target = make_block(heap, bytes, 1, true, true, &is_zero);
  if (target == NULL) return NULL;
  // Its end is not yet where it will be.
  if (MX_GUARD_PAGES && !mx_page_guard_huge(target, false)) {
    mx_huge_free(target);
    return NULL;
  }
  // What lies behind the block in its last slice comes along.
  size_t moved = slices_for(old_bytes) * MX_SLICE_SIZE;
  if (!move_slices(page, target, &is_torn)) {
    if (is_torn) return NULL;
    mx_vmem_copy(target->start, page->start, old_bytes);
    mx_huge_free(page);
    moved = old_bytes;
  }
  note_use(target, 0, bytes);
  clear_part(target, old_bytes, mx_min(moved, bytes), zero);
  clear_part(target, moved, bytes, zero && !is_zero);
  mx_huge_page_resize(target, bytes);
  return target->start;
}

// Whole OS pages for a new size; 0 when a block of this size is not made out of this one.
static size_t bytes_for(const mx_page_t* page, size_t size) {
  mx_check(mx_page_is_huge(page));
  if (mx_page_is_guarded(page) || mx_page_is_apart(page)) return 0;
  if (size > MX_BLOCK_MAX) return 0;
  const size_t bytes = mx_align_up(size, mx_facts.os_page);
  return bytes > MX_SHARED_MAX ? bytes : 0;
}

static bool resize(mx_page_t* page, size_t bytes, bool zero) {
  if (bytes > page->block_size) return grow_in_place(page, bytes, zero);
  shrink(page, bytes);
  return true;
}

bool mx_huge_resize(mx_page_t* page, size_t size) {
  const size_t bytes = (MX_PADDING || MX_GUARD_PAGES ? 0 : bytes_for(page, size));
  return bytes != 0 && resize(page, bytes, false);
}

void* mx_huge_realloc(mx_page_t* page, size_t size, bool zero) {
  const size_t bytes = bytes_for(page, size);
  if (bytes == 0) return NULL;
  if (MX_GUARD_PAGES && !mx_page_guard_huge(page, false)) return NULL;
  void* const p = (resize(page, bytes, zero) ? page->start : move(page, bytes, zero));
  if (MX_GUARD_PAGES) mx_page_guard_huge(p == NULL ? page : mx_pagemap_get(p), true);
  return p;
}
