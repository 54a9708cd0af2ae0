// SPDX-License-Identifier: MIT
// Guarded blocks in a program that handles faults itself: what was there before the library's
// handler gets every fault and every signal that somebody sends, as if there were no other, and
// faults in guarded blocks are still told of after it recovered from some of its own.
#include <fcntl.h>
#include <mimalloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_check.h"

#if defined(__APPLE__)
#define FAULT SIGBUS
#else
#define FAULT SIGSEGV
#endif

static sigjmp_buf back;
static volatile int handled;
static int messages[2];
static volatile sig_atomic_t is_blocked;
static volatile char sink;

static void on_fault(int number) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  is_blocked = (sigismember(&now, number) && sigismember(&now, SIGUSR1));
  handled++;
  siglongjmp(back, 1);
}

static void on_fault_with_info(int number, siginfo_t* info, void* context) {
  (void)context;
  if (info->si_signo == number) on_fault(number);
}

static void on_sent(int number) {
  (void)number;
  handled++;
}

// What is told of a fault goes to the standard error stream at once.
static void catch_messages(void) {
  CHECK(pipe(messages) == 0 && dup2(messages[1], STDERR_FILENO) == STDERR_FILENO);
  CHECK(fcntl(messages[0], F_SETFL, O_NONBLOCK) == 0);
}

static bool is_told(void) {
  static char text[65536];
  const ssize_t n = read(messages[0], text, sizeof(text) - 1);
  text[n > 0 ? n : 0] = 0;
  return strstr(text, "use after free") != NULL;
}

static char* make_guarded(void) {
  mi_option_set(mi_option_guarded_sample_rate, 1);
  char* const p = (char*)mi_malloc(100);
  CHECK(p != NULL);
  return p;
}

static void touch(volatile char* p) {
  if (sigsetjmp(back, 1) == 0) {
    sink = *p;
    CHECK(!"a fault");
  }
}

static void set_handler(void (*plain)(int), bool with_info) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  if (with_info) action.sa_sigaction = &on_fault_with_info;
  else action.sa_handler = plain;
  action.sa_flags = (with_info ? SA_SIGINFO : 0);
  sigaddset(&action.sa_mask, SIGUSR1);
  CHECK(sigaction(FAULT, &action, NULL) == 0);
}

static char* make_foreign(void) {
  char* const p = (char*)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static void recovers(bool with_info) {
  set_handler(&on_fault, with_info);
  char* const foreign = make_foreign();
  char* const p = make_guarded();
  mi_free(p);
  catch_messages();
  for (int i = 1; i <= 3; i++) {
    touch(foreign);
    if (handled != 2 * i - 1 || !is_blocked || is_told()) _exit(2);
    touch(p);
    if (handled != 2 * i || !is_blocked || !is_told()) _exit(3);
  }
}

static void is_sent_one(void) {
  set_handler(&on_sent, false);
  char* const p = make_guarded();
  CHECK(raise(FAULT) == 0 && handled == 1);
  CHECK(raise(FAULT) == 0 && handled == 2);
  mi_free(p);
}

static void dies_of_sent(void) {
  make_guarded();
  raise(FAULT);
}

static void ignores_sent(void) {
  signal(FAULT, SIG_IGN);
  make_guarded();
  raise(FAULT);
  raise(FAULT);
}

static void dies_of_foreign(void) {
  signal(FAULT, SIG_IGN);  // which is not for faults
  char* const foreign = make_foreign();
  make_guarded();
  sink = *foreign;
}

static int run(void (*body)(void)) {
  int status = 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);
    body();
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

static void recovers_plainly(void) { recovers(false); }
static void recovers_with_info(void) { recovers(true); }

int main(void) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  CHECK(run(&recovers_plainly) == 0);
  CHECK(run(&recovers_with_info) == 0);
  CHECK(run(&is_sent_one) == 0);
  CHECK(run(&ignores_sent) == 0);
  const int sent = run(&dies_of_sent), foreign = run(&dies_of_foreign);
  CHECK(WIFSIGNALED(sent) && WTERMSIG(sent) == FAULT);
  CHECK(WIFSIGNALED(foreign) && WTERMSIG(foreign) == FAULT);
  return 0;
}
