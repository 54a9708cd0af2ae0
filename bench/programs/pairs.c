// SPDX-License-Identifier: MIT
// pairs: fixed scripts of calls, for counting instructions.
//
// Each script repeats one small pattern `count` times. The runner executes it under callgrind
// with two counts and divides the difference, so start-up, first use of a size and exit cancel
// out, and it takes what was executed outside this program's own object file: exactly the
// allocator's (and the C library's) instructions, whatever the loop here compiles to.
//
// Arguments: script, count. Scripts: small, batch, calloc, calloc256, realloc, resize, usable,
// null, aligned, operators, mixed, trim, 4k, 32k, remote, hand.
#include <malloc.h>
#include <semaphore.h>

#include "common.h"

enum { DEPTH = 1000, LIVE = 512 };

static void pair(size_t count, size_t size) {
  for (size_t n = 0; n < count; n++) {
    volatile uint8_t* block = (volatile uint8_t*)malloc(size);
    block[0] = 1;
    free((void*)(uintptr_t)block);
  }
}

static void script_small(size_t count) { pair(count, 48); }
static void script_4k(size_t count) { pair(count, 4096); }
static void script_32k(size_t count) { pair(count, 32768); }

static void script_batch(size_t count) {
  static void* blocks[DEPTH];
  for (size_t n = 0; n < count; n += DEPTH) {
    for (size_t i = 0; i < DEPTH; i++) blocks[i] = malloc(64);
    for (size_t i = 0; i < DEPTH; i++) free(blocks[i]);
  }
}

static void script_calloc(size_t count) {
  for (size_t n = 0; n < count; n++) {
    volatile uint8_t* block = (volatile uint8_t*)calloc(1, 48);
    if (block[0] != 0 || block[47] != 0) bench_fail("calloc gave memory that is not zero");
    block[0] = 1;
    free((void*)(uintptr_t)block);
  }
}

static void script_calloc256(size_t count) {
  for (size_t n = 0; n < count; n++) {
    volatile uint8_t* block = (volatile uint8_t*)calloc(1, 256);
    if (block[0] != 0 || block[255] != 0) bench_fail("calloc gave memory that is not zero");
    block[0] = 1;
    free((void*)(uintptr_t)block);
  }
}

static void script_null(size_t count) {
  void* volatile none = NULL;
  for (size_t n = 0; n < count; n++) free(none);
}

static void script_usable(size_t count) {
  void* const block = malloc(48);
  size_t sum = 0;
  for (size_t n = 0; n < count; n++) sum += malloc_usable_size(block);
  if (sum < 48 * count) bench_fail("a usable size is too small");
  free(block);
}

// Within what the block has.
static void script_resize(size_t count) {
  void* const block = malloc(100);
  for (size_t n = 0; n < count; n++) {
    if (realloc(block, 97 + n % 2) != block) bench_fail("a block moved");
  }
  free(block);
}

static void script_aligned(size_t count) {
  for (size_t n = 0; n < count; n++) {
    void* block;
    if (posix_memalign(&block, 64, 64) != 0) bench_fail("no memory");
    *(volatile uint8_t*)block = 1;
    free(block);
  }
}

// operator new and sized delete, where the allocator has them.
extern void* _Znwm(size_t size) __attribute__((weak));
extern void _ZdlPvm(void* block, size_t size) __attribute__((weak));

static void script_operators(size_t count) {
  if (&_Znwm == NULL || &_ZdlPvm == NULL) bench_fail("no operators");
  for (size_t n = 0; n < count; n++) {
    volatile uint8_t* block = (volatile uint8_t*)_Znwm(48);
    block[0] = 1;
    _ZdlPvm((void*)(uintptr_t)block, 48);
  }
}

