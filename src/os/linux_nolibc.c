// SPDX-License-Identifier: MIT
// What linux.c leaves to a libc, for programs without one (built with MI_NO_LIBC; the headers
// in nolibc/ stand for the missing ones).
//
// Such a program may have a libc after all, as far as this file can know: the front then hands over
// the few functions that tell of threads' ends and of forks (robust.h).
//
// Fork: there is nobody to tell of it. A page that the kernel wipes in the child says that a fork
// happened; the child's first slow call sees it and sets right what it inherited.
#include "robust.h"

#if defined(MI_NO_LIBC)

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "environ.h"
#include "linux.h"
#include "linux_syscall.h"
#include "os.h"
#include "thread.h"

#define SIGABRT_ 6
#define AT_SECURE_ 23
#define AUXV_ENTRIES 64
#define VISITS_PER_LOOK 16

extern const mx_libc_t mx_libc __attribute__((weak));

mx_thread_local int mx_nolibc_errno;

// ---- process and machine -----------------------------------------------------------------------

// An address that is no multiple of the page size is refused, even for an empty range.
size_t mx_linux_page_size(void) {
  for (size_t size = 4096; size < 65536; size *= 4) {
    if (mx_syscall3(SYS_madvise, size, 0, 0 /* MADV_NORMAL */) == 0) return size;
  }
  return 65536;
}

// The kernel's struct rusage begins with these.
typedef struct usage_s {
  long user[2], system[2], max_rss, unused[4], major_faults, rest[8];
} usage_t;

static uint64_t to_msecs(const long* time) {
  return (uint64_t)time[0] * 1000 + (uint64_t)time[1] / 1000;
}

