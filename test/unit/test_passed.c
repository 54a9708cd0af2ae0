// SPDX-License-Identifier: MIT
// Large blocks of which more are passed on than the transfer caches keep: where threads are many
// they take them from pages that no thread has, where the next one finds what any of them freed.
// Nothing of that lasts longer than it is needed, and none of it is for small blocks, first-class
// heaps, threads that free what they take, and programs with few threads or without such caches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/common.h"
#include "../../src/heap/parked.h"
#include "../../src/mem/pagemap.h"
#include "../../src/os/os.h"
#include "../../src/page/remote.h"
#include "../page_of.h"
#include "../told.h"

// Each test has a size of its own: no thread has a page of that or of a larger one.
#define SIZE 40960
#define LEAST_SIZE 9216  // of the first bin that takes part
#define BLOCKS 200       // of LEAST_SIZE are more than the caches keep of a bin
#define TAKEN 64
#define MANY 16  // threads

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static bool overflows(size_t size) {
  return mx_transfer_overflows(&mx_subproc_main, mx_bin_of(size));
}

static bool is_common(const void* p) {
  const mx_page_t* const page = page_of(p);
  return (mx_load_relaxed(&page->remote) & MX_OWNED) == 0 && mx_load_relaxed(&page->owner) == 0;
}

static bool is_own(const void* p) { return mx_page_is_mine(page_of(p)); }

static size_t in_use(void) { return (size_t)mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

// ---- threads that are told what to do ----------------------------------------------------------

typedef struct blocks_s {
  size_t size, count;
  void* blocks[BLOCKS];
} blocks_t;

static told_t* begin(void) {
  blocks_t* const b = (blocks_t*)calloc(1, sizeof(blocks_t));
  if (b == NULL) exit(2);
  return told_begin(b);
}

static blocks_t* of(told_t* h) { return (blocks_t*)h->data; }

static void end(told_t* h) {
  free(of(h));
  told_end(h);
}

static void make(told_t* h) {
  for (size_t i = 0; i < of(h)->count; i++) {
    of(h)->blocks[i] = mi_malloc(of(h)->size);
    if (of(h)->blocks[i] == NULL) exit(2);
    memset(of(h)->blocks[i], 0xA5, of(h)->size);
  }
}

static void free_blocks(told_t* h) {
  for (size_t i = 0; i < of(h)->count; i++) mi_free(of(h)->blocks[i]);
}

// Blocks of another thread's, more than are kept.
static void pass_on(told_t* h, size_t size, size_t count) {
  of(h)->size = size;
  of(h)->count = count;
  tell(h, &make);
  free_blocks(h);
}

// By a thread that goes on; nothing of it is left in the caches.
static told_t* pass_many_on(size_t size) {
  told_t* const h = begin();
  pass_on(h, size, TAKEN);
  mx_transfer_flush(true);
  EXPECT(overflows(size));
  return h;
}

static void be_idle(void) {
  const struct timespec time = {0, 300000000};
  for (int looks = 0; looks < 3; looks++) {
    nanosleep(&time, NULL);
    mx_transfer_flush(false);
  }
}

// ---- what is passed on -------------------------------------------------------------------------

static void from_common_pages(void) {
  static void* taken[TAKEN];
  told_t* const h = begin();
  told_t* const other = begin();
  EXPECT(!overflows(SIZE));
  pass_on(h, SIZE, TAKEN);
  EXPECT(overflows(SIZE) && !overflows(2 * SIZE));
  mx_transfer_flush(true);  // so that none of the caches is left
  for (size_t i = 0; i < TAKEN; i++) {
    taken[i] = (i % 2 == 0 ? mi_malloc(SIZE) : mi_calloc(1, SIZE));
    EXPECT(taken[i] != NULL && is_common(taken[i]));
    EXPECT(i % 2 == 0 || (((char*)taken[i])[0] == 0 && ((char*)taken[i])[SIZE - 1] == 0));
    memset(taken[i], 0x5A, SIZE);
  }
  // What any thread frees is the next one's, of whichever thread.
  for (size_t i = 0; i < 4; i++) {
    mi_free(taken[i]);
    of(other)->size = SIZE;
    of(other)->count = 1;
    tell(other, &make);
    EXPECT(of(other)->blocks[0] == taken[i] && is_common(taken[i]));
    EXPECT(((unsigned char*)taken[i])[SIZE - 1] == 0xA5);
    tell(other, &free_blocks);
    taken[i] = mi_zalloc(SIZE);
    EXPECT(taken[i] == of(other)->blocks[0] && is_common(taken[i]));
    EXPECT(((char*)taken[i])[0] == 0 && ((char*)taken[i])[SIZE - 1] == 0);
  }
  // A page that becomes empty goes.
  const size_t before = in_use();
  for (size_t i = 0; i < TAKEN; i++) mi_free(taken[i]);
  EXPECT(in_use() + TAKEN * SIZE / MX_SLICE_SIZE <= before + 8);
  end(other);
  end(h);
}

// A page that one has is used first, and that of a thread that ended as well.
static void from_other_pages(void) {
  enum { size = 49152 };
  be_idle();
  EXPECT(!overflows(size));
  void* const own[2] = {mi_malloc(size), mi_malloc(size)};
  told_t* const left = begin();
  of(left)->size = size;
  of(left)->count = 2;
  tell(left, &make);
  void *const freed = of(left)->blocks[0], *const kept = of(left)->blocks[1];
  told_t* const h = begin();
  pass_on(h, size, TAKEN);
  end(left);
  mx_transfer_flush(true);
  mx_parked_give_up(&mx_subproc_main, true);
  EXPECT(overflows(size) && is_own(own[0]) && is_common(kept));
  mi_free(own[1]);
  EXPECT(mi_malloc(size) == own[1] && is_own(own[1]));
  of(h)->count = 1;
  tell(h, &make);  // from its own pages, which have all of theirs by now
  EXPECT(!is_common(of(h)->blocks[0]));
  mi_free(freed);
  void* got[TAKEN];
  bool is_found = false;
  for (size_t i = 0; i < TAKEN; i++) {
    got[i] = mi_malloc(size);
    is_found = is_found || got[i] == freed;
  }
  EXPECT(is_found && is_common(kept));
  for (size_t i = 0; i < TAKEN; i++) mi_free(got[i]);
  mi_free(own[0]);
  mi_free(own[1]);
  mi_free(kept);
  tell(h, &free_blocks);
  end(h);
}

// When the caches have room for a while, threads have pages of their own again.
static void comes_to_an_end(void) {
  enum { size = 57344 };
  told_t* const h = pass_many_on(size);
  mx_transfer_flush(true);
  EXPECT(overflows(size));
  void* p = mi_malloc(size);
  EXPECT(is_common(p));
  be_idle();
  EXPECT(!overflows(size));
  void* const q = mi_malloc(size);
  EXPECT(is_own(q));
  mi_free(p);
  mi_free(q);
  end(h);
}

// ---- what is not -------------------------------------------------------------------------------

static void not_of_small_ones(void) {
  told_t* const h = begin();
  pass_on(h, LEAST_SIZE - 1024, BLOCKS);
  EXPECT(mx_bin_of(LEAST_SIZE) == MX_LARGER_BIN && mx_bin_of(LEAST_SIZE - 1024) < MX_LARGER_BIN);
  EXPECT(!overflows(LEAST_SIZE - 1024));
  pass_on(h, LEAST_SIZE, BLOCKS);
  EXPECT(overflows(LEAST_SIZE));
  end(h);
}

static void not_where_none_are_kept(void) {
  enum { size = 65536 };
  told_t* const h = begin();
  const size_t most = mx_transfer_most;
  be_idle();
  mx_transfer_most = 0;
  pass_on(h, size, TAKEN);
  EXPECT(!overflows(size));
  mx_transfer_most = most;
  end(h);
}

static void not_of_heaps(void) {
  enum { size = 73728 };
  told_t* const h = pass_many_on(size);
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, size);
  EXPECT(p != NULL && is_own(p));
  mi_heap_destroy(heap);
  end(h);
}

