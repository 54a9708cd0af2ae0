// SPDX-License-Identifier: MIT
// Which huge blocks are filled. A large OS page is had in a fifth of the time that its 512 small
// ones take, and makes a block that is used here and there as large as it looks. What blocks of a
// size were used for tells: a look at some OS pages of one whose memory was fresh, when the next is
// wanted or it is given back itself, shows whether it was touched all over. Two that were let the
// next ones have large OS pages, of which every sixteenth keeps small ones, since large ones hide
// what is used of them; one that was not ends it.
//
// A class of sizes is a power of two. One of which nothing is known is taken for what those near it
// are, where they agree: a program that fills blocks of 5 MiB fills those of 20 as well. Several
// blocks are remembered, since threads that fill theirs at once find the other's unfinished. What
// one thread finds out at the same time as another may be of another block: a guess in any case.
#include "dense.h"

#include "../base/bits.h"
#include "../base/facts.h"
#include "../base/options.h"
#include "../os/os.h"

#define LARGE_LEAST 2  // large OS pages that fit, for a look at a block to pay
#define DENSE_ENOUGH 2
#define SPARSE UINT8_MAX  // one was not filled, and none since
#define VAST_LEAST (32 * MX_MIB)
#define NEIGHBORS 2       // classes on either side that tell of one of which nothing is known
#define HAVE_SMALL 16
#define CLASSES ((size_t)32)
#define LATEST 8

// By the exponent, of which fewer occur: how many blocks were filled, or SPARSE.
typedef mx_atomic(uint8_t) dense_class_t;

// A fresh block that may be found filled, one of the latest. No bytes: it has counted, or is gone.
typedef struct dense_block_s {
  mx_atomic(uint8_t*) start;
  mx_atomic(size_t) bytes;
} dense_block_t;

static dense_class_t classes[CLASSES];
static dense_block_t latest[LATEST];
static mx_atomic(uint32_t) turn;

// NULL for those that have no large OS pages: all, where there are none and that wraps around.
static dense_class_t* class_of(size_t bytes) {
  if (bytes <= LARGE_LEAST * mx_facts.large_page - 1 || mx_option(allow_thp) != 1) return NULL;
  return &classes[mx_bit_high(bytes) % CLASSES];
}

static void note_filled(dense_class_t* c) {
  const uint8_t found = mx_load_relaxed(c);
  mx_check(found == SPARSE || found <= DENSE_ENOUGH);
  if (found == SPARSE) mx_store_relaxed(c, (uint8_t)1);
  else if (found < DENSE_ENOUGH) mx_store_relaxed(c, (uint8_t)(found + 1));
}

// One that is not filled may be so later.
static void look_at_latest(void) {
  for (size_t i = 0; i < LATEST; i++) {
    uint8_t* const start = mx_load_relaxed(&latest[i].start);
    const size_t bytes = mx_load_relaxed(&latest[i].bytes);
    dense_class_t* const c = class_of(bytes);
    if (c == NULL || !mx_os_seems_present(start, bytes)) continue;
    mx_store_relaxed(&latest[i].bytes, (size_t)0);
    note_filled(c);
  }
}

static bool is_as_those_near(const dense_class_t* c) {
  const size_t own = (size_t)(c - classes);
  mx_check(own < CLASSES);
  bool is_dense = false;
  for (size_t i = own - mx_min(own, NEIGHBORS); i <= own + NEIGHBORS && i < CLASSES; i++) {
    const uint8_t found = mx_load_relaxed(&classes[i]);
    if (found == SPARSE) return false;
    is_dense = is_dense || found == DENSE_ENOUGH;
  }
  return is_dense;
}

bool mx_dense_is_expected(size_t bytes) {
  if (mx_option(allow_thp) >= 2) return bytes > mx_facts.large_page - 1;  // as above
  dense_class_t* const c = class_of(bytes);
  if (c == NULL) return false;
  look_at_latest();
  return mx_load_relaxed(c) == DENSE_ENOUGH || is_as_those_near(c);
}

void mx_dense_begin(mx_page_t* page, bool is_expected, bool is_fresh) {
  mx_check(mx_page_is_huge(page));
  mx_check((mx_load_relaxed(&page->lend) & MX_PAGE_FRESH) == 0);
  dense_class_t* const c = (is_fresh ? class_of(page->block_size) : NULL);
  const uint32_t n = (c != NULL ? mx_add_relaxed(&turn, 1) : 0);
  const bool has_small = (n % HAVE_SMALL == HAVE_SMALL - 1);
  if (is_expected && !has_small && page->arena != NULL) {
    mx_arena_want_large(page->arena, page->slice_index, page->slice_count);
  } else if (is_expected && !has_small) {
    mx_os_advise_large(mx_page_first(page), mx_page_size(page), true);
  } else if (c != NULL) {
    mx_store_relaxed(&page->lend, (uint8_t)(mx_load_relaxed(&page->lend) | MX_PAGE_FRESH));
    mx_store_relaxed(&latest[n % LATEST].bytes, page->block_size);
    mx_store_relaxed(&latest[n % LATEST].start, page->start);
  }
}

static void look_at(const mx_page_t* page) {
  dense_class_t* const c = class_of(page->block_size);
  if (c == NULL || (mx_load_relaxed(&page->lend) & MX_PAGE_FRESH) == 0) return;
  uint8_t* const start = page->start;
  size_t counts = 0;
  for (size_t i = 0; i < LATEST; i++) {
    if (mx_load_relaxed(&latest[i].start) != start) continue;
    counts |= mx_load_relaxed(&latest[i].bytes);
    mx_store_relaxed(&latest[i].bytes, (size_t)0);
  }
  if (!mx_os_seems_present(start, page->block_size)) mx_store_relaxed(c, SPARSE);
  else if (counts != 0) note_filled(c);
}

// What waits to be used again counts by slices, and the next vast block begins elsewhere: so each
// would leave more memory behind than it ever used.
static void discard_sparse(const mx_page_t* page) {
  mx_arena_t* const arena = page->arena;
  if (page->block_size < VAST_LEAST || arena == NULL) return;
  if (!mx_arena_is_discardable(arena) || mx_option(purge_delay) < 0) return;
  // Addresses that are to have large OS pages are had anew without them when they are purged.
  if (mx_bits_count(arena->large, page->slice_index, page->slice_count) > 0) return;
  const size_t size = page->slice_count * MX_SLICE_SIZE;
  mx_check(mx_bits_count(arena->free, page->slice_index, page->slice_count) == 0);
  uint8_t* const start = mx_arena_slice(arena, page->slice_index);
  if (mx_os_seems_absent(start, size)) mx_arena_discard(arena, start, size);
}

void mx_dense_end(const mx_page_t* page) {
  look_at(page);
  discard_sparse(page);
}
