// SPDX-License-Identifier: MIT
// Brings the process into one of many situations and prints, as JSON on the standard output, the
// resident size as the system tells it, the library's report, and the same from before.
//
//   situations NAME      exit status 77: the system does not let us
//   situations NAME text     the report after it as text; metrics: as metrics, behind those of the
//                            statistics and a line of a zero byte and a new line
//   situations --names
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc-prof.h"
#include "../../include/mimalloc.h"

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

static char text[1 << 18];
static size_t length;

static void collect(const char* line, void* arg) {
  (void)arg;
  const size_t n = strlen(line);
  if (length + n >= sizeof(text)) abort();
  memcpy(text + length, line, n + 1);
  length += n;
}

// In KiB; 0 where it cannot be read.
static long told_by_system(void) {
  char buf[2048];
  const int fd = open("/proc/self/smaps_rollup", O_RDONLY);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, buf, sizeof(buf) - 1);
  close(fd);
  buf[n < 0 ? 0 : n] = 0;
  const char* const at = strstr(buf, "Rss:");
  return at == NULL ? 0 : atol(at + 4);
}

static void report(const char* key, const char* end) {
  length = 0;
  const long before = told_by_system();
  if (!mi_report(MI_REPORT_JSON, collect, NULL)) abort();
  const long after = told_by_system();
  printf("\"%s_kib\": [%ld, %ld],\n\"%s\": %s%s\n", key, before, after, key, text, end);
  fflush(stdout);
}

// What nobody reads a compiler would leave out.
static void* volatile used;

static void touch(void* p, size_t size) {
  memset(p, 1, size);
  used = p;
  __asm__ volatile("" : : "r"(p) : "memory");
}

static void* checked(void* p) {
  if (p == NULL) abort();
  return p;
}

#define BLOCKS 200000
static void* blocks[BLOCKS];

static void fill(size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) touch(blocks[i] = checked(mi_malloc(size)), size);
}

static void thin_out(size_t count, size_t keep_one_in) {
  for (size_t i = 0; i < count; i++) {
    if (i % keep_one_in != 0) mi_free(blocks[i]);
  }
}

// ---- one thread --------------------------------------------------------------------------------

static int idle(void) { return 0; }

static int small(void) {
  fill(BLOCKS, 64);
  return 0;
}

static int fragmented(void) {
  fill(100000, 256);
  thin_out(100000, 4);
  return 0;
}

static int waiting(void) {
  fill(2000, 16 * KIB);
  for (size_t i = 0; i < 2000; i++) mi_free(blocks[i]);
  return 0;
}

static int waiting_for_ever(void) {
  mi_option_set(mi_option_purge_delay, -1);
  return waiting();
}

static int kept(void) {
  mi_option_set(mi_option_purge_decommits, 0);
  waiting();
  mi_collect(true);
  return 0;
}

static int partly_touched(void) {
  touch(checked(mi_malloc(64 * MIB)), 10 * MIB);
  return 0;
}

static int only_read(void) {
  const char* const p = (const char*)checked(mi_calloc(64, MIB));
  int sum = 0;
  for (size_t i = 0; i < 64 * MIB; i += 4096) sum += p[i];
  return sum;
}

static int huge_freed(void) {
  fill(2000, 64 * KIB);  // much in use: so much may wait
  char* const p = (char*)checked(mi_malloc(10 * MIB));
  touch(p, 10 * MIB);
  mi_free(p);
  return 0;
}

static int aligned(void) {
  for (size_t i = 0; i < 400; i++) {
    touch(checked(mi_malloc_aligned(20 * KIB, 32 * KIB)), 20 * KIB);
    touch(checked(mi_malloc_aligned_at(700, 256, 8)), 700);
  }
  return 0;
}

static int growing(void) {
  char* p = NULL;
  for (size_t n = KIB; n < 40 * MIB; n += n / 8) touch(p = (char*)checked(mi_realloc(p, n)), n);
  return 0;
}

static int holes(void) {
  fill(BLOCKS, 256);
  thin_out(BLOCKS, 40);
  mi_collect(true);
  return 0;
}

static int large_pages(void) {
  mi_option_set(mi_option_allow_thp, 2);
  if (mi_reserve_os_memory(64 * MIB, true, false) != 0) return 77;
  fill(2000, 8 * KIB);
  thin_out(2000, 2);
  return 0;
}

static int huge_os_pages(void) {
  mi_option_set(mi_option_allow_large_os_pages, 1);
  if (mi_reserve_os_memory(32 * MIB, true, true) != 0) return 77;
  fill(2000, 8 * KIB);
  return 0;
}

static int guarded(void) {
  mi_option_set(mi_option_guarded_sample_rate, 1);
  for (size_t i = 0; i < 1000; i++) touch(blocks[i] = checked(mi_malloc(100)), 100);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  for (size_t i = 0; i < 400; i++) mi_free(blocks[i]);
  return 0;
}

