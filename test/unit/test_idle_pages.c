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
#include "../../src/page/padding.h"
#include "../page_of.h"

enum { SIZE = 40000, COUNT = 8 };

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

// A pass without an age, however long this test takes.
static void pass(void) {
  mx_tls_theap->trimming.idle_aged = (uint32_t)mx_os_clock_msecs();
  mx_theap_collect(mx_tls_theap, false);
}

// How many passes it takes until the page holds hardly more than its block.
static int passes_until_given(const mx_page_t* page, int most) {
  const size_t enough = 2 * (SIZE / mx_facts.os_page + 2);
  for (int i = 1; i <= most; i++) {
    pass();
    if (mx_holes_present(page) <= enough) return i;
  }
  return 0;
}

static mx_page_t* leave_one(void) {
  fill();
  free_all_but(COUNT / 2);
  mx_page_t* const page = page_of(blocks[COUNT / 2]);
  mx_clear_bit(mx_tls_theap->trimming.slack, page->bin);  // as a round does
  return page;
}

static void test_goes_back(void) {
  mx_page_t* const page = leave_one();
  EXPECT(passes_until_given(page, 4) == 2);  // one sees the page, the next finds it the same
  EXPECT(mx_page_has_holes(page) && page->used == 1);
  for (int i = 0; i < SIZE; i++) {
    if (((uint8_t*)blocks[COUNT / 2])[i] != COUNT / 2 + 1) failures++;
  }
}

// A pass begins, so many times eight seconds behind the one before.
static void age(uint32_t times) {
  mx_theap_begin_idle(mx_tls_theap, mx_tls_theap->trimming.idle_aged + times * 8000);
}

static size_t wait_of(const mx_page_t* page) {
  return mx_tls_theap->trimming.idle_wait[page->bin - MX_LARGER_BIN];
}

// Where it is needed again, four times as many passes the next time, beyond what any loop has time
// for; and a quarter of them after a while, also of those that are under way.
static void test_waits_longer(void) {
  mx_page_t* const page = leave_one();
  EXPECT(mx_tls_theap->bins.current[page->bin] == page);
  for (int times = 1; times <= 5; times++) {
    EXPECT(leave_one() == page && passes_until_given(page, 5000) == 2 << 2 * times);
  }
  EXPECT(leave_one() == page && wait_of(page) == 6);
  age(4);
  EXPECT(wait_of(page) == 2 && passes_until_given(page, 5000) == (8191 >> 8));
  EXPECT(leave_one() == page && wait_of(page) == 3);
  age(20);
  EXPECT(passes_until_given(page, 8) == 2);
}

// Where nothing can be given back just now, it is tried again soon.
static void test_in_vain(void) {
  age(20);
  mx_page_t* const page = leave_one();
  EXPECT(mx_holes_begin());
  EXPECT(passes_until_given(page, 20) == 0);
  mx_holes_end();
  const size_t wait = wait_of(page);
  EXPECT(wait <= 1 && passes_until_given(page, 8) > 0 && wait_of(page) == wait);
}

// What comes out of another page is needed again all the same.
static void test_page_goes(void) {
  age(20);
  size_t first = 0;
  for (size_t times = 0; times < 4; times++) {
    mx_page_t* const page = leave_one();
    const int passes = passes_until_given(page, 1000);
    if (times == 0) first = wait_of(page);
    else EXPECT(wait_of(page) == first + times && passes == 2 << 2 * wait_of(page));
    mi_free(blocks[COUNT / 2]);
    blocks[COUNT / 2] = NULL;
    pass();
    EXPECT(mx_tls_theap->lists.partial_count[page->bin] == 0);
  }
}

// ---- when it is worth it ------------------------------------------------------------------------

enum { LEAST = 64 << 10, FEW = 40 };  // bytes in free blocks

// In how many OS pages a block of this size lies at the most.
static size_t os_pages_of(size_t size) {
  const size_t os_page = mx_facts.os_page;
  size_t most = 0;
  for (size_t i = 0; i < os_page; i++) {
    most = mx_max(most, (i * size % os_page + size + os_page - 1) / os_page);
  }
  return most;
}