static void forked(void) {
  enum { size = 81920 };
  told_t* const h = pass_many_on(size);
  void* const p = mi_malloc(size);
  EXPECT(is_common(p));
  const pid_t child = fork();
  if (child == 0) {
    mi_free(p);
    void* const again = mi_zalloc(size);
    memset(again, 1, size);
    mi_free(again);
    _exit(again != NULL ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  mi_free(p);
  end(h);
}

static void at_an_offset(void) {
  enum { size = 98304 };
  told_t* const h = pass_many_on(size);
  void* const p = mi_malloc_aligned_at(size - 64, 64, 32);
  EXPECT(p != NULL && ((uintptr_t)p + 32) % 64 == 0 && mi_usable_size(p) >= size - 64);
  memset(p, 1, size - 64);
  mi_free(p);
  void* q = mi_malloc(size);
  EXPECT(is_common(q));
  memset(q, 1, size);
  q = mi_realloc(q, 2 * size);
  EXPECT(q != NULL && ((char*)q)[0] == 1 && ((char*)q)[size - 1] == 1);
  mi_free(q);
  end(h);
}

// A thread that frees what it takes gets a page of its own; one that does not, none.
static void not_of_own(void) {
  enum { size = 106496, TURNS = 2000 };
  told_t* const h = pass_many_on(size);
  int common = 0;
  for (int i = 0; i < TURNS; i++) {
    mx_subproc_main.passed_on[mx_bin_of(size)] = 2;  // as if blocks were passed on meanwhile
    void* const p = mi_malloc(size);
    common += is_common(p);
    mi_free(p);
  }
  EXPECT(common > 0 && common < TURNS / 8);
  static void* kept[TURNS];
  common = 0;
  for (int i = 0; i < 200; i++) {
    mx_subproc_main.passed_on[mx_bin_of(size)] = 2;
    kept[i] = mi_malloc(size);
    common += is_common(kept[i]);
  }
  EXPECT(common > 100);
  for (int i = 0; i < 200; i++) mi_free(kept[i]);
  end(h);
}

// The first of all tests: nobody else has begun.
static void not_of_few_threads(void) {
  told_t* const h = pass_many_on(SIZE / 2);
  void* const p = mi_malloc(SIZE / 2);
  EXPECT(is_own(p));
  mi_free(p);
  end(h);
}

int main(void) {
  if (!MX_TRANSFERS) {
    printf("this build has no transfer cache\n");
    return EXIT_SUCCESS;
  }
  not_of_few_threads();
  told_t* idle[MANY];
  for (int i = 0; i < MANY; i++) idle[i] = begin();
  from_common_pages();
  from_other_pages();
  comes_to_an_end();
  not_of_small_ones();
  not_where_none_are_kept();
  not_of_heaps();
  forked();
  at_an_offset();
  not_of_own();
  for (int i = 0; i < MANY; i++) end(idle[i]);
  if (failures == 0) printf("all is well\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
