// SPDX-License-Identifier: MIT
// Puts a process into an environment before any constructor runs: what exec would undo, or what the
// dynamic linker could not live with. Linked into a test program it runs from .preinit_array; built
// as a module (-DENTER_MODULE, linked with -z initfirst) and preloaded it serves unchanged programs.
//
//   ENTER=STEP,STEP...
//     mlockall                  all memory, now and later, is locked
//     refuse=CALL:ERROR         a system call fails from now on
//     refuse=madvise/N:ERROR    only with this advice; futex/N with this operation
//     refuse=CALL:KILL          the call ends the process by SIGSYS: to see whether it is made
//
// Exit status 75 with a reason where that is impossible, 76 where the system refuses it for its size.
// No allocation.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IMPOSSIBLE 75
#define REFUSED 76

static const struct {
  const char* name;
  int number, argument;  // the one that a number behind the name is compared with
} calls[] = {
    {"madvise", SYS_madvise, 2},
    {"mremap", SYS_mremap, 0},
    {"mincore", SYS_mincore, 0},
    {"mbind", SYS_mbind, 0},
    {"futex", SYS_futex, 1},
    {"getrandom", SYS_getrandom, 0},
    {"openat", SYS_openat, 0},
    {"read", SYS_read, 0},
    {"write", SYS_write, 0},
    {"close", SYS_close, 0},
    {"membarrier", SYS_membarrier, 0},
    {"sched_yield", SYS_sched_yield, 0},
    {"sched_getaffinity", SYS_sched_getaffinity, 0},
    {"getcpu", SYS_getcpu, 0},
    {"prctl", SYS_prctl, 0},
    {"getrusage", SYS_getrusage, 0},
    {"ioctl", SYS_ioctl, 0},
    {"lseek", SYS_lseek, 0},
    {"clock_gettime", SYS_clock_gettime, 0},
    {"rt_sigaction", SYS_rt_sigaction, 0},
    {"rt_sigprocmask", SYS_rt_sigprocmask, 0},
    {"set_robust_list", SYS_set_robust_list, 0},
    {"get_robust_list", SYS_get_robust_list, 0},
    {"tgkill", SYS_tgkill, 0},
    {"gettid", SYS_gettid, 0},
    {"getpid", SYS_getpid, 0},
    {"getppid", SYS_getppid, 0},
    {"kcmp", SYS_kcmp, 0},
    {"prlimit64", SYS_prlimit64, 0},
    {"msync", SYS_msync, 0},
    {"mseal", 462, 0},
};

static const struct {
  const char* name;
  unsigned code;
} errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM},
              {"EINVAL", EINVAL}};

static void stop(int status, const char* text, const char* detail) {
  const char* const parts[] = {"enter: ", text, " ", detail, "\n"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    if (write(2, parts[i], strlen(parts[i])) < 0) break;
  }
  _exit(status);
}

static int word_is(const char* at, const char* end, const char* word) {
  return strlen(word) == (size_t)(end - at) && memcmp(at, word, strlen(word)) == 0;
}

static unsigned action_of(const char* at, const char* end) {
  if (word_is(at, end, "KILL")) return SECCOMP_RET_KILL_PROCESS;
  for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
    if (word_is(at, end, errors[i].name)) return SECCOMP_RET_ERRNO | errors[i].code;
  }
  stop(IMPOSSIBLE, "no such error:", at);
  return 0;
}

#define NUMBER offsetof(struct seccomp_data, nr)
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + (size_t)(i) * 8)  // its low half

static void refuse(const char* at, const char* end) {
  const char* const colon = memchr(at, ':', (size_t)(end - at));
  if (colon == NULL) stop(IMPOSSIBLE, "no error behind", at);
  const char* const slash = memchr(at, '/', (size_t)(colon - at));
  const char* const name_end = (slash != NULL ? slash : colon);
  size_t i = 0;
  const size_t count = sizeof(calls) / sizeof(calls[0]);
  while (i < count && !word_is(at, name_end, calls[i].name)) i++;
  if (i == count) stop(IMPOSSIBLE, "no such call:", at);
  const unsigned wanted = (slash == NULL ? 0 : (unsigned)strtoul(slash + 1, NULL, 10));
  const unsigned char past = (slash == NULL ? 2 : 0);
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, past, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(calls[i].argument)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action_of(colon + 1, end)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    stop(IMPOSSIBLE, "seccomp filters are refused here:", strerror(errno));
  }
}

static void enter(int argc, char** argv, char** environment) {
  (void)argc;
  (void)argv;
  const char* at = NULL;
  for (char** e = environment; *e != NULL; e++) {
    if (strncmp(*e, "ENTER=", 6) != 0) continue;
    at = *e + 6;
    **e = '-';  // programs that this one starts inherit the filters
  }
  while (at != NULL && *at != 0) {
    const char* end = strchr(at, ',');
    if (end == NULL) end = at + strlen(at);
    if (word_is(at, end, "mlockall")) {
      if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) stop(REFUSED, "mlockall:", strerror(errno));
    } else if (strncmp(at, "refuse=", 7) == 0) {
      refuse(at + 7, end);
    } else {
      stop(IMPOSSIBLE, "no such step:", at);
    }
    at = (*end == ',' ? end + 1 : end);
  }
}

#if defined(ENTER_MODULE)
__attribute__((constructor)) static void at_start(int argc, char** argv, char** environment) {
  enter(argc, argv, environment);
}
#else
__attribute__((section(".preinit_array"), used)) static void (*const at_start)(int, char**,
                                                                              char**) = enter;
#endif
