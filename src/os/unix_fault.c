// SPDX-License-Identifier: MIT
// Faults on Linux and other Unix systems: the handler of the signal.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"
#include "system.h"

#if MX_UNIX

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

// What macOS says of memory that is mapped but inaccessible.
#if defined(__APPLE__)
#define FAULT SIGBUS
#else
#define FAULT SIGSEGV
#endif

static struct sigaction former;
static bool (*handler)(const void* address);

// Somebody's handler, with the signals blocked that the system would have blocked for it.
static void run_former(int number, siginfo_t* info, void* context) {
  const struct sigaction action = former;
  sigset_t blocked = action.sa_mask, before;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, number);
  if ((action.sa_flags & SA_RESETHAND) != 0) {
    former.sa_flags = 0;
    former.sa_handler = SIG_DFL;
  }
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((action.sa_flags & SA_SIGINFO) != 0) action.sa_sigaction(number, info, context);
  else action.sa_handler(number);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// The process goes the way that it would have gone without this handler, which stays for the next
// fault: whatever handled this one may have recovered from it.
static void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool is_fault = (info->si_code > 0);
  if (is_fault) handler(info->si_addr);
  errno = saved;
  const bool is_default = ((former.sa_flags & SA_SIGINFO) == 0 && former.sa_handler == SIG_DFL);
  const bool is_ignored = ((former.sa_flags & SA_SIGINFO) == 0 && former.sa_handler == SIG_IGN);
  if (!is_default && !is_ignored) {
    run_former(number, info, context);
  } else if (is_fault || is_default) {
    // The end. The instruction runs again after the return; what somebody sent is sent again. A
    // fault is not ignored by any system.
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, NULL);
    if (!is_fault) raise(number);
  }
  errno = saved;
}

void mx_os_on_fault(bool (*on_fault)(const void* address)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  handler = on_fault;
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(FAULT, &action, &former);
}

#endif
