// SPDX-License-Identifier: MIT
// Owns the ground floor on Unix systems other than Linux: macOS, FreeBSD, NetBSD, OpenBSD, and any
// that has POSIX with anonymous mappings. Linux can be built with it, too (-DMI_OS_POSIX), which is
// how it is tested.
//
// These systems have no call that drops contents at once and promises zeros; a fresh mapping in the
// same place does both.
#include "os.h"

#if !defined(_WIN32) && !defined(__wasm__) && (!defined(__linux__) || defined(MI_OS_POSIX))

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <crt_externs.h>
#include <mach/mach.h>
#include <mach/vm_statistics.h>
#include <sys/random.h>
#endif

#include "../base/options.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
#define MAP_ANONYMOUS MAP_ANON
#endif

void mx_os_init(void) {
  const long page = sysconf(_SC_PAGESIZE);
  mx_facts.os_page = (page > 0 ? (size_t)page : 4096);
  mx_facts.large_page = 0;
#if !MX_64BIT
  mx_facts.va_bits = 32;
#elif defined(__aarch64__) || defined(__powerpc64__) || defined(__s390x__)
  mx_facts.va_bits = 48;
#else
  mx_facts.va_bits = 47;
#endif
  mx_facts.cpus = 1;
  mx_facts.numa_nodes = 1;
}

// ---- address space -----------------------------------------------------------------------------

static void* map_at(void* at, size_t size, int prot, int flags) {
  int tag = -1;
#if defined(__APPLE__)
  const long wanted = mx_option(os_tag);
  tag = VM_MAKE_TAG(wanted >= 100 && wanted <= 255 ? (int)wanted : 100);
#endif
  const int saved = errno;
  void* const p = mmap(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, tag, 0);
  errno = saved;
  return p == MAP_FAILED ? NULL : p;
}

static bool set_access(void* p, size_t size, int prot) {
  const int saved = errno;
  const bool done = (mprotect(p, size, prot) == 0);
  errno = saved;
  return done;
}

void* mx_os_map(void* hint, size_t size, bool commit) {
  return map_at(hint, size, commit ? PROT_READ | PROT_WRITE : PROT_READ, MAP_NORESERVE);
}

void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  (void)hint;
  (void)size;
  (void)page_size;
  (void)numa_node;
  return NULL;
}

void mx_os_unmap(void* p, size_t size) {
  const int saved = errno;
  munmap(p, size);
  errno = saved;
}

// ---- contents ----------------------------------------------------------------------------------

bool mx_os_commit(void* p, size_t size) { return set_access(p, size, PROT_READ | PROT_WRITE); }

bool mx_os_decommit(void* p, size_t size) {
  return map_at(p, size, PROT_NONE, MAP_FIXED | MAP_NORESERVE) != NULL;
}

bool mx_os_purge(void* p, size_t size) {
  return map_at(p, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE) != NULL;
}

bool mx_os_reset(void* p, size_t size) {
#if defined(MADV_FREE)
  const int saved = errno;
  const bool done = (madvise(p, size, MADV_FREE) == 0);
  errno = saved;
  return done;
#else
  (void)p;
  (void)size;
  return false;
#endif
}

bool mx_os_populate(void* p, size_t size) {
  (void)p;
  (void)size;
  return false;
}

bool mx_os_move(void* from, void* to, size_t size) {
  (void)from;
  (void)to;
  (void)size;
  return false;
}

