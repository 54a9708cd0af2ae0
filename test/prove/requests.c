// SPDX-License-Identifier: MIT
// Proves of requests: no sum of size, alignment, offset and padding overflows, and what comes back
// lies in its block, aligned as asked; of a block that moves all is copied that both have room for.
#include "heap/thread_life.h"

// Copies and fills in plain C: the checker has no body for the compiler's.
#include <string.h>
#undef memcpy
#undef memset
#define memcpy prove_copy
#define memset prove_fill
// What a block that moves is copied and cleared by: noted and not done, as blocks are addresses there.
typedef struct act { uintptr_t to, from; size_t size; unsigned count; } act_t;
static act_t prove_copied, prove_cleared;
static uintptr_t prove_old;  // the block that moves, or 0
static size_t prove_old_usable;
static void note(act_t* act, const void* to, const void* from, size_t size) {
  act->to = (uintptr_t)to;
  act->from = (uintptr_t)from;
  act->size = size;
  act->count++;
}

static void* prove_copy(void* to, const void* from, size_t size) {
  if (prove_old != 0) {
    note(&prove_copied, to, from, size);
    return to;
  }
  for (size_t i = 0; i < size; i++) ((uint8_t*)to)[i] = ((const uint8_t*)from)[i];
  return to;
}
static void* prove_fill(void* p, int byte, size_t size) {
  if (prove_old != 0) {
    claim(byte == 0);
    note(&prove_cleared, p, NULL, size);
    return p;
  }
  for (size_t i = 0; i < size; i++) ((uint8_t*)p)[i] = (uint8_t)byte;
  return p;
}
// Canaries have proofs of their own (canaries.c); a block here is an address that nobody reads.
#define mx_harden_shrinks short_harden_shrinks
#include "alloc/harden.h"
#undef mx_harden_shrinks
static bool mx_harden_shrinks(void* block, size_t size);

// What takes a block off a page has proofs, too (lists.c).
static void* take(mx_page_t* page, size_t size);
static void* take_zero(mx_page_t* page, size_t size);
#define mx_take(page, size, is_small) ((mx_block_t*)take((page), (size)))
#define mx_take_zero(page, size, is_small) ((mx_block_t*)take_zero((page), (size)))
// A product is the compiler's: any, and whether it overflows as well.
static size_t prove_product;
static bool prove_overflows;
#define mx_mul_overflow(a, b, product) (*(product) = prove_product, prove_overflows)
// The fast path has proofs of its own; elsewhere it is the allocation that it stands for.
#define mx_alloc_in fast_alloc_in
#include "alloc/fast.h"
#undef mx_alloc_in
#undef mx_take
#undef mx_take_zero
static void* mx_alloc_in(mx_theap_t* theap, size_t size);
static void prove_free(void* p);
// What it writes in front of a pointer is no contents of a block.
#include "page/shift.h"
#define mx_shift_mark(page, p) ((void)(page), (void)(p))
#define mx_free_plain(p) prove_free(p)
#include "alloc/realloc.c"
#undef mx_free_plain

mx_facts_t mx_facts;
mx_page_t mx_page_none;

static mx_theap_t prove_theap;
static mx_heap_t prove_heap;
static mx_page_t prove_page;

// The checker keeps the number of an object in the highest eight bits of a pointer, and a sign
// behind: addresses to which something is added end below.
#define ADDRESSES ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 9))

// The block that some allocation answers: its address, which is never followed, and its bytes.
static uintptr_t prove_block;
static size_t prove_usable;
static bool prove_failed, prove_forgone, prove_freed;

static void start(void) {
  mx_facts.os_page = 4096;
  prove_theap.heap = &prove_heap;
  prove_block = 0;
  prove_failed = prove_forgone = false;
}

// Another block may be had then. One that moved is freed once, and nothing is copied from it afterwards.
static void prove_free(void* p) {
  if (prove_old != 0 && (uintptr_t)p == prove_old) {
    claim(prove_copied.count == 1 && !prove_freed);
    prove_freed = true;
    return;
  }
  claim(p == NULL || (uintptr_t)p == prove_block);
  prove_block = 0;
}

void mx_theap_release_current(mx_theap_t* theap, size_t bin) {
  claim(theap == &prove_theap && bin > 0 && bin < MX_BIN_HUGE);
}

void mx_free_slow(void* p) { prove_free(p); }

