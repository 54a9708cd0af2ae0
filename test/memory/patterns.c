// SPDX-License-Identifier: MIT
// The loads whose memory is looked at from outside: each prints what it saw as KEY=VALUE, and
// test_memory.py judges. Only malloc and free are called, so any allocator can be measured; what
// this library adds is reached through weak references.
//
//   patterns free EVERY COLLECT SECONDS   280 MB of 512, 1024 and 2048 bytes, freed but for one in
//                                         EVERY (0: all), COLLECT 1: then mi_collect(true); idle
//   patterns steady SECONDS               replaces random blocks, 40 MB live
//   patterns cycles COUNT MIB             fills and frees MIB as often
//   patterns huge COUNT MIB               a block of MIB made, touched and freed as often
//   patterns grow MIB                     one block grows to MIB by 1 MiB steps
//   patterns committed                    statistics against /proc/self/smaps
//   patterns sizes ROUNDS MIB             sizes that take turns, each leaving some blocks behind
//   patterns slack COUNT                  COUNT blocks of each of many sizes, in memory used before
//   patterns follow COUNT MIB             COUNT blocks to 128 KiB are freed, then MIB in large ones
//   patterns tables COUNT MIB EVERY       as often, a byte in EVERY of MIB that calloc made is read and
//                                         written; 0: all are read, and one is written
//   patterns vast ROUNDS SHARE            replaces 20 blocks of 40 to 100 MiB as often, of each of which
//                                         the first of SHARE parts is used
//   patterns pieces COUNT MIB ROUNDS      COUNT blocks of MIB that are not used; beside them 16 blocks
//                                         of 2 to 60 MiB are replaced as often, and filled
//   patterns limit MIB                    blocks of 64 KiB up to MIB, or to the first NULL;
//                                         then half as much in small ones and in a large one
//   patterns threads COUNT                idle threads with thinned-out pages of their own
//   patterns many COUNT BLOCKS            so many threads, with BLOCKS to 1,024 bytes each, wait; twice
//   patterns replaced COUNT MIB ROUNDS    so many threads, each with MIB in blocks to 2,000 bytes, replace
//                                         as many as that are at random, as often
//   patterns passed COUNT ROUNDS          so many threads, each with 100,000 blocks of 64 and 256 bytes,
//                                         replace as many as that are, as often; one in ten of those
//                                         that go is freed by another thread
//   patterns wide COUNT STEPS             replaces COUNT blocks of 48 to 200,000 bytes at random, as often
//   patterns drift MIB                    large blocks become smaller, beside small ones of MIB that stay
//   patterns again ROUNDS                 large blocks of many sizes are made and freed as often, and
//                                         between two rounds other memory 70 times
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "patterns.h"

#pragma weak mi_collect
#pragma weak mi_stats_get
#pragma weak mi_option_set

#define MIB ((size_t)1 << 20)

static unsigned random_state = 12345;

static unsigned random_below(unsigned n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % n;
}

