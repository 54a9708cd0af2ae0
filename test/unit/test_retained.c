// SPDX-License-Identifier: MIT
// Empty pages that a thread keeps: they begin anew in the order of addresses, become pages of other
// bins, make room where other slices are taken, and go when their time is over.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/retained.h"
#include "../../src/heap/theap_lists.h"
#include "../../src/heap/thread_life.h"
#include "../../src/heap/trim.h"
#include "../../src/os/os.h"
#include "../../src/page/blocks.h"
#include "../../src/page/holes.h"
#include "../../src/page/padding.h"
#include "../audit.h"
#include "../page_of.h"

#define SIZE ((size_t)64)
#define OTHER ((size_t)208)
#define LARGE ((size_t)15000)  // in pages that take more slices as they grow
#define LARGE_BLOCKS 120
#define PAGES 20
#define PER_PAGE (MX_SLICE_SIZE / SIZE)
#define BLOCKS (PAGES * PER_PAGE)
#define MOST 48  // kept beyond the share
#define TRIES 1000
#define EXCLUSIVE ((size_t)48 << 20)

// Where pages of another size are made of kept ones, and begin anew.
#define CONVERTS (MX_HOLES && !MX_RANDOM_ORDER)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static mx_theap_t* theap;
static void* blocks[4 * BLOCKS];

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }
static uint32_t slices_kept(void) { return theap->retained.slices; }
static mx_counters_t* counters(void) { return &mx_subproc_main.main_heap.counters; }

static int64_t pages_of(size_t size) {
  return mx_load_relaxed(&counters()->bin_pages[mx_bin_of(size + MX_PAD)].current);
}

