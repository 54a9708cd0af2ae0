// SPDX-License-Identifier: MIT
// Owns blocks of no bytes in the builds that make any use of them a fault: places in slices that
// nobody may touch.
//
// Such a slice has a page record of bin 0, which no thread owns, so that every free of a place in
// it takes the slow path. Which places are taken is in a bitmap, changed by atomic operations. The
// slices stay for ever; as many exist as the largest number of such blocks ever asks for.
#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "alloc.h"
#include "harden.h"

#define EAGAIN_ EAGAIN
#define PLACES (MX_SLICE_SIZE / MX_ALIGN)

typedef struct taken_s {
  mx_atomic(uint64_t) words[PLACES / 64];
} taken_t;

static mx_lock_t zero_lock;
static mx_page_t* slices;
static size_t cursor;  // places are taken in turn, so that a freed one waits the longest

// Nothing else uses that field of such a record.
static taken_t* taken_of(const mx_page_t* page) { return (taken_t*)(void*)page->prev; }

static void* take_in(mx_page_t* page, size_t align) {
  if (!mx_is_aligned(page->start, mx_min(align, MX_SLICE_SIZE)) ||
      !mx_is_aligned(page->start, align)) {
    return NULL;
  }
  const size_t step = mx_max(align / MX_ALIGN, 1);
  for (size_t n = 0; n < PLACES; n += step) {
    const size_t place = (mx_align_up(cursor, step) + n) % PLACES;
    void* const p = page->start + place * MX_ALIGN;
    const uint64_t bit = (uint64_t)1 << (place % 64);
    if ((mx_or_acq_rel(&taken_of(page)->words[place / 64], bit) & bit) != 0) continue;
    cursor = place + 1;
    return p;
  }
  return NULL;
}

static mx_page_t* make_slice(mx_heap_t* heap, size_t align) {
  const mx_slices_request_t request = {1, 1, 1, mx_max(align / MX_SLICE_SIZE, 1), NULL, -1, false};
  taken_t* const taken = (taken_t*)mx_meta_alloc(sizeof(*taken));
  if (taken == NULL) return NULL;
  mx_slices_t got;
  if (!mx_slices_alloc(&heap->subproc->arenas, &request, &got)) return NULL;
  mx_page_t* const page = mx_arena_record(got.arena, got.index);
  mx_page_init(page, &got, MX_ALIGN, 0, heap);
  page->start = got.start;
  page->prev = (mx_page_t*)(void*)taken;
  page->reserved = (uint32_t)PLACES;  // and `capacity` 0: nothing to visit
  if (!mx_os_protect(got.start, MX_SLICE_SIZE, false) || !mx_pagemap_set(got.start, 1, page)) {
    mx_os_protect(got.start, MX_SLICE_SIZE, true);
    mx_slices_free(&heap->subproc->arenas, got.arena, got.index, 1);
    return NULL;
  }
  return page;
}

void* mx_zeroblock_alloc(size_t align) {
  void* p = NULL;
  mx_lock_acquire(&zero_lock);
  for (mx_page_t* s = slices; s != NULL && p == NULL; s = s->next) p = take_in(s, align);
  mx_lock_release(&zero_lock);
  if (p != NULL) return p;
  // The calls to the OS are made without the lock; two threads may both bring a slice.
  // The slices outlive every heap and sub-process but the main ones.
  mx_page_t* const page = make_slice(&mx_subproc_main.main_heap, align);
  if (page == NULL) return NULL;
  mx_lock_acquire(&zero_lock);
  page->next = slices;
  slices = page;
  p = take_in(page, align);
  mx_lock_release(&zero_lock);
  return p;
}

void mx_zeroblock_free(mx_page_t* page, void* p) {
  const size_t place = (size_t)((const uint8_t*)p - page->start) / MX_ALIGN;
  const uint64_t bit = (uint64_t)1 << (place % 64);
  if ((mx_and_acq_rel(&taken_of(page)->words[place / 64], ~bit) & bit) == 0) {
    mx_error(EAGAIN_, "free: double free detected of block %p with size 0\n", p);
  }
}

void mx_zeroblock_before_fork(void) { mx_lock_acquire(&zero_lock); }

void mx_zeroblock_after_fork(void) { mx_lock_release(&zero_lock); }