// Allocates nothing: it is asked where there may be no memory left.
long resident_kib(void) {
  char text[128];
  long size = 0, resident = 0;
  const int file = open("/proc/self/statm", O_RDONLY);
  const ssize_t n = read(file, text, sizeof(text) - 1);
  close(file);
  text[n > 0 ? n : 0] = 0;
  if (sscanf(text, "%ld %ld", &size, &resident) != 2) exit(2);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

static double msecs(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

unsigned char* make(size_t size) {
  unsigned char* p = malloc(size);
  if (p == NULL) {
    fprintf(stderr, "patterns: no memory for %zu bytes\n", size);
    exit(3);
  }
  memset(p, 0x5A, size);
  return p;
}

static void idle(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static double number_in(const char* path, const char* form) {
  char text[256];
  double number = 0;
  const int file = open(path, O_RDONLY);
  if (file < 0) return 0;
  const ssize_t n = read(file, text, sizeof(text) - 1);
  close(file);
  text[n > 0 ? n : 0] = 0;
  return sscanf(text, form, &number) == 1 ? number : 0;
}

// Milliseconds for which threads of this process could run and had no processor, in all. Allocates
// nothing.
static double msecs_in_queue(void) {
  char entries[2048], path[300];
  double total = 0;
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  for (long size; folder >= 0 && (size = syscall(SYS_getdents64, folder, entries, 2048)) > 0;) {
    for (long at = 0; at < size;) {
      const struct dirent64* const entry = (const struct dirent64*)(void*)(entries + at);
      at += entry->d_reclen;
      snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
      if (entry->d_name[0] != '.') total += number_in(path, "%*s %lf") / 1e6;
    }
  }
  if (folder >= 0) close(folder);
  return total;
}

// Longer on a busy machine: until a thread that had to wait for a processor has had its time.
static void idle_patiently(double seconds) {
  const double begin = msecs(), queued = msecs_in_queue();
  double left = seconds * 1e3;
  while (left > 0 && msecs() - begin < seconds * 40e3) {
    idle(left / 1e3);
    left = seconds * 1e3 - (msecs() - begin) + (msecs_in_queue() - queued);
  }
}

// ---- free --------------------------------------------------------------------------------------

static size_t thin_out(unsigned char** blocks, size_t count, unsigned every) {
  size_t live = 0;
  for (size_t i = 0; i < count; i++) {
    if (every != 0 && random_below(every) == 0) {
      live++;
      continue;
    }
    free(blocks[i]);
    blocks[i] = NULL;
  }
  return live;
}

static size_t fill_up(unsigned char** blocks, size_t most, size_t bytes) {
  static const size_t sizes[3] = {512, 1024, 2048};
  size_t count = 0;
  for (size_t total = 0; total < bytes && count < most; count++) {
    const size_t size = sizes[random_below(3)];
    blocks[count] = make(size);
    total += size;
  }
  return count;
}

static int run_free(unsigned every, int collect, double seconds) {
  static unsigned char* blocks[400000];
  memset(blocks, 1, sizeof(blocks));
  printf("start=%ld\n", resident_kib());
  const size_t count = fill_up(blocks, 400000, 280 * 1000 * 1000);
  printf("peak=%ld\n", resident_kib());
  printf("live=%zu\n", thin_out(blocks, count, every));
  if (collect && mi_collect != NULL) mi_collect(true);
  const double before = msecs();
  printf("freed=%ld\n", resident_kib());
  fflush(stdout);
  idle_patiently(seconds);
  printf("idle=%ld\nslept=%.0f\n", resident_kib(), msecs() - before);
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL) continue;
    for (size_t k = 0; k < 512; k++) {
      if (blocks[i][k] != 0x5A) return 1;
    }
  }
  // What was given back serves again.
  for (size_t i = 0; i < count; i++) {
    if (blocks[i] == NULL) blocks[i] = make(512);
  }
  return 0;
}

// ---- steady loads ------------------------------------------------------------------------------

static int run_steady(double seconds) {
  enum { COUNT = 40000 };
  static unsigned char* blocks[COUNT];
  const double end = msecs() + seconds * 1e3;
  long turns = 0;
  // A fixed amount of work, spread over the time: replacements come in bursts with pauses between.
  for (int burst = 0; burst < 100; burst++) {
    for (int i = 0; i < 40000; i++, turns++) {
      const size_t k = random_below(COUNT);
      const unsigned kind = random_below(100);
      free(blocks[k]);
      blocks[k] = make(kind < 90 ? 16 + random_below(2000) : 2000 + random_below(20000));
    }
    idle(seconds / 200);
  }
  printf("faults=%ld\nturns=%ld\nlate=%.0f\n", faults(), turns, msecs() - end);
  return 0;
}

static int run_cycles(int count, size_t mib) {
  const size_t n = mib * MIB / 4000;
  unsigned char** blocks = calloc(n, sizeof(*blocks));
  long first = 0, second = 0, rest = 0;
  for (int c = 0; c < count; c++) {
    const long before = faults();
    for (size_t i = 0; i < n; i++) blocks[i] = make(1000 + random_below(6000));
    for (size_t i = 0; i < n; i++) free(blocks[i]);
    if (c == 0) first = faults() - before;
    else if (c == 1) second = faults() - before;
    else rest += faults() - before;
  }
  printf("first=%ld\nsecond=%ld\nrest=%ld\n", first, second, rest);
  free(blocks);
  return 0;
}

// ---- huge blocks -------------------------------------------------------------------------------

static long os_calls(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  if (mi_stats_get == NULL || !mi_stats_get(&stats)) return -1;
  return (long)(stats.mmap_calls.total + stats.commit_calls.total + stats.purge_calls.total +
                stats.reset_calls.total);
}

static int run_huge(int count, size_t mib) {
  for (int i = 0; i < 4; i++) free(make(mib * MIB));
  const long calls = os_calls(), before = faults();
  const double start = msecs();
  for (int i = 0; i < count; i++) {
    unsigned char* p = malloc(mib * MIB);
    p[0] = p[mib * MIB - 1] = 1;
    free(p);
  }
  printf("ns=%.0f\ncalls=%ld\nfaults=%ld\n", (msecs() - start) * 1e6 / count, os_calls() - calls,
         faults() - before);
  return 0;
}

static int run_grow(size_t mib) {
  unsigned char* p = NULL;
  const double start = msecs();
  double half = 0;
  for (size_t i = 1; i <= mib; i++) {
    p = realloc(p, i * MIB);
    if (p == NULL) return 3;
    memset(p + (i - 1) * MIB, (int)(i & 0xFF), MIB);
    if (i == mib / 2) half = msecs() - start;
  }
  printf("ms=%.1f\nhalf_ms=%.1f\n", msecs() - start, half);
  for (size_t i = 1; i <= mib; i++) {
    if (p[(i - 1) * MIB] != (i & 0xFF) || p[i * MIB - 1] != (i & 0xFF)) return 1;
  }
  free(p);
  return 0;
}

// ---- statistics --------------------------------------------------------------------------------

// Resident KiB of what is mapped without a name within an arena's length of an address: an arena is
// several mappings, since it takes its addresses piece by piece.
static long mapping_kib(const void* p) {
  const unsigned long at = (unsigned long)(uintptr_t)p, length = 1ul << 30;
  FILE* f = fopen("/proc/self/smaps", "r");
  char line[512];
  bool inside = false;
  long sum = 0;
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    unsigned long from, to, inode;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3) {
      inside = (inode == 0 && strchr(line, '[') == NULL && to > at - length && from < at + length);
    } else if (inside && strncmp(line, "Rss:", 4) == 0) {
      sum += atol(line + 4);
    }
  }
  if (f != NULL) fclose(f);
  return sum;
}

