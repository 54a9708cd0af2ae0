// SPDX-License-Identifier: MIT
// Blocks of no bytes in the builds that make any use of them a fault: places in slices that
// nobody may touch.
//
// Such a slice has a page record of bin 0, which no thread owns, so that every free of a place in
// it takes the slow path. Which places are taken is in a bitmap, changed by atomic operations. The
// slices stay for ever; as many exist as the largest number of such blocks ever asks for. Those
// with free places are in a queue: the taker of the last place, under the lock, takes the slice
// out, and the one that then frees the first puts it back.
#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "alloc.h"
#include "harden.h"

#define PLACES (MX_SLICE_SIZE / MX_ALIGN)

#define TRIES 4  // slices in which an aligned place is looked for

typedef struct taken_s {
  mx_atomic(uint64_t) words[PLACES / 64];
  mx_atomic(uint32_t) left;  // places that are not taken, or a moment ago were not
  size_t cursor;             // places are taken in turn, so that a freed one waits the longest
} taken_t;

static mx_at_start mx_lock_t zero_lock;
static mx_page_t *first_open, *last_open;

// Nothing else uses that field of such a record.
static taken_t* taken_of(const mx_page_t* page) { return (taken_t*)page->taken; }

static void put_open(mx_page_t* page) {
  mx_check(mx_lock_is_mine(&zero_lock) && mx_load_relaxed(&taken_of(page)->left) > 0);
  page->next = NULL;
  if (first_open == NULL) first_open = page;
  else last_open->next = page;
  last_open = page;
}

// The first free place at or behind one, or at the start of the slice, which has one.
static size_t find_free(const taken_t* taken, size_t from) {
  mx_check(from < PLACES && mx_load_relaxed(&taken->left) > 0);
  const size_t words = PLACES / 64;
  size_t word = from / 64;
  uint64_t free = ~mx_load_relaxed(&taken->words[word]) & ~(uint64_t)0 << (from % 64);
  while (free == 0) {
    word = (word + 1) % words;
    free = ~mx_load_relaxed(&taken->words[word]);
  }
  return word * 64 + mx_bit_low(free);
}

// The same for one of an alignment.
static size_t find_aligned(const mx_page_t* page, size_t align) {
  const taken_t* const taken = taken_of(page);
  if (align <= MX_ALIGN) return find_free(taken, taken->cursor % PLACES);
  if (!mx_is_aligned(page->start, align)) return SIZE_MAX;
  const size_t step = align / MX_ALIGN;
  for (size_t n = 0; n < PLACES; n += step) {
    const size_t place = (mx_align_up(taken->cursor, step) + n) % PLACES;
    if (((mx_load_relaxed(&taken->words[place / 64]) >> (place % 64)) & 1) == 0) return place;
  }
  return SIZE_MAX;
}

// Takes a place in the first slice of the queue, which leaves when it was the last one.
static void* take_in_first(size_t align) {
  mx_page_t* const page = first_open;
  mx_check(mx_lock_is_mine(&zero_lock) && mx_page_is_zero_sized(page));
  taken_t* const taken = taken_of(page);
  const size_t place = find_aligned(page, align);
  if (place == SIZE_MAX) return NULL;
  mx_check(place < PLACES);
  mx_check((mx_load_relaxed(&taken->words[place / 64]) >> (place % 64) & 1) == 0);
  mx_or_acq_rel(&taken->words[place / 64], (uint64_t)1 << (place % 64));
  taken->cursor = place + 1;
  if (mx_add_acq_rel(&taken->left, (uint32_t)-1) == 1) first_open = page->next;
  return page->start + place * MX_ALIGN;
}

static void* take(size_t align) {
  mx_check(mx_lock_is_mine(&zero_lock));
  void* p = NULL;
  for (int tries = TRIES; first_open != NULL && tries > 0; tries--) {
    p = take_in_first(align);
    if (p != NULL) break;
    mx_page_t* const page = first_open;
    first_open = page->next;
    put_open(page);
  }
  return p;
}

// Metadata cannot be given back: what a slice that cannot be had leaves is the next one's.
static taken_t* unused_taken;  // under the lock; of two threads' at once one is lost

static taken_t* taken_alloc(void) {
  mx_lock_acquire(&zero_lock);
  taken_t* const taken = unused_taken;
  unused_taken = NULL;
  mx_lock_release(&zero_lock);
  return taken != NULL ? taken : (taken_t*)mx_meta_alloc(sizeof(*taken));
}

static void taken_keep(taken_t* taken) {
  mx_check(taken != NULL);
  mx_lock_acquire(&zero_lock);
  unused_taken = taken;
  mx_lock_release(&zero_lock);
}

static mx_page_t* make_slice(mx_heap_t* heap, size_t align) {
  const mx_slices_request_t request = {1, 1, mx_max(align / MX_SLICE_SIZE, 1), NULL, -1, false,
                                       false};
  taken_t* const taken = taken_alloc();
  if (taken == NULL) return NULL;
  mx_slices_t got;
  if (!mx_slices_alloc(&heap->subproc->arenas, &request, &got)) {
    taken_keep(taken);
    return NULL;
  }
  mx_page_t* const page = mx_arena_record(got.arena, got.index);
  mx_page_init(page, &got, MX_ALIGN, 0, heap);
  page->start = got.start;
  mx_check(mx_page_is_zero_sized(page) && mx_load_relaxed(&page->owner) == 0);
  page->taken = taken;
  mx_store_relaxed(&taken->left, (uint32_t)PLACES);
  page->reserved = (uint32_t)PLACES;  // and `capacity` 0: nothing to visit
  if (!mx_os_protect(got.start, MX_SLICE_SIZE, false) || !mx_pagemap_set(got.start, 1, page)) {
    mx_os_protect(got.start, MX_SLICE_SIZE, true);
    mx_slices_free(&heap->subproc->arenas, got.arena, got.index, 1);
    taken_keep(taken);
    return NULL;
  }
  return page;
}

void* mx_zero_sized_alloc(size_t align) {
  mx_lock_acquire(&zero_lock);
  void* p = take(align);
  mx_lock_release(&zero_lock);
  if (p != NULL) return p;
  // The calls to the OS are made without the lock; two threads may both bring a slice.
  // The slices outlive every heap and sub-process but the main ones.
  mx_page_t* const page = make_slice(&mx_subproc_main.main_heap, align);
  if (page == NULL) return NULL;
  mx_lock_acquire(&zero_lock);
  page->next = first_open;
  if (first_open == NULL) last_open = page;
  first_open = page;
  p = take_in_first(align);
  mx_lock_release(&zero_lock);
  return p;
}

void mx_zero_sized_free(mx_page_t* page, void* p) {
  taken_t* const taken = taken_of(page);
  const size_t place = (size_t)((const uint8_t*)p - page->start) / MX_ALIGN;
  const uint64_t bit = (uint64_t)1 << (place % 64);
  mx_check(mx_page_is_zero_sized(page) && place < PLACES);
  if ((mx_and_acq_rel(&taken->words[place / 64], ~bit) & bit) == 0) {
    mx_error(EAGAIN, "free: double free detected of block %p with size 0\n", p);
    return;
  }
  mx_check(mx_load_relaxed(&taken->left) < PLACES);
  if (mx_add_acq_rel(&taken->left, 1) != 0) return;
  mx_lock_acquire(&zero_lock);
  put_open(page);
  mx_lock_release(&zero_lock);
}

bool mx_zero_sized_visit_locks(mx_lock_visit_fn* visit) { return visit(&zero_lock); }
