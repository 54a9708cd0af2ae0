// SPDX-License-Identifier: MIT
// Common pages: where threads are many, which blocks of a thread come from them, and which do not;
// what a page is between two blocks, and what a thread finds that begins with another one's record.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/common.h"
#include "../../src/heap/parked.h"
#include "../../src/heap/theap.h"
#include "../../src/mem/pagemap.h"
#include "../../src/os/os.h"
#include "../../src/page/holes.h"
#include "../../src/page/remote.h"
#include "../audit.h"
#include "../page_of.h"
#include "../told.h"

#define MANY 16      // threads, the main one among them
#define FIRST 8      // blocks of a bin, and no more than
#define BYTES 4096   // bytes, before the last one
#define OUTGROWN 8   // bins of which a thread may want more
#define BRIEF 100    // ms that a thread lived
#define KEPT 4000

static int failures;
static void* kept[KEPT];  // live to the end
static size_t kept_count;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static bool is_common(const void* p) {
  const mx_page_t* const page = page_of(p);
  return (mx_load_relaxed(&page->remote) & MX_OWNED) == 0 && mx_load_relaxed(&page->owner) == 0;
}

static bool is_own(const void* p) { return mx_page_is_mine(page_of(p)); }

static void* make(size_t size) {
  void* const p = mi_malloc(size);
  if (p == NULL || kept_count == KEPT) exit(2);
  return kept[kept_count++] = p;
}

static void sleep_msecs(long msecs) {
  const struct timespec time = {0, msecs * 1000000};
  nanosleep(&time, NULL);
}

// ---- which blocks -------------------------------------------------------------------------------

static void of_few_threads(told_t* h) {
  EXPECT(!mx_common_is_due(h->theap->heap));
  EXPECT(is_own(make(100)) && is_own(make(1000)));
}

static void of_many_threads(told_t* h) {
  EXPECT(mx_common_is_due(h->theap->heap));
  static const size_t sizes[] = {16, 100, 512, 1024, 4096, 8192};
  for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++) {
    const size_t size = sizes[n], bin = mx_bin_of(size);
    size_t most = 0;
    while (most < FIRST && most * mx_bin_size(bin) < BYTES) most++;
    EXPECT(h->theap->common.of[bin] == 0 && h->theap->common.outgrown == n);
    for (size_t i = 0; i < most; i++) {
      void* const p = make(size);
      const mx_page_t* const page = page_of(p);
      EXPECT(is_common(p) && page->block_size % MX_COMMON_LINE == 0 && page->block_size >= size);
      // So that others may look for holes in it.
      EXPECT((mx_load_relaxed(&page->lend) & MX_PAGE_RESTS) != 0);
      EXPECT(h->theap->common.of[bin] == i + 1 && !mx_theap_uses(h->theap, bin));
    }
    EXPECT(is_own(make(size)) && h->theap->common.of[bin] == most);
    EXPECT(h->theap->common.outgrown == n + 1);
  }
  EXPECT(is_own(make(9216)));  // the first size that has none
}

// A thread that goes on in more than eight bins does not wait for work.
static void of_a_busy_thread(told_t* h) {
  for (size_t bin = 1; bin <= OUTGROWN + 1; bin++) {
    EXPECT(h->theap->common.outgrown == bin - 1);
    EXPECT(is_common(make(mx_bin_size(bin))));
    for (size_t i = 0; i < FIRST; i++) make(mx_bin_size(bin));
    EXPECT(is_own(kept[kept_count - 1]));
  }
  EXPECT(h->theap->common.outgrown == OUTGROWN + 1);
  EXPECT(is_own(make(mx_bin_size(OUTGROWN + 2))));
}

static void of_one_that_forgoes(told_t* h) {
  const size_t bin = mx_bin_of(256);
  EXPECT(mx_common_forgo(h->theap, bin) && h->theap->common.of[bin] == FIRST);
  EXPECT(!mx_common_forgo(h->theap, bin));
  EXPECT(is_own(make(256)));
  EXPECT(!mx_common_forgo(h->theap, MX_LARGER_BIN));
}

// ---- what ended threads left --------------------------------------------------------------------

#define LEFT_SIZE 320   // whole lines, and
#define ODD_SIZE 336    // not

static void* left_of[2];

static void leave(told_t* h) {
  static const size_t sizes[] = {LEFT_SIZE, ODD_SIZE};
  for (size_t n = 0; n < 2; n++) {
    mx_common_forgo(h->theap, mx_bin_of(sizes[n]));
    left_of[n] = make(sizes[n]);
    EXPECT(is_own(left_of[n]));
  }
}