void mx_os_process_info(mx_process_info_t* info) {
  usage_t usage = {{0, 0}, {0, 0}, 0, {0, 0, 0, 0}, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
  mx_syscall2(SYS_getrusage, 0, &usage);
  info->user_msecs = to_msecs(usage.user);
  info->system_msecs = to_msecs(usage.system);
  info->current_rss = mx_linux_resident();
  info->peak_rss = mx_max((size_t)usage.max_rss * 1024, info->current_rss);
  info->page_faults = (size_t)usage.major_faults;
}

uint64_t mx_os_clock_msecs(void) {
  struct timespec t;
  if (mx_syscall2(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#define ENVIRON_SIZE ((size_t)2 * MX_MIB)  // no environment is larger

// Whether the kernel started the process with more rights than its starter. Some of those may
// not even read the file that says so.
static bool has_raised_rights(void) {
  unsigned long vector[2 * AUXV_ENTRIES];
  const long length = mx_os_read_file("/proc/self/auxv", (char*)vector, sizeof(vector));
  for (long i = 0; (i + 2) * (long)sizeof(vector[0]) <= length; i += 2) {
    if (vector[i] == AT_SECURE_) return vector[i + 1] != 0;
  }
  return true;
}

// Only what begins like an option of this library.
char** mx_os_environ(void) {
  static mx_environ_t kept;
  kept.count = 0;
  if (has_raised_rights()) return kept.entries;
  char* const text = (char*)mx_os_map(NULL, ENVIRON_SIZE, true);
  if (text == NULL) return NULL;
  const long length = mx_os_read_file("/proc/self/environ", text, ENVIRON_SIZE);
  for (long at = 0; at < length; at++) {
    mx_environ_keep(&kept, text + at);
    while (text[at] != 0) at++;
  }
  kept.entries[kept.count] = NULL;
  if (kept.count == 0) mx_os_unmap(text, ENVIRON_SIZE);
  return kept.entries;
}

void mx_os_abort(void) {
  const long process = mx_syscall1(SYS_getpid, 0);
  mx_syscall3(SYS_tgkill, process, mx_syscall1(SYS_gettid, 0), SIGABRT_);
  for (;;) mx_syscall1(SYS_exit_group, 128 + SIGABRT_);
}

void mx_os_set_errno(int code) { errno = code; }

// ---- fork --------------------------------------------------------------------------------------

static void (*child_of_fork)(void);
static mx_atomic(uint32_t)* same_process;  // 0: not any more

int mx_nolibc_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  if (&mx_libc != NULL) return mx_libc.atfork(before, parent, child);
  child_of_fork = child;
  void* const page = mx_os_map(NULL, mx_facts.os_page, true);
  if (page == NULL) return ENOMEM;
  if (mx_syscall3(SYS_madvise, page, mx_facts.os_page, MADV_WIPEONFORK) != 0) {
    mx_os_unmap(page, mx_facts.os_page);
    return EINVAL;
  }
  same_process = (mx_atomic(uint32_t)*)page;
  mx_store_relaxed(same_process, (uint32_t)1);
  return 0;
}

// Whether this is the thread that forked, and it has started no other since. The number of threads
// is the 20th word of a line in which the second one, in brackets, may have spaces.
static bool is_alone_in_child(void) {
  if (mx_syscall1(SYS_gettid, 0) != mx_syscall1(SYS_getpid, 0)) return false;
  char text[1024];
  const long length = mx_os_read_file("/proc/self/stat", text, sizeof(text) - 1);
  if (length <= 0) return true;
  text[length] = 0;
  const char* s = text + length;
  while (s > text && *s != ')') s--;
  for (int word = 2; *s != 0 && word < 20; s++) word += (*s == ' ');
  return s[0] == '1' && s[1] == ' ';
}

// A child of vfork, which runs on its parent's memory, sees what its parent has not seen yet.
static bool is_in_parents_memory(void) {
  const long parent = mx_syscall1(SYS_getppid, 0), self = mx_syscall1(SYS_getpid, 0);
  return mx_syscall6(SYS_kcmp, self, parent, 1 /* KCMP_VM */, 0, 0, 0) == 0;
}

// A child that started threads before it called the allocator keeps what it inherited as it is:
// setting that right is for a thread that is alone.
static void look_for_fork(void) {
  if (same_process == NULL || mx_load_relaxed(same_process) != 0) return;
  if (is_in_parents_memory()) return;
  if (mx_exchange_acq_rel(same_process, (uint32_t)1) != 0) return;
  const bool is_alone = is_alone_in_child();
  mx_robust_after_fork(is_alone);
  if (is_alone) child_of_fork();
}

// ---- threads -----------------------------------------------------------------------------------

static unsigned exit_key;
static mx_atomic(int) exit_key_made;
static mx_thread_local bool is_ending;
static void (*at_thread_exit)(void*);

static void end_with_libc(void* value) {
  is_ending = true;
  at_thread_exit(value);
}

void mx_os_thread_setup(void (*at_exit)(void* value)) {
  if (&mx_libc == NULL) return;
  if (at_exit == NULL) {
    mx_store_release(&exit_key_made, 0);
    return;
  }
  at_thread_exit = at_exit;
  if (mx_libc.key_create(&exit_key, &end_with_libc) != 0) return;
  unsigned other;  // see unix_thread.c
  if (exit_key == 0 && mx_libc.key_create(&other, &end_with_libc) == 0) {
    exit_key = other;
    mx_libc.key_delete(0);
  }
  mx_store_release(&exit_key_made, 1);
}

// A thread that allocates behind its last destructor has no other coming: it is looked after as if
// there were no libc.
void mx_os_thread_arm(void* value) {
  if (mx_load_acquire(&exit_key_made) != 0 && !is_ending) {
    mx_libc.set_specific(exit_key, value);
    return;
  }
  look_for_fork();
  mx_robust_arm(value);
}

void mx_nolibc_visit(void) {
  static mx_thread_local unsigned visits;
  look_for_fork();
  if (visits++ % VISITS_PER_LOOK == 0) mx_robust_look(false);
}

#endif