static int limited(void) {
  mi_option_set(mi_option_memory_limit, 32 * 1024);
  for (int round = 0; round < 5; round++) {
    fill(4000, 5 * KIB);
    thin_out(4000, 5);
    for (size_t i = 0; i < 4000; i += 5) mi_free(blocks[i]);
  }
  fill(3000, 7 * KIB);
  return 0;
}

static int profiled(void) {
  if (!mi_prof_start(4 * KIB)) return 77;
  fill(20000, 500);
  mi_prof_stop();
  return 0;
}

static int heaps(void) {
  for (size_t n = 0; n < 3; n++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < 1000 * (n + 1); i++) touch(checked(mi_heap_malloc(heap, 1000)), 1000);
  }
  return 0;
}

// More than the report has lines for: the rest stands together.
static int many_heaps(void) {
  for (size_t n = 0; n < 40; n++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < 500; i++) touch(checked(mi_heap_malloc(heap, 1000)), 1000);
  }
  return 0;
}

static int heaps_gone(void) {
  for (size_t n = 0; n < 40; n++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < 300; i++) touch(checked(mi_heap_malloc(heap, 1 + i * 13)), 1 + i * 13);
    if (n % 2 == 0) mi_heap_destroy(heap);
    else mi_heap_delete(heap);
  }
  return 0;
}

// ---- other memory ------------------------------------------------------------------------------

static char own_memory[64 * 1024 * 1024];

static int handed_over(void) {
  mi_arena_id_t arena;
  if (!mi_manage_os_memory_ex(own_memory, sizeof(own_memory), true, false, true, -1, true,
                              &arena)) {
    return 77;
  }
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  for (size_t i = 0; i < 2000; i++) touch(checked(mi_heap_malloc(heap, 8 * KIB)), 8 * KIB);
  return 0;
}

static void* mapped(size_t size, int flags, int fd) {
  void* const p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (p == MAP_FAILED) abort();
  return p;
}

static int mapping(void) {
  touch(mapped(40 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1), 40 * MIB);
  return 0;
}

static int shared(void) {
  touch(mapped(20 * MIB, MAP_SHARED | MAP_ANONYMOUS, -1), 20 * MIB);
  return 0;
}

static int file(void) {
  char name[] = "/tmp/situations-XXXXXX";
  const int fd = mkstemp(name);
  if (fd < 0 || ftruncate(fd, 8 * MIB) != 0) return 77;
  unlink(name);
  touch(mapped(8 * MIB, MAP_PRIVATE, fd), 8 * MIB);
  return 0;
}

static int brk_memory(void) {
  void* const p = sbrk(4 * MIB);
  if (p == (void*)-1) return 77;
  touch(p, 4 * MIB);
  return 0;
}

static int subproc(void);

// ---- threads -----------------------------------------------------------------------------------

#define THREADS 16

static pthread_barrier_t barrier;
static volatile int is_over;

typedef struct job_s {
  size_t count, size, keep_one_in, stack;
  int spins, sleeps, is_apart;
  int ends_together;
} job_t;

static void* work(void* arg) {
  const job_t* const job = (const job_t*)arg;
  if (job->is_apart) mi_subproc_add_current_thread(mi_subproc_new());
  void** const own = (void**)calloc(job->count + 1, sizeof(void*));
  for (size_t i = 0; i < job->count; i++) {
    touch(own[i] = checked(mi_malloc(job->size)), job->size);
  }
  for (size_t i = 0; i < job->count; i++) {
    if (i % job->keep_one_in != 0) mi_free(own[i]);
  }
  if (job->stack > 0) {
    volatile char room[512 * 1024];
    for (size_t i = 0; i < sizeof(room); i += 512) room[i] = 1;
  }
  if (job->ends_together) pthread_barrier_wait(&barrier);
  if (!job->spins && !job->sleeps) return NULL;
  pthread_barrier_wait(&barrier);
  while (job->spins && !is_over) {}
  while (job->sleeps && !is_over) usleep(100000);
  return NULL;
}