static void take_what_is_left(told_t* h) {
  EXPECT(is_common(left_of[0]) && is_common(left_of[1]));
  void* const p = make(LEFT_SIZE);
  void* const q = make(ODD_SIZE);
  EXPECT(page_of(p) == page_of(left_of[0]) && is_own(p) && mx_page_theap(page_of(p)) == h->theap);
  EXPECT(page_of(q) == page_of(left_of[1]) && is_own(q) && mx_page_theap(page_of(q)) == h->theap);
}

// ---- the record of another thread ---------------------------------------------------------------

static void use_some(told_t* h) {
  for (size_t i = 0; i < 3; i++) mi_free(mi_malloc(640));
  EXPECT(h->theap->common.of[mx_bin_of(640)] == 3);
  h->theap->common.taken = h->theap->common.freed = 5;
}

static void be_first_again(told_t* h) {
  EXPECT(h->theap->common.outgrown == 0 && h->theap->common.of[mx_bin_of(640)] == 0);
  EXPECT(h->theap->common.taken == 0 && h->theap->common.freed == 0);
  void* const p = mi_malloc(640);
  EXPECT(is_common(p));
  mi_free(p);
}

static void be_brief(told_t* h) {
  EXPECT(h->theap->common.outgrown == UINT8_MAX);
  void* const p = mi_malloc(704);
  EXPECT(is_own(p));
  mi_free(p);
}

static void records(void) {
  told_t* h = told_begin(NULL);
  tell(h, &use_some);
  sleep_msecs(150);
  mx_theap_t* const record = told_end(h);
  const uint64_t from = mx_os_clock_msecs();
  h = told_begin(NULL);  // the one before lived long
  EXPECT(h->theap == record);
  tell(h, &be_first_again);
  EXPECT(told_end(h) == record);
  const bool was_brief = (mx_os_clock_msecs() - from < BRIEF);  // on a busy machine it may not be
  h = told_begin(NULL);
  EXPECT(h->theap == record);
  if (was_brief) tell(h, &be_brief);
  sleep_msecs(150);
  EXPECT(told_end(h) == record);
  h = told_begin(NULL);
  EXPECT(h->theap == record);
  tell(h, &be_first_again);
  told_end(h);
}

// What tells whether a thread passes larger blocks on.
static void counts(void) {
  mx_theap_t* const first = mx_tls_theap->first;
  mx_common_note_free(NULL, MX_LARGER_BIN);
  mx_common_note_free(first, MX_LARGER_BIN - 1);
  EXPECT(first->common.freed == 0);
  mx_common_note_free(first, MX_LARGER_BIN);
  EXPECT(first->common.freed == 1);
  first->common.freed = UINT32_MAX;
  mx_common_note_free(first, MX_LARGER_BIN);
  EXPECT(first->common.freed == UINT32_MAX);
  first->common.taken = 8;
  first->common.freed = 6;
  mx_common_age(first);
  EXPECT(first->common.taken == 4 && first->common.freed == 3);
  first->common.taken = first->common.freed = 0;
}

int main(void) {
  if (!MX_COMMON_PAGES) {
    printf("this build has no common pages\n");
    return EXIT_SUCCESS;
  }
  mi_option_set(mi_option_theap_retain, 0);  // so that pages of ended threads are listed
  told_t* threads[MANY + 3];
  mi_free(mi_malloc(1));
  for (int i = 0; i < MANY - 2; i++) threads[i] = told_begin(NULL);
  tell(threads[MANY - 3], &of_few_threads);
  threads[MANY - 2] = told_begin(NULL);  // with the main one the last that is needed
  tell(threads[MANY - 2], &of_many_threads);
  threads[MANY - 1] = told_begin(NULL);
  tell(threads[MANY - 1], &of_a_busy_thread);
  threads[MANY] = told_begin(NULL);
  tell(threads[MANY], &of_one_that_forgoes);
  threads[MANY + 1] = told_begin(NULL);
  tell(threads[MANY + 1], &leave);
  sleep_msecs(150);
  threads[MANY + 2] = told_begin(NULL);
  told_end(threads[MANY + 1]);
  mx_parked_give_up(&mx_subproc_main, true);
  tell(threads[MANY + 2], &take_what_is_left);
  threads[MANY + 1] = threads[MANY + 2];
  records();
  counts();
  EXPECT(audit(&mx_subproc_main) == 0);
  for (size_t i = 0; i < kept_count; i++) mi_free(kept[i]);
  EXPECT(audit(&mx_subproc_main) == 0);
  for (int i = 0; i < MANY + 2; i++) told_end(threads[i]);
  if (failures == 0) printf("all is well\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