static int run_committed(void) {
  enum { COUNT = 60000 };
  static unsigned char* blocks[COUNT];
  double worst = 0;
  int samples = 0;
  for (int step = 0; step < 60; step++) {
    // Waves: more blocks are made than freed, then the other way round.
    const unsigned make_share = (step % 12 < 7 ? 80 : 15);
    for (int i = 0; i < 8000; i++) {
      const size_t k = random_below(COUNT);
      free(blocks[k]);
      blocks[k] = NULL;
      if (random_below(100) >= make_share) continue;
      const unsigned kind = random_below(1000);
      blocks[k] = make(kind < 900    ? 16 + random_below(2000)
                       : kind < 995 ? 2000 + random_below(60000)
                                    : 600000 + random_below(1000000));
    }
    if (step % 12 == 11) mi_collect(true);
    mi_stats_t stats;
    mi_stats_init(&stats);
    if (!mi_stats_get(&stats) || stats.committed.current < 0) return 1;
    const double committed = (double)stats.committed.current / 1024;
    double there = 0;
    for (int k = 0; k < COUNT && there == 0; k++) {
      if (blocks[k] != NULL) there = (double)mapping_kib(blocks[k]);
    }
    if (there < 32 * 1024) continue;
    const double off = (committed > there ? committed - there : there - committed) / there * 100;
    if (off > worst) worst = off;
    samples++;
  }
  printf("samples=%d\nworst_percent=%.2f\n", samples, worst);
  return 0;
}

// ---- many sizes, few blocks --------------------------------------------------------------------

// As much as 64 pages of 64 KiB are used and given back, then become pages for 64 sizes.
static int run_slack(size_t count) {
  static unsigned char* used[8192];
  static unsigned char* blocks[64][64];
  if (count > 64) return 2;
  for (size_t i = 0; i < 8192; i++) used[i] = make(512);
  for (size_t i = 0; i < 8192; i++) free(used[i]);
  const long before = resident_kib();
  for (size_t k = 0; k < 64; k++) {
    for (size_t i = 0; i < count; i++) blocks[k][i] = make(16 * (k + 1));
  }
  // Blocks of one more size come and go, some 2 MiB of them at a time.
  for (int round = 0; round < 40; round++) {
    for (size_t i = 0; i < 1024; i++) used[i] = make(2048);
    for (size_t i = 0; i < 1024; i++) free(used[i]);
  }
  printf("before=%ld\nafter=%ld\n", before, resident_kib());
  for (size_t k = 0; k < 64; k++) {
    for (size_t i = 0; i < count; i++) {
      for (size_t n = 0; n < 16 * (k + 1); n++) {
        if (blocks[k][i][n] != 0x5A) return 1;
      }
      free(blocks[k][i]);
    }
  }
  return 0;
}

// ---- large blocks ------------------------------------------------------------------------------

