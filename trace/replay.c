// SPDX-License-Identifier: MIT
// The replayer: makes the calls of a trace again, with whatever malloc it was started with.
//
//   LD_PRELOAD=liballocator.so mimalloc-trace-replay TRACE
//
// prints the figures as one JSON object. Status 0; 1: with a message; 3: the allocator failed or
// damaged a block.
//
// Each thread of the recording is a thread here, started and ended where it was. It makes its calls in
// their order and waits where it needs a block that another has not allocated yet, and where it is
// two epochs ahead of the slowest. Both waits are for calls that came before in the recording, so one
// thread can always go on. New blocks are written where the program's were; the first word of each
// written one holds its number until it goes. Nothing here calls malloc but the steps.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define LINE 64u

static program_t program;
static _Atomic(char*)* slots;  // by block: NULL before it comes and after it went
static uint64_t resident[SAMPLES + 1];
static int statm;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t done_epochs;  // all before it are complete
static uint64_t at_work;      // threads that have not made their last call
static bool over;

static void broken(const char* what) {
  char line[128];
  const int n = snprintf(line, sizeof(line), "mimalloc-trace: replay: %s\n", what);
  _exit(write(STDERR_FILENO, line, (size_t)n) < 0 ? 4 : 3);
}

static uint64_t resident_bytes(void) {
  char text[128] = "";
  unsigned long all, here = 0;
  if (pread(statm, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%lu %lu", &all, &here) != 2) {
    trace_fail("replay", "/proc/self/statm cannot be read");
  }
  return (uint64_t)here * (uint64_t)sysconf(_SC_PAGESIZE);
}

// ---- steps ----------------------------------------------------------------------------------------

static char* await(uint32_t block) {
  char* p = atomic_load_explicit(&slots[block], memory_order_acquire);
  for (int i = 0; p == NULL; i++) {
    if (i > 100) sched_yield();
    p = atomic_load_explicit(&slots[block], memory_order_acquire);
  }
  return p;
}

static void check(const char* p, uint32_t block) {
  uint64_t found;
  memcpy(&found, p, sizeof(found));
  if (found != (uint64_t)block + 1) broken("a block was overwritten, or is not the one it was");
}

// Which blocks hold their number is known from the step that made them.
static uint8_t* marked;

static char* take(uint32_t block) {
  char* p = await(block);
  if (marked[block]) check(p, block);
  atomic_store_explicit(&slots[block], NULL, memory_order_relaxed);
  return p;
}

static void check_the_living(void) {
  for (uint32_t block = 0; block < program.blocks; block++) {
    const char* p = atomic_load_explicit(&slots[block], memory_order_relaxed);
    if (p != NULL && marked[block]) check(p, block);
  }
}

static void touch(char* p, const step_t* step) {
  const uint64_t n = step->size;
  if (n >= TRACE_LARGE) {
    for (uint64_t i = 1; i <= step->pages; i++) p[i * TRACE_OS_PAGE - 1] = 1;
  } else if (step->wrote == (TRACE_WROTE_FIRST | TRACE_WROTE_LAST)) {
    for (uint64_t i = 0; i < n; i += LINE) p[i] = 1;
  }
  if ((step->wrote & TRACE_WROTE_LAST) != 0 && n > 0) p[n - 1] = 1;
  if ((step->wrote & TRACE_WROTE_FIRST) != 0 && n >= sizeof(uint64_t)) {
    const uint64_t word = (uint64_t)step->block + 1;
    memcpy(p, &word, sizeof(word));
    marked[step->block] = 1;
  }
}

static void give(char* p, const step_t* step) {
  if (p == NULL) broken("the allocator gave no memory");
  touch(p, step);
  atomic_store_explicit(&slots[step->block], p, memory_order_release);
}

static char* aligned(const step_t* step) {
  void* p = NULL;
  const size_t alignment = (size_t)1 << (step->align_log2 < 3 ? 3 : step->align_log2);
  if (posix_memalign(&p, alignment, (size_t)step->size) != 0) return NULL;
  if (((uintptr_t)p & (alignment - 1)) != 0) broken("a block is not aligned");
  return p;
}

static void end_epoch(uint64_t epoch) {
  program.busy[epoch]--;
  while (done_epochs < program.epochs && program.busy[done_epochs] == 0) done_epochs++;
  pthread_cond_broadcast(&changed);
}

static void wait_for_epoch(uint64_t epoch) {
  while (done_epochs + 1 < epoch) pthread_cond_wait(&changed, &lock);
}

static void enter_epoch(uint64_t epoch, uint64_t* current) {
  if (program.thread_count == 1) return;
  pthread_mutex_lock(&lock);
  if (*current != UINT64_MAX) end_epoch(*current);
  wait_for_epoch(epoch);
  pthread_mutex_unlock(&lock);
  *current = epoch;
}

static void make_step(const step_t* step) {
  switch (step->kind) {
    case TRACE_MALLOC: give(malloc((size_t)step->size), step); break;
    case TRACE_CALLOC: give(calloc(1, (size_t)step->size), step); break;
    case TRACE_ALIGNED: give(aligned(step), step); break;
    case TRACE_REALLOC: {
      char* old = take(step->old);
      char* p = realloc(old, (size_t)step->size);
      if (p != NULL && marked[step->old] && step->size >= sizeof(uint64_t)) check(p, step->old);
      give(p, step);
      break;
    }
    case TRACE_FREE: free(take(step->block)); break;
    case TRACE_USABLE: {
      if (malloc_usable_size(await(step->block)) == 0) broken("a block has no usable size");
      break;
    }
    case STEP_SAMPLE: resident[step->size] = resident_bytes(); break;
    default: break;
  }
}

static void* play(void* argument) {
  const thread_t* thread = argument;
  uint64_t epoch = UINT64_MAX;
  for (uint64_t i = 0; i < thread->count; i++) {
    const step_t* step = &thread->steps[i];
    if (step->kind == STEP_EPOCH) enter_epoch(step->size, &epoch);
    else make_step(step);
  }
  pthread_mutex_lock(&lock);
  if (epoch != UINT64_MAX) end_epoch(epoch);
  at_work--;
  pthread_cond_broadcast(&changed);
  while (!thread->ends && !over) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void start_thread(thread_t* thread) {
  pthread_t id;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&small, 128 * 1024);
  if (pthread_create(&id, &small, play, thread) != 0) trace_fail("replay", "no more threads");
  pthread_attr_destroy(&small);
}

// Runs in a thread of its own, since the recorded main thread is the main thread.
static void* start_others(void* unused) {
  (void)unused;
  for (uint64_t i = 1; i < program.thread_count; i++) {
    thread_t* thread = &program.threads[program.order[i]];
    pthread_mutex_lock(&lock);
    wait_for_epoch(thread->epoch);
    pthread_mutex_unlock(&lock);
    start_thread(thread);
  }
  return NULL;
}

// ---- figures --------------------------------------------------------------------------------------

static void write_text(int file, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (write(file, text, (size_t)n) != n) trace_fail("replay", strerror(errno));
}

static double seconds_of(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// From here on the kernel's own peak counts anew.
static void reset_peak(void) {
  const int file = open("/proc/self/clear_refs", O_WRONLY);
  if (file < 0) return;
  if (write(file, "5", 1) != 1) trace_fail("replay", "/proc/self/clear_refs");
  close(file);
}

static uint64_t peak_bytes(void) {
  char text[4096] = "";
  const int file = open("/proc/self/status", O_RDONLY);
  if (file < 0 || read(file, text, sizeof(text) - 1) <= 0) trace_fail("replay", "/proc/self/status");
  close(file);
  const char* line = strstr(text, "VmHWM:");
  return line == NULL ? 0 : strtoull(line + 6, NULL, 10) * 1024;
}

static uint64_t above(uint64_t bytes, uint64_t base) {
  return bytes > base ? bytes - base : 0;
}

static void report(double wall, const struct rusage* from, const struct rusage* to, uint64_t base) {
  uint64_t peak = above(peak_bytes(), base), sum = 0;
  for (uint64_t i = 0; i < program.samples; i++) {
    const uint64_t here = above(resident[i], base);
    sum += here;
    if (here > peak) peak = here;
  }
  write_text(1, "{\"calls\": %llu, \"threads\": %llu, \"wall\": %.6f, \"user\": %.6f, \"sys\": %.6f, ",
             (unsigned long long)program.calls, (unsigned long long)program.thread_count, wall,
             seconds_of(to->ru_utime) - seconds_of(from->ru_utime),
             seconds_of(to->ru_stime) - seconds_of(from->ru_stime));
  write_text(1, "\"faults\": %ld, \"peak\": %llu, \"mean\": %llu, \"samples\": [",
             to->ru_minflt - from->ru_minflt, (unsigned long long)peak,
             (unsigned long long)(program.samples == 0 ? 0 : sum / program.samples));
  for (uint64_t i = 0; i < program.samples; i++) {
    write_text(1, "%s[%llu, %llu, %llu]", i == 0 ? "" : ", ", (unsigned long long)program.at[i],
               (unsigned long long)program.live[i], (unsigned long long)above(resident[i], base));
  }
  write_text(1, "]}\n");
}

int main(int argc, char** argv) {
  if (argc != 2) trace_fail("usage", "mimalloc-trace-replay TRACE");
  program = trace_load(argv[1]);
  slots = trace_memory(program.blocks, sizeof(*slots));
  marked = trace_memory(program.blocks, 1);
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  at_work = program.thread_count;
  reset_peak();
  struct rusage from, to;
  const uint64_t base = resident_bytes();
  getrusage(RUSAGE_SELF, &from);
  const double began = now();
  pthread_t starter;
  if (program.thread_count > 1 && pthread_create(&starter, NULL, start_others, NULL) != 0) {
    trace_fail("replay", "no more threads");
  }
  thread_t first = program.threads[program.order[0]];
  first.ends = 1;
  play(&first);
  pthread_mutex_lock(&lock);
  while (at_work > 0) pthread_cond_wait(&changed, &lock);
  const double wall = now() - began;
  getrusage(RUSAGE_SELF, &to);
  over = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  check_the_living();
  report(wall, &from, &to, base);
  _exit(0);
}
