// SPDX-License-Identifier: MIT
// A fork in the middle of what another thread does to a page: this thread brings the page of one
// that waits into each state that the other could have stood in, and forks. In the child all blocks
// of the page are allocated, none of them twice and none that is live, and freed again, without a
// message; what the vanished thread had is freed, too.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/base/hooks.h"
#include "../../src/api/handles.h"
#include "../../src/heap/adopt.h"
#include "../../src/heap/heap_record.h"
#include "../../src/heap/own_ranges.h"
#include "../../src/heap/retained.h"
#include "../../src/heap/theap_lists.h"
#include "../../src/mem/random.h"
#include "../../src/mem/vmem.h"
#include "../../src/page/blocks.h"
#include "../../src/page/delay.h"
#include "../../src/page/freelist.h"
#include "../../src/page/holes.h"
#include "../../src/page/remote.h"
#include "../audit.h"
#include "../page_of.h"

#define BLOCKS 40
#define SIZE ((size_t)1000)
#define FRESH 400  // more than a page has

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static void* live[BLOCKS];
static sem_t ready, leave;
static int messages;

static void on_error(int code, void* arg) {
  (void)arg;
  messages += (code != 0);
}

// Half of the blocks stay, the others are free; the newest page is this thread's current one.
static void* body(void* arg) {
  (void)arg;
  for (int i = 0; i < BLOCKS; i++) live[i] = mi_malloc(SIZE);
  for (int i = 1; i < BLOCKS; i += 2) {
    mi_free(live[i]);
    live[i] = NULL;
  }
  sem_post(&ready);
  sem_wait(&leave);
  for (int i = 0; i < BLOCKS; i++) mi_free(live[i]);
  return NULL;
}

// ---- states of a page --------------------------------------------------------------------------

static void as_it_is(mx_page_t* page) { (void)page; }
static void popped_uncounted(mx_page_t* page) { page->free = mx_block_next(page, page->free); }
static void pushed_uncounted(mx_page_t* page) { page->used++; }
static void taken_but_no_list(mx_page_t* page) { page->free = NULL; }
static void leads_astray(mx_page_t* page) { page->free->next = 0x123456789; }
static void runs_in_a_circle(mx_page_t* page) {
  mx_block_set_next(page, page->free, page->free);
}

// The first n waiting blocks are on the list, but still have their places.
static void ends_delay(mx_page_t* page, int n) {
  if (!MX_QUARANTINE) return;
  for (int i = 0; i < MX_WAIT_PLACES; i++) {
    mx_block_t* const block = *mx_page_wait_place(page, i);
    if (block == NULL || n-- <= 0) continue;
    mx_block_set_next(page, block, page->free);
    page->free = block;
  }
}
static void one_is_back(mx_page_t* page) { ends_delay(page, 1); }
static void all_are_back(mx_page_t* page) { ends_delay(page, MX_WAIT_PLACES); }
static void waits_for_no_block(mx_page_t* page) {
  if (!MX_QUARANTINE) return;
  *mx_page_wait_place(page, 0) = (mx_block_t*)live[BLOCKS - 2];  // which is in use
}

// The other thread had a block in hand that it had not filled or cleared yet, as a free one is in
// hardened builds.
static void half_filled(mx_page_t* page) {
  memset((char*)page->free + sizeof(mx_block_t), 1, SIZE / 2);
  page->free = mx_block_next(page, page->free);
}

static const struct { const char* name; void (*enter)(mx_page_t* page); } states[] = {
    {"as it is", as_it_is},
    {"popped, not counted", popped_uncounted},
    {"pushed, not counted", pushed_uncounted},
    {"no list", taken_but_no_list},
    {"leads astray", leads_astray},
    {"a circle", runs_in_a_circle},
    {"one is back", one_is_back},
    {"all are back", all_are_back},
    {"waits for no block", waits_for_no_block},
    {"half filled", half_filled},
};

// ---- the child ---------------------------------------------------------------------------------

static bool is_new(void* const* fresh, int count) {
  for (int i = 0; i < BLOCKS; i++) {
    if (fresh[count] == live[i]) return false;
  }
  for (int i = 0; i < count; i++) {
    if (fresh[count] == fresh[i]) return false;
  }
  return true;
}

// Whether free blocks of a page whose list was made anew hold what a debug build fills them with.
static bool is_filled(const mx_page_t* page) {
  for (const mx_block_t* b = page->free; b != NULL; b = mx_block_next(page, b)) {
    const unsigned char* const bytes = (const unsigned char*)b;
    for (size_t i = sizeof(mx_block_t); i < SIZE; i++) {
      if (bytes[i] != MX_FILL_FREED) return false;
    }
  }
  return true;
}

