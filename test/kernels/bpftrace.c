// SPDX-License-Identifier: MIT
// bpftrace listens to the probes of a program that runs already, by uprobes of a real kernel. The
// first argument is the folder with bpftrace and its libraries, which a guest of tools/kernels.py
// has.
//
// The program waits until somebody has raised the probes' semaphore, and allocates then; what
// bpftrace added up is near to what was allocated.
#include "guest.h"

#include <mimalloc.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "alloc/sample.h"

#define COUNT 65536
#define SIZE ((size_t)1000)
#define PATIENCE 400  // seconds until bpftrace has come up in an emulated machine

static const char script[] =
    "usdt:%s:otel_memory:alloc { @allocs = count(); @bytes = sum(arg2); }"
    "usdt:%s:otel_memory:free { @frees = count(); }"
    "usdt:%s:otel_memory:mmap { @mapped = sum(arg1); }";

static void* blocks[COUNT];

static void fill_up(void) {
  for (int i = 0; i < COUNT; i++) blocks[i] = mi_malloc(SIZE);
}

// What bpftrace looks at.
static int be_traced(void) {
  for (int i = 0; i < PATIENCE * 10 && !mx_sample_is_traced(); i++) usleep(100000);
  if (!mx_sample_is_traced()) {
    fprintf(stderr, "nobody raised the semaphore\n");
    return 1;
  }
  sleep(20);  // it attaches to one probe after the other
  fill_up();
  for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
  void* const huge = mi_malloc(64 * MIB);
  mi_free(huge);
  return 0;
}

static void run_tracer(const char* folder, pid_t traced, const char* program) {
  char text[2048], loader[256], libraries[512], tool[256], pid[16];
  snprintf(text, sizeof(text), script, program, program, program);
  snprintf(loader, sizeof(loader), "%s/lib64/ld-linux-x86-64.so.2", folder);
  snprintf(libraries, sizeof(libraries), "%s/usr/lib/x86_64-linux-gnu:%s/lib/x86_64-linux-gnu",
           folder, folder);
  snprintf(tool, sizeof(tool), "%s/usr/bin/bpftrace", folder);
  snprintf(pid, sizeof(pid), "%d", traced);
  execl(loader, loader, "--library-path", libraries, tool, "-p", pid, "-e", text, (char*)NULL);
  perror(loader);
  _exit(127);
}

static long number_after(const char* output, const char* name) {
  const char* const at = strstr(output, name);
  return at == NULL ? -1 : atol(at + strlen(name));
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  static char output[65536], program[512];
  CHECK(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
  mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "");
  mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "");
  mi_option_set(mi_option_prof_rate, 64 * (long)KIB);
  const pid_t traced = fork();
  if (traced == 0) _exit(be_traced());
  int pipe_of[2];
  CHECK(traced > 0 && pipe(pipe_of) == 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    dup2(pipe_of[1], 1);
    dup2(pipe_of[1], 2);
    run_tracer(argv[1], traced, program);
  }
  close(pipe_of[1]);
  int status = 1;
  CHECK(waitpid(traced, &status, 0) == traced);
  sleep(2);
  kill(tracer, SIGINT);  // if it has not seen yet that the program ended
  size_t length = 0;
  ssize_t n;
  while ((n = read(pipe_of[0], output + length, sizeof(output) - 1 - length)) > 0) {
    length += (size_t)n;
  }
  waitpid(tracer, NULL, 0);
  printf("%s\n", output);
  CHECK(status == 0);
  const long allocs = number_after(output, "@allocs: "), bytes = number_after(output, "@bytes: ");
  const long truth = (long)(COUNT * SIZE + 64 * MIB);
  // About a thousand samples: five times the deviation that they have.
  CHECK(allocs > 800 && allocs < 1300);
  CHECK(labs(bytes - truth) < truth / 6);
  CHECK(number_after(output, "@frees: ") == allocs);
  CHECK(number_after(output, "@mapped: ") >= (long)(64 * MIB));
  return 0;
}
