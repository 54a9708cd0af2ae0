// SPDX-License-Identifier: MIT
// What a program does to its own environment, or sees of it, between the scenes of load.c.
//
//   as=MB data=MB    a limit on address space, on data, from now on
//   lock             mlockall of what is there and of what comes
//   box              from now on the system ends the process for any call that glibc's malloc, its
//                    threads and these scenes do not make: filters are written from such lists
//   maps=N           mappings are made until the kernel grants only N more; maps=off takes them back
//   files            a later one sees that no file is open that the first one did not see
//   secure           whether the kernel started it with raised rights: secure=1
//   traced           anybody may attach a debugger
//   status           sizes from /proc/self/status in KiB, processor time in ms
//   waves=N          N threads, 200 at a time, each allocates
//   once=N           N threads at once with the smallest stacks, or as many as there may be; never
//                    more than a third of the process numbers that the system has
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "load.h"

// ---- limits ------------------------------------------------------------------------------------

static void set_limit(int resource, size_t mib) {
  struct rlimit limits;
  getrlimit(resource, &limits);
  limits.rlim_cur = mib * MIB;
  if (setrlimit(resource, &limits) != 0) end(IMPOSSIBLE, "setrlimit", mib);
}

static void lock(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) end(REFUSED, "mlockall", 0);
}

// ---- a sandbox ---------------------------------------------------------------------------------

// Numbers that are the same on all processors and newer than some headers.
#define CALL_CLONE3 435

static void box(void) {
  static const int allowed[] = {
      SYS_mmap,         SYS_munmap,       SYS_mprotect,       SYS_mremap,
      SYS_brk,          SYS_madvise,      SYS_futex,          SYS_getrandom,
      SYS_write,        SYS_exit,         SYS_exit_group,     SYS_rt_sigaction,
      SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_clone,        CALL_CLONE3,
      SYS_rseq,         SYS_set_robust_list, SYS_wait4,       SYS_sched_getaffinity,
  };
  enum { CALLS = sizeof(allowed) / sizeof(allowed[0]) };
  struct sock_filter filter[2 * CALLS + 2];
  size_t n = 0;
  const struct sock_filter load =
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_filter kill = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  filter[n++] = load;
  for (size_t i = 0; i < CALLS; i++) {
    const struct sock_filter is =
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
    filter[n++] = is;
    filter[n++] = allow;
  }
  filter[n++] = kill;
  const struct sock_fprog program = {(unsigned short)n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    end(IMPOSSIBLE, "no seccomp filters", 0);
  }
}

// ---- mappings ----------------------------------------------------------------------------------

#define SPLIT_SIZE ((size_t)16 * 1024 * MIB)
#define SINGLES 64

static char* split;
static void* singles[SINGLES];

