// SPDX-License-Identifier: MIT
// The calls that guard sampled blocks: how often, which sizes, and that a byte too far faults.
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_check.h"

enum { BLOCKS = 500 };

static int64_t guarded_so_far(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_stats_get(&stats));
  return stats.malloc_guarded_count.total;
}

// How many of some blocks of a size are guarded.
static int64_t guarded_of(size_t size) {
  static void* blocks[BLOCKS];
  const int64_t before = guarded_so_far();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mi_malloc(size);
    CHECK_ROW(blocks[i] != NULL && mi_usable_size(blocks[i]) >= size, i);
  }
  const int64_t guarded = guarded_so_far() - before;
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  return guarded;
}

// Writes one byte at `offset` of a block in another process; the signal that ended it, or 0.
static int signal_of_write(size_t size, size_t offset) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    signal(SIGSEGV, SIG_DFL);
    volatile char* p = NULL;
    for (size_t i = 0; i < BLOCKS; i++) p = (volatile char*)mi_malloc(size);
    p[offset] = 1;
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void set_rate(bool by_heap, size_t rate) {
  if (by_heap) mi_heap_guarded_set_sample_rate(mi_heap_main(), rate, 1);
  else mi_theap_guarded_set_sample_rate(mi_theap_get_default(), rate, 1);
}

static void set_bound(bool by_heap, size_t min, size_t max) {
  if (by_heap) mi_heap_guarded_set_size_bound(mi_heap_main(), min, max);
  else mi_theap_guarded_set_size_bound(mi_theap_get_default(), min, max);
}

static void test_setters(bool by_heap) {
  set_rate(by_heap, 0);
  CHECK(guarded_of(96) == 0);
  set_bound(by_heap, 0, 1 << 20);
  set_rate(by_heap, 1);
  CHECK(guarded_of(96) == BLOCKS);
  CHECK(signal_of_write(96, 95) == 0);
  CHECK(signal_of_write(96, 96) == SIGSEGV);
  set_bound(by_heap, 200, 300);
  CHECK(guarded_of(112) == 0 && guarded_of(240) == BLOCKS && guarded_of(400) == 0);
  set_rate(by_heap, 0);
  CHECK(guarded_of(240) == 0);
  set_bound(by_heap, 0, (size_t)1 << 30);
}

static void* count_in_thread(void* count) {
  *(int64_t*)count = guarded_of(96);
  return NULL;
}

// What one thread sets for its theap is not another's.
static void test_other_thread(void) {
  set_bound(false, 0, 1 << 20);
  set_rate(false, 1);
  int64_t elsewhere = -1;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, count_in_thread, &elsewhere) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(elsewhere == 0);
  CHECK(guarded_of(96) == BLOCKS);
  set_rate(false, 0);
}

typedef struct seen {
  void* const* blocks;
  size_t count, of_size, bytes;
} seen_t;

static bool see_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                      void* arg) {
  seen_t* const seen = (seen_t*)arg;
  if (block == NULL) return true;
  CHECK(heap == mi_heap_main() && size == area->block_size);
  for (size_t i = 0; i < seen->count; i++) {
    if (seen->blocks[i] != block) continue;
    seen->of_size++;
    seen->bytes += mi_usable_size(block);
  }
  return true;
}

// A visit meets every guarded block that is live, once, and none that is not.
static void test_visit(void) {
  static void* blocks[100];
  set_rate(false, 1);
  const int64_t before = guarded_so_far();
  for (size_t i = 0; i < 100; i++) blocks[i] = mi_malloc(2000);
  CHECK(guarded_so_far() - before == 100);
  set_rate(false, 0);
  for (size_t turn = 0; turn < 2; turn++) {
    seen_t seen = {blocks, 100, 0, 0};
    CHECK(mi_heap_visit_blocks(mi_heap_main(), true, see_block, &seen));
    CHECK(seen.of_size == 100 - turn * 50 && seen.bytes >= seen.of_size * 2000);
    for (size_t i = 0; i < 100 && turn == 0; i += 2) mi_free(blocks[i]);
  }
  for (size_t i = 1; i < 100; i += 2) mi_free(blocks[i]);
}

int main(void) {
  mi_option_set(mi_option_show_errors, 0);
  test_visit();
  test_setters(false);
  test_setters(true);
  test_other_thread();
  return 0;
}
