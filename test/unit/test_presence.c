// SPDX-License-Identifier: MIT
// A kernel that says of all that is mapped that it is present, as some sandboxes do: large memory that is
// cleared goes back instead of being read, and no large pages are asked for because of what it says. Played
// by a tracer, which changes what `mincore` answers, and counts what is asked.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"

#define SKIPPED 77
#define SIZE ((size_t)32 << 20)

#if defined(__x86_64__) && defined(__linux__)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// Of 32 MiB four OS pages are present.
static int be_traced(bool lies) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(SKIPPED);
  mi_free(mi_malloc(100));
  unsigned char* const p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(p, SIZE, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < SIZE; i += SIZE / 4) p[i] = 1;
  raise(SIGSTOP);
  const size_t n = (size_t)1 << 20;
  EXPECT(mx_os_is_sparse(p, n, 1));
  EXPECT(!mx_os_seems_present(p + SIZE / 8, n));
  EXPECT(mx_os_seems_absent(p + SIZE / 8, n) == !lies);
  mx_vmem_clear(p, SIZE);
  for (size_t i = 0; i < SIZE; i += SIZE / 8) EXPECT(p[i] == 0);
  fflush(stdout);
  _exit(failures != 0);
}

static void lie(pid_t pid, const struct user_regs_struct* regs) {
  const size_t pages = (regs->rsi + 4095) / 4096;
  for (size_t i = 0; i < pages; i += sizeof(long)) {
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, pid, (void*)(regs->rdx + i), NULL);
    memset(&word, 1, pages - i < sizeof(word) ? pages - i : sizeof(word));
    if (errno == 0) ptrace(PTRACE_POKEDATA, pid, (void*)(regs->rdx + i), (void*)word);
  }
}

static void watch(bool lies) {
  size_t asked = 0;
  int status = 0;
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) be_traced(lies);
  EXPECT(waitpid(pid, &status, 0) == pid);
  if (!WIFSTOPPED(status)) {
    printf("skipped: nothing can be traced here\n");
    exit(SKIPPED);
  }
  ptrace(PTRACE_SETOPTIONS, pid, NULL, (void*)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
  for (bool is_end = true; ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0;) {
    struct user_regs_struct regs;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    is_end = !is_end;
    if (!is_end || ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0) continue;
    if (regs.orig_rax == SYS_mincore) {
      asked++;
      if (lies && regs.rax == 0) lie(pid, &regs);
    }
  }
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // Once, of a page of its own; what it answers is believed no more.
  EXPECT(lies ? asked == 1 : asked > 1);
}

int main(void) {
  watch(false);
  watch(true);
  printf("%d failures\n", failures);
  return failures != 0;
}
#else
int main(void) {
  printf("skipped: for Linux on x86-64\n");
  return SKIPPED;
}
#endif
