// SPDX-License-Identifier: MIT
// Whose code an address is in, and its name, on Linux and other Unix systems.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../os/system.h"
#include "process.h"

#if MX_UNIX

#include <dlfcn.h>
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

bool mx_host_is_own_code(const void* address) {
  const void* const own = (const void*)(uintptr_t)&mx_host_is_own_code;
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
  if (!is_in(&whole, (const void*)(uintptr_t)&mx_host_is_own_code)) return 0;
  *(module_t*)result = whole;
  return 1;
}

// Asked for every frame of many stacks, so the module is looked for once.
bool mx_host_is_own_code(const void* address) {
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

void mx_host_describe_code(const void* address, char* buf, size_t size) {
  Dl_info info;
  if (dladdr(address, &info) == 0) {
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
