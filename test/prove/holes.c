// SPDX-License-Identifier: MIT
// Proves of holes: what goes back of a page has no live block in it, and the free list has just the
// blocks that are still there. OS pages and slices are small ones here, which is all that the
// functions know of them.
#include "page/page.h"

#define BLOCKS 3
#define BLOCK_SIZE ((size_t)48)
#define OS_PAGE ((size_t)64)
#define OS_PAGES ((size_t)3)
#define FRONT ((size_t)16)  // of the first block, so that blocks and OS pages begin apart

static mx_aligned(64) uint8_t prove_memory[OS_PAGES * OS_PAGE];
static mx_page_t prove_page;
static mx_arena_t prove_arena;
static mx_bits_t prove_present;  // by OS page

static uint8_t* prove_page_end(const mx_page_t* page) {
  (void)page;
  return prove_memory + sizeof(prove_memory);
}
// Where the real one ends is proved of page-holds-its-blocks.
#define mx_page_end prove_page_end

#include "page/freelist.c"
#include "page/holes.c"

mx_facts_t mx_facts;
mx_counters_t mx_process_counters;

// No link is bad here, so nothing is reported.
static void report(mx_level_t level, int code, const char* fmt, ...) {
  (void)level, (void)code, (void)fmt;
  claim(false);
}
mx_hooks_t mx_hooks = {.message = report};

// ---- what a page asks of its arena -------------------------------------------------------------

size_t mx_arena_bit_of(const mx_arena_t* arena, const void* p) {
  (void)arena;
  return (size_t)((const uint8_t*)p - prove_memory) / OS_PAGE;
}

// The OS pages that a range overlaps, as bits.
static uint64_t bits_of(const void* start, size_t size) {
  const size_t first = (size_t)((const uint8_t*)start - prove_memory) / OS_PAGE;
  const size_t last = ((size_t)((const uint8_t*)start - prove_memory) + size - 1) / OS_PAGE;
  claim(size > 0 && last < OS_PAGES);
  return (((uint64_t)2 << last) - 1) & ~(((uint64_t)1 << first) - 1);
}

bool mx_arena_is_present(const mx_arena_t* arena, const void* start, size_t size) {
  (void)arena;
  return (bits_of(start, size) & ~prove_present) == 0;
}

size_t mx_arena_touch(mx_arena_t* arena, const void* start, size_t size) {
  (void)arena;
  prove_present |= bits_of(start, size);
  return size;
}

size_t mx_arena_discard(mx_arena_t* arena, void* start, size_t size) {
  (void)arena;
  const size_t offset = (size_t)((uint8_t*)start - prove_memory);
  claim(offset % OS_PAGE == 0 && size % OS_PAGE == 0);
  claim((bits_of(start, size) & ~prove_present) == 0);
  prove_present &= ~bits_of(start, size);
  return size;
}

size_t mx_bits_count(const mx_bits_t* a, size_t first, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < OS_PAGES; i++) count += (i >= first && i - first < n && mx_bits_test(a, i));
  return count;
}

mx_commit_t mx_arena_map_parts(mx_arena_t* arena, const void* start, size_t size) {
  (void)arena, (void)start, (void)size;
  return nondet_bool() ? MX_COMMIT_DONE : MX_COMMIT_REFUSED;
}

bool mx_os_barrier_all(void) { return nondet_bool(); }

// ---- a page with holes -------------------------------------------------------------------------

static mx_block_t* block_number(size_t i) {
  return (mx_block_t*)(void*)(prove_memory + FRONT + i * BLOCK_SIZE);
}

static bool is_whole(size_t i) { return mx_arena_is_present(&prove_arena, block_number(i), BLOCK_SIZE); }

// The blocks of the free list as bits; fails where one comes twice or is none.
static unsigned listed(void) {
  unsigned which = 0;
  for (const mx_block_t* b = prove_page.free; b != NULL; b = (const mx_block_t*)b->next) {
    const size_t offset = (size_t)((const uint8_t*)b - prove_page.start);
    claim(offset % BLOCK_SIZE == 0 && offset / BLOCK_SIZE < prove_page.capacity);
    const size_t i = offset / BLOCK_SIZE;
    claim((which >> i & 1) == 0);
    if ((which >> i & 1) != 0) break;
    which |= 1u << i;
  }
  return which;
}

