// SPDX-License-Identifier: MIT
// Which huge blocks are filled. A large OS page is had in a fifth of the time that its 512 small
// ones take, and makes a block that is used here and there as large as it looks. What blocks of a
// size were used for tells: a look at some OS pages of one whose memory was fresh, when the next is
// wanted or it is given back itself, shows whether it was touched all over. Two that were let the
// next ones have large OS pages, of which every sixteenth keeps small ones, since large ones hide
// what is used of them; one that was not ends it.
//
// A class of sizes is a power of two. One of which nothing is known is taken for what those near it
// are, where they agree: a program that fills blocks of 5 MiB fills those of 20 as well. What one
// thread finds out at the same time as another may be of another block: it is a guess in any case.
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

typedef struct dense_class_s {
  mx_atomic(uint8_t) found;     // blocks that were filled, or SPARSE
  mx_atomic(uint8_t*) last;     // the start of the latest fresh block not looked at, or NULL
  mx_atomic(uint8_t*) counted;  // of the latest one that was found filled while it was in use
  mx_atomic(size_t) bytes;      // the size of `last`
} dense_class_t;

static dense_class_t classes[CLASSES];  // by the exponent, of which fewer occur
static mx_atomic(uint32_t) turn;

// NULL for those that have no large OS pages.
static dense_class_t* class_of(size_t bytes) {
  if (bytes < LARGE_LEAST * mx_facts.large_page || mx_option(allow_thp) != 1) return NULL;
  return &classes[mx_bit_high(bytes) % CLASSES];
}

static void note_filled(dense_class_t* c) {
  const uint8_t found = mx_load_relaxed(&c->found);
  if (found == SPARSE) mx_store_relaxed(&c->found, (uint8_t)1);
  else if (found < DENSE_ENOUGH) mx_store_relaxed(&c->found, (uint8_t)(found + 1));
}

// One that is not filled may be so later.
static void look_at_last(dense_class_t* c) {
  uint8_t* const last = mx_load_relaxed(&c->last);
  if (last == NULL || !mx_os_seems_present(last, mx_load_relaxed(&c->bytes))) return;
  mx_store_relaxed(&c->last, (uint8_t*)NULL);
  mx_store_relaxed(&c->counted, last);
  note_filled(c);
}

static bool is_as_those_near(const dense_class_t* c) {
  const size_t own = (size_t)(c - classes);
  bool is_dense = false;
  for (size_t i = own - mx_min(own, NEIGHBORS); i <= own + NEIGHBORS && i < CLASSES; i++) {
    const uint8_t found = mx_load_relaxed(&classes[i].found);
    if (found == SPARSE) return false;
    is_dense = is_dense || found == DENSE_ENOUGH;
  }
  return is_dense;
}

bool mx_dense_is_expected(size_t bytes) {
  if (mx_option(allow_thp) >= 2) return bytes >= mx_facts.large_page;
  dense_class_t* const c = class_of(bytes);
  if (c == NULL) return false;
  look_at_last(c);
  return mx_load_relaxed(&c->found) == DENSE_ENOUGH || is_as_those_near(c);
}

void mx_dense_begin(mx_page_t* page, bool is_expected, bool is_fresh) {
  mx_check(mx_page_is_huge(page));
  dense_class_t* const c = (is_fresh ? class_of(page->block_size) : NULL);
  const bool has_small = (c != NULL && mx_add_relaxed(&turn, 1) % HAVE_SMALL == HAVE_SMALL - 1);
  if (is_expected && !has_small && page->arena != NULL) {
    mx_arena_want_large(page->arena, page->slice_index, page->slice_count);
  } else if (is_expected && !has_small) {
    mx_os_advise_large(mx_page_first(page), mx_page_size(page), true);
  } else if (c != NULL) {
    mx_store_relaxed(&page->lend, (uint8_t)(mx_load_relaxed(&page->lend) | MX_PAGE_FRESH));
    mx_store_relaxed(&c->bytes, page->block_size);
    mx_store_relaxed(&c->last, page->start);
  }
}

static void look_at(const mx_page_t* page) {
  dense_class_t* const c = class_of(page->block_size);
  if (c == NULL || (mx_load_relaxed(&page->lend) & MX_PAGE_FRESH) == 0) return;
  uint8_t* const start = page->start;
  if (mx_load_relaxed(&c->last) == start) mx_store_relaxed(&c->last, (uint8_t*)NULL);
  if (!mx_os_seems_present(start, page->block_size)) mx_store_relaxed(&c->found, SPARSE);
  else if (mx_load_relaxed(&c->counted) != start) note_filled(c);
  if (mx_load_relaxed(&c->counted) == start) mx_store_relaxed(&c->counted, (uint8_t*)NULL);
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
  uint8_t* const start = mx_arena_slice(arena, page->slice_index);
  if (mx_os_seems_absent(start, size)) mx_arena_discard(arena, start, size);
}

void mx_dense_end(const mx_page_t* page) {
  look_at(page);
  discard_sparse(page);
}