bool mx_os_protect(void* p, size_t size, bool accessible) {
  return set_access(p, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool mx_os_guard(void* p, size_t size, bool install) { return mx_os_protect(p, size, !install); }

void mx_os_advise_large(void* p, size_t size, bool want) {
  (void)p;
  (void)size;
  (void)want;
}

void mx_os_advise_numa(void* p, size_t size, int node) {
  (void)p;
  (void)size;
  (void)node;
}

bool mx_os_overcommits(void) { return true; }

// ---- process and machine -----------------------------------------------------------------------

static uint64_t msecs_of(struct timeval t) {
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}

// Bytes of memory present; 0 where the system does not say it in one call.
static size_t resident(void) {
#if defined(__APPLE__)
  mach_task_basic_info_data_t info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  const kern_return_t r =
      task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &count);
  return r == KERN_SUCCESS ? (size_t)info.resident_size : 0;
#else
  return 0;
#endif
}

void mx_os_process_info(mx_process_info_t* info) {
  struct rusage usage;
  memset(&usage, 0, sizeof(usage));
  const int saved = errno;
  getrusage(RUSAGE_SELF, &usage);
  errno = saved;
  info->user_msecs = msecs_of(usage.ru_utime);
  info->system_msecs = msecs_of(usage.ru_stime);
#if defined(__APPLE__)
  info->peak_rss = (size_t)usage.ru_maxrss;
#else
  info->peak_rss = (size_t)usage.ru_maxrss * 1024;
#endif
  info->page_faults = (size_t)usage.ru_majflt;
  info->current_rss = resident();
  if (info->peak_rss < info->current_rss) info->peak_rss = info->current_rss;
}

#if defined(CLOCK_MONOTONIC_FAST)
#define CLOCK CLOCK_MONOTONIC_FAST
#else
#define CLOCK CLOCK_MONOTONIC
#endif

uint64_t mx_os_clock_msecs(void) {
  struct timespec t;
  if (clock_gettime(CLOCK, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

unsigned mx_os_numa_count(void) { return 1; }

unsigned mx_os_numa_node(void) { return 0; }

bool mx_os_random(void* buf, size_t size) {
#if defined(__NetBSD__)
  arc4random_buf(buf, size);
  return true;
#else
  // At most 256 bytes a call.
  const int saved = errno;
  bool done = true;
  for (size_t at = 0; at < size && done; at += 256) {
    done = (getentropy((uint8_t*)buf + at, mx_min(size - at, 256)) == 0);
  }
  errno = saved;
  return done;
#endif
}

#if defined(__APPLE__)
char** mx_os_environ(void) { return *_NSGetEnviron(); }
#else
extern char** environ;
char** mx_os_environ(void) { return environ; }
#endif

long mx_os_read_file(const char* path, char* buf, size_t size) {
  const int saved = errno;
  long total = -1;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    total = 0;
    while ((size_t)total + 1 < size) {
      const ssize_t n = read(file, buf + total, size - 1 - (size_t)total);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      total += (long)n;
    }
    close(file);
    buf[total] = 0;
  }
  errno = saved;
  return total;
}

void mx_os_write_stderr(const char* text, size_t length) {
  const int saved = errno;
  while (length > 0) {
    const ssize_t n = write(2, text, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text += n;
    length -= (size_t)n;
  }
  errno = saved;
}

void mx_os_yield(void) { sched_yield(); }

// ---- background --------------------------------------------------------------------------------

bool mx_os_barrier_all(void) {
#if defined(__x86_64__) || defined(__i386__)
  // Stores become visible in program order here, so what is seen was preceded by all before it.
  mx_fence_seq_cst();
  return true;
#else
  return false;
#endif
}

// Waiting is rare: all words share one condition. A child of a fork gets it anew, since a thread
// that it does not have may have held the lock.
static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wait_condition = PTHREAD_COND_INITIALIZER;
static pthread_once_t wait_once = PTHREAD_ONCE_INIT;

static void renew_wait(void) {
  pthread_mutex_init(&wait_lock, NULL);
  pthread_cond_init(&wait_condition, NULL);
}

static void prepare_wait(void) { pthread_atfork(NULL, NULL, &renew_wait); }

void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)(msecs / 1000);
  until.tv_nsec += (long)(msecs % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  pthread_once(&wait_once, &prepare_wait);
  pthread_mutex_lock(&wait_lock);
  if (mx_load_acquire(word) == value) {
    if (msecs == 0) pthread_cond_wait(&wait_condition, &wait_lock);
    else pthread_cond_timedwait(&wait_condition, &wait_lock, &until);
  }
  pthread_mutex_unlock(&wait_lock);
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  (void)word;
  pthread_mutex_lock(&wait_lock);
  pthread_cond_broadcast(&wait_condition);
  pthread_mutex_unlock(&wait_lock);
}

#endif
