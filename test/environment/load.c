// SPDX-License-Identifier: MIT
// A program that knows nothing of the library and uses all of malloc, in scenes:
//
//   load [SCENE...]      all but those with a number, in the order below
//
//   small     many small blocks, replaced in random order
//   large     blocks of 3 and 9 MiB, one of each at a time
//   grow      three buffers that realloc lets grow in turns to 3 MiB, and shrink
//   zero      calloc of memory that was used before
//   align     alignments from 8 bytes to 1 MiB
//   give      8 MiB in blocks of 64 KiB, freed and trimmed
//   threads   waves of threads that free each other's blocks
//   fork      a child that allocates, frees what it inherited, and starts a thread
//   until=S   blocks of S KiB until there is no more, freed, and once more
//   bulk=S    S MiB at once in blocks of all sizes to 1 MiB, freed
//   read=S    S MiB of calloc that are read and never written, and stay
//   sizes=N   N blocks, each 13 bytes larger than the one before, which stay
//   crowd=N   N threads, each of which replaces 400 blocks of 3,000 to 70,000 bytes
//   long=S    small, grow and threads for S seconds, or until SIGUSR1 comes
//   leave     the first thread ends, then the others, and with the last one the process; nothing
//             comes behind it
//
// and the steps of steps.c between them, which change the environment meanwhile.
//
// Prints key=value. Exit status 0; 3 where malloc answers NULL with ENOMEM; 4 where it answers NULL
// with another errno; 5 where there is no thread or process; 75 where a step is impossible here, 76
// where the system refuses it for want of memory; SIGABRT where memory is damaged.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

static const char* scene = "";
static char line[256];  // stdout has no buffer of malloc's

void say(const char* key, size_t value) {
  const int n = snprintf(line, sizeof(line), "%s=%zu\n", key, value);
  if (write(1, line, (size_t)n) < 0) return;  // it may be closed
}

void end(int status, const char* what, size_t size) {
  const int n = snprintf(line, sizeof(line), "%s: %s %zu: %s\n", scene, what, size, strerror(errno));
  if (write(2, line, (size_t)n) < 0) _exit(status);
  _exit(status);
}

void not_so(const char* file, int at, const char* text) {
  fprintf(stderr, "%s:%d: %s: not so: %s\n", file, at, scene, text);
  abort();
}

static void* given(void* p, size_t size) {
  if (p == NULL) end(errno == ENOMEM ? NO_MEMORY : WRONG_ERRNO, "NULL for", size);
  return p;
}

static void* get(size_t size) {
  errno = 0;
  return given(malloc(size), size);
}

// ---- blocks that know themselves ---------------------------------------------------------------

// The size at the front, its complement at the end, a byte in each OS page between.
typedef struct block_s {
  size_t size;
} block_t;

static void sign(void* p, size_t size) {
  unsigned char* const bytes = p;
  ((block_t*)p)->size = size;
  for (size_t i = 4096; i + 8 < size; i += 4096) bytes[i] = (unsigned char)(i / 4096 + size);
  const size_t inverse = ~size;
  memcpy(bytes + size - 8, &inverse, 8);
}

// `old`: the size that it was signed with, of which `kept` bytes must be there still.
static void verify(const void* p, size_t old, size_t kept) {
  const unsigned char* const bytes = p;
  check(((const block_t*)p)->size == old);
  for (size_t i = 4096; i + 8 < kept; i += 4096) {
    check(bytes[i] == (unsigned char)(i / 4096 + old));
  }
  if (kept != old) return;
  size_t inverse;
  memcpy(&inverse, bytes + old - 8, 8);
  check(inverse == ~old);
}

static void* signed_block(size_t size) {
  void* const p = get(size);
  sign(p, size);
  return p;
}

static void verify_free(void* p) {
  if (p == NULL) return;
  const size_t size = ((block_t*)p)->size;
  verify(p, size, size);
  free(p);
}

static uint64_t next(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  return z ^ (z >> 31);
}

// ---- scenes ------------------------------------------------------------------------------------

// Replaces blocks of `least` bytes and up to `often` more, every so many-th up to `seldom` more.
typedef struct sizes_s {
  size_t least, often, seldom, every;
} sizes_t;

static void churn_sizes(size_t live, size_t count, uint64_t seed, sizes_t s) {
  void** const blocks = get(live * sizeof(void*));
  memset(blocks, 0, live * sizeof(void*));
  for (size_t i = 0; i < count; i++) {
    const size_t at = next(&seed) % live;
    verify_free(blocks[at]);
    blocks[at] = signed_block(s.least + next(&seed) % (i % s.every == 0 ? s.seldom : s.often));
  }
  for (size_t i = 0; i < live; i++) verify_free(blocks[i]);
  free(blocks);
}