// What moves, if anything does, is no part of what is had meanwhile; and where the new block ends is an address
// that the checker can add to.
static void apart_from_old(void) {
  if (prove_old == 0) return;
  assume(prove_block <= ADDRESSES / 2 && prove_usable <= ADDRESSES / 2);
  assume(prove_old < prove_block || prove_old - prove_block > prove_usable);
}

// A block that shares its page: at least as large as it must be, and at least as aligned as that
// size is, up to a slice, or what colors leave of it. bins-keep-alignment and page-keeps-alignment
// prove both.
static void* give_shared(size_t size) {
  const size_t padded = mx_max(size, 1) + MX_PAD;
  claim(padded >= size);
  size_t align = mx_max(MX_ALIGN, mx_min(padded & (0 - padded), MX_SHARED_ALIGN_MAX));
  if (padded < MX_COLOR_SPAN && nondet_bool()) align = mx_min(align, MX_COLOR_STEP_MIN);
  prove_block = any_size(MX_SLICE_SIZE, ADDRESSES - 2 * MX_BIN_MAX_SIZE) & ~(align - 1);
  prove_usable = any_size(padded, MX_BIN_MAX_SIZE) - MX_PAD;
  apart_from_old();
  return (void*)prove_block;
}

static bool fails(size_t size) {
  claim(prove_block == 0);
  prove_failed = (size > MX_MAX_ALLOC || nondet_bool());
  return prove_failed;
}

// A block alone in its page: as aligned as asked, and as slices are.
static void* give_alone(size_t size, size_t align) {
  if (fails(size)) return NULL;
  prove_block = any_size(MX_SLICE_SIZE, SIZE_MAX / 4) & ~(mx_max(align, MX_SLICE_SIZE) - 1);
  // What is added to it must not reach the bits of a pointer in which the checker keeps its object.
  assume(prove_block % (2 * ADDRESSES) < 2 * ADDRESSES - 2 * MX_BIN_MAX_SIZE);
  prove_usable = size;
  apart_from_old();
  return (void*)prove_block;
}

static void* give(size_t size) {
  if (size > MX_BIN_MAX_SIZE - MX_PAD) return give_alone(size, 1);
  return fails(size) ? NULL : give_shared(size);
}

static void* mx_alloc_in(mx_theap_t* theap, size_t size) { (void)theap; return give(size); }
void* mx_alloc_slow(size_t size, mx_theap_t* theap, bool zero) { (void)theap, (void)zero; return give(size); }
void* mx_alloc_small_slow(size_t size, mx_theap_t* theap) { (void)theap; return give(size); }
void* mx_alloc_medium(size_t size, mx_theap_t* theap) { (void)theap; return give(size); }
void* mx_zalloc_in(mx_theap_t* theap, size_t size) { (void)theap; return give(size); }
void* mx_calloc_medium(size_t total, mx_theap_t* theap) { (void)theap; return give(total); }
void* mx_calloc_slow(size_t count, size_t size, mx_theap_t* theap) {
  (void)theap;
  size_t total;
  return mx_mul_overflow(count, size, &total) ? NULL : give(total);
}
void* mx_huge_alloc(mx_heap_t* heap, size_t size, size_t align, bool is_growing, bool zero) {
  (void)heap, (void)is_growing, (void)zero;
  claim(mx_is_pow2(align));
  return give_alone(size, align);
}
void* mx_zero_sized_alloc(size_t align) {
  claim(mx_is_pow2(align));
  if (nondet_bool()) return NULL;
  prove_block = any_size(MX_SLICE_SIZE, SIZE_MAX / 4) & ~(align - 1);
  prove_usable = 0;
  apart_from_old();
  return (void*)prove_block;
}
void mx_call_begins_pending(void) {}
void mx_call_ends_pending(void) {}
void mx_alloc_on_pressure(mx_theap_t* theap) { (void)theap; }
void mx_spare_flush(mx_theap_t* theap) { claim(theap == &prove_theap); }
bool mx_common_is_due(const mx_heap_t* heap) { (void)heap; return nondet_bool(); }
// A bin is forgone once.
bool mx_common_forgo(mx_theap_t* theap, size_t bin) {
  claim(theap == &prove_theap && bin > 0 && bin < MX_BIN_HUGE);
  const bool might = (!prove_forgone && nondet_bool());
  prove_forgone |= might;
  return might;
}
// Nothing is sampled: neither the heap of the thread nor the page says so.
void* mx_sample_apart(mx_theap_t* theap, size_t size, size_t align, bool is_growing, bool zero) {
  (void)theap, (void)align, (void)is_growing, (void)zero;
  claim(false);
  return give(size);
}
void mx_sample_resize(mx_page_t* page, size_t size) { (void)page, (void)size; claim(false); }
void* mx_alloc_failed(size_t size) { (void)size; prove_failed = true; return NULL; }
mx_page_t* mx_pagemap_get(const void* p) { (void)p; return &prove_page; }
mx_theap_t* mx_thread_theap(void) { return nondet_bool() ? &prove_theap : NULL; }
void mx_harden_shrink(void* block, size_t size) { (void)block; claim(prove_failed || size <= prove_usable); }
static bool mx_harden_shrinks(void* block, size_t size) {
  if (nondet_bool()) return false;
  mx_harden_shrink(block, size);
  return true;
}
bool mx_harden_resize(mx_page_t* page, void* block, size_t size, bool zero, bool must) {
  (void)size, (void)zero, (void)must;
  claim(page == &prove_page && (uintptr_t)block == prove_old);
  return nondet_bool();
}
void mx_vmem_copy(void* to, const void* from, size_t size) { prove_copy(to, from, size); }
// Under canaries what was asked for, else all there is.
size_t mx_usable_size(const void* p) {
  if (prove_old != 0 && (uintptr_t)p == prove_old) return prove_old_usable;
  const uintptr_t at = (uintptr_t)p - prove_block;
  claim(at <= prove_usable);
  return prove_usable - at;
}
void mx_harden_alloc_huge(void* block, size_t size, bool zero) { (void)block, (void)size, (void)zero; }