static uint32_t next_random(void) {
  static uint32_t state = 1;
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

static void shuffle(size_t count) {
  for (size_t i = count; i > 1; i--) {
    const size_t other = next_random() % i;
    void* const p = blocks[i - 1];
    blocks[i - 1] = blocks[other];
    blocks[other] = p;
  }
}

static mx_page_t* kept_at(uint32_t place) { return theap->retained.pages[place % MX_RETAINED_MAX]; }
static mx_page_t* latest(void) { return kept_at(theap->retained.next - 1); }

static mx_page_t* oldest(void) {
  uint32_t place = theap->retained.oldest;
  while (slices_kept() > 0 && kept_at(place) == NULL) place++;
  return kept_at(place);
}

// Whether all kept pages are found between the oldest and the next place.
static bool is_ring(void) {
  const mx_theap_retained_t* const retained = &theap->retained;
  uint32_t count = 0;
  for (uint32_t place = retained->oldest; place != retained->next; place++) {
    if (place == retained->oldest + MX_RETAINED_MAX) return false;
    if (kept_at(place) != NULL) count += kept_at(place)->slice_count;
  }
  return count == retained->slices;
}

static void all_kept_until(uint32_t time) {
  for (uint32_t i = 0; i < MX_RETAINED_MAX; i++) theap->retained.until[i] = time;
}

// So many pages are filled and become empty, in any order. Kept ones may go where that takes long:
// then it is done again.
static uint32_t fill_and_free(size_t pages, uint32_t least) {
  for (int i = 0; i < TRIES; i++) {
    const size_t count = pages * PER_PAGE;
    mi_collect(true);
    for (size_t n = 0; n < count; n++) blocks[n] = mi_malloc(SIZE);
    shuffle(count);
    for (size_t n = 0; n < count; n++) mi_free(blocks[n]);
    if (slices_kept() >= least) break;
  }
  EXPECT(slices_kept() >= least);
  return slices_kept();
}

static void keep_pages(void) {
  const int64_t before = mx_load_relaxed(&theap->counted.retires);
  fill_and_free(PAGES, PAGES / 2);
  EXPECT(is_ring());
  EXPECT(mx_load_relaxed(&theap->counted.retires) >= before + slices_kept());
  EXPECT(slices_kept() > theap->retained.share);
  all_kept_until((uint32_t)mx_os_clock_msecs() + 250);
}

// ---- what kept pages serve for -----------------------------------------------------------------

static void begin_anew(void) {
  static mx_page_t* kept[MX_RETAINED_MAX];
  keep_pages();
  memcpy(kept, theap->retained.pages, sizeof(kept));
  const intptr_t before = slices_in_use();
  size_t followed = 0, jumped = 0;
  for (size_t i = 0; i < BLOCKS / 2; i++) {
    blocks[i] = mi_malloc(SIZE);
    const mx_page_t* const page = page_of(blocks[i]);
    for (int k = 0; k < MX_RETAINED_MAX && i > 0; k++) {
      if (kept[k] != page || page_of(blocks[i - 1]) != page) continue;
      if ((uintptr_t)blocks[i] - (uintptr_t)blocks[i - 1] == SIZE) followed++;
      else jumped++;
    }
  }
  EXPECT(slices_in_use() <= before);
  if (CONVERTS) EXPECT(jumped == 0 && followed > BLOCKS / 4);
  EXPECT(audit(&mx_subproc_main) == 0);
  for (size_t i = 0; i < BLOCKS / 2; i++) mi_free(blocks[i]);
}

// Blocks that are not there any more would be, were the page carved once more.
static void not_with_holes(void) {
  if (!CONVERTS) return;
  mi_collect(true);
  mi_heap_t* const heap = mi_heap_new();
  const size_t count = 2 * PER_PAGE;
  for (size_t i = 0; i < count; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  mx_page_t* const page = page_of(blocks[0]);
  for (size_t i = 0; i < count; i++) {
    if (mx_tag_strip(blocks[i]) != page->start && page_of(blocks[i]) == page) mi_free(blocks[i]);
  }
  EXPECT(page->used == 1 && page->capacity == page->reserved);
  EXPECT(mx_page_make_holes(page, true) > 0 && mx_page_has_holes(page));
  mi_free(page->start);
  EXPECT(page->retained_slot != 0);
  const void* p = NULL;
  for (size_t i = 0; i < count && page_of(p) != page; i++) p = mi_heap_malloc(heap, SIZE);
  EXPECT(page_of(p) == page && page->retained_slot == 0);
  EXPECT(mx_page_has_holes(page) && page->capacity == page->reserved);
  EXPECT(audit(&mx_subproc_main) == 0);
  mi_heap_destroy(heap);
}

static void become_another(void) {
  keep_pages();
  mx_page_t* const page = latest();
  const uint32_t kept = slices_kept();
  const intptr_t before = slices_in_use();
  const int64_t of_size = pages_of(SIZE), of_other = pages_of(OTHER);
  const int64_t pages = mx_load_relaxed(&counters()->pages.current);
  EXPECT(page != NULL && theap->bins.current[mx_bin_of(OTHER + MX_PAD)] == &mx_page_none);
  char* const p = (char*)mi_zalloc(OTHER);
  EXPECT(slices_kept() == kept - 1 && slices_in_use() == before);
  EXPECT(pages_of(SIZE) == of_size - 1 && pages_of(OTHER) == of_other + 1);
  EXPECT(mx_load_relaxed(&counters()->pages.current) == pages);
  EXPECT((page_of(p) == page) == CONVERTS || !CONVERTS);
  if (CONVERTS) {
    EXPECT(page->bin == mx_bin_of(OTHER) && page->used == 2 && page->retained_slot == 0);
    EXPECT(page->start == (uint8_t*)mx_arena_slice(page->arena, page->slice_index));
    EXPECT(mx_page_theap(page) == theap && mx_page_is_mine(page) && page->slice_count == 1);
    EXPECT(mx_bits_test(page->arena->dirty, page->slice_index));
  }
  for (size_t i = 0; i < OTHER; i++) EXPECT(p[i] == 0);
  EXPECT(audit(&mx_subproc_main) == 0);
  mi_free(p);
}

// Another page serves where somebody looks for holes in the latest one.
static void not_lent(void) {
  if (!CONVERTS) return;
  keep_pages();
  mx_page_t* const page = latest();
  EXPECT(mx_holes_begin() && mx_holes_borrow(page));
  void* const p = mi_malloc(OTHER);
  EXPECT(p != NULL && page_of(p) != page && page->retained_slot != 0);
  EXPECT(!mx_holes_give_back(page, false));
  mx_holes_end();
  mi_free(p);
}

// Without more than the share nothing changes hands.
static void share_stays(void) {
  keep_pages();
  mx_page_t* const page = latest();
  theap->retained.share = slices_kept();
  const uint32_t kept = slices_kept();
  void* const p = mi_malloc(OTHER);
  EXPECT(page_of(p) != page && slices_kept() == kept);
  mx_retained_make_up(theap);
  EXPECT(slices_kept() == kept);
  mi_free(p);
}

// What only heaps get that name it becomes nothing else, though its heap was deleted.
static void not_of_exclusive(void) {
  mi_arena_id_t id;
  static union { char bytes[EXCLUSIVE]; long long unit; } own;
  mi_collect(true);
  EXPECT(mi_manage_os_memory_ex(own.bytes, EXCLUSIVE, true, false, true, -1, true, &id));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  const size_t count = BLOCKS / 2;
  for (size_t i = 0; i < count; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  EXPECT(mi_arena_contains(id, blocks[0]) && mi_arena_contains(id, blocks[count - 1]));
  mi_heap_delete(heap);
  void* const current = mi_malloc(SIZE);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  void* const p = mi_malloc(OTHER);
  EXPECT(p != NULL && !mi_arena_contains(id, p));
  mi_free(p);
  mi_free(current);
}

// ---- how long they are kept --------------------------------------------------------------------

static void oldest_makes_up(void) {
  static void* large[LARGE_BLOCKS];
  keep_pages();
  const mx_page_t* page = oldest();
  uint32_t kept = slices_kept();
  const intptr_t before = slices_in_use();
  large[0] = mi_malloc(LARGE);
  EXPECT(slices_kept() == kept - 1 && oldest() != page && slices_in_use() == before);
  mi_free(large[0]);
  mi_collect(true);
  large[0] = mi_malloc(LARGE);  // in a page with room behind it
  size_t growths = 0;
  for (int i = 1; i < LARGE_BLOCKS; i++) {
    const mx_page_t* const current = page_of(large[i - 1]);
    const uint32_t has = current->slice_count;
    if (slices_kept() <= theap->retained.share) keep_pages();
    all_kept_until((uint32_t)mx_os_clock_msecs() + 250);
    kept = slices_kept();
    page = oldest();
    mx_arenas_purge(&mx_subproc_main.arenas, true);  // the page would end where used memory waits
    large[i] = mi_malloc(LARGE);
    if (page_of(large[i]) != current || current->slice_count == has) continue;
    EXPECT(slices_kept() == kept - 1 && oldest() != page);
    growths++;
  }
  EXPECT(growths > 0 || !MX_PAGE_GROWS);
  for (int i = 0; i < LARGE_BLOCKS; i++) mi_free(large[i]);
}

static void time_is_up(void) {
  keep_pages();
  all_kept_until(UINT32_MAX - 50 + 250);  // the clock wraps
  const uint32_t kept = slices_kept(), then = UINT32_MAX - 50, share = theap->retained.share;
  mx_retained_age(theap, then + 1);
  EXPECT(slices_kept() == kept);
  mx_retained_age(theap, then + 2);
  EXPECT(slices_kept() == share && share > 0);
  mx_retained_age(theap, then + 249);
  EXPECT(slices_kept() == share);
  mx_retained_age(theap, then + 250);
  EXPECT(slices_kept() == 0);
  EXPECT(audit(&mx_subproc_main) == 0);
}

static void no_more_than_may_be(void) {
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  EXPECT(fill_and_free(MX_RETAINED_MAX + 10, MOST - 1) <= MOST);
  // Each keeps a part of what may wait: that is more where the test is slow, and fills again.
  const int64_t others = mx_arenas_may_wait(arenas) / 20 - 1;
  mx_count_add(&counters()->threads, others);
  const uint32_t part = (uint32_t)(mx_arenas_may_wait(arenas) / (others + 1));
  EXPECT(part < MOST / 2 && fill_and_free(part + 10, part - 1) <= part + 4);
  mx_count_add(&counters()->threads, -others);
  mi_option_set(mi_option_purge_delay, 0);
  fill_and_free(MOST, 0);
  EXPECT(slices_kept() <= theap->retained.share);
  mi_option_set(mi_option_purge_delay, 1000);
  mi_collect(true);
  for (size_t n = 0; n < BLOCKS; n++) blocks[n] = mi_malloc(SIZE);
  const intptr_t much = mx_arenas_may_wait(arenas) / 2 + 1;  // as if it waited
  mx_add_relaxed(&arenas->purgeable, much);
  for (size_t n = 0; n < BLOCKS; n++) mi_free(blocks[n]);
  mx_add_relaxed(&arenas->purgeable, -much);
  EXPECT(slices_kept() <= theap->retained.share);
}

// A page of many slices, of those that have these blocks, that is not current.
static const mx_page_t* grown_of(void* const* large) {
  const mx_page_t* found = NULL;
  for (int i = 0; i < LARGE_BLOCKS; i++) {
    const mx_page_t* const page = page_of(large[i]);
    if (page != page_of(large[LARGE_BLOCKS - 1]) && page->slice_count > 6) found = page;
  }
  EXPECT(found != NULL);
  return found;
}

// A page with more slices than the share is not kept, and leaves those alone that are.
static void others_stay(void) {
  static void* large[LARGE_BLOCKS];
  if (MX_SCATTER || !MX_PAGE_GROWS) return;
  for (int i = 0; i < LARGE_BLOCKS; i++) large[i] = mi_malloc(LARGE);
  const mx_page_t* const page = grown_of(large);
  keep_pages();
  EXPECT(theap->retained.share <= 6);
  const uint32_t kept = slices_kept();
  const intptr_t before = slices_in_use();
  const uint32_t has = page->slice_count;
  for (int i = 0; i < LARGE_BLOCKS; i++) {
    if (page_of(large[i]) != page) continue;
    mi_free(large[i]);
    large[i] = NULL;
  }
  EXPECT(slices_kept() == kept && slices_in_use() == before - (intptr_t)has);
  for (int i = 0; i < LARGE_BLOCKS; i++) mi_free(large[i]);
}

// Nor does one that was hardly used take the places of many that were.
static void hardly_used(void) {
  if (!CONVERTS) return;
  static void* few[PER_PAGE];
  for (int tries = 0; tries < TRIES; tries++) {
    mi_collect(true);
    size_t count = 0;
    void* const first = mi_malloc(OTHER);
    mx_page_t* const page = page_of(first);
    few[count++] = first;
    while (page->used <= page->reserved) few[count++] = mi_malloc(OTHER);
    few[count++] = mi_malloc(OTHER);
    mx_page_t* const other = page_of(few[count - 1]);
    while (other->free != NULL) few[count++] = mi_malloc(OTHER);
    mi_free(first);
    few[0] = mi_malloc(OTHER);
    EXPECT(page_of(few[0]) == page && other->used > 1 && other->capacity < other->reserved);
    for (size_t n = 0; n < BLOCKS; n++) blocks[n] = mi_malloc(SIZE);
    for (size_t n = 0; n < BLOCKS; n++) mi_free(blocks[n]);
    const uint32_t kept = slices_kept();
    for (size_t i = 1; i < count; i++) {
      if (page_of(few[i]) == other) mi_free(few[i]);
    }
    const bool is_right = (kept > theap->retained.share + 4 && slices_kept() == kept);
    mi_collect(true);
    if (is_right) return;
  }
  EXPECT(!"the others stay");
}

// One of many slices is kept as well, and stays what it is.
static void many_slices(void) {
  static void* large[LARGE_BLOCKS];
  if (!CONVERTS) return;
  keep_pages();
  mx_theap_collect(theap, false);  // the empty current page lies in nobody's way
  void* const much = mi_malloc(200 * MX_SLICE_SIZE);
  for (int i = 0; i < LARGE_BLOCKS; i++) large[i] = mi_malloc(LARGE);
  const mx_page_t* const page = grown_of(large);
  keep_pages();
  for (int i = 0; i < LARGE_BLOCKS; i++) {
    if (page_of(large[i]) != page) continue;
    mi_free(large[i]);
    large[i] = NULL;
  }
  EXPECT(page->retained_slot != 0 && latest() == page && is_ring());
  EXPECT(page->slice_count <= theap->retained.share);
  while (oldest() != page) mx_retained_release(theap, oldest());
  theap->retained.share = 0;
  void* const p = mi_malloc(OTHER);
  EXPECT(page_of(p) != page && page->retained_slot != 0);
  mx_retained_make_up(theap);
  EXPECT(page->retained_slot != 0 && slices_kept() == page->slice_count);
  mi_free(p);
  for (int i = 0; i < LARGE_BLOCKS; i++) mi_free(large[i]);
  mi_free(much);
}

// Pages are taken and kept again and again, while the oldest are not: their places come round.
static void places_come_round(void) {
  if (!CONVERTS) return;
  keep_pages();
  void* const current = mi_malloc(SIZE);
  all_kept_until((uint32_t)mx_os_clock_msecs() + 60000);
  const size_t bin = mx_bin_of(SIZE);
  for (int i = 0; i < 3 * MX_RETAINED_MAX; i++) {
    theap->retained.share = 0;
    mx_page_t* const page = mx_retained_convert(theap, bin);
    EXPECT(page != NULL && page->bin == bin && is_ring());
    if (page == NULL) break;
    mx_page_set_theap(page, theap);
    mx_page_set_owner(page, theap->tid);
    bool is_zero;
    while (mx_page_extend(page, &is_zero)) {
    }
    mx_page_rest(page);
    mx_partial_push_tail(theap, page);
    const uint32_t kept = slices_kept();
    mx_retained_put(theap, page);
    EXPECT(latest() == page && is_ring());
    EXPECT(slices_kept() == kept + 1 || slices_kept() == kept);  // its place was taken
  }
  EXPECT(slices_kept() == 1);
  EXPECT(audit(&mx_subproc_main) == 0);
  mi_free(current);
}

// Places are counted on and on.
static void places_wrap(void) {
  mi_collect(true);
  EXPECT(slices_kept() == 0);
  theap->retained.next = theap->retained.oldest = UINT32_MAX - PAGES;
  for (int i = 0; i < 8; i++) {
    for (size_t n = 0; n < BLOCKS; n++) blocks[n] = mi_malloc(SIZE);
    for (size_t n = 0; n < BLOCKS; n++) mi_free(blocks[n]);
    void* const p = mi_malloc(OTHER + (size_t)i * 64);
    uint32_t count = 0;
    for (int k = 0; k < MX_RETAINED_MAX; k++) {
      const mx_page_t* const page = theap->retained.pages[k];
      if (page == NULL) continue;
      count += page->slice_count;
      EXPECT(page->retained_slot == k + 1 && page->used == 0);
    }
    EXPECT(count == slices_kept());
    mi_free(p);
  }
  EXPECT(theap->retained.next < UINT32_MAX / 2);
  EXPECT(audit(&mx_subproc_main) == 0);
  mi_collect(true);
  EXPECT(slices_kept() == 0);
}

int main(void) {
  mi_free(mi_malloc(1));
  theap = mx_thread_theap();
  mi_option_set(mi_option_purge_delay, 1000);
  begin_anew();
  not_with_holes();
  become_another();
  not_lent();
  share_stays();
  not_of_exclusive();
  oldest_makes_up();
  time_is_up();
  no_more_than_may_be();
  others_stay();
  hardly_used();
  many_slices();
  places_come_round();
  places_wrap();
  printf("%d failures\n", failures);
  return failures != 0;
}