static void churn(size_t live, size_t count, uint64_t seed) {
  churn_sizes(live, count, seed, (sizes_t){16, 1000, 20000, 50});
}

static void small(void) { churn(3000, 60000, 1); }

static void large(void) {
  for (int i = 0; i < 4; i++) {
    void* const a = signed_block(3 * MIB);
    void* const b = signed_block(9 * MIB);
    verify_free(a);
    verify_free(b);
  }
}

// Freed blocks lie between others, so that longer ones begin elsewhere: what waits may move there.
static void apart(void) {
  enum { SMALL = 16, LONG = 4 };
  void* small_ones[SMALL];
  void* long_ones[LONG];
  for (int i = 0; i < SMALL; i++) small_ones[i] = signed_block(MIB + MIB / 2);
  for (int i = 0; i < SMALL; i += 2) verify_free(small_ones[i]);
  for (int i = 0; i < LONG; i++) long_ones[i] = signed_block(3 * MIB);
  for (int i = 0; i < LONG; i++) verify_free(long_ones[i]);
  for (int i = 1; i < SMALL; i += 2) verify_free(small_ones[i]);
}

static void* resized(void* p, size_t size) {
  const size_t old = ((block_t*)p)->size;
  errno = 0;
  void* const q = given(realloc(p, size), size);
  verify(q, old, old < size ? old : size - 8);
  sign(q, size);
  return q;
}

static void grow(void) {
  void* buffers[3];
  for (int i = 0; i < 3; i++) buffers[i] = signed_block(100);
  for (size_t size = 1000; size < 3 * MIB; size += size / 3) {
    for (int i = 0; i < 3; i++) buffers[i] = resized(buffers[i], size + (size_t)i * 5000);
  }
  for (size_t size = 2 * MIB; size > 100; size /= 5) {
    for (int i = 0; i < 3; i++) buffers[i] = resized(buffers[i], size);
  }
  for (int i = 0; i < 3; i++) verify_free(buffers[i]);
}

static void zero(void) {
  const size_t sizes[] = {24, 700, 5000, 40000, 300000, 2 * MIB};
  for (int round = 0; round < 3; round++) {
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
      unsigned char* const p = given(calloc(1, sizes[s]), sizes[s]);
      for (size_t i = 0; i < sizes[s]; i++) check(p[i] == 0);
      memset(p, 0xA5, sizes[s]);
      free(p);
    }
  }
}

static void align(void) {
  for (size_t alignment = 8; alignment <= MIB; alignment *= 2) {
    void* p = NULL;
    const int code = posix_memalign(&p, alignment, 3000);
    if (code != 0) {
      errno = code;
      given(NULL, alignment);
    }
    check((uintptr_t)p % alignment == 0);
    sign(p, 3000);
    void* const q = given(aligned_alloc(alignment, alignment * 2), alignment * 2);
    check((uintptr_t)q % alignment == 0);
    sign(q, alignment * 2);
    verify_free(p);
    verify_free(q);
  }
}

static void give(void) {
  void* blocks[128];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 128; i++) blocks[i] = signed_block(64 * KIB);
    for (int i = 0; i < 128; i++) verify_free(blocks[(i * 37) % 128]);
    malloc_trim(0);
  }
}

// ---- threads and processes ---------------------------------------------------------------------

#define THREADS 6
#define PASSED 200

static void* passed[THREADS][PASSED];

static void* work(void* arg) {
  const size_t number = (size_t)(uintptr_t)arg;
  churn(300, 2000, number);
  void* const buffer = signed_block(600 * KIB);
  for (int i = 0; i < PASSED; i++) passed[number][i] = signed_block(16 + (size_t)i * 11);
  verify_free(buffer);
  return NULL;
}

pthread_t started(void* (*body)(void*), void* arg) {
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 128 * KIB);
  errno = pthread_create(&thread, &attr, body, arg);
  if (errno != 0) end(NO_THREAD, "no thread", 0);
  pthread_attr_destroy(&attr);
  return thread;
}

static void* free_passed(void* arg) {
  const size_t number = (size_t)(uintptr_t)arg;
  for (int i = 0; i < PASSED; i++) verify_free(passed[number][i]);
  return NULL;
}

static void run_threads(void) {
  pthread_t threads[THREADS];
  for (int wave = 0; wave < 3; wave++) {
    for (size_t i = 0; i < THREADS; i++) threads[i] = started(work, (void*)i);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
      threads[i] = started(free_passed, (void*)((i + 1) % THREADS));
    }
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
}

static void run_fork(void) {
  void* const kept = signed_block(5000);
  const pid_t child = fork();
  if (child < 0) end(NO_THREAD, "no process", 0);
  if (child == 0) {
    verify_free(kept);
    churn(300, 3000, 7);
    pthread_join(started(work, (void*)0), NULL);
    free_passed((void*)0);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  verify_free(kept);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) _exit(WEXITSTATUS(status));
  check(WIFEXITED(status));
}

