// SPDX-License-Identifier: MIT
// launch: runs one command and writes what it cost as one line of JSON.
//
// The kernel carries the peak resident memory of a process over exec, so a command started
// straight from a Python of 20 MiB would never show less than that. This launcher is small and
// linked statically, sets the preload only for the command, and waits with wait4, whose figures
// hold the command and all of its children that it waited for.
//
// usage: launch RESULT-FILE TIMEOUT-SECONDS PRELOAD-OR-EMPTY COMMAND [ARGUMENT...]
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t timed_out;
static volatile pid_t child;

// Also on a polite end of the launcher itself, so that no measured process is left behind.
static void stop_child(int signal_number) {
  if (signal_number == SIGALRM) timed_out = 1;
  if (child > 0) kill(-child, SIGKILL);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_command(char** argv) {
  setpgid(0, 0);
  if (argv[3][0] != '\0') setenv("LD_PRELOAD", argv[3], 1);
  execvp(argv[4], argv + 4);
  fprintf(stderr, "launch: %s: %s\n", argv[4], strerror(errno));
  _exit(127);
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fputs("usage: launch RESULT TIMEOUT PRELOAD COMMAND [ARGUMENT...]\n", stderr);
    return 2;
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = stop_child;
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  double start = now();
  child = fork();
  if (child < 0) {
    perror("launch: fork");
    return 2;
  }
  if (child == 0) run_command(argv);
  setpgid(child, child);
  alarm((unsigned)atoi(argv[2]));
  int status = 0;
  struct rusage used;
  while (wait4(child, &status, 0, &used) < 0) {
    if (errno != EINTR) return 2;
  }
  double wall = now() - start;
  FILE* result = fopen(argv[1], "w");
  if (result == NULL) {
    perror("launch: result file");
    return 2;
  }
  fprintf(result,
          "{\"exit\": %d, \"signal\": %d, \"timed_out\": %s, \"wall\": %.6f, \"user\": %.6f, "
          "\"sys\": %.6f, \"rss_kib\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld, "
          "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld}\n",
          WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          timed_out ? "true" : "false", wall, seconds(used.ru_utime), seconds(used.ru_stime),
          used.ru_maxrss, used.ru_minflt, used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw);
  return fclose(result) == 0 ? 0 : 2;
}
