// SPDX-License-Identifier: MIT
// Counters that outlive their process, for tools/coverage.py, which links this with every program and
// library that it counts: gcc's are written when a process ends by exit, and here when it ends by
// _exit or abort, too, when a handler of faults has done its part and lets the system end it, or by
// SIGTERM where the program does not care about that. Each program and library has counters of its own, so
// each writes its own and calls the next one's. To write them takes a file for each source: of a process and
// its children only so many do so here.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void __gcov_dump(void);
extern void __gcov_reset(void);

// A library of the tests may have its own.
#define SEEN __attribute__((weak, visibility("default")))

static void (*next_exit)(int);
static void (*next_abort)(void);
static int (*next_sigaction)(int, const struct sigaction*, struct sigaction*);

#define ENDS_MOST 1500
static int* ends;  // shared with children

static void keep_counts(void);
static struct sigaction before_term;

static void end_by_term(int number) {
  keep_counts();
  next_sigaction(number, &before_term, NULL);  // the next one's, and in the end the system's
  raise(number);
}

static void find_next(void) {
  void* const p = mmap(NULL, sizeof(*ends), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) ends = (int*)p;
  *(void**)&next_exit = dlsym(RTLD_NEXT, "_exit");
  *(void**)&next_abort = dlsym(RTLD_NEXT, "abort");
  *(void**)&next_sigaction = dlsym(RTLD_NEXT, "sigaction");
}

__attribute__((constructor)) static void begin(void) {
  find_next();
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = &end_by_term;
  if (next_sigaction(SIGTERM, NULL, &before_term) != 0 || before_term.sa_handler == SIG_IGN) return;
  next_sigaction(SIGTERM, &action, NULL);
}

// What is counted from here on is added: a child of vfork has its parent's counters.
static void keep_counts(void) {
  if (ends == NULL || __atomic_add_fetch(ends, 1, __ATOMIC_RELAXED) > ENDS_MOST) return;
  const int before = errno;
  __gcov_dump();
  __gcov_reset();
  errno = before;
}

SEEN void _exit(int status) {
  keep_counts();
  if (next_exit != NULL) next_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

SEEN void abort(void) {
  keep_counts();
  if (next_abort != NULL) next_abort();
  for (;;) syscall(SYS_exit_group, 134);
}

SEEN int sigaction(int number, const struct sigaction* action, struct sigaction* former) {
  if (next_sigaction == NULL) find_next();
  const int is_fault = (number == SIGSEGV || number == SIGBUS);
  if (is_fault && action != NULL && action->sa_handler == SIG_DFL) keep_counts();
  return next_sigaction(number, action, former);
}