// A string that grows: 16 bytes, in place or not to 40, 120 and 1,000, then freed.
static void script_realloc(size_t count) {
  static const size_t sizes[] = {40, 120, 1000};
  for (size_t n = 0; n < count; n++) {
    uint8_t* block = (uint8_t*)malloc(16);
    block[0] = (uint8_t)n;
    for (size_t i = 0; i < 3; i++) block = (uint8_t*)realloc(block, sizes[i]);
    if (block[0] != (uint8_t)n) bench_fail("realloc lost a byte");
    free(block);
  }
}

static void script_mixed(size_t count) {
  static void* blocks[LIVE];
  bench_rng_t rng = bench_rng(1);
  for (size_t n = 0; n < count; n++) {
    size_t i = bench_below(&rng, LIVE);
    free(blocks[i]);
    blocks[i] = malloc(bench_between(&rng, 16, 1024));
  }
  for (size_t i = 0; i < LIVE; i++) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void replace(void** block, size_t size) {
  free(*block);
  *block = bench_need(malloc(size), size);
  for (size_t i = 0; i < size; i += 4096) ((volatile uint8_t*)*block)[i] = 1;
}

// A program that gives memory back after every few blocks: one such turn for DEPTH of the count.
static void script_trim(size_t count) {
  static void* blocks[LIVE];
  bench_rng_t rng = bench_rng(1);
  for (size_t i = 0; i < LIVE; i++) replace(&blocks[i], bench_between(&rng, 16, 65536));
  malloc_trim(0);
  for (size_t n = 0; n < count; n += DEPTH) {
    for (size_t i = 0; i < LIVE / 64; i++) {
      replace(&blocks[bench_below(&rng, LIVE)], bench_between(&rng, 16, 65536));
    }
    malloc_trim(0);
  }
}

static struct handover {
  sem_t full, empty;
  size_t batches, depth;
  void* blocks[DEPTH];
} handover;

static void* free_batches(void* unused) {
  (void)unused;
  for (size_t batch = 0; batch < handover.batches; batch++) {
    sem_wait(&handover.full);
    for (size_t i = 0; i < handover.depth; i++) free(handover.blocks[i]);
    sem_post(&handover.empty);
  }
  return NULL;
}

// One thread allocates and one frees.
static void hand_over(size_t count, size_t depth) {
  pthread_t thread;
  handover.batches = count / depth;
  handover.depth = depth;
  sem_init(&handover.full, 0, 0);
  sem_init(&handover.empty, 0, 1);
  if (pthread_create(&thread, NULL, free_batches, NULL) != 0) bench_fail("no thread started");
  for (size_t batch = 0; batch < handover.batches; batch++) {
    sem_wait(&handover.empty);
    for (size_t i = 0; i < depth; i++) handover.blocks[i] = malloc(48);
    sem_post(&handover.full);
  }
  pthread_join(thread, NULL);
}

// The semaphores add about one instruction to a pair.
static void script_remote(size_t count) { hand_over(count, DEPTH); }

// In turns, a block at a time: each finds what the other has just written.
static void script_hand(size_t count) { hand_over(count, 1); }

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(size_t count);
  } scripts[] = {{"small", script_small},     {"batch", script_batch},
                 {"calloc", script_calloc},   {"calloc256", script_calloc256},
                 {"realloc", script_realloc}, {"resize", script_resize},
                 {"usable", script_usable},   {"aligned", script_aligned},
                 {"operators", script_operators},
                 {"mixed", script_mixed},     {"trim", script_trim},
                 {"4k", script_4k},
                 {"32k", script_32k},         {"remote", script_remote},
                 {"null", script_null},       {"hand", script_hand}};
  size_t count = bench_arg(argc, argv, 2, 100000);
  for (size_t s = 0; argc > 1 && s < sizeof scripts / sizeof scripts[0]; s++) {
    if (strcmp(argv[1], scripts[s].name) != 0) continue;
    scripts[s].run(count);
    return 0;
  }
  bench_fail("usage: pairs SCRIPT COUNT");
}
