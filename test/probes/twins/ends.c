// SPDX-License-Identifier: MIT
// Writes that miss their block by little, and what may notice them: nothing but the end of the
// program, the end of the thread, malloc_trim, the frees of all other blocks, the block's own free,
// realloc or usable size.
#include <malloc.h>
#include <pthread.h>

#include "twin.h"

typedef enum { AT_EXIT, BY_NEIGHBOURS, BY_FREE, BY_REALLOC, BY_USABLE_SIZE, BY_TRIM } noticed_t;

static unsigned char* blocks[64];

// A write that leaves what stood there would be none.
static void change(unsigned char* p) {
  *(volatile unsigned char*)p ^= 0x42;
}

static void miss(size_t size, ptrdiff_t by, noticed_t noticed) {
  const size_t many = twin_many(size), mine = many / 2;
  for (size_t i = 0; i < many; i++) {
    blocks[i] = twin_malloc(size);
    twin_fill(blocks[i], size < 4 * KIB ? size : 4 * KIB, 0x41);
  }
  unsigned char* p = blocks[mine];
  twin_ready();
  for (ptrdiff_t i = 0; i < by; i++) change(p + size + i);
  for (ptrdiff_t i = -1; i >= by; i--) change(p + i);
  twin_done();
  if (noticed == BY_NEIGHBOURS) {
    for (size_t i = 0; i < many; i++) {
      if (i != mine) free(blocks[i]);
    }
    twin_after("the neighbours' frees");
    twin_cycle(size);
    twin_after("reuse");
  } else if (noticed == BY_FREE) {
    free(p);
    twin_after("free");
  } else if (noticed == BY_REALLOC) {
    twin_must(realloc(p, 2 * size));
    twin_after("realloc");
  } else if (noticed == BY_USABLE_SIZE) {
    twin_sink ^= (unsigned char)malloc_usable_size(p);
    twin_after("malloc_usable_size");
  } else if (noticed == BY_TRIM) {
    malloc_trim(0);
    twin_after("malloc_trim");
  }
}

typedef struct thread_case {
  size_t size;
  ptrdiff_t by;
} thread_case_t;

static void* miss_in_thread(void* argument) {
  const thread_case_t* c = (const thread_case_t*)argument;
  miss(c->size, c->by, AT_EXIT);
  return NULL;
}

static void miss_and_end(size_t size, ptrdiff_t by) {
  thread_case_t c = {size, by};
  pthread_t thread;
  if (pthread_create(&thread, NULL, miss_in_thread, &c) != 0) twin_broken();
  pthread_join(thread, NULL);
  twin_after("the end of the thread");
}

static void over_1_thread(size_t size, bool wrong) { miss_and_end(size, wrong ? 1 : 0); }
static void under_1_thread(size_t size, bool wrong) { miss_and_end(size, wrong ? -1 : 0); }

// The blocks of `odd` are such as no size class fits: the bytes that follow are nobody's.
static size_t odd(size_t size) { return size - 3; }

#define MISS(name, size, by, noticed) \
  static void name(size_t n, bool wrong) { miss(size, wrong ? (by) : 0, noticed); }

MISS(over_1_exit, n, 1, AT_EXIT)
MISS(over_32_exit, n, 32, AT_EXIT)
MISS(under_1_exit, n, -1, AT_EXIT)
MISS(under_32_exit, n, -32, AT_EXIT)
MISS(over_1_neighbours, n, 1, BY_NEIGHBOURS)
MISS(over_32_neighbours, n, 32, BY_NEIGHBOURS)
MISS(under_1_neighbours, n, -1, BY_NEIGHBOURS)
MISS(under_32_neighbours, n, -32, BY_NEIGHBOURS)
MISS(over_1_trim, n, 1, BY_TRIM)
MISS(under_1_trim, n, -1, BY_TRIM)
MISS(over_1_free, n, 1, BY_FREE)
MISS(over_32_free, n, 32, BY_FREE)
MISS(under_1_free, n, -1, BY_FREE)
MISS(under_32_free, n, -32, BY_FREE)
MISS(over_8_realloc, n, 8, BY_REALLOC)
MISS(under_8_realloc, n, -8, BY_REALLOC)
MISS(over_8_usable, n, 8, BY_USABLE_SIZE)
MISS(under_8_usable, n, -8, BY_USABLE_SIZE)
MISS(odd_1_exit, odd(n), 1, AT_EXIT)
MISS(odd_1_neighbours, odd(n), 1, BY_NEIGHBOURS)
MISS(odd_1_free, odd(n), 1, BY_FREE)
MISS(odd_7_free, odd(n), 7, BY_FREE)
MISS(odd_1_realloc, odd(n), 1, BY_REALLOC)

#define EXIT "1 or 32 bytes past an end or a start, nothing freed afterwards"
#define NEIGHBOURS "1 or 32 bytes, all other blocks freed"
#define ENDS "1 byte, the thread ends or malloc_trim is called"
#define FREE "1 or 32 bytes, the block itself freed"
#define OTHERS "8 bytes, the block resized or asked for its size"
#define ODD "1 or 7 bytes past a size that no size class fits"

static const twin_case_t cases[] = {
  {"over-1-exit", EXIT, "1 byte past the end", over_1_exit, NULL},
  {"over-32-exit", EXIT, "32 bytes past the end", over_32_exit, NULL},
  {"under-1-exit", EXIT, "1 byte before the start", under_1_exit, NULL},
  {"under-32-exit", EXIT, "32 bytes before the start", under_32_exit, NULL},
  {"over-1-neighbours", NEIGHBOURS, "1 byte past the end", over_1_neighbours, NULL},
  {"over-32-neighbours", NEIGHBOURS, "32 bytes past the end", over_32_neighbours, NULL},
  {"under-1-neighbours", NEIGHBOURS, "1 byte before the start", under_1_neighbours, NULL},
  {"under-32-neighbours", NEIGHBOURS, "32 bytes before the start", under_32_neighbours, NULL},
  {"over-1-thread", ENDS, "past the end, and the thread ends", over_1_thread, NULL},
  {"under-1-thread", ENDS, "before the start, and the thread ends", under_1_thread, NULL},
  {"over-1-trim", ENDS, "past the end, then malloc_trim", over_1_trim, NULL},
  {"under-1-trim", ENDS, "before the start, then malloc_trim", under_1_trim, NULL},
  {"over-1-free", FREE, "1 byte past the end", over_1_free, NULL},
  {"over-32-free", FREE, "32 bytes past the end", over_32_free, NULL},
  {"under-1-free", FREE, "1 byte before the start", under_1_free, NULL},
  {"under-32-free", FREE, "32 bytes before the start", under_32_free, NULL},
  {"over-8-realloc", OTHERS, "past the end, then realloc", over_8_realloc, NULL},
  {"under-8-realloc", OTHERS, "before the start, then realloc", under_8_realloc, NULL},
  {"over-8-usable", OTHERS, "past the end, then malloc_usable_size", over_8_usable, NULL},
  {"under-8-usable", OTHERS, "before the start, then malloc_usable_size", under_8_usable, NULL},
  {"odd-1-exit", ODD, "1 byte, nothing freed", odd_1_exit, NULL},
  {"odd-1-neighbours", ODD, "1 byte, all others freed", odd_1_neighbours, NULL},
  {"odd-1-free", ODD, "1 byte, then free", odd_1_free, NULL},
  {"odd-7-free", ODD, "7 bytes, then free", odd_7_free, NULL},
  {"odd-1-realloc", ODD, "1 byte, then realloc", odd_1_realloc, NULL},
};

TWINS(cases)
