// SPDX-License-Identifier: MIT
// Where a heap of the program's looks for a page that a thread left behind: a search that gave up goes
// on where it was, also when the page there has gone meanwhile. What a search is led to that is no
// page for it stays where it is. And what a free list says of itself.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/api/handles.h"
#include "../../src/heap/heap.h"
#include "../../src/page/freelist.h"
#include "../../src/page/padding.h"
#include "../audit.h"
#include "../page_of.h"

#define SIZE 4000
#define BLOCKS 1200  // of more pages than a search looks at
#define ROUNDS 12
#define LEFT 150  // and as many more as end a page: one that can grow would do so

static int failures;
static mi_heap_t* heap;
static void* blocks[BLOCKS];

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// One of them has a free block.
static void* leave_pages(void* arg) {
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  mi_free(blocks[0]);
  blocks[0] = NULL;
  return arg;
}

static bool is_listed(const mx_heap_t* h, const mx_page_t* page) {
  for (const mx_page_t* p = h->pages; p != NULL; p = p->heap_next) {
    if (p == page) return true;
  }
  return false;
}

static void free_page(const mx_page_t* page) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i] == NULL || page_of(blocks[i]) != page) continue;
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void test_heap_search(void) {
  pthread_t thread;
  heap = mi_heap_new();
  if (heap == NULL || pthread_create(&thread, NULL, &leave_pages, NULL) != 0) return;
  pthread_join(thread, NULL);
  mx_heap_t* const h = mx_api_heap(heap);
  int gone = 0;
  // Each size has a bin of its own, of which nothing was left.
  for (size_t round = 0; round < ROUNDS; round++) {
    EXPECT(mi_heap_malloc(heap, 40 << round % 6) != NULL);
    mx_page_t* const next = h->search_from;
    EXPECT(next == NULL || is_listed(h, next));
    if (next == NULL || next->block_size < SIZE) continue;
    free_page(next);
    mi_heap_collect(heap, true);
    if (is_listed(h, next)) continue;
    gone++;
    EXPECT(h->search_from != next);
    EXPECT(h->search_from == NULL || is_listed(h, h->search_from));
  }
  EXPECT(gone > 0);
  mi_heap_destroy(heap);
}

// What a thread left is used before memory is taken anew, of the main heap or of another.
static void* allocate(size_t size) {
  return heap == NULL ? mi_malloc(size) : mi_heap_malloc(heap, size);
}

static bool can_grow(const void* block) {
  const mx_page_t* const page = page_of(block);
  return mx_page_slices_for(page->block_size) > 1 && page->capacity < page->reserved;
}

static void* leave_some(void* arg) {
  const size_t size = *(const size_t*)arg;
  size_t count = 0;
  while (count < LEFT || can_grow(blocks[count - 1])) blocks[count++] = allocate(size);
  for (size_t i = count; i < BLOCKS; i++) blocks[i] = NULL;
  for (size_t i = 0; i < count; i += 3) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  return NULL;
}

static bool was_left(const void* p) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i] != NULL && page_of(blocks[i]) == page_of(p)) return true;
  }
  return false;
}

static void test_left(size_t size, mi_heap_t* of) {
  heap = of;
  mx_subproc_t* const s = &mx_subproc_main;
  const size_t retained = (size_t)mi_option_get(mi_option_theap_retain);
  mi_option_set(mi_option_theap_retain, 0);
  mi_collect(true);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &leave_some, &size) != 0) return;
  pthread_join(thread, NULL);
  const size_t bin = page_of(blocks[1])->bin;
  mx_heap_t* const h = (of == NULL ? &s->main_heap : mx_api_heap(of));
  const size_t listed = mx_load_relaxed(of == NULL ? &s->listed[bin] : &h->listed);
  EXPECT(listed > 0);
  mx_counters_t* const c = &h->counters;
  const int64_t before = mx_load_relaxed(&c->pages_reclaim_on_alloc);
  const intptr_t in_use = mx_load_relaxed(&s->arenas.in_use);
  void* got[40];
  for (int i = 0; i < 40; i++) got[i] = allocate(size);
  for (int i = 0; i < 40; i++) EXPECT(was_left(got[i]));
  EXPECT(mx_load_relaxed(&c->pages_reclaim_on_alloc) > before);
  EXPECT(mx_load_relaxed(of == NULL ? &s->listed[bin] : &h->listed) < listed);
  EXPECT(mx_load_relaxed(&s->arenas.in_use) <= in_use + 1);
  EXPECT(audit(s) == 0);
  for (int i = 0; i < 40; i++) mi_free(got[i]);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  mi_option_set(mi_option_theap_retain, (long)retained);
}

// A bit of the list may be left behind by a page that is gone. A search that comes by it takes no
// other page for it that nobody owns, be that of another size or without a free block: it stays as
// it was.
static void* leave_all(void* arg) {
  const size_t size = *(const size_t*)arg;
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = (i < 200 ? mi_malloc(size) : NULL);
  return NULL;
}

#define FOUND_MOST (MX_WAIT_PLACES > 1 ? 400 : 1)

