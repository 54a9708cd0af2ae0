// SPDX-License-Identifier: MIT
// The modules, files and clocks of a process on Linux and other Unix systems.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../os/system.h"
#include "process.h"

#if MX_UNIX

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#else
#include <link.h>
#endif

#include "../base/fmt.h"

// Calls that a signal interrupted are made again, so many times.
#define PROFILE_INTERRUPTED_MAX 1000

// ---- files -------------------------------------------------------------------------------------

bool mx_host_file_is_lasting(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

// A pipe that nobody reads is an error (ENXIO), where to open it would wait for somebody.
int mx_host_file_make(const char* path, bool is_lasting) {
  const int kind = (is_lasting ? O_TRUNC | O_NONBLOCK | O_NOCTTY : O_EXCL);
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | kind;
  // A file system that is a program, or far away, may be interrupted.
  int file = -1;
  for (int n = 0; n < PROFILE_INTERRUPTED_MAX; n++) {
    file = open(path, how, 0644);
    if (file >= 0 || errno != EINTR) break;
  }
  if (file >= 0 && is_lasting) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

static bool write_all(int file, const void* data, size_t size) {
  const char* at = (const char*)data;
  for (int interrupted = 0; size > 0;) {
    const ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR && interrupted++ < PROFILE_INTERRUPTED_MAX) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

static bool is_pipe_signal_pending(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

// The reader of a pipe may end meanwhile. That is an error of ours, no reason to end the program:
// the signal for it is taken back, unless one waited before.
bool mx_host_file_write(int file, const void* data, size_t size) {
  sigset_t only, before;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  if (pthread_sigmask(SIG_BLOCK, &only, &before) != 0) return write_all(file, data, size);
  const bool waited = (sigismember(&before, SIGPIPE) == 1 && is_pipe_signal_pending());
  const bool done = write_all(file, data, size);
  const int error = errno;
  int taken;
  if (!done && error == EPIPE && !waited && is_pipe_signal_pending()) sigwait(&only, &taken);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return done;
}

bool mx_host_file_close(int file) { return close(file) == 0; }

bool mx_host_file_rename(const char* from, const char* to) { return rename(from, to) == 0; }

void mx_host_file_remove(const char* path) {
  const int saved = errno;
  unlink(path);
  errno = saved;
}

#if defined(__ANDROID__)
bool mx_host_let_cancel(bool may) { return may; }
#else
bool mx_host_let_cancel(bool may) {
  int was = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(may ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, &was);
  return was == PTHREAD_CANCEL_ENABLE;
}
#endif

unsigned long mx_host_pid(void) { return (unsigned long)getpid(); }

// ---- time --------------------------------------------------------------------------------------

static uint64_t nsecs_of(clockid_t clock) {
  struct timespec t = {0, 0};
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t mx_host_clock_nsecs(void) { return nsecs_of(CLOCK_MONOTONIC); }

uint64_t mx_host_wall_nsecs(void) { return nsecs_of(CLOCK_REALTIME); }

uint64_t mx_host_used_nsecs(void) { return nsecs_of(CLOCK_THREAD_CPUTIME_ID); }

// ---- modules -----------------------------------------------------------------------------------

#if defined(__APPLE__)
void mx_host_each_module(void (*visit)(void* arg, const mx_module_t* module), void* arg) {
  for (uint32_t i = 0; i < _dyld_image_count(); i++) {
    const struct mach_header_64* const header =
        (const struct mach_header_64*)(const void*)_dyld_get_image_header(i);
    mx_module_t module;
    memset(&module, 0, sizeof(module));
    module.path = _dyld_get_image_name(i);
    const uint8_t* at = (const uint8_t*)(header + 1);
    for (uint32_t n = 0; n < header->ncmds; n++) {
      const struct load_command* const command = (const struct load_command*)(const void*)at;
      const struct segment_command_64* const segment =
          (const struct segment_command_64*)(const void*)at;
      if (command->cmd == LC_SEGMENT_64 && strcmp(segment->segname, "__TEXT") == 0) {
        module.start = (uintptr_t)header;
        module.end = module.start + segment->vmsize;
      } else if (command->cmd == LC_UUID) {
        memcpy(module.build_id, at + sizeof(*command), 16);
        module.build_id_size = 16;
      }
      at += command->cmdsize;
    }
    visit(arg, &module);
  }
}
#else
typedef struct module_visit_s {
  void (*visit)(void* arg, const mx_module_t* module);
  void* arg;
  bool has_first;
  char program[1024];
} module_visit_t;

#define NOTE_BUILD_ID 3

static void find_build_id(const ElfW(Phdr)* header, ElfW(Addr) base, mx_module_t* module) {
  const uint8_t* at = (const uint8_t*)(uintptr_t)(base + header->p_vaddr);
  const uint8_t* const end = at + header->p_memsz;
  while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr)* const note = (const ElfW(Nhdr)*)(const void*)at;
    const uint8_t* const name = at + sizeof(*note);
    const uint8_t* const data = name + (note->n_namesz + 3u) / 4 * 4;
    if (data > end || (size_t)(end - data) < note->n_descsz) return;
    if (note->n_type == NOTE_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      module->build_id_size = mx_min(note->n_descsz, MX_BUILD_ID_MAX);
      memcpy(module->build_id, data, module->build_id_size);
      return;
    }
    at = data + (note->n_descsz + 3u) / 4 * 4;
  }
}

static int visit_module(struct dl_phdr_info* info, size_t size, void* arg) {
  module_visit_t* const v = (module_visit_t*)arg;
  mx_module_t module;
  (void)size;
  memset(&module, 0, sizeof(module));
  const bool is_program = !v->has_first;  // it is the first one
  v->has_first = true;
  module.path = (is_program ? v->program : info->dlpi_name);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type == PT_NOTE && module.build_id_size == 0) {
      find_build_id(&info->dlpi_phdr[i], info->dlpi_addr, &module);
    }
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* const header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
    const uintptr_t page = mx_facts.os_page;
    const uintptr_t start = (uintptr_t)info->dlpi_addr + (uintptr_t)header->p_vaddr;
    module.start = start / page * page;
    module.end = (start + (uintptr_t)header->p_memsz + page - 1) / page * page;
    module.offset = (uintptr_t)header->p_offset / page * page;
    v->visit(v->arg, &module);
  }
  return 0;
}

void mx_host_each_module(void (*visit)(void* arg, const mx_module_t* module), void* arg) {
  module_visit_t v;
  v.visit = visit;
  v.arg = arg;
  v.has_first = false;
  const int saved = errno;
  const ssize_t n = readlink("/proc/self/exe", v.program, sizeof(v.program) - 1);
  errno = saved;
  v.program[n > 0 ? n : 0] = 0;
  dl_iterate_phdr(visit_module, &v);
}
#endif

size_t mx_host_name_code(const void* address, char* buf, size_t size) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return mx_format(buf, size, "%p", address);
  if (info.dli_sname != NULL) return mx_format(buf, size, "%s", info.dli_sname);
  const char* const slash = strrchr(info.dli_fname, '/');
  const size_t offset = (size_t)((const char*)address - (const char*)info.dli_fbase);
  return mx_format(buf, size, "%s+0x%zx", slash == NULL ? info.dli_fname : slash + 1, offset);
}

#endif
