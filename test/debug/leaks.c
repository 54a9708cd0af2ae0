// SPDX-License-Identifier: MIT
// The leak report: counts by size with leak_report=1, and the stacks of the allocations with 2. The
// program calls itself, so that the option is there from the start and the report comes at the end.
//
// Linked to the shared library (DYNAMIC), stacks begin with the caller of the library; but there
// the C library's own blocks are in the report as well, so that only single lines can be expected.
#ifdef DYNAMIC
#define IS_DYNAMIC 1
#else
#define IS_DYNAMIC 0
#endif
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "mistakes.h"

static char* self;

#define SEPARATE __attribute__((noinline, noclone))

SEPARATE void* allocate_for_nobody(size_t size) {
  void* volatile p = mi_malloc(size);
  return p;
}

SEPARATE void* from_thread(void* size) { return allocate_for_nobody((size_t)(uintptr_t)size); }

// 1,000 blocks of which these stay: 7 of 1234 bytes, 2 of 40, 1 of 300,000, 3 of 77 from another
// thread, 4 of 555 in a heap. What is freed, or destroyed with its heap, is no leak.
static void leave_blocks(void) {
  static void* kept[1000];
  for (int i = 0; i < 1000; i++) {
    kept[i] = (i % 100 == 0 && i < 700) ? allocate_for_nobody(1234) : mi_malloc((size_t)i % 90 + 1);
  }
  for (int i = 0; i < 1000; i++) {
    if (i % 100 != 0 || i >= 700) mi_free(kept[i]);
  }
  kept[1] = mi_calloc(4, 10);
  kept[2] = mi_realloc(mi_malloc(10), 40);
  kept[3] = allocate_for_nobody(300000);
  for (int i = 4; i < 7; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, from_thread, (void*)77) != 0) abort();
    pthread_join(thread, &kept[i]);
  }
  mi_free(allocate_for_nobody(400000));
  mi_free(mi_realloc(allocate_for_nobody(2000000), 500000));
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const destroyed = mi_heap_new();
  for (int i = 10; i < 14; i++) kept[i] = mi_heap_malloc(heap, 555);
  for (int i = 14; i < 50; i++) kept[i] = mi_heap_malloc(destroyed, 666);
  mi_heap_destroy(destroyed);
}

static long metadata_now(void) {
  char* const json = mi_stats_get_json(0, NULL);
  const char* at = strstr(json, "\"metadata\"");
  at = (at == NULL ? NULL : strstr(at, "\"current\": "));
  const long bytes = (at == NULL ? -1 : atol(at + 11));
  mi_free(json);
  return bytes;
}

// What is known of blocks that were freed has room for others, which lie elsewhere.
static int use_again(void) {
  enum { BLOCKS = 6000 };
  static void* p[BLOCKS];
  long before = 0;
  for (size_t size = 16; size <= 1600; size *= 10) {
    before = metadata_now();
    for (int i = 0; i < BLOCKS; i++) p[i] = mi_malloc(size);
    for (int i = 0; i < BLOCKS; i++) mi_free(p[i]);
  }
  return before <= 0 || metadata_now() - before > 500 * 1000;
}

// More sizes than have lines of their own.
static int leave_many_sizes(void) {
  for (size_t size = 1; size <= 1100; size++) allocate_for_nobody(size);
  return 0;
}

static void call_self(size_t level) {
  static const char* const ways[] = {"leave", "leave", "leave", "tidy", "again", "many"};
  static const char* const levels[] = {"0", "1", "2", NULL, "2", "1"};
  if (levels[level] != NULL) setenv("MIMALLOC_LEAK_REPORT", levels[level], 1);
  execl(self, self, ways[level], (char*)NULL);
  abort();
}

static size_t count_of(const char* word) {
  size_t count = 0;
  for (const char* p = said; (p = strstr(p, word)) != NULL; p++) count++;
  return count;
}

static void check_sizes(void) {
  if (!IS_DYNAMIC) EXPECT_SAID("leak report: 311169 bytes in 17 blocks are in use\n");
  EXPECT_SAID("  300000 bytes in 1 blocks of size 300000\n");
  EXPECT_SAID("  8638 bytes in 7 blocks of size 1234\n");
  EXPECT_SAID("  2220 bytes in 4 blocks of size 555\n");
  EXPECT_SAID("  231 bytes in 3 blocks of size 77\n");
  EXPECT(strstr(said, "of size 666") == NULL);
  EXPECT(strstr(said, "of size 300000") < strstr(said, "of size 1234"));
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "leave") == 0) {
    leave_blocks();
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "again") == 0) return use_again();
  if (argc == 2 && strcmp(argv[1], "many") == 0) return leave_many_sizes();
  if (argc == 2) {
    setenv("MIMALLOC_LEAK_REPORT", "1", 1);
    mi_option_set(mi_option_leak_report, 1);
    mi_free(mi_malloc(100));
    return 0;
  }
  self = argv[0];
  run(call_self, 0);
  EXPECT(said[0] == 0);
  run(call_self, 1);
  check_sizes();
  EXPECT_SAID("  80 bytes in 2 blocks of size 40\n");
  EXPECT(count_of("#0") == 0);
  // Guarded blocks are blocks like all others.
  setenv("MIMALLOC_GUARDED_SAMPLE_RATE", "1", 1);
  run(call_self, 1);
  check_sizes();
  EXPECT_SAID("  80 bytes in 2 blocks of size 40\n");
  run(call_self, 2);
  EXPECT(count_of(" allocate_for_nobody+") >= 3);
  unsetenv("MIMALLOC_GUARDED_SAMPLE_RATE");
  run(call_self, 2);
  if (IS_DYNAMIC) {
    check_sizes();
    // Blocks of one size that come from two places are told apart.
    EXPECT(count_of("  40 bytes in 1 blocks of size 40\n") == 2);
    EXPECT(strstr(said, " in 7 blocks of size 1234\n    #0 ") != NULL);
    EXPECT(count_of("    #0 ") >= 6 && count_of("mi_malloc") == 0);
  }
  EXPECT(count_of(" allocate_for_nobody+") >= 3);
  EXPECT(count_of(" from_thread+") >= 1);
  EXPECT(count_of(" main+") >= 5);
  if (!IS_DYNAMIC) {
    run(call_self, 3);
    EXPECT_SAID("leak report: 0 bytes in 0 blocks are in use\n");
    run(call_self, 4);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run(call_self, 5);
    EXPECT_SAID("leak report: 605550 bytes in 1100 blocks are in use\n");
    EXPECT_SAID(" bytes in 76 blocks of other sizes\n");
    EXPECT(count_of(" bytes in 1 blocks of size ") == 1024);
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
