// SPDX-License-Identifier: MIT
// The answers to what a system lacks of process.h: none, nothing known, no files.
#include "../base/fmt.h"
#include "../os/os.h"
#include "../os/system.h"
#include "process.h"

#if MX_SYSTEM == MX_WASM || !MX_HAS_LIBC
int mx_host_backtrace(void** frames, int most) {
  (void)frames, (void)most;
  return 0;
}

bool mx_host_is_own_code(const void* address) {
  (void)address;
  return false;
}

void mx_host_describe_code(const void* address, char* buf, size_t size) {
  (void)address;
  if (size > 0) buf[0] = 0;
}
#endif

#if !MX_UNIX
void mx_host_walk_prepare(void) {}
void mx_host_walk_after_fork(void) {}

int mx_host_walk_stack(void** frames, int most, const void* frame) {
  (void)frame;
  return mx_host_backtrace(frames, most);
}

size_t mx_host_name_code(const void* address, char* buf, size_t size) {
  return mx_format(buf, size, "%p", address);
}

void mx_host_each_module(void (*visit)(void* arg, const mx_module_t* module), void* arg) {
  (void)visit, (void)arg;
}

bool mx_host_file_is_lasting(const char* path) {
  (void)path;
  return false;
}

int mx_host_file_make(const char* path, bool is_lasting) {
  (void)path, (void)is_lasting;
  return -1;
}

bool mx_host_file_write(int file, const void* data, size_t size) {
  (void)file, (void)data, (void)size;
  return false;
}

bool mx_host_file_close(int file) {
  (void)file;
  return false;
}

bool mx_host_file_rename(const char* from, const char* to) {
  (void)from, (void)to;
  return false;
}

void mx_host_file_remove(const char* path) { (void)path; }

bool mx_host_let_cancel(bool may) { return may; }
unsigned long mx_host_pid(void) { return 0; }
uint64_t mx_host_clock_nsecs(void) { return mx_os_clock_msecs() * 1000000u; }
uint64_t mx_host_wall_nsecs(void) { return 0; }
uint64_t mx_host_used_nsecs(void) { return mx_host_clock_nsecs(); }
#endif
