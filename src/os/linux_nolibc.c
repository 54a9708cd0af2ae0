// SPDX-License-Identifier: MIT
// Owns what linux.c leaves to a libc, for programs without one (built with MI_NO_LIBC; the headers
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

#include "linux_syscall.h"
#include "os.h"
#include "thread.h"

#define SIGABRT_ 6
#define VISITS_PER_LOOK 16

extern const mx_libc_t mx_libc __attribute__((weak));

mx_thread_local int mx_nolibc_errno;
mx_thread_local uintptr_t mx_thread_number = MX_THREAD_UNNUMBERED;

size_t mx_os_page_size(void);

uintptr_t mx_thread_take_number(void) {
  static mx_atomic(uintptr_t) last = MX_THREAD_UNNUMBERED;
  mx_thread_number = mx_add_relaxed(&last, 8) + 8;
  return mx_thread_number;
}

// ---- process and machine -----------------------------------------------------------------------

// An address that is no multiple of the page size is refused, even for an empty range.
size_t mx_os_page_size(void) {
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
  info->peak_rss = (size_t)usage.max_rss * 1024;
  info->page_faults = (size_t)usage.major_faults;
  info->current_rss = 0;
  char text[128];
  if (mx_os_read_file("/proc/self/statm", text, sizeof(text)) > 0) {
    const char* s = text;
    while (*s != 0 && *s != ' ') s++;
    size_t pages = 0;
    for (s += (*s == ' '); *s >= '0' && *s <= '9'; s++) pages = pages * 10 + (size_t)(*s - '0');
    info->current_rss = pages * mx_facts.os_page;
  }
  if (info->peak_rss < info->current_rss) info->peak_rss = info->current_rss;
}

uint64_t mx_os_clock_msecs(void) {
  struct timespec t;
  if (mx_syscall2(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_option(const char* entry) {
  static const char prefix[] = "mimalloc_";
  for (size_t i = 0; i < sizeof(prefix) - 1; i++) {
    if ((entry[i] | (prefix[i] == '_' ? 0 : 0x20)) != prefix[i]) return false;
  }
  return true;
}

#define ENVIRON_SIZE ((size_t)2 * MX_MIB)  // no environment is larger
#define ENVIRON_ENTRIES 64

// Only what begins like an option of this library.
char** mx_os_environ(void) {
  static char* entries[ENVIRON_ENTRIES + 1];
  char* const text = (char*)mx_os_map(NULL, ENVIRON_SIZE, true);
  if (text == NULL) return NULL;
  const long length = mx_os_read_file("/proc/self/environ", text, ENVIRON_SIZE);
  size_t count = 0;
  for (long at = 0; at < length; at++) {
    if (count < ENVIRON_ENTRIES && is_option(text + at)) entries[count++] = text + at;
    while (text[at] != 0) at++;
  }
  entries[count] = NULL;
  if (count == 0) mx_os_unmap(text, ENVIRON_SIZE);
  return entries;
}

void mx_os_abort(void) {
  const long process = mx_syscall1(SYS_getpid, 0);
  mx_syscall3(SYS_tgkill, process, mx_syscall1(SYS_gettid, 0), SIGABRT_);
  for (;;) mx_syscall1(SYS_exit_group, 128 + SIGABRT_);
}

void mx_os_set_errno(int code) { errno = code; }

// A thread needs thread-local storage, which only a libc, or the program itself, can lay out.
bool mx_os_thread_start(void (*run)(void)) {
  (void)run;
  return false;
}

// ---- faults and stacks -------------------------------------------------------------------------

// Signals are the program's own here, and nobody can walk its stack or name its code.
void mx_os_on_fault(bool (*on_fault)(const void* address)) { (void)on_fault; }

int mx_os_backtrace(void** frames, int most) {
  (void)frames;
  (void)most;
  return 0;
}

bool mx_os_is_own_code(const void* address) {
  (void)address;
  return false;
}

void mx_os_describe_code(const void* address, char* text, size_t size) {
  (void)address;
  if (size > 0) text[0] = 0;
}

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
// setting that right is for one who is alone.
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
  if (mx_libc.key_create(&exit_key, &end_with_libc) == 0) mx_store_release(&exit_key_made, 1);
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
  if (visits++ % VISITS_PER_LOOK == 0) mx_robust_look();
}

#endif
