// SPDX-License-Identifier: MIT
// Proves of the arithmetic of pages: which addresses are blocks, and how far a page reaches.
#include "page/blocks.c"
#include "page/shift.h"

mx_facts_t mx_facts;

// A page as mx_page_init makes it of slices at `first`, with all that it may take.
static mx_page_t prove_page;
static mx_arena_t prove_arena;

// The checker keeps the number of an object in the highest eight bits of a pointer, and a sign
// behind: addresses end below.
#define ADDRESSES ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 9))

// The address of the first slice of a page; not that of an object, since nothing is read there.
static uint8_t* any_slice(void) {
  const uintptr_t last = ADDRESSES - (MX_LARGE_PAGE_SLICES + 1) * MX_SLICE_SIZE;
  return (uint8_t*)mx_align_down(any_size(MX_SLICE_SIZE, last), MX_SLICE_SIZE);
}

void mx_page_init_delay(mx_page_t* page) { (void)page; }

static void make_page(size_t bin) {
  mx_facts.os_page = 4096;
  mx_color_least = MX_COLOR_STEP_MIN << any_size(0, 4);
  const mx_slices_t slices = {.start = any_slice(), .index = any_size(0, 1 << 14),
                              .count = mx_page_first_slices(mx_bin_size(bin)),
                              .arena = (nondet_bool() ? &prove_arena : NULL)};
  mx_page_init(&prove_page, &slices, mx_bin_size(bin), bin, NULL);
}

// For one of the bins from `from` on in steps, whichever the checker likes.
static void some_bins(void (*check)(size_t), size_t from, size_t step) {
  for (size_t bin = from; bin < MX_BIN_HUGE; bin += step) {
    if (nondet_bool()) {
      check(bin);
      return;
    }
  }
}

// prove: blocks end where the page's slices end at the latest, begin as near as is said, and there is
//   one
// bound: all bins
// builds: secure64 secure32 release64 release32
// addresses: yes
// mutant: page/blocks.c: (all - front - mx_guard_size()) => (all - mx_guard_size())
void prove_page_holds_its_blocks(void) {
  const size_t bin = any_size(1, MX_BIN_HUGE - 1), size = mx_bin_size(bin);
  make_page(bin);
  const size_t most = mx_page_slices_for(size) * MX_SLICE_SIZE;
  const size_t fence = (uintptr_t)prove_page.start % MX_SLICE_SIZE;
  claim(prove_page.reserved >= 1);
  claim(fence + prove_page.reserved * size <= most);
  claim(mx_page_span(&prove_page) <= most - fence);
  claim(fence <= mx_page_fence(size));
}

// prove: blocks are aligned as their size is, those of less than 2 KiB at most as much as pages
//   are made for
// bound: all bins
// builds: secure64 secure32 release64 release32
// addresses: yes
// mutant: page/color.h: (MX_PADDING ? step : 0) => (MX_PADDING ? step / 2 : 0)
void prove_page_keeps_alignment(void) {
  const size_t bin = any_size(1, MX_BIN_HUGE - 1), size = mx_bin_size(bin);
  make_page(bin);
  const size_t all = mx_min(size & (0 - size), MX_SHARED_ALIGN_MAX);
  const size_t align = (size < MX_COLOR_SPAN ? mx_min(all, mx_color_least) : all);
  claim((uintptr_t)prove_page.start % align == 0);
  claim(!MX_PADDING || (uintptr_t)prove_page.start % MX_SLICE_SIZE >= MX_PAD);
}

// What a page asks of lower floors and of its other source.
uint64_t mx_random64(void) { return nondet_uint64(); }
size_t mx_arena_touch(mx_arena_t* arena, const void* start, size_t size) {
  (void)arena, (void)start;
  claim(size > 0);
  return size;
}
bool mx_arena_is_present(const mx_arena_t* arena, const void* start, size_t size) {
  (void)arena, (void)start;
  claim(size > 0);
  return nondet_bool();
}

static void carves_of(size_t bin) {
  const size_t size = mx_bin_size(bin);
  make_page(bin);
  const uint32_t limit = limit_of(&prove_page);
  prove_page.capacity = (uint32_t)any_size(0, limit - 1);
  claim(limit >= 1 && limit <= prove_page.reserved);
  claim(prove_page.start + limit * size <= mx_page_end(&prove_page));
  const uint32_t count = carve_count(&prove_page, limit);
  claim(count >= 1 && prove_page.capacity + count <= limit);
  const uint32_t present = carve_count_present(&prove_page, count, limit);
  claim(present == 0 || (present > count && prove_page.capacity + present <= limit));
}

// prove: how many blocks are carved at once is at least one, and ends before the slices do
// bound: every seventeenth bin, pages of any blocks carved before
// unwind: 10
// addresses: yes
// mutant: page/blocks.c: mx_min(count, limit - page->capacity) => mx_min(count, limit)
void prove_page_carves_within(void) { some_bins(carves_of, 3, 17); }

static void growth_of(size_t bin) {
  const size_t size = mx_bin_size(bin);
  make_page(bin);
  prove_page.arena = &prove_arena;
  prove_page.slice_count = (uint32_t)any_size(mx_page_first_slices(size), mx_page_slices_for(size));
  prove_page.capacity = (uint32_t)any_size(0, prove_page.reserved);
  assume(prove_page.capacity <= limit_of(&prove_page));
  mx_page_grow(&prove_page, NULL);
  claim(prove_page.slice_count <= mx_page_slices_for(size));
  claim(prove_page.capacity == prove_page.reserved || prove_page.is_final != 0 ||
        prove_page.capacity < limit_of(&prove_page));
}

