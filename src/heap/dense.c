// SPDX-License-Identifier: MIT
// Which huge blocks are filled. A large OS page is had in a fifth of the time that its 512 small
// ones take, and makes a block that is used here and there as large as it looks. What blocks of a
// size were used for tells: a look at some OS pages of one whose memory was fresh, when the next is
// wanted or it is given back itself, shows whether it was touched all over. Two that were let the
// next ones have large OS pages, of which every sixteenth keeps small ones, since large ones hide
// what is used of them; one that was not ends it.
//
// A class of sizes is a power of two. What one thread finds out at the same time as another may be
// lost, or be of another block: it is a guess in any case.
#include "dense.h"

#include "../base/bits.h"
#include "../base/facts.h"
#include "../base/options.h"
#include "../os/os.h"

#define LARGE_LEAST 2  // large OS pages that fit, for a look at a block to pay
#define DENSE_ENOUGH 2
#define HAVE_SMALL 16

typedef struct dense_class_s {
  mx_atomic(uint8_t) found;   // blocks that were filled
  mx_atomic(uint8_t*) last;   // the start of the latest fresh block that was not looked at, or NULL
  mx_atomic(size_t) bytes;    // its size
} dense_class_t;

static dense_class_t classes[32];  // by the exponent, of which fewer occur
static mx_atomic(uint32_t) turn;

// NULL for those that have no large OS pages.
static dense_class_t* class_of(size_t bytes) {
  if (bytes < LARGE_LEAST * mx_facts.large_page || mx_option(allow_thp) != 1) return NULL;
  return &classes[mx_bit_high(bytes) % 32];
}

static void note_filled(dense_class_t* c) {
  mx_store_relaxed(&c->last, (uint8_t*)NULL);
  const uint8_t found = mx_load_relaxed(&c->found);
  if (found < DENSE_ENOUGH) mx_store_relaxed(&c->found, (uint8_t)(found + 1));
}

bool mx_dense_is_expected(size_t bytes) {
  if (mx_option(allow_thp) >= 2) return bytes >= mx_facts.large_page;
  dense_class_t* const c = class_of(bytes);
  if (c == NULL) return false;
  // One that is not filled may be so later.
  const uint8_t* const last = mx_load_relaxed(&c->last);
  if (last != NULL && mx_os_seems_present(last, mx_load_relaxed(&c->bytes))) note_filled(c);
  return mx_load_relaxed(&c->found) >= DENSE_ENOUGH;
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

void mx_dense_end(const mx_page_t* page) {
  dense_class_t* const c = class_of(page->block_size);
  if (c == NULL || (mx_load_relaxed(&page->lend) & MX_PAGE_FRESH) == 0) return;
  const bool is_last = (mx_load_relaxed(&c->last) == page->start);
  if (!mx_os_seems_present(page->start, page->block_size)) mx_store_relaxed(&c->found, (uint8_t)0);
  else if (is_last) note_filled(c);
  if (is_last) mx_store_relaxed(&c->last, (uint8_t*)NULL);
}
