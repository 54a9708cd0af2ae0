// SPDX-License-Identifier: MIT
// There is no memory for what a thread needs to allocate from a heap for the first time: each call of
// the interface says so, does nothing, and does what it is asked for as soon as there is some.
#include "../stress.h"

#include <errno.h>

#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"

static mi_heap_t* heap;
static unsigned char* block;  // of the main heap

static bool is_new(void* p) {
  const bool is = (p != NULL);
  mi_free(p);
  return is;
}

// Resizing makes a block of the heap out of the block.
static bool is_moved(void* p) {
  if (p == NULL) return false;
  mi_free(p);
  block = (unsigned char*)mi_malloc(100);
  memset(block, 7, 100);
  return true;
}

static bool row(int i) {
  switch (i) {
    case 0: return is_new(mi_heap_malloc(heap, 100));
    case 1: return is_new(mi_heap_zalloc(heap, 100));
    case 2: return is_new(mi_heap_calloc(heap, 10, 10));
    case 3: return is_new(mi_heap_mallocn(heap, 10, 10));
    case 4: return is_new(mi_heap_malloc_small(heap, 100));
    case 5: return is_new(mi_heap_malloc(heap, 3 * MX_MIB));
    case 6: return is_new(mi_heap_malloc_aligned(heap, 100, 64));
    case 7: return is_new(mi_heap_malloc_aligned_at(heap, 100, 64, 8));
    case 8: return is_new(mi_heap_zalloc_aligned(heap, 100, 64));
    case 9: return is_new(mi_heap_zalloc_aligned_at(heap, 100, 64, 8));
    case 10: return is_new(mi_heap_calloc_aligned(heap, 10, 10, 64));
    case 11: return is_new(mi_heap_calloc_aligned_at(heap, 10, 10, 64, 8));
    case 12: return is_new(mi_heap_strdup(heap, "text"));
    case 13: return is_new(mi_heap_strndup(heap, "text", 2));
    case 14: return is_new(mi_heap_realpath(heap, "/", NULL));
    case 15: return is_new(mi_heap_alloc_new(heap, 100));
    case 16: return is_moved(mi_heap_realloc(heap, block, 5000));
    case 17: return is_moved(mi_heap_reallocn(heap, block, 50, 100));
    case 18: return is_moved(mi_heap_rezalloc(heap, block, 5000));
    case 19: return is_moved(mi_heap_recalloc(heap, block, 50, 100));
    case 20: return is_moved(mi_heap_realloc_aligned(heap, block, 5000, 64));
    case 21: return is_moved(mi_heap_realloc_aligned_at(heap, block, 5000, 64, 8));
    case 22: return is_moved(mi_heap_rezalloc_aligned(heap, block, 5000, 64));
    case 23: return is_moved(mi_heap_rezalloc_aligned_at(heap, block, 5000, 64, 8));
    case 24: return is_moved(mi_heap_recalloc_aligned(heap, block, 50, 100, 64));
    case 25: return is_moved(mi_heap_recalloc_aligned_at(heap, block, 50, 100, 64, 8));
    case 26: return mi_heap_theap(heap) != NULL;
    case 27: {
      mi_heap_t* const before = mi_heap_set_default(heap);
      if (before != NULL) mi_heap_set_default(before);
      return before != NULL;
    }
    default: return false;
  }
}
#define ROWS 28

static bool is_whole(void) {
  for (int i = 0; i < 100; i++) {
    if (block[i] != 7) return false;
  }
  return true;
}


static void use_up_metadata(void) {
  mock_heal();
  void* p;
  do {
    mock_fail_next();
    p = mx_meta_alloc(64);
  } while (p != NULL);
  mock_fail_all();
}

static void* in_thread(void* arg) {
  errno = 0;
  check(mi_malloc(100) == NULL && errno == ENOMEM);
  errno = 0;
  check(mi_malloc(5 * MX_MIB) == NULL && errno == ENOMEM);
  errno = 0;
  check(mi_malloc_aligned(100, 64) == NULL && errno == ENOMEM);
  errno = 0;
  check(mi_calloc(100, 100) == NULL && errno == ENOMEM);
  errno = 0;
  check(mi_theap_get_default() == NULL && errno == ENOMEM);
  check(mi_heap_get_default() == mi_heap_main());
  mi_collect(true);
  mi_free(arg);  // what another thread allocated
  return NULL;
}

static mi_heap_t* heaps[ROWS];

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_errors, 0);
  mi_option_set(mi_option_max_warnings, 0);
  block = (unsigned char*)mi_malloc(100);
  memset(block, 7, 100);
  mi_free(mi_malloc(3 * MX_MIB));
  for (int i = 0; i < ROWS; i++) {
    heap = mi_heap_new();
    check(heap != NULL);
    use_up_metadata();
    if (i != 15) {
      errno = 0;
      const bool done = row(i);
      if (done || errno != ENOMEM) fail("row %d: %d, errno %d", i, done, errno);
    }
    check(is_whole());
    mi_heap_guarded_set_sample_rate(heap, 0, 0);
    mi_heap_guarded_set_size_bound(heap, 1, 2);
    mi_heap_collect(heap, true);
    mi_theap_guarded_set_sample_rate(NULL, 0, 0);
    mi_theap_guarded_set_size_bound(NULL, 1, 2);
    mock_heal();
    if (!row(i)) fail("row %d: not even with memory", i);
    check(is_whole());
    heaps[i] = heap;  // a record of one that is gone would serve the next
  }
  use_up_metadata();
  errno = 0;
  check(mi_heap_new() == NULL && errno == ENOMEM);
  pthread_t thread;
  void* const other = mi_malloc(48);
  pthread_create(&thread, NULL, in_thread, other);
  pthread_join(thread, NULL);
  mock_heal();
  mi_free(block);
  for (int i = 0; i < ROWS; i++) mi_heap_destroy(heaps[i]);
  printf("ok\n");
  return 0;
}
