// SPDX-License-Identifier: MIT
// Runs a program in an environment that outlives exec.
//
//   launch [WAY]... -- PROGRAM ARGUMENT...
//     as=MB data=MB stack=KB memlock=KB nofile=N nproc=N   resource limits
//     user=ID           as this user (from root only); user=any: as one without rights
//     fds=closed        no file is open, not even the standard ones
//     proc=none         /proc and /sys are empty
//     time=SECONDS      a time namespace whose monotonic clock differs by that much
//
// Exit status: the program's; 128 and more, a signal; 75 with a reason when an environment cannot be
// made here. It needs no allocation and no other program, so it also runs as one of few in a booted
// kernel.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define IMPOSSIBLE 75

static void impossible(const char* what) {
  fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
  _exit(IMPOSSIBLE);
}

static void limit(int resource, const char* value, rlim_t unit) {
  const rlim_t n = (rlim_t)strtoull(value, NULL, 10) * unit;
  const struct rlimit limits = {n, n};
  if (setrlimit(resource, &limits) != 0) impossible("setrlimit");
}

static void enter_namespace(int kind, const char* what) {
  if (geteuid() != 0) kind |= CLONE_NEWUSER;
  if (unshare(kind) != 0) impossible(what);
}

static void hide_system(void) {
  enter_namespace(CLONE_NEWNS, "mount namespace");
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) impossible("private mounts");
  if (mount("none", "/sys", "tmpfs", 0, NULL) != 0) impossible("hiding /sys");
  if (mount("none", "/proc", "tmpfs", 0, NULL) != 0) impossible("hiding /proc");
}

// Only children live in the new namespace.
static void shift_time(const char* seconds) {
  enter_namespace(CLONE_NEWTIME, "time namespace");
  const int file = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  char line[64];
  const int n = snprintf(line, sizeof(line), "monotonic %s 0\n", seconds);
  if (file < 0 || write(file, line, (size_t)n) != n) impossible("offset of a time namespace");
  close(file);
  const pid_t child = fork();
  if (child < 0) impossible("fork");
  if (child == 0) return;
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void become(const char* user) {
  const bool is_any = (strcmp(user, "any") == 0);
  if (is_any && geteuid() != 0) return;
  const uid_t id = (is_any ? 65534 : (uid_t)strtoul(user, NULL, 10));
  if (setgroups(0, NULL) != 0 || setgid((gid_t)id) != 0 || setuid(id) != 0) impossible("setuid");
}

static void take(const char* way, const char* value) {
  static const struct {
    const char* name;
    int resource;
    rlim_t unit;
  } limits[] = {{"as", RLIMIT_AS, 1 << 20},       {"data", RLIMIT_DATA, 1 << 20},
                {"stack", RLIMIT_STACK, 1 << 10}, {"memlock", RLIMIT_MEMLOCK, 1 << 10},
                {"nofile", RLIMIT_NOFILE, 1},     {"nproc", RLIMIT_NPROC, 1}};
  const size_t n = (size_t)(value - way) - 1;
  for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
    if (strlen(limits[i].name) == n && memcmp(way, limits[i].name, n) == 0) {
      limit(limits[i].resource, value, limits[i].unit);
      return;
    }
  }
  if (strcmp(way, "fds=closed") == 0) {
    if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0) impossible("close_range");
  } else if (strcmp(way, "proc=none") == 0) {
    hide_system();
  } else if (strncmp(way, "time=", 5) == 0) {
    shift_time(value);
  } else if (strncmp(way, "user=", 5) == 0) {
    become(value);
  } else {
    fprintf(stderr, "launch: no such way: %s\n", way);
    _exit(2);
  }
}

int main(int argc, char** argv) {
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
    const char* const equals = strchr(argv[i], '=');
    if (equals == NULL) {
      fprintf(stderr, "launch: not WAY=VALUE: %s\n", argv[i]);
      return 2;
    }
    take(argv[i], equals + 1);
  }
  if (i + 1 >= argc) return 2;
  // PRELOAD and not LD_PRELOAD, so that the program only and not this one gets the library.
  const char* const preload = getenv("PRELOAD");
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  unsetenv("PRELOAD");
  execv(argv[i + 1], argv + i + 1);
  impossible(argv[i + 1]);
}
