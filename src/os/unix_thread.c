// SPDX-License-Identifier: MIT
// Threads and their ends on Linux and the other Unix systems.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"
#include "system.h"

#if MX_UNIX

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

// ---- the background thread ---------------------------------------------------------------------

#define BACKGROUND_STACK (64 * 1024)

static void* run_background(void* run) {
#if defined(__linux__)
  prctl(PR_SET_NAME, (unsigned long)(uintptr_t)"mimalloc", 0, 0, 0);
#endif
  ((void (*)(void))(uintptr_t)run)();
  return NULL;
}

bool mx_os_thread_start(void (*run)(void)) {
  const int saved = errno;
  sigset_t all, before;
  pthread_attr_t attr;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  // Refused (too small for a large amount of thread-local data), the default remains.
  pthread_attr_setstacksize(&attr, BACKGROUND_STACK);
  void* const arg = (void*)(uintptr_t)run;
  int result = pthread_create(&thread, &attr, &run_background, arg);
  pthread_attr_destroy(&attr);
  if (result == EINVAL) {
    result = pthread_create(&thread, NULL, &run_background, arg);
    if (result == 0) pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = saved;
  return result == 0;
}

// ---- ends of threads ---------------------------------------------------------------------------

static mx_at_start pthread_key_t exit_key;
static mx_at_start mx_atomic(int) exit_key_made;

// A program's own key has the number 0 until the program makes it. What it sets under that before
// must be refused, as without this library, and not come to our destructor.
static bool make_key(void (*at_exit)(void* value)) {
  const pthread_key_t unmade = 0;
  if (pthread_key_create(&exit_key, at_exit) != 0) return false;
  pthread_key_t other;
  if (exit_key == unmade && pthread_key_create(&other, at_exit) == 0) {
    exit_key = other;
    pthread_key_delete(unmade);
  }
  return true;
}

void mx_os_thread_setup(void (*at_exit)(void* value)) {
  const int saved = errno;
  if (at_exit != NULL && make_key(at_exit)) {
    mx_store_release(&exit_key_made, 1);
  } else if (at_exit == NULL && mx_exchange_acq_rel(&exit_key_made, 0) != 0) {
    pthread_key_delete(exit_key);
  }
  errno = saved;
}

void mx_os_thread_arm(void* value) {
  const int saved = errno;
  if (mx_load_acquire(&exit_key_made) != 0) pthread_setspecific(exit_key, value);
  errno = saved;
}

#endif