static int child(const mx_page_t* page) {
  static void* fresh[FRESH];
  mi_register_error(on_error, NULL);
  EXPECT(!mx_page_has_thread(page) || mx_page_is_mine(page));
  mx_call_do_pending();
  if (MX_DEBUG_FILL) EXPECT(page->free != NULL && is_filled(page));
  EXPECT(page->free == NULL || mx_page_is_mine(page));
  for (int i = 0; i < FRESH; i++) {
    fresh[i] = mi_malloc(SIZE);
    EXPECT(fresh[i] != NULL && is_new(fresh, i));
    memset(fresh[i], 1, SIZE);
  }
  for (int i = 0; i < BLOCKS; i++) mi_free(live[i]);
  for (int i = 0; i < FRESH; i++) mi_free(fresh[i]);
  mi_collect(true);
  EXPECT(messages == 0 && audit(&mx_subproc_main) == 0);
  return failures != 0;
}

// What a state changes, to go back to it.
typedef struct saved_s {
  mx_page_t page;
  mx_page_extra_t extra;
  uintptr_t link;
} saved_t;

static void try_state(mx_page_t* page, size_t i) {
  static unsigned char contents[1 << 20];
  saved_t saved;
  const size_t size = page->capacity * page->block_size;
  memcpy(&saved.page, page, sizeof(saved.page));
  if (MX_PAGE_EXTRA_SIZE > 0) memcpy(&saved.extra, mx_page_extra(page), sizeof(saved.extra));
  memcpy(contents, page->start, size);
  states[i].enter(page);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    const int code = child(page);
    fflush(stdout);
    _exit(code);
  }
  memcpy((void*)page, &saved.page, sizeof(saved.page));
  if (MX_PAGE_EXTRA_SIZE > 0) memcpy(mx_page_extra(page), &saved.extra, sizeof(saved.extra));
  memcpy(page->start, contents, size);
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid);
  if (status != 0) printf("FAIL in the child that forked where a page was: %s\n", states[i].name);
  failures += (status != 0);
}

static void* waits_to_leave(void* arg) {
  (void)arg;
  sem_wait(&leave);
  return NULL;
}

// The only other thread purges and trims, and has no theap: what it claimed is free in the child.
static void purger_vanishes(void) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, waits_to_leave, NULL) == 0);
  mi_free(mi_malloc(SIZE));
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  mx_arena_t* const arena = mx_arena_at(arenas, 0);
  const size_t i = mx_bits_find_run(arena->free, NULL, arena->slices, 3, 0, 1, 0);
  EXPECT(i != SIZE_MAX && mx_bits_try_claim(arena->free, i, 3));
  mx_store_relaxed(&arenas->purging, 1);
  mx_store_relaxed(&mx_subproc_main.trim.busy, 1);
  const pid_t pid = fork();
  if (pid == 0) {
    mx_call_do_pending();
    EXPECT(mx_load_relaxed(&arenas->purging) == 0);
    EXPECT(mx_load_relaxed(&mx_subproc_main.trim.busy) == 0);
    EXPECT(mx_bits_count(arena->free, i, 3) == 3);
    _exit(failures != 0);
  }
  mx_store_relaxed(&arenas->purging, 0);
  mx_store_relaxed(&mx_subproc_main.trim.busy, 0);
  mx_bits_set(arena->free, i, 3);
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

