// SPDX-License-Identifier: MIT
// Faults on Linux and other Unix systems: the handler of the signal, the names of code.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"
#include "system.h"

#if MX_UNIX

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#else
extern char** environ;
#endif
#if !defined(__APPLE__)
#include <link.h>
#endif

#include "../base/atomic.h"
#include "../base/fmt.h"

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

// An address in the program itself.
static const void* in_program(void) {
#if defined(__linux__)
  return (const void*)getauxval(AT_ENTRY);
#elif defined(__APPLE__)
  return (const void*)_dyld_get_image_header(0);
#else
  return (const void*)&environ;  // its start-up code defines it
#endif
}

// In a program that is linked with the library, no code can be told from the program's.
#if defined(__APPLE__)
static bool is_in_same(const void* a, const void* b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

bool mx_os_is_own_code(const void* address) {
  const void* const own = (const void*)(uintptr_t)&mx_os_on_fault;
  return !is_in_same(own, in_program()) && is_in_same(own, address);
}
#else
// The addresses from `start` on of the module that the library is, unless that is the program.
typedef struct module_s {
  uintptr_t start;
  size_t size;
} module_t;

static bool is_in(const module_t* module, const void* address) {
  return (uintptr_t)address - module->start < module->size;
}

static int look_at_module(struct dl_phdr_info* info, size_t size, void* result) {
  (void)size;
  module_t whole = {UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t start = (uintptr_t)info->dlpi_addr + (uintptr_t)info->dlpi_phdr[i].p_vaddr;
    if (whole.start == UINTPTR_MAX) whole.start = start;  // they are in order
    whole.size = start + (size_t)info->dlpi_phdr[i].p_memsz - whole.start;
  }
  if (!is_in(&whole, (const void*)(uintptr_t)&mx_os_on_fault)) return 0;
  *(module_t*)result = whole;
  return 1;
}

// Asked for every frame of many stacks, so the module is looked for once.
bool mx_os_is_own_code(const void* address) {
  static module_t own;
  static mx_atomic(int) is_known;  // 1: somebody writes it, 2: yes
  int none = 0;
  if (mx_load_acquire(&is_known) != 2) {
    if (!mx_cas_strong_acq_rel(&is_known, &none, 1)) return false;
    module_t found = {0, 0};
    dl_iterate_phdr(look_at_module, &found);
    if (!is_in(&found, in_program())) own = found;
    mx_store_release(&is_known, 2);
  }
  return is_in(&own, address);
}
#endif

void mx_os_describe_code(const void* address, char* buf, size_t size) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
    mx_format(buf, size, "(unknown)");
    return;
  }
  const size_t offset = (size_t)((const char*)address - (const char*)info.dli_fbase);
  if (info.dli_sname == NULL) {
    mx_format(buf, size, "%s+0x%zx", info.dli_fname, offset);
  } else {
    const size_t in = (size_t)((const char*)address - (const char*)info.dli_saddr);
    mx_format(buf, size, "%s+0x%zx (%s+0x%zx)", info.dli_sname, in, info.dli_fname, offset);
  }
}

#endif