// prove: a page takes the slices that its next block needs, and none behind what it may have
// bound: every seventeenth bin, pages of any blocks and slices
// unwind: 10
// addresses: yes
// mutant: page/blocks.c: (page->capacity + (size_t)1) * page->block_size; => (page->capacity + (size_t)2) * page->block_size;
void prove_page_grows_within(void) { some_bins(growth_of, 3, 17); }

bool mx_slices_extend(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                      bool is_carved) {
  (void)arenas, (void)arena;
  claim(count >= 1 && index == prove_page.slice_index + prove_page.slice_count);
  // Nothing is asked for that the next block does not need, but by pages of many slices where each
  // slice would be a call of the OS.
  const size_t all = mx_page_slices_for(prove_page.block_size);
  const bool may_be_ahead = (MX_SCATTER && all > MX_MEDIUM_PAGE_SLICES &&
                             count <= mx_min(prove_page.slice_count, EXTEND_MOST));
  const size_t had = (prove_page.slice_count + count - 1) * MX_SLICE_SIZE -
                     (uintptr_t)prove_page.start % MX_SLICE_SIZE - mx_guard_size();
  claim(prove_page.slice_count + count <= all);
  claim(may_be_ahead || (prove_page.capacity + (size_t)1) * prove_page.block_size > had);
  claim(is_carved);
  return nondet_bool();
}
bool mx_slices_wait_elsewhere(const mx_arena_t* arena, size_t index, size_t need, size_t run) {
  (void)arena;
  claim(need >= 1 && index == prove_page.slice_index + prove_page.slice_count);
  claim(need <= run && need <= prove_page.slice_count);
  return nondet_bool();
}
mx_commit_t mx_arena_map_parts(mx_arena_t* arena, const void* start, size_t size) {
  (void)arena, (void)start, (void)size;
  return nondet_bool() ? MX_COMMIT_DONE : MX_COMMIT_REFUSED;
}
void mx_slices_free(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                      bool is_carved) {
  (void)arenas, (void)arena, (void)index, (void)count;
}
bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page) {
  (void)start, (void)count, (void)page;
  return nondet_bool();
}
bool mx_arena_guard(mx_arena_t* arena, size_t index, size_t count, bool install) {
  (void)arena, (void)index, (void)count, (void)install;
  return nondet_bool();
}

// ---- addresses ---------------------------------------------------------------------------------

// Any address of the page's slices, as the number q of a block and a distance m from its start.
static size_t prove_q, prove_m;

static uint8_t* any_address(size_t size) {
  prove_m = any_size(0, size - 1);
  prove_q = any_size(0, MX_LARGE_PAGE_SLICES * MX_SLICE_SIZE / size);
  assume(prove_q * size + prove_m < MX_LARGE_PAGE_SLICES * MX_SLICE_SIZE);
  return prove_page.start + prove_q * size + prove_m;
}

static void addresses_of(size_t bin) {
  const size_t size = mx_bin_size(bin);
  make_page(bin);
  const uint8_t* const p = any_address(size);
  const bool begins = (prove_m == 0 && prove_q < prove_page.reserved);
  claim(mx_page_could_be_block(&prove_page, p) == begins);
  prove_page.capacity = (uint32_t)any_size(0, prove_page.reserved);
  claim(mx_page_is_block(&prove_page, p) == (prove_m == 0 && prove_q < prove_page.capacity));
  const uint8_t* const block = (const uint8_t*)mx_shift_block(&prove_page, p);
  claim(block == (prove_q < prove_page.capacity ? p - prove_m : NULL));
}

// prove: just the starts of blocks are taken for blocks, and a pointer into a block leads to its
//   start where pages have such pointers
// bound: all addresses of the page's slices, all bins, a proof for each
// cases: 136
// long: yes
// addresses: yes
// mutant: page/page.h: &index) && index < page->reserved; => &index) && index <= page->reserved;
void prove_page_knows_its_blocks(void) { addresses_of(1 + PROVE_CASE); }

static void fronts_of(size_t bin) {
  make_page(bin);
  const uintptr_t start = (uintptr_t)prove_page.start;
  const size_t front = mx_min(start, MX_LARGE_PAGE_SLICES * MX_SLICE_SIZE);
  const uintptr_t p = any_size(start - front, start - 1);
  assume(p < start);
  claim(!MX_RECIPROCALS || !mx_page_begins_block(&prove_page, (const void*)p));
}

// prove: no address in front of a page's first block begins one
// bound: the bytes of the largest page, every seventeenth bin
// unwind: 10
// builds: release64
// addresses: yes
// mutant: page/page.h: (uint32_t)index < page->reserved; => (uint8_t)index < page->reserved;
void prove_page_has_nothing_in_front(void) { some_bins(fronts_of, 3, 17); }

static void strangers_of(size_t bin) {
  const size_t size = mx_bin_size(bin);
  make_page(bin);
  const uintptr_t p = any_size(0, ADDRESSES - 1), start = (uintptr_t)prove_page.start;
  assume(p < start || p >= start + mx_page_slices_for(size) * MX_SLICE_SIZE);
  claim(!mx_page_could_be_block(&prove_page, (const void*)p));
  claim(!mx_page_is_block(&prove_page, (const void*)p));
  prove_page.capacity = prove_page.reserved;
  claim(mx_shift_block(&prove_page, (const void*)p) == NULL);
}

// prove: no address outside of a page's slices is taken for a block of it
// bound: all addresses below 2^55, every seventeenth bin
// unwind: 10
// builds: release64 secure64
// addresses: yes
// mutant: page/page.h: &index) && index < page->reserved; => &index) && index < UINT64_MAX / 4;
void prove_page_refuses_strangers(void) { some_bins(strangers_of, 3, 17); }
