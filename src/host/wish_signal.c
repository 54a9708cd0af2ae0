// SPDX-License-Identifier: MIT
// The signals that ask for a report or a profile.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../os/system.h"
#include "residence.h"

#if MX_UNIX

#include <errno.h>
#include <signal.h>
#include <string.h>

static void (*on_request)(int number);

// Raised by an instruction, which a handler that returns has made again, and by abort.
static bool is_of_a_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
         number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static void on_wish_signal(int number) {
  const int saved = errno;
  on_request(number);
  errno = saved;
}

bool mx_host_on_wish_signal(int number, void (*run)(int number)) {
  struct sigaction action;
  const int saved = errno;
  bool done = (!is_of_a_fault(number) && sigaction(number, NULL, &action) == 0 &&
               (action.sa_flags & SA_SIGINFO) == 0 &&
               (action.sa_handler == SIG_DFL || action.sa_handler == &on_wish_signal));
  if (done) {
    memset(&action, 0, sizeof(action));
    action.sa_handler = &on_wish_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    on_request = run;
    done = (sigaction(number, &action, NULL) == 0);
  }
  errno = saved;
  return done;
}

#else

bool mx_host_on_wish_signal(int number, void (*run)(int number)) {
  (void)number, (void)run;
  return false;
}

#endif