// What each size keeps of its own was enough for all that follows.
static int run_follow(size_t count, size_t mib) {
  static unsigned char *blocks[1000], *large[200];
  if (count > 1000 || mib > 100) return 2;
  for (size_t i = 0; i < count; i++) blocks[i] = make(16384 + i * 104729 % 114688);
  printf("before=%ld\n", resident_kib());
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  size_t n = 0;
  for (size_t size = 2 * MIB, sum = 0; sum < mib * MIB; sum += size, size += MIB / 2) {
    large[n++] = make(size);
  }
  printf("after=%ld\n", resident_kib());
  while (n > 0) free(large[--n]);
  return 0;
}

static int run_tables(int count, size_t mib, size_t every) {
  size_t sum = 0;
  printf("before=%ld\n", resident_kib());
  for (int i = 0; i < count; i++) {
    unsigned char* const p = calloc(mib, MIB);
    if (p == NULL) return 3;
    for (size_t at = 0; at < mib * MIB; at += (every > 0 ? every : 512)) {
      sum += p[at];
      if (every > 0) p[at] = 1;
    }
    p[(size_t)i * MIB % (mib * MIB)] = 1;
    if (i + 1 == count) printf("most=%ld\n", resident_kib());
    free(p);
  }
  return sum != 0;
}

static int run_vast(int rounds, size_t share) {
  unsigned char* blocks[20] = {NULL};
  long most = 0;
  size_t live = 0, used[20] = {0};
  for (int i = 0; i < rounds; i++) {
    const unsigned at = random_below(20);
    const size_t size = (40 + random_below(60)) * MIB;
    free(blocks[at]);
    blocks[at] = malloc(size);
    if (blocks[at] == NULL) return 3;
    live += size / share - used[at];
    used[at] = size / share;
    memset(blocks[at], 1, used[at]);
    const long resident = resident_kib();
    most = (resident > most ? resident : most);
  }
  printf("live=%zu\nmost=%ld\n", live / 1024, most);
  for (int i = 0; i < 20; i++) free(blocks[i]);
  return 0;
}

static int count_mappings(void) {
  FILE* const f = fopen("/proc/self/maps", "r");
  int lines = 0;
  for (int c; f != NULL && (c = getc(f)) != EOF;) lines += (c == '\n');
  if (f != NULL) fclose(f);
  return lines;
}

static int run_pieces(int held, size_t mib, int rounds) {
  unsigned char* blocks[16] = {NULL};
  for (int i = 0; i < held; i++) {
    if (malloc(mib * MIB) == NULL) return 3;
  }
  const int before = count_mappings();
  int most = 0;
  for (int i = 0; i < rounds; i++) {
    const unsigned at = random_below(16);
    free(blocks[at]);
    blocks[at] = make((2 + random_below(58)) * MIB);
    const int now = count_mappings() - before;
    most = (now > most ? now : most);
  }
  printf("pieces=%d\n", most);
  return 0;
}

// ---- sizes -------------------------------------------------------------------------------------

#define SIZES 5

static long peak_kib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// One size after the other fills `mib`; one block of each 64 KiB stays until its size comes again.
static int run_sizes(int rounds, size_t mib) {
  static const size_t sizes[SIZES] = {64, 176, 432, 1008, 2500};
  const size_t total = mib * MIB;
  unsigned char** blocks = calloc(total / sizes[0], sizeof(*blocks));
  unsigned char** kept[SIZES];
  for (int i = 0; i < SIZES; i++) kept[i] = calloc(total / 65536 + 1, sizeof(*kept[i]));
  long begin = faults();
  for (int r = 0; r < rounds; r++) {
    const size_t size = sizes[r % SIZES], n = total / size, stride = 65536 / size;
    unsigned char** const stay = kept[r % SIZES];
    for (size_t i = 0; i * stride < n; i++) free(stay[i]);
    for (size_t i = 0; i < n; i++) blocks[i] = make(size);
    for (size_t i = 0; i < n; i++) {
      if (i % stride == 0) stay[i / stride] = blocks[i];
      else free(blocks[i]);
    }
    if (r == SIZES - 1) printf("peak=%ld\n", peak_kib());
    if (r == 3 * SIZES - 1) begin = faults();
  }
  printf("faults=%ld\n", faults() - begin);
  return 0;
}

// ---- limits ------------------------------------------------------------------------------------

