// SPDX-License-Identifier: MIT
// A process may have no use of the processor's counter (PR_SET_TSC, which strict seccomp sets as well):
// whoever reads it gets a signal. Nothing of malloc and free does.
#include "expect.h"

#if defined(__linux__)
#include <sys/prctl.h>

#include "../child.h"
#endif

#if defined(PR_SET_TSC)

#define COUNT 64

static void use_all_sizes(const void* unused) {
  static void* blocks[COUNT];
  (void)unused;
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) _exit(77);
  for (int round = 0; round < 30; round++) {
    for (size_t size = 1; size < 100000; size += size / 4 + 1) {
      for (int i = 0; i < COUNT; i++) blocks[i] = mi_malloc(size);
      for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
    }
  }
  mi_collect(true);
  _exit(0);
}

int main(void) {
  run_child(use_all_sizes, NULL);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    printf("no counter that can be forbidden\n");
    return 0;
  }
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return expect_end("no-counter");
}

#else

int main(void) { return 0; }

#endif