// prove: an aligned request gets a block that holds it, aligned as asked; nothing overflows on the way
// bound: all sizes, alignments and offsets that the interface lets pass
// addresses: yes
// mutant: alloc/realloc.c: alloc_shifted(theap, size, align, align - shift, zero) => alloc_shifted(theap, size, align, shift, zero)
void prove_aligned_requests(void) {
  start();
  const size_t size = nondet_size(), offset = nondet_size();
  const size_t align = (size_t)1 << any_size(0, 8 * sizeof(size_t) - 1);
  assume((offset & (align - 1)) == 0 || align <= MX_SLICE_SIZE);
  const uintptr_t p = (uintptr_t)mx_alloc_aligned(&prove_theap, size, align, offset, nondet_bool());
  if (p == 0) return;
  claim(((p + offset) & (align - 1)) == 0);
  claim(p >= prove_block && size <= prove_usable);
  claim(p - prove_block <= prove_usable - size);
  // Its first byte belongs to it, also where it has none; builds with canaries have one there.
  claim(MX_PADDING || p - prove_block < mx_max(prove_usable, 1));
}

// One bin's page in front, any but the first's, which never has one. Its blocks have as many bytes.
static size_t prove_bin;

static void start_front(void) {
  start();
  prove_usable = 0;
  prove_bin = any_size(1, sizeof(prove_theap.bins.front) / sizeof(prove_theap.bins.front[0]) - 1);
  prove_theap.bins.front[prove_bin] = &prove_page;
}

// A block of any content, and what was in one of its bytes.
static uint8_t prove_bytes[64 + MX_ALIGN], prove_was;
static size_t prove_some;

static void* take(mx_page_t* page, size_t size) {
  if (page != &prove_page) return NULL;
  claim(prove_bin * MX_ALIGN >= size + MX_PAD);
  if (nondet_bool()) return NULL;
  prove_usable = prove_bin * MX_ALIGN - MX_PAD;
  prove_was = nondet_uint8();
  prove_bytes[prove_some] = prove_was;
  return prove_bytes;
}

static void* take_zero(mx_page_t* page, size_t size) {
  void* const block = take(page, size);
  prove_was = 0;
  prove_bytes[prove_some] = 0;
  return block;
}

// prove: malloc looks within the table of pages, and finds a page of blocks that hold the request there
// bound: all sizes
// mutant: alloc/fast.h: size - MX_SIZE_MIN > MX_SMALL_MAX - MX_PAD - MX_SIZE_MIN => size > MX_SMALL_MAX * 3
void prove_plain_requests(void) {
  start_front();
  const size_t size = nondet_size();
  if (fast_alloc_in(&prove_theap, size) != NULL) claim(prove_usable >= size);
}

