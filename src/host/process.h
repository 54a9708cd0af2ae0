// SPDX-License-Identifier: MIT
// What a look at the process asks of a system beyond os.h: call stacks, modules, files, clocks.
// Where there is no such thing nothing is found, and files cannot be made.
#ifndef MX_HOST_PROCESS_H
#define MX_HOST_PROCESS_H

#include "../os/os.h"

MX_BEGIN_DECLS
// ---- stacks ------------------------------------------------------------------------------------
// Finds the unwinder, which may load it and allocate. Before the first walk; any number of times.
void mx_host_walk_prepare(void);
// In the child of a fork of several threads: the unwinder is left alone from now on when it might
// wait for a thread that is gone.
void mx_host_walk_after_fork(void);
// Return addresses of the calling thread, the innermost first, without those of the library; how
// many. 0 when there is no way to tell. `frame`: that of a function whose caller may be the first
// (mx_frame_address), or NULL. Safe on any stack, and in a signal's handler.
int mx_host_walk_stack(void** frames, int most, const void* frame);
// The same, library and all, wherever there is an unwinder. May allocate.
int mx_host_backtrace(void** frames, int most);
// Whether an address lies in the library's own code.
bool mx_host_is_own_code(const void* address);
// Names the code at an address as well as the system can.
void mx_host_describe_code(const void* address, char* buf, size_t size);
// The function that an address is in, else "file+0xoffset"; the length, as mx_format.
size_t mx_host_name_code(const void* address, char* buf, size_t size);

// ---- modules -----------------------------------------------------------------------------------
#define MX_BUILD_ID_MAX 64
typedef struct mx_module_s {
  uintptr_t start, end;    // of its code
  uintptr_t offset;        // of `start` in the file
  const char* path;        // "" when it is not known
  uint8_t build_id[MX_BUILD_ID_MAX];
  size_t build_id_size;    // 0: it has none
} mx_module_t;
// The modules with code, the program first.
void mx_host_each_module(void (*visit)(void* arg, const mx_module_t* module), void* arg);

// ---- files -------------------------------------------------------------------------------------
// Whether what is there must not be replaced: a device, a pipe, a link.
bool mx_host_file_is_lasting(const char* path);
// Opens that to be written, or makes a new file, of a name that nothing has; -1 with errno.
int mx_host_file_make(const char* path, bool is_lasting);
bool mx_host_file_write(int file, const void* data, size_t size);
// False: what was written may be lost.
bool mx_host_file_close(int file);
bool mx_host_file_rename(const char* from, const char* to);
void mx_host_file_remove(const char* path);
// Hands a file's contents to `write` in pieces; false when it cannot be read.
bool mx_host_file_read(const char* path, void (*write)(void* arg, const void* data, size_t size),
                       void* arg);
// Whether this thread may be cancelled while it waits for a file, and whether it might before: a
// profile may be written in the middle of malloc.
bool mx_host_let_cancel(bool may);
unsigned long mx_host_pid(void);

// ---- time --------------------------------------------------------------------------------------
uint64_t mx_host_clock_nsecs(void);  // monotonic
uint64_t mx_host_wall_nsecs(void);   // since 1970
uint64_t mx_host_used_nsecs(void);   // of a processor, by this thread
MX_END_DECLS

#endif