static bool is_idle(const mx_page_t* page) {
  mx_clear_bit(mx_tls_theap->trimming.slack, page->bin);
  mx_theap_is_idle(mx_tls_theap, page);  // sees it as it is
  return mx_theap_is_idle(mx_tls_theap, page);
}

// From the time on when what is present is more than what the blocks in use may need.
static void test_worth(size_t size) {
  static void* some[FEW];
  age(20);
  for (int i = 0; i < FEW; i++) {
    some[i] = mi_malloc(size - MX_PAD);
    memset(some[i], 1, size - MX_PAD);
  }
  const mx_page_t* const page = page_of(some[1]);
  EXPECT(page->block_size == size && page->used > 2);
  for (int i = FEW; i-- > 0;) {
    if (i == 1 || page_of(some[i]) != page) continue;
    mi_free(some[i]);
    some[i] = NULL;
    const size_t kept = page->used * os_pages_of(size);
    EXPECT(is_idle(page) == (mx_holes_present(page) >= kept + LEAST / mx_facts.os_page));
  }
  EXPECT(is_idle(page));
  for (int i = 0; i < FEW; i++) mi_free(some[i]);
}

enum { MANY = 400, EVERY = 20 };
static void* many[MANY];

static void leave_some(void) {
  for (int i = 0; i < MANY; i++) {
    if (many[i] == NULL) many[i] = memset(mi_malloc(SIZE), 1, SIZE);
  }
  for (int i = 0; i < MANY; i++) {
    if (i % EVERY == 0) continue;
    mi_free(many[i]);
    many[i] = NULL;
  }
}

static bool all_went(void) {
  bool all = true;
  for (int i = 0; i < MANY; i += EVERY) all &= mx_page_has_holes(page_of(many[i]));
  return all;
}

// Several pages of a bin go in one pass, count as one, and do not wait for one that is in use.
static void test_many_pages(void) {
  age(20);
  leave_some();
  mx_page_t* const first = page_of(many[0]);
  mx_theap_t* const theap = mx_tls_theap;
  EXPECT(theap->lists.partial_count[first->bin] + theap->lists.full_count[first->bin] >= 3);
  for (int i = 0; i < 3; i++) pass();
  EXPECT(all_went() && wait_of(first) == 0);
  leave_some();
  EXPECT(wait_of(first) == 1 && !mx_page_has_holes(first));
  void* p = NULL;
  for (int i = 0; i < 8; i++) {
    mi_free(p);
    p = (p == NULL ? mi_malloc(SIZE) : NULL);
    pass();
  }
  mi_free(p);
  EXPECT(wait_of(first) == 1);
  size_t went = 0;
  for (int i = 0; i < MANY; i += EVERY) went += mx_page_has_holes(page_of(many[i]));
  EXPECT(went >= MANY / EVERY / 2);
  for (int i = 0; i < MANY; i += EVERY) mi_free(many[i]);
  memset(many, 0, sizeof(many));
}

// Where each OS page has a live block, nobody looks; and the page stays the one in use. Blocks of
// three OS pages each lie in no more than these, so that every second one is worth a look.
static void test_nothing_to_give(void) {
  enum { FEWER = 100 };
  const size_t sizes[] = {mx_facts.os_page * 9 / 4, mx_facts.os_page * 3};
  for (int is_whole = 0; is_whole < 2; is_whole++) {
    for (int i = 0; i < FEWER; i++) many[i] = memset(mi_malloc(sizes[is_whole]), 1, sizes[is_whole]);
    mx_page_t* const page = page_of(many[FEWER - 1]);
    for (int i = 0; i < FEWER; i++) {
      if (is_whole ? i % 2 == 0 : i % 4 == 0) mi_free(many[i]), many[i] = NULL;
    }
    mx_clear_bit(mx_tls_theap->trimming.slack, page->bin);
    for (int i = 0; i < 4; i++) pass();
    EXPECT((mx_tls_theap->bins.current[page->bin] == page) == !is_whole);
    EXPECT(mx_page_has_holes(page) == is_whole);
    for (int i = 0; i < FEWER; i++) mi_free(many[i]);
  }
  memset(many, 0, sizeof(many));
}

