// SPDX-License-Identifier: MIT
// The promises of os.h about the process and the machine that the C libraries of Linux, other
// Unix systems and WebAssembly keep in the same words.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"
#include "system.h"

#if MX_SYSTEM != MX_WINDOWS && MX_HAS_LIBC

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if MX_UNIX
#include <sys/resource.h>
#include <sys/time.h>
#endif
#if defined(__APPLE__)
#include <crt_externs.h>
#include <mach/mach.h>
#include <sys/random.h>
#endif
#if defined(__wasi__)
#include <wasi/libc-environ.h>
#endif
#if MX_SYSTEM == MX_LINUX
#include <sys/auxv.h>

#include "linux.h"
#endif

void mx_os_abort(void) { abort(); }

void mx_os_set_errno(int code) { errno = code; }

// ---- the environment ---------------------------------------------------------------------------

// Whether the process has rights that its starter has not (set-user-id, file capabilities, a
// security module).
static bool has_raised_rights(void) {
#if MX_SYSTEM == MX_LINUX
  const int saved = errno;
  const bool is_raised = (getauxval(AT_SECURE) != 0);
  errno = saved;
  return is_raised;
#elif MX_HAS_ISSETUGID
  return issetugid() != 0;
#elif MX_UNIX
  return getuid() != geteuid() || getgid() != getegid();
#else
  return false;
#endif
}

#if defined(__APPLE__)
static char** all_variables(void) { return *_NSGetEnviron(); }
#elif defined(__wasi__)
static char** all_variables(void) { return __wasilibc_get_environ(); }
#else
MX_BEGIN_DECLS
extern char** environ;
MX_END_DECLS
static char** all_variables(void) { return environ; }
#endif

char** mx_os_environ(void) {
  static char* none[] = {NULL};
  return has_raised_rights() ? none : all_variables();
}

// ---- time and memory ---------------------------------------------------------------------------

#if defined(CLOCK_MONOTONIC_COARSE)
#define CLOCK CLOCK_MONOTONIC_COARSE
#elif defined(CLOCK_MONOTONIC_FAST)
#define CLOCK CLOCK_MONOTONIC_FAST
#else
#define CLOCK CLOCK_MONOTONIC
#endif

uint64_t mx_os_clock_msecs(void) {
  struct timespec t = {0, 0};
  clock_gettime(CLOCK, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#if MX_UNIX
// Of ru_maxrss.
#if defined(__APPLE__)
#define PEAK_UNIT 1
#else
#define PEAK_UNIT 1024
#endif

static uint64_t msecs_of(struct timeval t) {
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}

// Bytes of memory present; 0 where the system does not tell.
static size_t resident(void) {
#if MX_SYSTEM == MX_LINUX
  return mx_linux_resident();
#elif defined(__APPLE__)
  mach_task_basic_info_data_t info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  const kern_return_t r =
      task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &count);
  return r == KERN_SUCCESS ? (size_t)info.resident_size : 0;
#else
  mx_static_assert(!MX_TELLS_RESIDENT, "a system that tells has its way to ask above");
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
  info->current_rss = resident();
  info->peak_rss = mx_max((size_t)usage.ru_maxrss * PEAK_UNIT, info->current_rss);
  info->page_faults = (size_t)usage.ru_majflt;
}
#endif

// ---- what Linux is asked by system calls -------------------------------------------------------

#if MX_SYSTEM != MX_LINUX
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

// A write that a signal interrupted is made again, so many times.
#define INTERRUPTED_MAX 1000

void mx_os_write_stderr(const char* text, size_t length) {
  const int saved = errno;
  for (int interrupted = 0; length > 0;) {
    const ssize_t n = write(2, text, length);
    if (n < 0 && errno == EINTR && interrupted++ < INTERRUPTED_MAX) continue;
    if (n <= 0) break;
    text += n;
    length -= (size_t)n;
  }
  errno = saved;
}

void mx_os_yield(void) { sched_yield(); }
#endif

#endif