// Any carved blocks, any of them live, any OS pages there; what is whole and not live is on the list,
// in any order, and what is not whole is not live. Answers the live ones.
static unsigned make_page(uint8_t lend) {
  assume((uintptr_t)prove_memory % OS_PAGE == 0);
  mx_facts.os_page = OS_PAGE;
  prove_arena.present = &prove_present;
  prove_page.arena = &prove_arena;
  prove_page.start = prove_memory + FRONT;
  prove_page.block_size = BLOCK_SIZE;
  prove_page.reserved = BLOCKS;
  prove_page.capacity = (uint32_t)any_size(1, BLOCKS);
  prove_page.slice_count = 1;
  prove_page.bin = 3;
  prove_page.lend = lend;
  prove_present = any_size(0, ((size_t)1 << OS_PAGES) - 1);
  const unsigned wanted = nondet_uint32();
  unsigned live = 0, free = 0;
  for (size_t i = 0; i < prove_page.capacity; i++) {
    if (!is_whole(i)) continue;
    if ((wanted >> i & 1) != 0) live |= 1u << i;
    else free |= 1u << i;
    prove_page.used += wanted >> i & 1;
  }
  unsigned linked = 0;
  for (size_t turn = 0; turn < BLOCKS; turn++) {
    const size_t i = any_size(0, BLOCKS);
    if (i == BLOCKS || ((free & ~linked) >> i & 1) == 0) continue;
    block_number(i)->next = (uintptr_t)prove_page.free;
    prove_page.free = block_number(i);
    linked |= 1u << i;
  }
  assume(linked == free);
  return live;
}

// What holds of a page whenever nobody works on it.
static void claim_sound(unsigned live) {
  const unsigned free = listed();
  claim((free & live) == 0);
  for (size_t i = 0; i < prove_page.capacity; i++) {
    const bool is_known = ((free | live) >> i & 1) != 0;
    claim(is_known == is_whole(i));
  }
}

// prove: no OS page with a live block goes back, nor with the block that others free in front of; the
//   list has those that are still there, each once
// bound: all pages of up to three blocks of three quarters of an OS page, live, free or in holes, and all
//   orders of the list
// unwind: 7
// builds: release64 release32
// long: yes
// mutant: page/holes.c: from = (uint8_t*)mx_align_up( => from = (uint8_t*)mx_align_down(
void prove_holes_make(void) {
  const unsigned live = make_page(MX_PAGE_RESTS | MX_PAGE_LENT);
  const uint64_t was = prove_present;
  mx_block_t* const first = prove_page.free;
  const uint32_t used = prove_page.used;
  const bool is_owner = nondet_bool();
  bool has_holes = true;
  const size_t bytes = make_in_lent(&prove_page, is_owner, &has_holes);
  claim((prove_present & ~was) == 0);
  claim((bytes == 0) == (prove_present == was));
  claim(prove_page.used == used);
  if (used == 0 && prove_page.capacity == 0) {
    claim(prove_page.free == NULL && live == 0);
    return;
  }
  claim(is_owner || prove_page.free == first);
  claim_sound(live);
}

// prove: what is carved from a hole comes onto the list, once, and nothing else does; a hole of which
//   nothing is had leaves the list as it was
// bound: all pages of up to three blocks of three quarters of an OS page, live, free or in holes, and all
//   orders of the list
// unwind: 7
// builds: release64 release32
// long: yes
// mutant: page/holes.c: mx_block_set_next(page, block, page->free); => mx_block_set_next(page, block, NULL);
void prove_holes_carve(void) {
  const unsigned live = make_page(MX_PAGE_HOLES);
  prove_arena.has_parts = nondet_bool();
  const uint64_t was = prove_present;
  const unsigned before = listed();
  const bool is_found = mx_holes_carve(&prove_page);
  claim((was & ~prove_present) == 0);
  const unsigned free = listed();
  claim((free & before) == before);
  claim(is_found == (free != before));
  claim_sound(live);
}
