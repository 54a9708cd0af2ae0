// SPDX-License-Identifier: MIT
// A thread's lists of pages stay right with more pages of a bin than 16 bits can count, from either
// end, and are collected in steps of a few pages.
#include <stdio.h>
#include <stdlib.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/adopt.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../page_of.h"

#define PAGES ((size_t)65540)
#define BIN 64

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static size_t count(const mx_page_t* list) {
  size_t n = 0;
  for (; list != NULL; list = list->next) n++;
  return n;
}

int main(void) {
  // The pages take 4 GiB of addresses; no block of theirs is carved.
  if (sizeof(void*) < 8) return 77;
  mi_free(mi_malloc(1));
  mx_theap_t* const theap = mx_thread_theap();
  const mx_page_t* first = NULL;
  for (size_t i = 0; i < PAGES; i++) {
    mx_page_t* const page = mx_page_fresh(theap->heap, BIN);
    if (page == NULL) return 77;
    if (first == NULL) first = page;
    mx_theap_adopt(theap, page);
  }
  EXPECT(count(theap->lists.partial[BIN]) == PAGES);
  EXPECT(theap->lists.partial_count[BIN] == PAGES);
  EXPECT(mx_theap_is_valid(theap));
  mx_theap_give_up_last(theap, BIN);
  EXPECT(page_of(first->start) != first);  // empty, it was released
  EXPECT(count(theap->lists.partial[BIN]) == PAGES - 1);
  EXPECT(theap->lists.partial_count[BIN] == PAGES - 1);

  // No visit collects in all of them, and after enough visits none is left.
  mi_option_set(mi_option_generic_collect, 10);
  size_t visits = 0, most = 0;
  for (size_t before = PAGES - 1, now; before > 0 && visits < PAGES; visits++, before = now) {
    theap->visits++;
    mx_theap_housekeeping(theap, 1);
    now = theap->lists.partial_count[BIN];
    if (before - now > most) most = before - now;
    if (visits % 1000 == 0) EXPECT(mx_theap_is_valid(theap));
  }
  EXPECT(theap->lists.partial_count[BIN] == 0 && theap->lists.partial[BIN] == NULL);
  EXPECT(most > 0 && most <= 100);
  EXPECT(mx_theap_is_valid(theap));
  printf("%zu visits, %zu pages in one at most: %d failures\n", visits, most, failures);
  return failures != 0;
}