// A vanished thread mapped a slice that it had not noted yet, or unmapped one that is noted still:
// in the child both may be mapped, and nothing lies there.
static void mapper_vanishes(void) {
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  mx_arena_t* const arena = mx_arena_at(arenas, 0);
  if (arena->is_reserved) return;
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, waits_to_leave, NULL) == 0);
  const size_t noted = mx_bits_find_run(arena->free, arena->committed, arena->slices, 1, 0, 1, 0);
  size_t mapped = arena->slices - 1;
  while (mx_bits_test(arena->committed, mapped)) mapped--;
  EXPECT(noted != SIZE_MAX && mx_bits_try_claim(arena->free, noted, 1));
  EXPECT(mx_bits_try_claim(arena->free, mapped, 1));
  EXPECT(mx_vmem_unmap(mx_arena_slice(arena, noted), MX_SLICE_SIZE, 0));
  EXPECT(mx_vmem_map_at(mx_arena_slice(arena, mapped), MX_SLICE_SIZE, true) == MX_MAP_DONE);
  mx_store_relaxed(&arenas->purging, 1);
  const pid_t pid = fork();
  if (pid == 0) {
    mx_call_do_pending();
    const size_t both[] = {noted, mapped};
    for (int i = 0; i < 2; i++) {
      EXPECT(mx_bits_test(arena->free, both[i]) && !mx_bits_test(arena->committed, both[i]));
      EXPECT(mx_vmem_map_at(mx_arena_slice(arena, both[i]), MX_SLICE_SIZE, true) == MX_MAP_DONE);
    }
    _exit(failures != 0);
  }
  mx_store_relaxed(&arenas->purging, 0);
  mx_bits_clear(arena->committed, noted, 1);
  mx_bits_set(arena->committed, mapped, 1);
  mx_bits_set(arena->free, noted, 1);
  mx_bits_set(arena->free, mapped, 1);
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

// An empty page that a thread keeps is becoming one of another size (see heap/retained.c), a step
// at a time. In between no address leads to its record, and in the child its slice is free.
static void* keeps_a_page(void* arg) {
  static void* held[FRESH];
  for (int i = 0; i < FRESH; i++) held[i] = mi_malloc(SIZE);
  mx_page_t* const page = page_of(held[0]);
  for (int i = 0; i < FRESH; i++) {
    if (page_of(held[i]) == page) mi_free(held[i]);
  }
  *(mx_page_t**)arg = page;
  sem_post(&ready);
  sem_wait(&leave);
  return NULL;
}

static int child_of_becoming(const mx_page_t* page, int step) {
  mx_arena_t* const arena = page->arena;
  const size_t i = page->slice_index;
  mx_call_do_pending();
  if (step > 0) EXPECT(mx_bits_test(arena->free, i));
  EXPECT(audit(&mx_subproc_main) == 0);
  mi_free(mi_malloc(SIZE));
  mi_collect(true);
  EXPECT(audit(&mx_subproc_main) == 0);
  return failures != 0;
}

static void page_becomes_another(void) {
  pthread_t thread;
  mx_page_t* page = NULL;
  EXPECT(pthread_create(&thread, NULL, keeps_a_page, &page) == 0);
  sem_wait(&ready);
  mx_heap_t* const heap = &mx_subproc_main.main_heap;
  mx_theap_t* const theap = mx_page_theap(page);
  EXPECT(page->used == 0 && page->retained_slot != 0 && page->slice_count == 1);
  uint8_t* const slice = mx_arena_slice(page->arena, page->slice_index);
  const mx_slices_t slices = {page->arena, page->slice_index, 1, slice, false};
  for (int step = 0; step < 4; step++) {
    if (step == 1) {
      mx_retained_forget(theap, page);
      mx_partial_remove(theap, page);
      mx_heap_unlink_page(page);
      mx_pagemap_set(slice, 1, NULL);
    }
    if (step == 2) mx_page_init(page, &slices, mx_bin_size(1), 1, heap);
    if (step == 3) {
      mx_pagemap_set(slice, 1, page);
      mx_heap_link_page(heap, page);
    }
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(20);
      const int code = child_of_becoming(page, step);
      fflush(stdout);
      _exit(code);
    }
    int status = 1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    if (status != 0) printf("FAIL in the child that forked at step %d\n", step);
  }
  mx_page_release(page);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

// Others make holes or forbid it, without a theap that would tell of a vanished thread, and are in
// the middle of the records of guarded blocks: the child can do all of that.
static volatile bool over;

static void* makes_or_forbids(void* arg) {
  while (!over) {
    if (arg != NULL) mx_holes_forbid();
    if (arg != NULL) mx_holes_allow();
    if (arg == NULL && mx_holes_begin()) mx_holes_end();
  }
  return NULL;
}

static void* samples(void* arg) {
  (void)arg;
  while (!over) mi_free(mi_malloc(SIZE));
  return NULL;
}

