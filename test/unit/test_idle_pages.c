// SPDX-License-Identifier: MIT
// Pages of large blocks that nobody uses between two passes of collecting: what is free in them goes
// back, later and later where it is needed again.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/arena/arena.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/trim.h"
#include "../../src/mem/pagemap.h"
#include "../../src/os/os.h"
#include "../../src/page/holes.h"

enum { SIZE = 40000, COUNT = 8, AGES = 32 };

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void* blocks[COUNT];

static void fill(void) {
  for (int i = 0; i < COUNT; i++) {
    if (blocks[i] == NULL) blocks[i] = mi_malloc(SIZE);
    memset(blocks[i], i + 1, SIZE);
  }
}

static void free_all_but(int kept) {
  for (int i = 0; i < COUNT; i++) {
    if (i == kept) continue;
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

// How many passes it takes until the page holds hardly more than its block.
static int passes_until_given(const mx_page_t* page, int most) {
  const size_t enough = 2 * (SIZE / mx_facts.os_page + 2);
  for (int i = 1; i <= most; i++) {
    mx_theap_collect(mx_tls_theap, false);
    if (mx_holes_present(page) <= enough) return i;
  }
  return 0;
}

static mx_page_t* leave_one(void) {
  fill();
  free_all_but(COUNT / 2);
  return mx_pagemap_get(blocks[COUNT / 2]);
}

static void test_goes_back(void) {
  mx_page_t* const page = leave_one();
  EXPECT(passes_until_given(page, 4) == 2);  // one sees the page, the next finds it the same
  EXPECT(mx_page_has_holes(page) && page->used == 1);
  for (int i = 0; i < SIZE; i++) {
    if (((uint8_t*)blocks[COUNT / 2])[i] != COUNT / 2 + 1) failures++;
  }
}

// As if time had passed, behind a pass that counts what the one before gave back.
static void age(int times) {
  mx_theap_collect(mx_tls_theap, false);
  for (int i = 0; i < times * AGES; i++) mx_theap_age_waits(mx_tls_theap);
}

// Twice as many the next time, beyond what any loop has time for; and half as many after a while.
static void test_waits_longer(void) {
  mx_page_t* const page = leave_one();
  EXPECT(mx_tls_theap->bins.current[page->bin] == page);
  for (int times = 1; times <= 8; times++) {
    EXPECT(leave_one() == page && passes_until_given(page, 1000) == 1 + (1 << times));
  }
  age(9);
  EXPECT(leave_one() == page && passes_until_given(page, 8) == 2);
}

// Where nothing can be given back just now, that counts for nothing.
static void test_does_not_count_failures(void) {
  age(1);
  mx_page_t* const page = leave_one();
  EXPECT(mx_holes_begin());
  EXPECT(passes_until_given(page, 20) == 0);
  mx_holes_end();
  EXPECT(passes_until_given(page, 8) == 1);
  EXPECT(leave_one() == page && passes_until_given(page, 8) == 3);
}

// Several pages of a bin go in one pass, and count as one.
static void test_counts_passes(void) {
  enum { MANY = 400 };
  static void* many[MANY];
  age(2);
  for (int i = 0; i < MANY; i++) many[i] = memset(mi_malloc(SIZE), 1, SIZE);
  for (int i = 0; i < MANY; i++) {
    if (i % 20 != 0) mi_free(many[i]);
  }
  const size_t bin = mx_pagemap_get(many[0])->bin;
  EXPECT(mx_tls_theap->lists.partial_count[bin] + mx_tls_theap->lists.full_count[bin] >= 3);
  for (int i = 0; i < 3; i++) mx_theap_collect(mx_tls_theap, false);
  for (int i = 0; i < MANY; i += 20) EXPECT(mx_page_has_holes(mx_pagemap_get(many[i])));
  EXPECT(mx_tls_theap->trimming.idle_wait[bin - MX_LARGER_BIN] == 1);
  for (int i = 0; i < MANY; i += 20) mi_free(many[i]);
}

// What is used between passes stays, however little.
static void test_stays_in_use(void) {
  mx_page_t* const page = leave_one();
  const size_t before = mx_holes_present(page);
  void* p = NULL;
  for (int i = 0; i < 20; i++) {
    mi_free(p);
    p = (p == NULL ? mi_malloc(SIZE) : NULL);
    mx_theap_collect(mx_tls_theap, false);
  }
  EXPECT(mx_holes_present(page) == before && mx_tls_theap->bins.current[page->bin] == page);
}

static void test_stays_as_asked(void) {
  mx_page_t* const page = leave_one();
  mi_option_set(mi_option_purge_delay, -1);
  EXPECT(passes_until_given(page, 80) == 0);
  mi_option_set(mi_option_purge_delay, MI_DEFAULT_PURGE_DELAY);
}

// With force at once, blocks of all sizes.
static void test_forced(void) {
  enum { SMALL = 512, MANY = 100 };
  void* small[MANY];
  for (int i = 0; i < MANY; i++) small[i] = mi_malloc(SMALL);
  mx_page_t* const page = leave_one();
  mx_page_t* const other = mx_pagemap_get(small[0]);
  for (int i = 1; i < MANY; i++) mi_free(small[i]);
  mi_collect(true);
  EXPECT(mx_page_has_holes(page) && mx_holes_present(page) <= SIZE / mx_facts.os_page + 2);
  EXPECT(mx_page_has_holes(other) && mx_holes_present(other) <= 2);
  mi_free(small[0]);
}

int main(void) {
  if (!MX_HOLES) return 77;
  test_goes_back();
  test_waits_longer();
  test_does_not_count_failures();
  test_counts_passes();
  test_stays_in_use();
  test_stays_as_asked();
  test_forced();
  fill();
  free_all_but(COUNT);
  return failures != 0;
}
