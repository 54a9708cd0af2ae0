// SPDX-License-Identifier: MIT
// A program of deliberate errors, to see that a tool sees mimalloc's blocks exactly.
//
//   wrong list        the errors, and what memcheck and AddressSanitizer have to say of each
//   wrong clean       the same blocks without any error: nothing may be reported
//   wrong NAME...     the errors named, one after another
//   wrong             all of them
//
// Run it under valgrind with a library built with -DMI_TRACK_VALGRIND=ON, or compile it with
// -fsanitize=address and link a library built with -DMI_TRACK_ASAN=ON; check.py does so and
// compares. It calls the mi_ functions by name, so no option of valgrind's is needed to keep its
// own malloc out of the way.
//
// Invariants: each error is a function of its own that is never inlined, so that its name stands
// in the tool's report and no copy of a lost pointer survives in a register; every pointer is read
// from a volatile variable, so that the compiler can neither warn of the error nor remove it.
#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// No size class of mimalloc's: a tool that takes the block for its class misses the overflow.
#define BLOCK ((size_t)100)
// A block that is alone in its page.
#define LARGE ((size_t)1000100)

#define SEPARATE __attribute__((noinline))

static volatile bool wrong_guilty = true;
static volatile unsigned char wrong_sink;

static SEPARATE unsigned char* make(void) {
  void* volatile p = mi_malloc(BLOCK);
  if (p == NULL) exit(EXIT_FAILURE);
  return (unsigned char*)p;
}

static SEPARATE void uninitialised_read(void) {
  volatile unsigned char* p = make();
  if (!wrong_guilty) p[BLOCK / 2] = 1;
  // A copy of undefined bytes is no error; a decision that hangs on them is.
  if (p[BLOCK / 2] == 42) wrong_sink = 1;
  mi_free((void*)p);
}

static SEPARATE void write_past_end(void) {
  volatile unsigned char* p = make();
  p[BLOCK - 1] = 1;
  if (wrong_guilty) p[BLOCK] = 1;
  mi_free((void*)p);
}

static SEPARATE void read_past_end(void) {
  volatile unsigned char* p = make();
  memset((void*)p, 1, BLOCK);
  wrong_sink = p[wrong_guilty ? BLOCK : BLOCK - 1];
  mi_free((void*)p);
}

static SEPARATE void write_before_start(void) {
  volatile unsigned char* volatile p = make();
  if (wrong_guilty) p[-1] = 1;
  mi_free((void*)p);
}

static SEPARATE void use_after_free(void) {
  volatile unsigned char* volatile p = make();
  p[0] = 1;
  wrong_sink = p[0];
  mi_free((void*)p);
  if (wrong_guilty) wrong_sink = p[0];
}

static SEPARATE void double_free(void) {
  void* volatile p = make();
  mi_free(p);
  if (wrong_guilty) mi_free(p);
}

static SEPARATE void large_past_end(void) {
  volatile unsigned char* volatile p = (unsigned char*)mi_malloc(LARGE);
  p[LARGE - 1] = 1;
  if (wrong_guilty) p[LARGE] = 1;
  mi_free((void*)p);
}

static SEPARATE void large_use_after_free(void) {
  volatile unsigned char* volatile p = (unsigned char*)mi_malloc(LARGE);
  p[0] = 1;
  mi_free((void*)p);
  if (wrong_guilty) p[0] = 1;
}

static SEPARATE void aligned_past_end(void) {
  volatile unsigned char* volatile p = (unsigned char*)mi_malloc_aligned(BLOCK, 256);
  p[BLOCK - 1] = 1;
  if (wrong_guilty) p[BLOCK] = 1;
  mi_free((void*)p);
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static SEPARATE void other_thread_freed(void) {
  volatile unsigned char* volatile p = make();
  p[0] = 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_it, (void*)p) != 0) exit(EXIT_FAILURE);
  pthread_join(thread, NULL);
  if (wrong_guilty) wrong_sink = p[0];
  else mi_collect(false);  // takes the block back
}

static SEPARATE void leak(void) {
  void* volatile p = make();
  if (!wrong_guilty) mi_free(p);
  p = NULL;
}

typedef struct wrong_error {
  const char* name;
  void (*commit)(void);
  const char* memcheck;  // a regular expression for the tool's report
  const char* asan;      // the same, or "-" where AddressSanitizer does not look for the error
} wrong_error_t;

// Memcheck has to name the place to the byte: only a library that tells it of each block can.
static const wrong_error_t wrong_errors[] = {
  {"uninitialised-read", uninitialised_read, "depends on uninitialised value", "-"},
  {"write-past-end", write_past_end,
   "(?s)Invalid write of size 1\\b.* 0 bytes after a block of size 100\\b",
   "(use-after-poison|heap-buffer-overflow)"},
  {"read-past-end", read_past_end,
   "(?s)Invalid read of size 1\\b.* 0 bytes after a block of size 100\\b",
   "(use-after-poison|heap-buffer-overflow)"},
  {"write-before-start", write_before_start,
   "(?s)Invalid write of size 1\\b.* 1 bytes before a block of size 100\\b",
   "use-after-poison"},
  {"use-after-free", use_after_free,
   "(?s)Invalid read of size 1\\b.* 0 bytes inside a block of size 100 free'd",
   "(use-after-poison|heap-use-after-free)"},
  {"double-free", double_free, "Invalid free\\(\\)", "use-after-poison"},
  {"large-past-end", large_past_end,
   "(?s)Invalid write of size 1\\b.* 0 bytes after a block of size 1,000,100\\b",
   "use-after-poison"},
  {"large-use-after-free", large_use_after_free,
   "(?s)Invalid write of size 1\\b.* 0 bytes inside a block of size 1,000,100 free'd",
   "(use-after-poison|SEGV)"},
  {"aligned-past-end", aligned_past_end, "Invalid write of size 1", "use-after-poison"},
  {"other-thread-freed", other_thread_freed,
   "(?s)Invalid read of size 1\\b.* 0 bytes inside a block of size 100 free'd",
   "use-after-poison"},
  {"leak", leak, "100 bytes in 1 blocks are definitely lost", "-"},
};

#define WRONG_COUNT (sizeof(wrong_errors) / sizeof(wrong_errors[0]))

static const wrong_error_t* find(const char* name) {
  for (size_t i = 0; i < WRONG_COUNT; i++) {
    if (strcmp(wrong_errors[i].name, name) == 0) return &wrong_errors[i];
  }
  fprintf(stderr, "wrong: no error is called '%s'; try 'wrong list'\n", name);
  exit(2);
}

static void commit_all(void) {
  for (size_t i = 0; i < WRONG_COUNT; i++) {
    fprintf(stderr, "wrong: %s\n", wrong_errors[i].name);
    wrong_errors[i].commit();
  }
}

static void list(void) {
  for (size_t i = 0; i < WRONG_COUNT; i++) {
    const wrong_error_t* e = &wrong_errors[i];
    printf("%s\t%s\t%s\n", e->name, e->memcheck, e->asan);
  }
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "list") == 0) {
    list();
  } else if (argc == 2 && strcmp(argv[1], "clean") == 0) {
    wrong_guilty = false;
    commit_all();
  } else if (argc == 1) {
    commit_all();
  } else {
    for (int i = 1; i < argc; i++) find(argv[i])->commit();
  }
  return 0;
}
