// SPDX-License-Identifier: MIT
// The first process of the guests that tools/kernels.py boots: it follows the plan that it finds in
// /plan, tells on the console what came of each step, and turns the machine off.
//
// A line of the plan is an instruction and its arguments, with tabs between. An instruction that
// fails is told, and the plan goes on:
//
//   write PATH TEXT     writes the text to an existing file of /proc or /sys
//   module PATH         loads a module of the kernel
//   swap PATH           makes a block device swap space and uses it
//   group NAME          makes a control group; programs from here on run in it
//   until SECONDS       leaves out the programs that would begin later than this after the start
//   run NAME SECONDS WORD...   runs a program: first the words NAME=VALUE of its environment, then
//                       its path and arguments
//
// Lines that begin with "@" are the answer: "@begin" when the plan begins, "@run NAME", then "@end
// NAME STATUS SECONDS" where STATUS is the exit status, 128 + the signal, or "timeout", "@failed
// INSTRUCTION" for one that failed, and "@done". The end of a failed program's output comes between.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOWN 3000  // bytes of a failed program's output
#define MOST_WORDS 64

static char group_file[256];
// The end of what the program wrote. It comes through a pipe, since a file in memory could not grow
// where the program took all memory that there is.
static int output_pipe[2];
static char output[2 * SHOWN + 1];
static size_t output_size;
static double last_begin;  // when the last program may begin; 0 for no limit

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int write_file(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY);
  if (fd < 0) return -1;
  const ssize_t n = write(fd, text, strlen(text));
  const int error = errno;
  close(fd);
  errno = error;
  return n < 0 ? -1 : 0;
}

static int load_module(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return -1;
  const long result = syscall(SYS_finit_module, fd, "", 0);
  close(fd);
  return result != 0 && errno != EEXIST ? -1 : 0;
}

// What mkswap writes: version, last page, and the magic at the end of the first page.
static int use_swap(const char* path) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* const header = (char*)calloc(1, page);
  const int fd = open(path, O_RDWR);
  const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  if (header == NULL || size < (off_t)(4 * page)) return -1;
  const unsigned version = 1, last = (unsigned)((size_t)size / page - 1);
  memcpy(header + 1024, &version, sizeof(version));
  memcpy(header + 1028, &last, sizeof(last));
  memcpy(header + page - 10, "SWAPSPACE2", 10);
  const ssize_t n = pwrite(fd, header, page, 0);
  fsync(fd);
  close(fd);
  free(header);
  return n == (ssize_t)page ? swapon(path, 0) : -1;
}

static int make_group(const char* name) {
  char path[200];
  snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", name);
  snprintf(group_file, sizeof(group_file), "%s/cgroup.procs", path);
  return mkdir(path, 0755);
}

// ---- programs ----------------------------------------------------------------------------------

static void become(char** words) {
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(output_pipe[1], 1);
  dup2(output_pipe[1], 2);
  close(null);
  close(output_pipe[0]);
  close(output_pipe[1]);
  setsid();
  if (group_file[0] != 0 && write_file(group_file, "0") != 0) {
    printf("cannot join the control group: %s\n", strerror(errno));
    _exit(126);
  }
  for (; *words != NULL && (*words)[0] != '/' && strchr(*words, '=') != NULL; words++) putenv(*words);
  if (*words != NULL) execv(*words, words);
  perror("cannot run it");
  _exit(126);
}

static void read_output(void) {
  ssize_t n;
  while ((n = read(output_pipe[0], output + output_size, 2 * SHOWN - output_size)) > 0) {
    output_size += (size_t)n;
    if (output_size < 2 * SHOWN) continue;
    output_size = SHOWN;
    memmove(output, output + SHOWN, SHOWN);
  }
}

// Waits for one process, while others may end, too: pid 1 inherits what programs leave behind.
static int await(pid_t pid, double limit, int* status) {
  const double end = now() + limit;
  for (;;) {
    int one;
    read_output();
    const pid_t ended = waitpid(-1, &one, WNOHANG);
    if (ended == pid) {
      *status = one;
      return 0;
    }
    if (ended > 0) continue;
    if (now() > end) return -1;
    usleep(5000);
  }
}

static void show_lines(const char* prefix, char* text) {
  for (char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    printf("  %s%s\n", prefix, line);
  }
}

// What the kernel wrote to its log meanwhile, which names the address of a fault.
static void show_kernel_log(void) {
  static char text[8000];
  const int n = klogctl(3, text, sizeof(text) - 1);
  if (n <= 0) return;
  text[n] = 0;
  show_lines("kernel: ", text);
}

static void show_file(const char* what, const char* path) {
  char text[600];
  const int fd = open(path, O_RDONLY);
  const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return;
  text[n] = 0;
  show_lines(what, text);
}