// prove: so does calloc; it clears all that was asked for, and nothing behind the block
// bound: all products of a count and a size, and those that overflow
// unwind: 18
// mutant: alloc/alloc.h: memcpy(p + size - 32, &zero, 16); => memcpy(p + size - 16, &zero, 16);
void prove_calloc_requests(void) {
  start_front();
  prove_some = any_size(0, sizeof(prove_bytes) - 1);
  prove_product = nondet_size();
  prove_overflows = nondet_bool();
  const size_t total = prove_product;
  const void* const p = mx_calloc_in(&prove_theap, nondet_size(), nondet_size());
  if (p == NULL) return;
  claim(!prove_overflows && prove_usable >= total);
  if (p != prove_bytes) return;
  if (prove_some < total) claim(prove_bytes[prove_some] == 0);
  if (prove_some >= prove_bin * MX_ALIGN) claim(prove_bytes[prove_some] == prove_was);
}

// prove: room for further growth is never less than what was asked for, nor more than an eighth more
// bound: all sizes
// addresses: yes
// mutant: alloc/realloc.c: mx_min(size + size / 8, most) => mx_min(size + size / 4, most)
void prove_growth(void) {
  const size_t size = nondet_size(), old = nondet_size();
  const size_t got = with_room(size, old);
  claim(got >= size);
  claim(got - size <= size / 8);
}

static void* start_move(size_t usable) {
  start();
  prove_old = any_size(MX_SLICE_SIZE, ADDRESSES);
  prove_old_usable = usable;
  return (void*)prove_old;
}

// All of the old block that the new one has room for is copied once, to where the new one begins, before the
// old one is freed; without a new one nothing happens to the old one.
static void claim_moved(const void* fresh, size_t keep) {
  if (fresh == NULL || (uintptr_t)fresh == prove_old) {
    claim(prove_copied.count == 0 && prove_cleared.count == 0 && !prove_freed);
    return;
  }
  claim(prove_freed && prove_copied.count == 1);
  claim(prove_copied.to == (uintptr_t)fresh && prove_copied.from == prove_old);
  claim(prove_copied.size == keep);
  claim((uintptr_t)fresh - prove_block <= prove_usable);
  claim(keep <= prove_usable - ((uintptr_t)fresh - prove_block));
}

// prove: a block that moves is copied whole, or as far as the new one goes, to where that begins, before
//   it is freed; what a cleared one has behind that is cleared, and no more; where there is no memory the block
//   stays as it is
// bound: all old and new sizes, alignments and offsets that the interface lets pass; new blocks at addresses
//   and of sizes to 2^54, of 32 bits to 2^22
// long: yes
// addresses: yes
// mutant: alloc/realloc.c: const size_t keep = mx_min(old_usable, size); => const size_t keep = old_usable;
void prove_realloc_moves(void) {
  const size_t old = any_size(0, MX_MAX_ALLOC), size = any_size(1, SIZE_MAX), offset = nondet_size();
  void* const p = start_move(old);
  const size_t align = (nondet_bool() ? 0 : (size_t)1 << any_size(0, 8 * sizeof(size_t) - 1));
  assume(align == 0 || (offset & (align - 1)) == 0 || align <= MX_SLICE_SIZE);
  const bool zero = nondet_bool();
  const void* const fresh = move_block(&prove_theap, p, old, size, align, offset, zero);
  const size_t keep = mx_min(old, size);
  claim_moved(fresh, keep);
  if (fresh == NULL) return;
  const size_t usable = mx_usable_size(fresh);
  claim(prove_cleared.count == (zero && usable > keep));
  if (prove_cleared.count != 0) {
    claim(prove_cleared.to == (uintptr_t)fresh + keep && prove_cleared.size == usable - keep);
  }
}

// prove: so is one that the fast path moves
// bound: all old sizes, all new ones below those that get room for more
// addresses: yes
// mutant: alloc/realloc.c: memcpy(fresh, p, keep); => memcpy(fresh, p, size);
void prove_realloc_copies(void) {
  const size_t old = any_size(0, MX_BIN_MAX_SIZE), size = any_size(1, MX_ROOM_MIN - 1);
  void* const p = start_move(old);
  claim_moved(mx_realloc_copied(&prove_theap, p, old, size), mx_min(old, size));
}