// What was seen of a current page stays as long as that is current, and no longer.
static void test_slack_goes_with_page(void) {
  uint64_t* const slack = mx_tls_theap->trimming.slack;
  for (int is_round = 0; is_round < 2; is_round++) {
    void* const p = mi_malloc(3 * SIZE);
    mx_page_t* const page = page_of(p);
    const size_t bin = page->bin;
    EXPECT(mx_tls_theap->bins.current[bin] == page);
    mx_set_bit(slack, bin);
    pass();
    EXPECT(mx_tls_theap->bins.current[bin] == page && mx_has_bit(slack, bin));
    mi_free(p);
    if (is_round) mx_theap_release_current(mx_tls_theap, bin);
    else mx_theap_collect(mx_tls_theap, false);
    EXPECT(mx_tls_theap->bins.current[bin] == &mx_page_none && !mx_has_bit(slack, bin));
  }
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
  mx_page_t* const other = page_of(small[0]);
  for (int i = 1; i < MANY; i++) mi_free(small[i]);
  mi_collect(true);
  EXPECT(mx_page_has_holes(page) && mx_holes_present(page) <= SIZE / mx_facts.os_page + 2);
  EXPECT(mx_page_has_holes(other) && mx_holes_present(other) <= 2);
  mi_free(small[0]);
}

// A pass that comes by itself goes on over visits, each of which gives back of one page at the most,
// whatever many bins have.
static void test_in_steps(void) {
  enum { BINS = 12, EACH = 10 };
  void* kept[BINS];
  mx_page_t* pages[BINS];
  mx_theap_t* const theap = mx_tls_theap;
  memset(theap->larger.of, UINT8_MAX, sizeof(theap->larger.of));  // each bin takes pages of its own
  for (int bin = 0; bin < BINS; bin++) {
    // Above 16 KiB: what is free in a page is worth it with larger OS pages, too.
    const size_t size = mx_bin_size(MX_LARGER_BIN + 8 + (size_t)bin);
    void* p[EACH];
    for (int i = 0; i < EACH; i++) p[i] = memset(mi_malloc(size), 1, size);
    for (int i = 1; i < EACH; i++) mi_free(p[i]);
    kept[bin] = p[0];
    pages[bin] = page_of(p[0]);
    mx_clear_bit(theap->trimming.slack, pages[bin]->bin);
  }
  memset(theap->trimming.idle_left, 0, sizeof(theap->trimming.idle_left));
  theap->trimming.idle_aged = (uint32_t)mx_os_clock_msecs();
  mi_option_set(mi_option_generic_collect, 1);
  int gave = 0, visits = 0, passes = 0;
  for (; passes < 3 && visits < 2000; visits++) {
    size_t before[BINS];
    for (int bin = 0; bin < BINS; bin++) before[bin] = mx_holes_present(pages[bin]);
    theap->visits = 1;  // no round
    mx_theap_housekeeping(theap, 1);
    int now = 0;
    for (int bin = 0; bin < BINS; bin++) now += (mx_holes_present(pages[bin]) < before[bin]);
    EXPECT(now <= 1);
    gave += now;
    if (theap->collecting.list == 0) passes++;
  }
  EXPECT(passes == 3 && gave >= BINS / 2 && visits >= 3 * BINS / 8 + gave);
  for (int bin = 0; bin < BINS; bin++) mi_free(kept[bin]);
  mi_option_set(mi_option_generic_collect, MI_DEFAULT_GENERIC_COLLECT);
}

int main(void) {
  if (!MX_HOLES) return 77;
  test_goes_back();
  test_waits_longer();
  test_in_vain();
  test_page_goes();
  test_worth(11264);
  test_worth(15360);
  test_many_pages();
  test_nothing_to_give();
  test_slack_goes_with_page();
  test_stays_in_use();
  test_stays_as_asked();
  test_forced();
  test_in_steps();
  fill();
  free_all_but(COUNT);
  return failures != 0;
}
