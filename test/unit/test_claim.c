// SPDX-License-Identifier: MIT
// Which pages that nobody owns a thread takes in when it frees into them: of a bin that it does not
// allocate from one, since it could only hoard them, of others as many as the option says; but no
// more than it needs of those whose thread goes on, as long as they have little to give.
#include <pthread.h>
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../page_of.h"

#define BLOCKS 600
#define PAGES_MIN 6
#define LIMIT 3
#define ENOUGH 4
#define POOR 16

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void* left[BLOCKS];

static pthread_barrier_t barrier;

static void* leave(void* size) {
  for (size_t i = 0; i < BLOCKS; i++) left[i] = mi_malloc(*(size_t*)size);
  return NULL;
}

static void* leave_and_wait(void* size) {
  leave(size);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

static bool is_of_new_page(size_t i) {
  for (size_t k = 0; k < i; k++) {
    if (page_of(left[k]) == page_of(left[i])) return false;
  }
  return true;
}

static size_t new_pages(void** firsts) {
  size_t pages = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (is_of_new_page(i)) firsts[pages++] = left[i];
  }
  EXPECT(pages >= PAGES_MIN);
  return pages;
}

// Of how many pages in which one block each lies this thread is the owner.
static size_t owned(void** firsts, size_t pages) {
  const uintptr_t self = mx_thread_theap()->tid;
  size_t count = 0;
  for (size_t i = 0; i < pages; i++) {
    count += ((mx_load_relaxed(&page_of(firsts[i])->owner) & ~MX_OWNER_TAGS) == self);
  }
  return count;
}

// Frees one block of each page that a thread left; of how many of them this one has become the owner.
static size_t taken_in(size_t size) {
  void* firsts[BLOCKS];
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, leave, &size) == 0 && pthread_join(thread, NULL) == 0);
  const size_t pages = new_pages(firsts);
  for (size_t i = 0; i < pages; i++) mi_free(firsts[i]);
  return owned(firsts, pages);
}

static bool is_mine(const mx_page_t* page) {
  return (mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == mx_thread_theap()->tid;
}

// The same of pages whose thread goes on: one that was refused is taken with the first block that
// makes it more than a sixteenth that is free.
static void taken_from_others(size_t size, size_t at_first) {
  void* firsts[BLOCKS];
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, leave_and_wait, &size) == 0);
  pthread_barrier_wait(&barrier);
  const size_t pages = new_pages(firsts);
  for (size_t i = 0; i < pages; i++) mi_free(firsts[i]);
  EXPECT(owned(firsts, pages) == at_first);
  mx_page_t* const page = page_of(firsts[PAGES_MIN - 1]);
  EXPECT(mx_load_relaxed(&page->owner) == 0);
  for (size_t i = 0; i < BLOCKS && !is_mine(page); i++) {
    if (page_of(left[i]) != page || left[i] == firsts[PAGES_MIN - 1]) continue;
    mi_free(left[i]);
    EXPECT(is_mine(page) == (page->capacity - page->used > page->reserved / POOR));
  }
  EXPECT(is_mine(page));
  pthread_barrier_wait(&barrier);
  EXPECT(pthread_join(thread, NULL) == 0);
}

// A thread that only frees has pages of its own from the first one that it takes in.
static void* only_frees(void* p) {
  EXPECT(mx_tls_theap == &mx_theap_empty);
  mi_free(p);
  EXPECT(mx_tls_theap != &mx_theap_empty);
  return NULL;
}

static void frees_of_others(size_t size) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, leave, &size) == 0 && pthread_join(thread, NULL) == 0);
  EXPECT(pthread_create(&thread, NULL, only_frees, left[1]) == 0 && pthread_join(thread, NULL) == 0);
}

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

// The last block of a page that nobody owns is freed: nobody takes the page, it is gone.
static void last_of_a_page(size_t size) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, leave, &size) == 0 && pthread_join(thread, NULL) == 0);
  void* const last = left[BLOCKS / 2];
  const mx_page_t* const page = page_of(last);
  mi_option_set(mi_option_page_reclaim_on_free, -1);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (left[i] != last && page_of(left[i]) == page) mi_free(left[i]);
  }
  EXPECT(mx_load_relaxed(&page->owner) == 0 && page->used == 1);
  mi_option_set(mi_option_page_reclaim_on_free, 1);
  const intptr_t before = slices_in_use(), slices = (intptr_t)page->slice_count;
  mi_free(last);
  EXPECT(slices_in_use() == before - slices);
}

int main(void) {
  pthread_barrier_init(&barrier, NULL, 2);
  mi_option_set(mi_option_page_reclaim_on_free, 0);
  mi_option_set(mi_option_page_cross_thread_max_reclaim, LIMIT);
  mi_free(mi_malloc(1));
  EXPECT(taken_in(1000) == 1);
  frees_of_others(6000);
  void* const own = mi_malloc(2000);
  EXPECT(taken_in(2000) == LIMIT);
  // However many the option allows.
  mi_option_set(mi_option_page_cross_thread_max_reclaim, 32);
  void* const more = mi_malloc(1200);
  taken_from_others(1200, ENOUGH);
  EXPECT(taken_in(1200) > ENOUGH);
  mi_free(more);
  mi_option_set(mi_option_page_cross_thread_max_reclaim, 0);
  EXPECT(taken_in(3000) == 0);
  mi_option_set(mi_option_page_reclaim_on_free, -1);
  EXPECT(taken_in(4000) == 0);
  mi_option_set(mi_option_page_reclaim_on_free, 1);
  last_of_a_page(1500);
  // Any page, but not all of them at once.
  EXPECT(taken_in(5000) == 1);
  mi_option_set(mi_option_page_cross_thread_max_reclaim, LIMIT);
  EXPECT(taken_in(7000) == 1);
  void* const other = mi_malloc(6500);
  EXPECT(taken_in(6500) == LIMIT);
  mi_free(other);
  mi_free(own);
  printf("%d failures\n", failures);
  return failures != 0;
}