// Shared mappings are never joined with what lies beside them.
static void* single(void) {
  void* const p = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void fill_maps(size_t left) {
  check(left <= SINGLES);
  split = mmap(NULL, SPLIT_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (split == MAP_FAILED) end(IMPOSSIBLE, "mmap", SPLIT_SIZE);
  size_t count = 0;
  while (count < SINGLES && (singles[count] = single()) != NULL) count++;
  check(count == SINGLES);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* at = split + page;
  while (at < split + SPLIT_SIZE && mprotect(at, page, PROT_READ) == 0) at += 2 * page;
  if (at >= split + SPLIT_SIZE) end(IMPOSSIBLE, "no limit on mappings", 0);
  while (single() != NULL) continue;  // one may be left, for good
  for (size_t i = 0; i < left; i++) munmap(singles[i], 4096);
  for (size_t i = 0; i < left; i++) singles[i] = NULL;
}

static void give_maps_back(void) {
  munmap(split, SPLIT_SIZE);
  for (size_t i = 0; i < SINGLES; i++) {
    if (singles[i] != NULL) munmap(singles[i], 4096);
  }
}

// ---- what is seen ------------------------------------------------------------------------------

static void files(void) {
  static int before = -1;
  int seen = 0;
  for (int i = 0; i < 1000; i++) seen += (fcntl(i, F_GETFD) >= 0);
  if (before < 0) before = seen;
  check(seen == before);
}

static void status(void) {
  static char text[8192];
  const int file = open("/proc/self/status", O_RDONLY);
  const ssize_t n = (file < 0 ? -1 : read(file, text, sizeof(text) - 1));
  if (n <= 0) end(IMPOSSIBLE, "/proc/self/status", 0);
  close(file);
  text[n] = 0;
  static const char* const keys[] = {"VmSize", "VmLck", "VmRSS", "VmPTE", "Threads"};
  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
    const char* const at = strstr(text, keys[i]);
    if (at != NULL) say(keys[i], strtoul(at + strlen(keys[i]) + 1, NULL, 10));
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  say("cpu", (size_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                 (size_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

// ---- many threads ------------------------------------------------------------------------------

#define WAVE 200

static void* allocate(void* arg) {
  const size_t size = 16 + (size_t)(uintptr_t)arg % 3000;
  for (int i = 0; i < 3; i++) {
    char* const p = malloc(size);
    check(p != NULL);
    memset(p, 1, size);
    free(p);
  }
  return malloc(size);
}

static void waves(size_t count) {
  pthread_t threads[WAVE];
  for (size_t done = 0; done < count; done += WAVE) {
    for (size_t i = 0; i < WAVE; i++) threads[i] = started(allocate, (void*)(done + i));
    for (size_t i = 0; i < WAVE; i++) {
      void* block = NULL;
      pthread_join(threads[i], &block);
      check(block != NULL);
      free(block);
    }
  }
  say("waves", count);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void* allocate_and_wait(void* arg) {
  void* const block = allocate(arg);
  check(block != NULL);
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  free(block);
  return NULL;
}

static size_t most_threads(size_t wanted) {
  char text[32] = "";
  const int file = open("/proc/sys/kernel/pid_max", O_RDONLY);
  if (file < 0 || read(file, text, sizeof(text) - 1) <= 0) end(IMPOSSIBLE, "pid_max", 0);
  close(file);
  const size_t third = strtoul(text, NULL, 10) / 3;
  return wanted < third ? wanted : third;
}

static void once(size_t wanted) {
  const size_t most = most_threads(wanted);
  pthread_t* const threads = malloc(most * sizeof(pthread_t));
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN);
  pthread_mutex_lock(&gate);
  size_t count = 0;
  while (count < most &&
         pthread_create(&threads[count], &attr, allocate_and_wait, (void*)count) == 0) {
    count++;
  }
  status();
  pthread_mutex_unlock(&gate);
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  free(threads);
  say("once", count);
}

// ---- by name -----------------------------------------------------------------------------------

static const char* value_of(const char* name, const char* key) {
  const size_t n = strlen(key);
  return strncmp(name, key, n) == 0 && name[n] == '=' ? name + n + 1 : NULL;
}

static bool numbered_step(const char* name) {
  static const struct {
    const char* key;
    void (*make)(size_t);
  } steps[] = {{"maps", fill_maps}, {"waves", waves}, {"once", once}};
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
    const char* const value = value_of(name, steps[i].key);
    if (value == NULL) continue;
    steps[i].make(strtoul(value, NULL, 10));
    return true;
  }
  return false;
}

bool step(const char* name) {
  if (value_of(name, "as") != NULL) set_limit(RLIMIT_AS, strtoul(name + 3, NULL, 10));
  else if (value_of(name, "data") != NULL) set_limit(RLIMIT_DATA, strtoul(name + 5, NULL, 10));
  else if (strcmp(name, "lock") == 0) lock();
  else if (strcmp(name, "box") == 0) box();
  else if (strcmp(name, "maps=off") == 0) give_maps_back();
  else if (strcmp(name, "files") == 0) files();
  else if (strcmp(name, "status") == 0) status();
  else if (strcmp(name, "secure") == 0) say("secure", getauxval(AT_SECURE));
  else if (strcmp(name, "traced") == 0) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  else return numbered_step(name);
  return true;
}