static void* left_behind[64];

static void* outlive(void* arg) {
  usleep(100000);
  for (int i = 0; i < 64; i++) verify(left_behind[i], 64 * KIB, 64 * KIB);
  return work(arg);
}

static void leave(void) {
  for (int i = 0; i < 64; i++) left_behind[i] = signed_block(64 * KIB);
  churn(300, 3000, 3);
  for (size_t i = 0; i < 3; i++) pthread_detach(started(outlive, (void*)i));
  say("leave", 1);
  pthread_exit(NULL);
}

// ---- scenes with a number ----------------------------------------------------------------------

static size_t take_all(size_t size) {
  void** last = NULL;
  size_t count = 0;
  for (;; count++) {
    errno = 0;
    void** const p = malloc(size);
    if (p == NULL) break;
    for (size_t i = 4096; i < size; i += 4096) ((char*)p)[i] = 1;
    *p = last;
    last = p;
  }
  check(errno == ENOMEM);
  while (last != NULL) {
    void** const before = *last;
    free(last);
    last = before;
  }
  return count * size / KIB;
}

static void until(size_t kib) {
  say("until", take_all(kib * KIB));
  const size_t again = take_all(kib * KIB);
  say("again", again);
}

static void bulk(size_t mib) {
  void** last = NULL;
  uint64_t seed = 5;
  for (size_t done = 0, size; done < mib * MIB; done += size) {
    size = 2 * sizeof(void*) + next(&seed) % ((size_t)1 << (6 + next(&seed) % 15));
    void** const p = get(size);
    memset(p, 7, size);
    *p = last;
    last = p;
  }
  while (last != NULL) {
    void** const before = *last;
    free(last);
    last = before;
  }
}

static void read_zeros(size_t mib) {
  static const volatile unsigned char* kept;
  kept = (const volatile unsigned char*)given(calloc(mib, MIB), mib * MIB);
  for (size_t i = 0; i < mib * MIB; i += 4096) check(kept[i] == 0);
  say("read", (long)mib);
}

static void keep_sizes(size_t count) {
  for (size_t i = 0; i < count; i++) {
    void* const p = get(sizeof(void*) + 13 * i);
    memset(p, 7, sizeof(void*) + 13 * i);
  }
}

static void* replace_many_sizes(void* arg) {
  churn_sizes(400, 6000, (uintptr_t)arg, (sizes_t){3000, 6200, 67000, 8});
  return NULL;
}

static void crowd(size_t count) {
  pthread_t threads[64];
  if (count > 64) end(2, "too many threads", count);
  for (size_t i = 0; i < count; i++) threads[i] = started(replace_many_sizes, (void*)(i + 1));
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static volatile sig_atomic_t is_over;

static void stop(int number) {
  (void)number;
  is_over = 1;
}

static void run_long(size_t seconds) {
  const time_t limit = time(NULL) + (time_t)seconds;
  signal(SIGUSR1, stop);
  while (time(NULL) < limit && !is_over) {
    small();
    grow();
    run_threads();
  }
}

// ---- main --------------------------------------------------------------------------------------

static const struct {
  const char* name;
  void (*run)(void);
} scenes[] = {{"small", small}, {"large", large},         {"grow", grow},    {"zero", zero},
              {"align", align}, {"give", give}, {"threads", run_threads}, {"fork", run_fork}};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

static void play(const char* name) {
  scene = name;
  if (strncmp(name, "until=", 6) == 0) {
    until(strtoul(name + 6, NULL, 10));
    return;
  }
  if (strncmp(name, "bulk=", 5) == 0) {
    bulk(strtoul(name + 5, NULL, 10));
    return;
  }
  if (strncmp(name, "read=", 5) == 0) {
    read_zeros(strtoul(name + 5, NULL, 10));
    return;
  }
  if (strncmp(name, "sizes=", 6) == 0) {
    keep_sizes(strtoul(name + 6, NULL, 10));
    return;
  }
  if (strncmp(name, "crowd=", 6) == 0) {
    crowd(strtoul(name + 6, NULL, 10));
    return;
  }
  if (strncmp(name, "long=", 5) == 0) {
    run_long(strtoul(name + 5, NULL, 10));
    return;
  }
  for (size_t i = 0; i < SCENES; i++) {
    if (strcmp(name, scenes[i].name) != 0) continue;
    scenes[i].run();
    say(name, 1);
    return;
  }
  if (strcmp(name, "leave") == 0) leave();
  if (strcmp(name, "apart") == 0) {
    apart();
    return;
  }
  if (step(name)) return;
  end(2, "no such scene", 0);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) play(argv[i]);
  if (argc > 1) return 0;
  for (size_t i = 0; i < SCENES; i++) play(scenes[i].name);
  return 0;
}