static void find_stale(mx_page_t* page, size_t size) {
  mx_subproc_t* const s = &mx_subproc_main;
  const size_t bin = mx_bin_of(size + MX_PAD);
  const uint8_t was_listed = page->is_listed;
  EXPECT(mx_load_relaxed(&page->owner) == 0 && mx_page_heap(page) == &s->main_heap);
  EXPECT(mx_bits_set(mx_arena_abandoned(page->arena, bin), page->slice_index, 1) == 1);
  mx_add_relaxed(&s->listed[bin], (size_t)1);
  mx_count_add(&s->main_heap.counters.pages_abandoned, 1);
  // Where blocks come back at random a page of an earlier thread may have one free, and come first.
  void* got[FOUND_MOST];
  size_t count = 0;
  bool is_left = true;
  for (; is_left && count < FOUND_MOST; count++) {
    got[count] = mi_malloc(size);
    EXPECT(page_of(got[count]) != page && page_of(got[count])->bin == bin);
    is_left = mx_bits_test(mx_arena_abandoned(page->arena, bin), page->slice_index);
  }
  EXPECT(!is_left);
  EXPECT(mx_load_relaxed(&page->owner) == 0 && page->is_listed == was_listed);
  EXPECT(audit(s) == 0);
  while (count > 0) mi_free(got[--count]);
}

static void test_stale(void* (*leave)(void*), size_t size, size_t wanted) {
  const long retained = mi_option_get(mi_option_theap_retain);
  heap = NULL;
  mi_option_set(mi_option_theap_retain, 0);
  pthread_t thread;
  if (pthread_create(&thread, NULL, leave, &size) != 0) return;
  pthread_join(thread, NULL);
  find_stale(page_of(blocks[1]), wanted);
  for (size_t i = 0; i < 200; i++) mi_free(blocks[i]);
  mi_option_set(mi_option_theap_retain, retained);
}

static size_t marked(const uint64_t* seen, size_t words) {
  size_t count = 0;
  for (size_t i = 0; i < words; i++) count += mx_popcount(seen[i]);
  return count;
}

static void test_marks(void) {
  enum { FEW = 20 };
  void* p[FEW];
  uint64_t seen[MX_SLICE_SIZE / MX_ALIGN / 64];
  mi_heap_t* const own = mi_heap_new();
  for (int i = 0; i < FEW; i++) p[i] = mi_heap_malloc(own, 500);
  mx_page_t* const page = page_of(p[0]);
  // The last block stays, so the page does.
  for (int i = 0; i + 1 < FEW; i++) mi_free(p[i]);
  size_t count = 0;
  memset(seen, 0, sizeof(seen));
  EXPECT(mx_freelist_mark(page, page->free, seen, &count));
  EXPECT(count > 0 && (MX_QUARANTINE ? count < page->capacity : count + 1 == page->capacity));
  EXPECT(marked(seen, sizeof(seen) / sizeof(seen[0])) == count);
  // One that comes to the same block again is none, nor is one of another page.
  EXPECT(!mx_freelist_mark(page, page->free, seen, &count));
  memset(seen, 0, sizeof(seen));
  EXPECT(!mx_freelist_mark(page, (const mx_block_t*)(void*)&seen, seen, &count));
  count = 0;
  EXPECT(mx_freelist_mark(page, NULL, seen, &count) && count == 0);
  mi_free(p[FEW - 1]);
  mi_heap_delete(own);
}

// Where a link may lead: never farther than a page is long; in debug builds to places of blocks in the
// page's own slices only.
static void test_links(void) {
  void* const given = mi_malloc(500);
  mx_block_t* const block = (mx_block_t*)mx_tag_strip(given);
  const mx_page_t* const page = page_of(block);
  const uintptr_t at = (uintptr_t)block, start = (uintptr_t)page->start, far = (uintptr_t)8 << 20;
  EXPECT(mx_link_leads_home(page, block, at) && mx_link_leads_home(page, block, start));
  EXPECT(!mx_link_leads_home(page, block, at + far) && !mx_link_leads_home(page, block, at - far));
  EXPECT(!mx_link_leads_home(page, block, 0) && !mx_link_leads_home(page, block, UINTPTR_MAX - 15));
  if (MX_DEBUG > 0) {
    EXPECT(!mx_link_leads_home(page, block, start + 8) && !mx_link_leads_home(page, block, start - 16));
    EXPECT(!mx_link_leads_home(page, block, start + mx_page_size(page)));
  }
  mi_free(given);
}

int main(void) {
  mi_free(mi_malloc(1));
  test_heap_search();
  test_links();
  for (size_t size = 100; size < 20000; size *= 3) test_left(size, NULL);
  mi_heap_t* const other = mi_heap_new();
  for (size_t size = 100; size < 20000; size *= 3) test_left(size, other);
  mi_heap_destroy(other);
  test_stale(&leave_some, 1500, 3000);
  test_stale(&leave_all, 2300, 2300);
  EXPECT(audit(&mx_subproc_main) == 0);
  test_marks();
  printf("search: %d failures\n", failures);
  return failures != 0;
}