static void run(const job_t* job, unsigned threads) {
  static pthread_t all[THREADS];
  const unsigned waits = (job->spins || job->sleeps ? threads + 1 : threads);
  pthread_barrier_init(&barrier, NULL, waits);
  for (unsigned i = 0; i < threads; i++) {
    if (pthread_create(&all[i], NULL, work, (void*)job) != 0) abort();
  }
  if (job->spins || job->sleeps) {
    pthread_barrier_wait(&barrier);
    usleep(20000);
    return;
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

static int sleeping(void) {
  static const job_t job = {4000, 512, 4, 0, 0, 1, 0, 0};
  run(&job, THREADS);
  return 0;
}

static int running(void) {
  static const job_t job = {8000, 512, 4, 0, 1, 0, 0, 0};
  run(&job, 1);
  return 0;
}

static int ended(void) {
  static const job_t job = {4000, 512, 4, 0, 0, 0, 0, 1};
  run(&job, THREADS);
  return 0;
}

static void* free_filled(void* argument) {
  for (size_t i = 0; i < 40000; i++) mi_free(blocks[i]);
  return argument;
}

// In pages that nobody has and in those of the thread that made them.
static int freed_by_another(void) {
  pthread_t other;
  fill(40000, 700);
  if (pthread_create(&other, NULL, free_filled, NULL) != 0) abort();
  pthread_join(other, NULL);
  return 0;
}

static int stacks(void) {
  static const job_t job = {10, 100, 1, 1, 0, 1, 0, 0};
  run(&job, THREADS);
  return 0;
}

static int subproc(void) {
  static const job_t job = {20000, 512, 2, 0, 0, 1, 1, 0};
  run(&job, 1);
  return 0;
}

// ---- processes ---------------------------------------------------------------------------------

static int in_child(void) {
  fill(BLOCKS, 100);
  thin_out(BLOCKS, 3);
  const pid_t child = fork();
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  _exit(WEXITSTATUS(status));
}

static int beside_child(void) {
  fill(BLOCKS, 100);
  int ends[2];
  if (pipe(ends) != 0) abort();
  if (fork() == 0) {
    char c;
    close(ends[1]);
    _exit(read(ends[0], &c, 1) == 1);
  }
  for (size_t i = 0; i < BLOCKS / 2; i++) touch(blocks[i], 100);
  return only_read();
}

// Without /proc there is no one to ask what is mapped.
static int no_proc(void) {
  if (unshare(CLONE_NEWNS) != 0) return 77;
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
  if (mount("none", "/proc", "tmpfs", 0, NULL) != 0) return 77;
  fill(BLOCKS, 64);
  return 0;
}

// With so many file descriptors that the library can open none, or one at a time.
static void limit_files(unsigned count) {
  const struct rlimit few = {3 + count, 3 + count};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) abort();
  fill(BLOCKS, 64);
}

static int no_file(void) {
  limit_files(0);
  return 0;
}

static int one_file(void) {
  limit_files(1);
  return 0;
}

// ---- for signals -------------------------------------------------------------------------------

static int say_ready(void) {
  printf("ready\n");
  fflush(stdout);
  return 0;
}

// Until somebody ends the process.
static int ready_busy(void) {
  say_ready();
  while (!is_over) {
    fill(1000, 5000);
    for (size_t i = 0; i < 1000; i++) mi_free(blocks[i]);
    usleep(1000);
  }
  return 0;
}

static int ready_idle(void) {
  fill(20000, 1000);
  say_ready();
  while (!is_over) pause();
  return 0;
}

static void ignore_signal(int number) { (void)number; }

// The program's own handler comes later, and takes the place.
static int ready_own(void) {
  signal(SIGUSR1, ignore_signal);
  return ready_busy();
}

// ---- all of them -------------------------------------------------------------------------------

static const struct {
  const char* name;
  int (*make)(void);
} situations[] = {
    {"idle", idle}, {"small", small}, {"fragmented", fragmented}, {"waiting", waiting},
    {"waiting_for_ever", waiting_for_ever}, {"kept", kept}, {"partly_touched", partly_touched}, {"only_read", only_read},
    {"huge_freed", huge_freed}, {"aligned", aligned}, {"growing", growing}, {"holes", holes},
    {"large_pages", large_pages}, {"huge_os_pages", huge_os_pages}, {"guarded", guarded},
    {"limited", limited}, {"profiled", profiled}, {"heaps", heaps},
    {"many_heaps", many_heaps}, {"heaps_gone", heaps_gone},
    {"handed_over", handed_over}, {"mapping", mapping}, {"shared", shared}, {"file", file},
    {"brk", brk_memory}, {"sleeping", sleeping}, {"running", running}, {"ended", ended},
    {"freed_by_another", freed_by_another},
    {"stacks", stacks}, {"subproc", subproc}, {"in_child", in_child},
    {"beside_child", beside_child}, {"no_proc", no_proc}, {"no_file", no_file},
    {"one_file", one_file},
};

static void print(const char* line, void* arg) { fputs(line, (FILE*)arg); }

static int print_as(int (*make)(void), const char* format) {
  const int code = make();
  if (code != 0) return code;
  const int is_text = (strcmp(format, "text") == 0);
  if (!is_text) {
    mi_stats_print_prometheus(print, stdout);
    fwrite("\0\n", 1, 2, stdout);
  }
  mi_report(is_text ? MI_REPORT_TEXT : MI_REPORT_METRICS, print, stdout);
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  const char* const name = (argc >= 2 ? argv[1] : "");
  if (strcmp(name, "ready_busy") == 0) return ready_busy();
  if (strcmp(name, "ready_idle") == 0) return ready_idle();
  if (strcmp(name, "ready_own") == 0) return ready_own();
  for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
    if (strcmp(name, "--names") == 0) {
      printf("%s\n", situations[i].name);
      continue;
    }
    if (strcmp(name, situations[i].name) != 0) continue;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    touch(text, sizeof(text));
    if (argc == 3) _exit(print_as(situations[i].make, argv[2]));
    printf("{\n");
    report("before", ",");
    const int code = situations[i].make();
    if (code != 0) _exit(code);
    report("after", "}");
    _exit(0);
  }
  return strcmp(name, "--names") == 0 ? 0 : 1;
}