static void flags_are_free(void) {
  pthread_t threads[4];
  int count = 0;
  EXPECT(pthread_create(&threads[count++], NULL, makes_or_forbids, NULL) == 0);
  EXPECT(pthread_create(&threads[count++], NULL, makes_or_forbids, &failures) == 0);
  for (int i = 0; i < 100 && failures == 0; i++) {
    if (i == 50) {  // from here on with locks of records
      mi_option_set(mi_option_guarded_sample_rate, 1);
      while (count < 4) EXPECT(pthread_create(&threads[count++], NULL, samples, NULL) == 0);
    }
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(10);
      mx_holes_forbid();
      mx_holes_allow();
      const bool begun = mx_holes_begin();
      EXPECT(begun == MX_HOLES);
      if (begun) mx_holes_end();
      mi_free(mi_malloc(SIZE));
      _exit(failures != 0);
    }
    int status = 1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  }
  over = true;
  while (count > 0) pthread_join(threads[--count], NULL);
  mi_option_set(mi_option_guarded_sample_rate, 0);
}

// What a child draws at random is not what its parent draws.
static void numbers_differ(void) {
  int ends[2];
  uint64_t theirs = 0;
  mx_random64();
  EXPECT(pipe(ends) == 0);
  const pid_t pid = fork();
  const uint64_t ours = mx_random64();
  if (pid == 0) _exit(write(ends[1], &ours, sizeof(ours)) != sizeof(ours));
  EXPECT(read(ends[0], &theirs, sizeof(theirs)) == sizeof(theirs) && theirs != ours);
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  close(ends[0]);
  close(ends[1]);
}

// ---- plots -------------------------------------------------------------------------------------

