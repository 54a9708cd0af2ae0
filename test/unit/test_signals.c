// SPDX-License-Identifier: MIT
// The ground floor's handler of faults beside those that the program had before, and its call at the
// ends of threads: each row in a child, which ends as it would without the library, or not at all.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/os/os.h"

#if defined(__APPLE__)
#define FAULT SIGBUS
#else
#define FAULT SIGSEGV
#endif

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// Faults that the library's function was told of, and signals of the program's.
static volatile int seen, handled;
static const void* volatile seen_at;
static unsigned char* page;

static bool on_fault(const void* address) {
  seen++;
  seen_at = address;
  return false;
}

static void on_signal(int number) {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  // It is blocked meanwhile unless the program wanted otherwise: told by the exit code.
  handled += (number == FAULT ? 1 : 100) + (sigismember(&blocked, FAULT) == 1 ? 10 : 0);
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void on_info(int number, siginfo_t* info, void* context) {
  (void)context;
  if (info->si_addr == page + 5) on_signal(number);
}

static void set_before(void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(FAULT, &action, NULL);
  mx_os_on_fault(&on_fault);
}

static void fault(void) {
  mprotect(page, 4096, PROT_NONE);
  ((volatile unsigned char*)page)[5] = 1;
}

// ---- rows --------------------------------------------------------------------------------------

static void sent_by_default(void) {
  set_before(SIG_DFL, 0);
  raise(FAULT);
  exit(1);
}

static void fault_by_default(void) {
  set_before(SIG_DFL, 0);
  fault();
  exit(1);
}

static void sent_ignored(void) {
  set_before(SIG_IGN, 0);
  raise(FAULT);
  raise(FAULT);
  exit(seen == 0 ? 0 : 1);
}

static void fault_ignored(void) {
  set_before(SIG_IGN, 0);
  fault();
  exit(1);
}

static void fault_handled(void) {
  set_before(&on_signal, 0);
  for (int i = 1; i <= 3; i++) {
    fault();
    if (seen != i || handled != 11 * i || seen_at != page + 5) exit(1);
  }
  exit(0);
}

static void fault_handled_unblocked(void) {
  set_before(&on_signal, SA_NODEFER);
  fault();
  exit(seen == 1 && handled == 1 ? 0 : 1);
}

static void fault_handled_with_info(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = &on_info;
  action.sa_flags = SA_SIGINFO;
  sigaction(FAULT, &action, NULL);
  mx_os_on_fault(&on_fault);
  fault();
  exit(seen == 1 && handled == 11 ? 0 : 1);
}

static void sent_handled(void) {
  set_before(&on_signal, 0);
  raise(FAULT);
  exit(seen == 0 && handled == 11 ? 0 : 1);
}

// A handler for once: the second time the process ends.
static void handled_once(void) {
  set_before(&on_signal, SA_RESETHAND);
  fault();
  if (handled == 0) exit(1);
  fault();
  exit(1);
}

// ---- ends of threads ---------------------------------------------------------------------------

static int ended;

static void at_exit(void* value) { ended += (value == &ended); }

static void* arm(void* arg) {
  mx_os_thread_arm(&ended);
  return arg;
}

static void run_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, arm, NULL) != 0) exit(1);
  pthread_join(thread, NULL);
}

static void ends_are_told(void) {
  mx_os_thread_setup(NULL);
  mx_os_thread_setup(NULL);  // there is none any more
  run_thread();
  if (ended != 0) exit(1);
  mx_os_thread_setup(&at_exit);
  run_thread();
  if (ended != 1) exit(1);
  mx_os_thread_setup(NULL);
  run_thread();
  exit(ended == 1 ? 0 : 1);
}

static void no_keys(void) {
  pthread_key_t key;
  mx_os_thread_setup(NULL);
  while (pthread_key_create(&key, NULL) == 0) {
  }
  mx_os_thread_setup(&at_exit);
  run_thread();
  exit(ended == 0 ? 0 : 1);
}

static const struct {
  void (*run)(void);
  int signal;
} rows[] = {
    {sent_by_default, FAULT}, {fault_by_default, FAULT}, {sent_ignored, 0}, {fault_ignored, FAULT},
    {fault_handled, 0}, {fault_handled_unblocked, 0}, {fault_handled_with_info, 0},
    {sent_handled, 0}, {handled_once, FAULT}, {ends_are_told, 0}, {no_keys, 0},
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_HANDLERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_OWN_HANDLERS 1
#endif
#endif

int main(void) {
#if defined(HAS_OWN_HANDLERS)
  return 77;
#endif
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  page = (unsigned char*)mmap(NULL, 65536, PROT_READ | PROT_WRITE, flags, -1, 0);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      rows[i].run();
      exit(2);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    const int signal = (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    const bool is_right = (signal == rows[i].signal && (signal != 0 || WEXITSTATUS(status) == 0));
    if (!is_right) printf("FAIL row %zu: signal %d, exit %d\n", i, signal, WEXITSTATUS(status));
    failures += !is_right;
  }
  printf("signals: %d failures\n", failures);
  return failures != 0;
}
