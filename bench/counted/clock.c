// SPDX-License-Identifier: MIT
// A clock to be preloaded that goes on by a tenth of a millisecond each time somebody looks, so
// that what depends on time is the same in every run. With COUNT_STATUS=FILE the program leaves
// there what the kernel tells of its memory when it ends.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 100000, SECOND = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec* t) {
  static _Atomic(long) looks;
  (void)clock;
  const long now = (atomic_fetch_add(&looks, 1) + 1) * STEP;
  t->tv_sec = 1000 + now / SECOND;
  t->tv_nsec = now % SECOND;
  return 0;
}

__attribute__((destructor)) static void leave_status(void) {
  const char* name = getenv("COUNT_STATUS");
  if (name == NULL) return;
  char text[4096];
  const int from = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const int to = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const ssize_t length = read(from, text, sizeof text);
  if (length <= 0 || write(to, text, (size_t)length) != length) abort();
}

// For programs that end without their destructors. The next `_exit` is the counted library's, where
// that is preloaded behind this one: it writes its account then.
void _exit(int status) {
  leave_status();
  void (*next)(int) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "_exit");
  if (next != NULL) next(status);
  for (;;) syscall(SYS_exit_group, status);
}
