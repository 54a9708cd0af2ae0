// SPDX-License-Identifier: MIT
// The ground floor on Unix systems other than Linux: macOS, FreeBSD, NetBSD, OpenBSD, and any
// that has POSIX with anonymous mappings. Linux can be built with it, too (-DMI_OS_POSIX), which is
// how it is tested.
//
// These systems have no call that drops contents at once and promises zeros; a fresh mapping in the
// same place does both.
#include "os.h"
#include "probes.h"
#include "system.h"

#if MX_SYSTEM == MX_POSIX

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach/vm_statistics.h>
#elif defined(__FreeBSD__)
#include <sys/types.h>
#include <sys/umtx.h>
#elif defined(__OpenBSD__)
#include <sys/futex.h>
#endif

#include "../base/options.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
// System calls that a signal interrupted are made again, so many times.
#define INTERRUPTED_MAX 1000
#if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
#define MAP_ANONYMOUS MAP_ANON
#endif

void mx_os_init(void) {
  const long page = sysconf(_SC_PAGESIZE);
  mx_facts.os_page = (page > 0 ? (size_t)page : 4096);
  mx_facts.large_page = 0;
  mx_facts.va_bits = mx_facts.near_bits = MX_UNIX_VA_BITS;
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
  void* const p = map_at(hint, size, commit ? PROT_READ | PROT_WRITE : PROT_READ,
                         commit ? 0 : MAP_NORESERVE);
  if (p != NULL) mx_probe_mmap(p, size);
  return p;
}

bool mx_os_unmap(void* p, size_t size) {
  const int saved = errno;
  const bool done = (munmap(p, size) == 0);
  if (done) mx_probe_munmap(p, size);
  errno = saved;
  return done;
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

bool mx_os_protect(void* p, size_t size, bool accessible) {
  return set_access(p, size, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool mx_os_guard(void* p, size_t size, bool install) { return mx_os_protect(p, size, !install); }

bool mx_os_overcommits(void) { return true; }

// ---- process and machine -----------------------------------------------------------------------

long mx_os_read_file(const char* path, char* buf, size_t size) {
  const int saved = errno;
  long total = -1;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    total = 0;
    for (int interrupted = 0; (size_t)total + 1 < size;) {
      const ssize_t n = read(file, buf + total, size - 1 - (size_t)total);
      if (n < 0 && errno == EINTR && interrupted++ < INTERRUPTED_MAX) continue;
      if (n <= 0) break;
      total += (long)n;
    }
    close(file);
    buf[total] = 0;
  }
  errno = saved;
  return total;
}

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

// ---- waiting -----------------------------------------------------------------------------------

#if MX_WAITS_ON_ADDRESS
static struct timespec to_timespec(uint64_t msecs) {
  struct timespec t;
  t.tv_sec = (time_t)(msecs / 1000);
  t.tv_nsec = (long)(msecs % 1000) * 1000000;
  return t;
}
#endif

#if defined(__APPLE__)
// What os_unfair_lock and the C++ library's atomics are made of; there since macOS 10.12.
MX_BEGIN_DECLS
int __ulock_wait(uint32_t operation, void* word, uint64_t value, uint32_t usecs);
int __ulock_wake(uint32_t operation, void* word, uint64_t unused);
MX_END_DECLS
#define COMPARE_AND_WAIT 1
#define NO_ERRNO 0x01000000

void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  const struct timespec most = to_timespec(mx_min(msecs, UINT32_MAX / 1000));
  const uint32_t usecs = (uint32_t)(most.tv_sec * 1000000 + most.tv_nsec / 1000);
  __ulock_wait(COMPARE_AND_WAIT | NO_ERRNO, (void*)word, value, usecs);
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  __ulock_wake(COMPARE_AND_WAIT | NO_ERRNO, (void*)word, 0);
}
#elif defined(__FreeBSD__)
void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  struct timespec most = to_timespec(msecs);
  const int saved = errno;
  _umtx_op((void*)word, UMTX_OP_WAIT_UINT_PRIVATE, value,
           msecs == 0 ? NULL : (void*)sizeof(most), msecs == 0 ? NULL : &most);
  errno = saved;
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  const int saved = errno;
  _umtx_op((void*)word, UMTX_OP_WAKE_PRIVATE, 1, NULL, NULL);
  errno = saved;
}
#elif defined(__OpenBSD__)
void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  const struct timespec most = to_timespec(msecs);
  const int saved = errno;
  futex((volatile uint32_t*)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, (int)value,
        msecs == 0 ? NULL : &most, NULL);
  errno = saved;
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  const int saved = errno;
  futex((volatile uint32_t*)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL);
  errno = saved;
}
#else
// Only the background thread waits here (see lock.c): all words share one condition. A child of a
// fork gets it anew, since a thread that it does not have may have held the lock.
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

#endif
