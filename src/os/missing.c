// SPDX-License-Identifier: MIT
// The answers to what a system lacks: no, none, nothing done. Each group says which systems lack
// it; a port begins by naming itself here for all that it cannot do, or not yet.
#include "os.h"
#include "system.h"

// ---- memory ------------------------------------------------------------------------------------

#if MX_SYSTEM != MX_WINDOWS
void mx_os_reads_as_zero(void* p, size_t size) { (void)p, (void)size; }
#endif

#if MX_SYSTEM != MX_LINUX
mx_at_start mx_atomic(bool) mx_os_scarce;

uint32_t mx_os_thread_number(void) { return 0; }

mx_move_t mx_os_move(void* from, void* to, size_t size) {
  (void)from, (void)to, (void)size;
  return MX_MOVE_REFUSED;
}

bool mx_os_map_behind(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

size_t mx_os_movable(void* p, size_t size) {
  (void)p, (void)size;
  return 0;
}

void mx_os_advise_large(void* p, size_t size, bool want) { (void)p, (void)size, (void)want; }

bool mx_os_fill_large(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_seems_present(const void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_seems_absent(const void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_is_sparse(const void* p, size_t size, size_t quarters) {
  (void)p, (void)size, (void)quarters;
  return false;
}

bool mx_os_protect_writes(void* p, size_t size, bool read_only) {
  (void)p, (void)size, (void)read_only;
  return false;
}

void mx_os_seal(void* p, size_t size) { (void)p, (void)size; }

void mx_os_refuse_large(void* p, size_t size) { (void)p, (void)size; }

// Windows chooses the node when memory is committed, which happens elsewhere: see mx_os_map_large.
void mx_os_advise_numa(void* p, size_t size, int node) { (void)p, (void)size, (void)node; }
#endif

#if MX_SYSTEM == MX_POSIX || MX_SYSTEM == MX_WASM
void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  (void)hint, (void)size, (void)page_size, (void)numa_node;
  return NULL;
}

unsigned mx_os_numa_count(void) { return 1; }

unsigned mx_os_numa_node(void) { return 0; }
#endif

// Nothing drops contents of the one memory that WebAssembly has, and nothing protects it.
#if MX_SYSTEM == MX_WASM
bool mx_os_decommit(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_purge(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_reset(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}

bool mx_os_guard(void* p, size_t size, bool install) {
  (void)p, (void)size, (void)install;
  return false;
}

bool mx_os_protect(void* p, size_t size, bool accessible) {
  (void)p, (void)size, (void)accessible;
  return false;
}
#endif

// ---- process and machine -----------------------------------------------------------------------

// What is read elsewhere are files that tell of the kernel and of processes.
#if MX_SYSTEM == MX_WASM || MX_SYSTEM == MX_WINDOWS
long mx_os_read_file(const char* path, char* buf, size_t size) {
  (void)path, (void)buf, (void)size;
  return -1;
}
#endif

// ---- threads and faults ------------------------------------------------------------------------

// Without a libc a thread could not have thread-local storage, which only a libc or the program
// itself can lay out; signals are the program's own.
#if MX_SYSTEM == MX_WASM || !MX_HAS_LIBC
bool mx_os_thread_start(void (*run)(void)) {
  (void)run;
  return false;
}

void mx_os_on_fault(bool (*on_fault)(const void* address)) { (void)on_fault; }
#endif

#if MX_SYSTEM == MX_WASM
void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  (void)word, (void)value, (void)msecs;
}

void mx_os_wake(mx_atomic(uint32_t)* word) { (void)word; }
#endif