// A thread that vanished was purging a free slice: no reference of its plot goes with that.
static void purged_in_plot(void) {
  mi_heap_t* const heap = mi_heap_new();
  const mx_page_t* const page = page_of(mi_heap_malloc(heap, 100));
  pthread_t thread;
  if (page->arena == NULL || page->arena->plots == NULL) return;
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  sem_wait(&ready);
  const mx_plot_t* const plot = &page->arena->plots[page->slice_index / MX_WORD_BITS];
  const size_t refs = mx_load_relaxed(&plot->refs);
  size_t at = page->slice_index / MX_WORD_BITS * MX_WORD_BITS, claimed = 0, last = 0;
  for (const size_t end = at + MX_WORD_BITS; at < end; at++) {
    if (!mx_bits_test(page->arena->free, at) || !mx_arena_claim(page->arena, at, 1)) continue;
    claimed++;
    last = at;
  }
  EXPECT(claimed > refs);
  const pid_t child = fork();
  if (child == 0) {
    mi_collect(false);
    EXPECT(mx_bits_test(page->arena->free, last));
    EXPECT(mx_load_relaxed(&plot->refs) == refs && mx_load_relaxed(&plot->partition) != 0);
    _exit(failures);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

// The last block of a heap that has gone ends the plot, in a child as well.
static void plot_ends_in_child(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  const mx_page_t* const page = page_of(p);
  pthread_t thread;
  if (page->arena == NULL || page->arena->plots == NULL) return;
  const mx_plot_t* const plot = &page->arena->plots[page->slice_index / MX_WORD_BITS];
  mi_heap_delete(heap);
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  sem_wait(&ready);
  const size_t refs = mx_load_relaxed(&plot->refs);
  const pid_t child = fork();
  if (child == 0) {
    mi_collect(false);
    EXPECT(mx_load_relaxed(&plot->refs) == refs && mx_load_relaxed(&plot->partition) != 0);
    mi_free(p);
    mi_collect(true);
    EXPECT(mx_load_relaxed(&plot->refs) == 0 && mx_load_relaxed(&plot->partition) == 0);
    _exit(failures);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mi_free(p);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

static size_t times_left(const mx_plot_t* plot) {
  size_t times = 0, most = 100000;
  for (const mx_plot_t* at = mx_subproc_main.arenas.plots_left; at != NULL && most > 0; most--) {
    times += (at == plot);
    at = at->next;
  }
  return times;
}

// A thread that vanished was purging a slice of a plot that has ended: that does not end again.
static void ended_plot_in_child(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  const mx_page_t* const page = page_of(p);
  mx_arena_t* const arena = page->arena;
  pthread_t thread;
  if (arena == NULL || arena->plots == NULL) return;
  const mx_plot_t* const plot = &arena->plots[page->slice_index / MX_WORD_BITS];
  const size_t at = page->slice_index;
  mi_free(p);
  mi_heap_delete(heap);
  mi_collect(true);
  EXPECT(mx_load_relaxed(&plot->refs) == 0 && mx_load_relaxed(&plot->partition) == 0);
  const size_t times = times_left(plot);
  EXPECT(times <= 1 && mx_arena_claim(arena, at, 1));
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  sem_wait(&ready);
  const pid_t child = fork();
  if (child == 0) {
    mi_collect(false);
    EXPECT(mx_bits_test(arena->free, at) && times_left(plot) == times);
    EXPECT(mx_load_relaxed(&plot->refs) == 0 && mx_load_relaxed(&plot->partition) == 0);
    _exit(failures);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mx_arena_put_back(arena, at, 1);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

static mi_subproc_id_t subproc;

// Leaves a heap as one whose thread vanishes at its end.
static void* half_end(void* arg) {
  mi_subproc_add_current_thread(subproc);
  mx_heap_t* const heap = mx_api_heap(mi_heap_new());
  void* const p = mi_heap_malloc(mx_api_heap_handle(heap), 100);
  EXPECT(p != NULL && heap->subproc != &mx_subproc_main);
  mx_store_relaxed(&heap->id, MX_HEAP_GONE);
  mx_ranges_end(heap);
  mx_plot_t* const plot = mx_load_relaxed(&heap->partition.plots);
  if (plot != NULL) plot->has_heap = false;
  *(bool*)arg = (plot != NULL);
  sem_post(&ready);
  sem_wait(&leave);
  return NULL;
}

static void* use_record(void* arg) {
  (void)arg;
  mi_subproc_add_current_thread(subproc);
  mi_heap_t* const heap = mi_heap_new();
  const mx_page_t* const page = page_of(mi_heap_malloc(heap, 100));
  const uint64_t id = mx_api_heap(heap)->partition.id;
  EXPECT(id != 0 && mx_partition_at(page->arena, page->slice_index) == id);
  mi_heap_destroy(heap);
  return NULL;
}

// The record of such a heap serves another in the child, of which those plots are not.
static void record_of_half_ended(void) {
  pthread_t thread;
  bool has_plots = false;
  subproc = mi_subproc_new();
  EXPECT(pthread_create(&thread, NULL, half_end, &has_plots) == 0);
  sem_wait(&ready);
  const pid_t child = (has_plots ? fork() : -1);
  if (child == 0) {
    mi_subproc_destroy(subproc);
    subproc = mi_subproc_new();
    EXPECT(pthread_create(&thread, NULL, use_record, NULL) == 0);
    pthread_join(thread, NULL);
    _exit(failures);
  }
  int status = 1;
  EXPECT(!has_plots || (waitpid(child, &status, 0) == child && status == 0));
  sem_post(&leave);
  pthread_join(thread, NULL);
}

static void* allocates(void* arg) {
  for (int i = 0; i < FRESH; i++) mi_free(mi_malloc(SIZE + 16 * (size_t)i));
  return arg;
}

// A callback that forks may start a thread in the child before its own call is over: that one does
// not take this thread, which is in the middle of it, for one that vanished.
static void other_begins_inside(void) {
  pthread_t thread, other;
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  sem_wait(&ready);
  void* const mine = mi_malloc(SIZE);
  mx_theap_t* const theap = mx_tls_theap;
  mx_heap_t* const heap = mx_load_relaxed(&theap->heap);
  mx_call_enter();
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(pthread_create(&other, NULL, allocates, NULL) == 0);
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT(mx_load_relaxed(&theap->heap) == heap);
    EXPECT(theap->bins.current[page_of(mine)->bin] == page_of(mine));
    mx_call_leave();
    EXPECT(mx_load_relaxed(&theap->heap) == heap && mx_tls_theap == theap);
    mi_free(mine);
    allocates(NULL);
    mi_collect(true);
    fflush(stdout);
    _exit(failures);
  }
  mx_call_leave();
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mi_free(mine);
  sem_post(&leave);
  pthread_join(thread, NULL);
}

int main(void) {
  pthread_t thread;
  allow_damage();
  sem_init(&ready, 0, 0);
  sem_init(&leave, 0, 0);
  numbers_differ();
  purger_vanishes();
  mapper_vanishes();
  mi_free(mi_malloc(SIZE));  // this thread has a theap, too
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  sem_wait(&ready);
  mx_page_t* const page = page_of(live[BLOCKS - 2]);
  EXPECT(page->free != NULL && page->capacity * page->block_size <= 1 << 20);
  for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) try_state(page, i);
  sem_post(&leave);
  pthread_join(thread, NULL);
  if (MX_HOLES && !MX_RANDOM_ORDER) page_becomes_another();
  flags_are_free();
  purged_in_plot();
  plot_ends_in_child();
  ended_plot_in_child();
  record_of_half_ended();
  other_begins_inside();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