static int run_limit(size_t mib) {
  static char out[4096];
  setvbuf(stdout, out, _IOFBF, sizeof(out));
  size_t got = 0;
  const size_t most = mib * MIB / 65536;
  unsigned char** blocks = calloc(most, sizeof(*blocks));
  errno = 0;
  for (; got < most; got++) {
    blocks[got] = malloc(65536 - 64);
    if (blocks[got] == NULL) break;
    memset(blocks[got], 1, 65536 - 64);
  }
  printf("got_mib=%zu\nerrno=%d\nresident=%ld\n", got * 65536 / MIB, got < most ? errno : 0,
         resident_kib());
  // Half of them again, sparsely: only holes give memory back now.
  for (size_t i = 0; i < got; i++) {
    if (i % 2 == 0) free(blocks[i]);
  }
  size_t again = 0;
  for (; again < got / 4; again++) {
    unsigned char* p = malloc(3000);
    if (p == NULL) break;
    memset(p, 1, 3000);
  }
  printf("again=%zu\nwanted=%zu\n", again, got / 4);
  // Nearly all is free, though in pieces that were used.
  for (size_t i = 1; i < got; i += 2) free(blocks[i]);
  unsigned char* const large = malloc(got * 65536 / 2);
  if (large != NULL) memset(large, 1, got * 65536 / 2);
  printf("large=%d\n", large != NULL);
  return 0;
}

// ---- threads -----------------------------------------------------------------------------------

static pthread_barrier_t barrier;

static void* idle_thread(void* arg) {
  unsigned char** blocks = calloc(30000, sizeof(*blocks));
  const size_t count = fill_up(blocks, 30000, 20 * 1000 * 1000);
  pthread_barrier_wait(&barrier);
  thin_out(blocks, count, 20);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  return arg;
}

static int run_threads(unsigned count) {
  pthread_t ids[64];
  if (count > 64) return 2;
  pthread_barrier_init(&barrier, NULL, count + 1);
  for (unsigned i = 0; i < count; i++) pthread_create(&ids[i], NULL, &idle_thread, NULL);
  pthread_barrier_wait(&barrier);
  printf("peak=%ld\n", resident_kib());
  pthread_barrier_wait(&barrier);
  idle_patiently(3);
  printf("idle=%ld\n", resident_kib());
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < count; i++) pthread_join(ids[i], NULL);
  return 0;
}

int main(int argc, char** argv) {
  const char* what = (argc > 1 ? argv[1] : "");
  long n[3] = {0, 0, 0};
  double first = 0;
  for (int i = 0; i < 3 && i + 2 < argc; i++) n[i] = strtol(argv[i + 2], NULL, 10);
  if (argc > 2) first = strtod(argv[2], NULL);
  if (strcmp(what, "free") == 0) return run_free((unsigned)n[0], (int)n[1], (double)n[2]);
  if (strcmp(what, "steady") == 0) return run_steady(first);
  if (strcmp(what, "cycles") == 0) return run_cycles((int)n[0], (size_t)n[1]);
  if (strcmp(what, "huge") == 0) return run_huge((int)n[0], (size_t)n[1]);
  if (strcmp(what, "grow") == 0) return run_grow((size_t)n[0]);
  if (strcmp(what, "committed") == 0) return run_committed();
  if (strcmp(what, "slack") == 0) return run_slack((size_t)n[0]);
  if (strcmp(what, "follow") == 0) return run_follow((size_t)n[0], (size_t)n[1]);
  if (strcmp(what, "tables") == 0) return run_tables((int)n[0], (size_t)n[1], (size_t)n[2]);
  if (strcmp(what, "sizes") == 0) return run_sizes((int)n[0], (size_t)n[1]);
  if (strcmp(what, "vast") == 0) return run_vast((int)n[0], (size_t)n[1]);
  if (strcmp(what, "pieces") == 0) return run_pieces((int)n[0], (size_t)n[1], (int)n[2]);
  if (strcmp(what, "limit") == 0) return run_limit((size_t)n[0]);
  if (strcmp(what, "threads") == 0) return run_threads((unsigned)n[0]);
  if (strcmp(what, "many") == 0) return run_many((unsigned)n[0], (unsigned)n[1]);
  if (strcmp(what, "replaced") == 0) {
    return run_replaced((unsigned)n[0], (size_t)n[1], (int)n[2]);
  }
  if (strcmp(what, "passed") == 0) return run_passed((unsigned)n[0], (int)n[1]);
  if (strcmp(what, "wide") == 0) return run_wide((size_t)n[0], (size_t)n[1]);
  if (strcmp(what, "drift") == 0) return run_drift((size_t)n[0]);
  if (strcmp(what, "again") == 0) return run_again((int)n[0]);
  fprintf(stderr, "patterns: what?\n");
  return 2;
}