// Where the threads of a process are that did not end in time: the call of the kernel with its
// arguments, stack and instruction pointer, or "running", and the times in user and kernel mode.
static void show_threads(const char* process) {
  char path[600];
  snprintf(path, sizeof(path), "/proc/%s/task", process);
  DIR* const tasks = opendir(path);
  if (tasks == NULL) return;
  int shown = 0;
  for (struct dirent* e; (e = readdir(tasks)) != NULL && shown < 8;) {
    if (e->d_name[0] == '.') continue;
    shown++;
    snprintf(path, sizeof(path), "/proc/%s/task/%s/stat", process, e->d_name);
    show_file("thread: ", path);
    snprintf(path, sizeof(path), "/proc/%s/task/%s/syscall", process, e->d_name);
    show_file("  at: ", path);
  }
  closedir(tasks);
}

static void show_processes(void) {
  DIR* const all = opendir("/proc");
  if (all == NULL) return;
  for (struct dirent* e; (e = readdir(all)) != NULL;) {
    char path[300], name[4];
    snprintf(path, sizeof(path), "/proc/%s/exe", e->d_name);
    // Threads of the kernel run no file.
    if (atoi(e->d_name) > 1 && readlink(path, name, sizeof(name)) > 0) show_threads(e->d_name);
  }
  closedir(all);
}

static void run(char** words) {
  const char* const name = words[0];
  printf("@run %s\n", name);
  klogctl(5, NULL, 0);  // what there was so far is not shown again
  const double begin = now();
  output_size = 0;
  if (pipe2(output_pipe, O_NONBLOCK) != 0) perror("pipe");
  fcntl(output_pipe[1], F_SETFL, 0);
  const pid_t pid = fork();
  if (pid == 0) become(words + 2);
  int status = 0;
  char result[16];
  if (await(pid, atof(words[1]), &status) != 0) {
    strcpy(result, "timeout");
    show_processes();
  } else {
    snprintf(result, sizeof(result), "%d",
             WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
  const double seconds = now() - begin;
  // What it left behind is gone before the next one begins, so that none disturbs another.
  kill(-1, SIGKILL);
  while (waitpid(-1, NULL, 0) > 0) {
  }
  read_output();
  close(output_pipe[0]);
  close(output_pipe[1]);
  if (strcmp(result, "0") != 0) {
    output[output_size] = 0;
    show_lines("", output);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT) show_kernel_log();
  }
  printf("@end %s %s %.1f\n", name, result, seconds);
}

// ---- the plan ----------------------------------------------------------------------------------

static void follow(char* line) {
  char* words[MOST_WORDS + 1] = {NULL};
  size_t n = 0;
  char copy[200];
  snprintf(copy, sizeof(copy), "%s", line);
  for (char* word = strtok(line, "\t"); word != NULL && n < MOST_WORDS; word = strtok(NULL, "\t")) {
    words[n++] = word;
  }
  int result = -1;
  errno = EINVAL;
  if (n >= 4 && strcmp(words[0], "run") == 0) {
    if (last_begin == 0 || now() < last_begin) run(words + 1);
    return;
  }
  if (n == 2 && strcmp(words[0], "until") == 0) result = (last_begin = atof(words[1])) > 0 ? 0 : -1;
  if (n == 3 && strcmp(words[0], "write") == 0) result = write_file(words[1], words[2]);
  if (n == 2 && strcmp(words[0], "module") == 0) result = load_module(words[1]);
  if (n == 2 && strcmp(words[0], "swap") == 0) result = use_swap(words[1]);
  if (n == 2 && strcmp(words[0], "group") == 0) result = make_group(words[1]);
  if (result != 0) printf("@failed %s: %s\n", copy, strerror(errno));
}

static void mount_all(void) {
  static const char* const places[][3] = {{"devtmpfs", "/dev", "devtmpfs"}, {"proc", "/proc", "proc"},
    {"sysfs", "/sys", "sysfs"}, {"tmpfs", "/dev/shm", "tmpfs"},
    {"cgroup2", "/sys/fs/cgroup", "cgroup2"}};
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    mkdir(places[i][1], 0755);
    mount(places[i][0], places[i][1], places[i][2], 0, "");
  }
}

int main(void) {
  mount_all();
  const int console = open("/dev/console", O_RDWR);
  for (int fd = 0; console >= 0 && fd < 3; fd++) dup2(console, fd);
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("PATH", "/usr/bin:/bin", 1);
  setenv("HOME", "/tmp", 1);
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  FILE* const plan = fopen("/plan", "r");
  // A line of its own, whatever the firmware left on the one before.
  printf("\n@begin\n");
  char* line = NULL;
  size_t room = 0;
  while (plan != NULL && getline(&line, &room, plan) > 0) {
    line[strcspn(line, "\n")] = 0;
    follow(line);
  }
  printf("@done\n");
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}
