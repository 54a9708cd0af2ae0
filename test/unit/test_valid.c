// SPDX-License-Identifier: MIT
// What the checks of whole pages and thread-heaps notice: each field of a page or a list that is not
// as it must be, one at a time.
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../../src/page/blocks.h"
#include "../../src/page/live.h"
#include "../page_of.h"

#define SIZE 1000
#define BLOCKS 400

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_theap_t* theap;
static void* blocks[BLOCKS];

// With another value in a field it is not valid, and with its own it is.
#define WRONG(valid, field, value)         \
  do {                                     \
    const __typeof__(field) own = (field); \
    EXPECT(valid);                         \
    (field) = (value);                     \
    EXPECT(!(valid));                      \
    (field) = own;                         \
    EXPECT(valid);                         \
  } while (0)

static void test_page(mx_page_t* page) {
  const uint32_t carved = page->capacity;
  WRONG(mx_page_is_valid(page), page->capacity, page->reserved + 1);
  WRONG(mx_page_is_valid(page), page->used, carved + 2);
  WRONG(mx_page_is_valid(page), page->used, carved + 1);  // too many with those that are free
  // A free block that is none, one twice in the list, and one that is in use.
  mx_block_t* const first = page->free;
  WRONG(mx_page_is_valid(page), page->free, (mx_block_t*)(void*)((uint8_t*)first + 16));
  WRONG(mx_page_is_valid(page), page->free,
        (mx_block_t*)(void*)(page->start + page->capacity * page->block_size));
  if (!MX_ENCODE_LINKS && !MX_PADDING) {
    WRONG(mx_page_is_valid(page), first->next, (uintptr_t)first);
  }
  if (MX_LIVE_BITS) {
    mx_live_begin(page, first);
    EXPECT(!mx_page_is_valid(page));
    mx_live_end(page, first);
    EXPECT(mx_page_is_valid(page));
  }
}

static void test_current(size_t bin) {
  mx_page_t* const page = theap->bins.current[bin];
  WRONG(mx_theap_is_valid(theap), page->used, 0);
  WRONG(mx_theap_is_valid(theap), page->bin, (uint8_t)(bin + 1));
  WRONG(mx_theap_is_valid(theap), page->theap, NULL);
  WRONG(mx_theap_is_valid(theap), page->start, (uint8_t*)blocks);
  const uintptr_t owner = mx_load_relaxed(&page->owner);
  mx_store_relaxed(&page->owner, owner + 64);
  EXPECT(!mx_theap_is_valid(theap));
  mx_store_relaxed(&page->owner, owner);
}

static void test_list(mx_page_t* page) {
  WRONG(mx_theap_is_valid(theap), page->prev, NULL);
  WRONG(mx_theap_is_valid(theap), page->next, page);
  WRONG(mx_theap_is_valid(theap), page->theap, NULL);
  const unsigned slot = page->retained_slot;
  page->retained_slot = (slot == 1 ? 2 : 1);  // another page's, or nobody's
  EXPECT(!mx_theap_is_valid(theap));
  page->retained_slot = slot;
  EXPECT(mx_theap_is_valid(theap));
}

int main(void) {
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(SIZE);
  theap = mx_thread_theap();
  mx_page_t* const page = page_of(blocks[0]);
  const size_t bin = page->bin;
  EXPECT(page != theap->bins.current[bin] && mx_theap_is_valid(theap));
  mx_page_t* const full = theap->lists.full[bin];
  if (full != NULL) {
    test_list(full);
    const uintptr_t owner = mx_load_relaxed(&full->owner);
    mx_store_relaxed(&full->owner, owner & ~MX_OWNER_FULL);
    EXPECT(!mx_theap_is_valid(theap));
    mx_store_relaxed(&full->owner, owner);
    WRONG(mx_theap_is_valid(theap), theap->lists.full_count[bin], theap->lists.full_count[bin] + 1);
    WRONG(mx_theap_is_valid(theap), theap->lists.full_count[bin], theap->lists.full_count[bin] - 1);
  }
  test_current(bin);
  for (size_t i = 0; i < BLOCKS; i += 2) mi_free(blocks[i]);
  mx_page_t* const partial = theap->lists.partial[bin];
  EXPECT(partial != NULL);
  if (partial != NULL) {
    mx_page_collect(partial);
    test_page(partial);
    test_list(partial);
    WRONG(mx_theap_is_valid(theap), theap->lists.partial_count[bin], 0);
  }
  for (size_t i = 1; i < BLOCKS; i += 2) mi_free(blocks[i]);
  mi_collect(true);
  EXPECT(mx_theap_is_valid(theap));
  printf("valid: %d failures\n", failures);
  return failures != 0;
}
