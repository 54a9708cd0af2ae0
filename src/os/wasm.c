// SPDX-License-Identifier: MIT
// Owns the ground floor on WebAssembly, for WASI and Emscripten: one memory that grows and never
// shrinks. What is given back is kept in a list of ranges for the next mapping.
//
// There is nothing to drop contents with, and no protection: purging does nothing, and guards are
// refused. Without threads (the default of both) nobody waits.
#include "os.h"

#if defined(__wasm__)

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__wasm_atomics__)
#include <pthread.h>
#endif
#if defined(__wasi__)
#include <wasi/libc-environ.h>
#endif

#include "../base/lock.h"
#include "thread.h"

#define WASM_PAGE 65536  // memory grows by this

mx_thread_local MX_THREAD_ANCHOR mx_thread_anchor;

void mx_os_init(void) {
  mx_facts.os_page = WASM_PAGE;
  mx_facts.large_page = 0;
  mx_facts.va_bits = (MX_64BIT ? 34 : 32);  // engines grant no more
  mx_facts.cpus = 1;
  mx_facts.numa_nodes = 1;
}

// ---- address space -----------------------------------------------------------------------------

// Ranges that were given back, by address, with no two that touch. What finds no place is lost.
#define RANGES_MAX 256

typedef struct range_s {
  uintptr_t start, end;
} range_t;

static mx_lock_t lock;
static range_t ranges[RANGES_MAX];
static size_t range_count;

static void remove_range(size_t i) {
  range_count--;
  memmove(&ranges[i], &ranges[i + 1], (range_count - i) * sizeof(ranges[0]));
}

static void add_range(uintptr_t start, uintptr_t end) {
  size_t i = 0;
  while (i < range_count && ranges[i].end < start) i++;
  if (i < range_count && ranges[i].start <= end) {
    ranges[i].start = mx_min(ranges[i].start, start);
    ranges[i].end = mx_max(ranges[i].end, end);
    if (i + 1 < range_count && ranges[i + 1].start == ranges[i].end) {
      ranges[i].end = ranges[i + 1].end;
      remove_range(i + 1);
    }
    return;
  }
  if (range_count == RANGES_MAX || start >= end) return;
  memmove(&ranges[i + 1], &ranges[i], (range_count - i) * sizeof(ranges[0]));
  ranges[i].start = start;
  ranges[i].end = end;
  range_count++;
}

// The first that is large enough.
static uintptr_t take_range(size_t size, size_t align) {
  for (size_t i = 0; i < range_count; i++) {
    const range_t r = ranges[i];
    const uintptr_t start = mx_align_up(r.start, align);
    if (start < r.start || start > r.end || r.end - start < size) continue;
    remove_range(i);
    add_range(r.start, start);
    add_range(start + size, r.end);
    return start;
  }
  return 0;
}

// The libc has the last word on where memory ends, and says errno.
static uintptr_t grow_memory(size_t size, size_t align) {
  const int saved = errno;
  const uintptr_t end = (uintptr_t)sbrk(0);
  const uintptr_t start = mx_align_up(end, align);
  uintptr_t result = 0;
  if (start >= end && size <= PTRDIFF_MAX - (start - end) &&
      (uintptr_t)sbrk((intptr_t)(start - end + size)) == end) {
    add_range(end, start);
    result = start;
  }
  errno = saved;
  return result;
}

void* mx_os_map_aligned(size_t size, size_t align, bool commit) {
  (void)commit;
  size = mx_align_up(size, WASM_PAGE);
  if (align < WASM_PAGE) align = WASM_PAGE;
  if (size == 0) return NULL;
  mx_lock_acquire(&lock);
  uintptr_t p = take_range(size, align);
  const bool is_used = (p != 0);
  if (p == 0) p = grow_memory(size, align);
  mx_lock_release(&lock);
  if (is_used) memset((void*)p, 0, size);
  return (void*)p;
}

void* mx_os_map(void* hint, size_t size, bool commit) {
  (void)hint;
  return mx_os_map_aligned(size, WASM_PAGE, commit);
}

void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  (void)hint;
  (void)size;
  (void)page_size;
  (void)numa_node;
  return NULL;
}

void mx_os_unmap(void* p, size_t size) {
  mx_lock_acquire(&lock);
  add_range((uintptr_t)p, (uintptr_t)p + mx_align_up(size, WASM_PAGE));
  mx_lock_release(&lock);
}

// ---- contents ----------------------------------------------------------------------------------

// The answer to what cannot be done here.
static bool lacks(const void* p, size_t size) {
  (void)p;
  (void)size;
  return false;
}

bool mx_os_commit(void* p, size_t size) {
  lacks(p, size);
  return true;
}

bool mx_os_decommit(void* p, size_t size) { return lacks(p, size); }

bool mx_os_purge(void* p, size_t size) { return lacks(p, size); }

bool mx_os_reset(void* p, size_t size) { return lacks(p, size); }

bool mx_os_populate(void* p, size_t size) { return lacks(p, size); }

bool mx_os_move(void* from, void* to, size_t size) {
  (void)to;
  return lacks(from, size);
}

bool mx_os_guard(void* p, size_t size, bool install) {
  (void)install;
  return lacks(p, size);
}

bool mx_os_protect(void* p, size_t size, bool accessible) {
  (void)accessible;
  return lacks(p, size);
}

void mx_os_advise_large(void* p, size_t size, bool want) {
  (void)want;
  lacks(p, size);
}

void mx_os_advise_numa(void* p, size_t size, int node) {
  (void)node;
  lacks(p, size);
}

bool mx_os_overcommits(void) { return true; }

// ---- process and machine -----------------------------------------------------------------------

void mx_os_process_info(mx_process_info_t* info) {
  memset(info, 0, sizeof(*info));
  info->current_rss = info->peak_rss = (size_t)__builtin_wasm_memory_size(0) * WASM_PAGE;
}

uint64_t mx_os_clock_msecs(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

unsigned mx_os_numa_count(void) { return 1; }

unsigned mx_os_numa_node(void) { return 0; }

bool mx_os_random(void* buf, size_t size) {
  // At most 256 bytes a call.
  const int saved = errno;
  bool done = true;
  for (size_t at = 0; at < size && done; at += 256) {
    done = (getentropy((uint8_t*)buf + at, mx_min(size - at, 256)) == 0);
  }
  errno = saved;
  return done;
}

#if defined(__wasi__)
char** mx_os_environ(void) { return __wasilibc_get_environ(); }
#else
extern char** environ;
char** mx_os_environ(void) { return environ; }
#endif

// What is read elsewhere tells of kernels and processes.
long mx_os_read_file(const char* path, char* buf, size_t size) {
  (void)path;
  (void)buf;
  (void)size;
  return -1;
}

void mx_os_write_stderr(const char* text, size_t length) {
  const int saved = errno;
  while (length > 0) {
    const ssize_t n = write(2, text, length);
    if (n <= 0) break;
    text += n;
    length -= (size_t)n;
  }
  errno = saved;
}

void mx_os_yield(void) { sched_yield(); }

void mx_os_abort(void) { abort(); }

void mx_os_set_errno(int code) { errno = code; }

// ---- faults and call stacks --------------------------------------------------------------------

void mx_os_on_fault(bool (*on_fault)(const void* address)) { (void)on_fault; }

int mx_os_backtrace(void** frames, int most) {
  (void)frames;
  (void)most;
  return 0;
}

bool mx_os_is_own_code(const void* address) {
  (void)address;
  return false;
}

void mx_os_describe_code(const void* address, char* buf, size_t size) {
  (void)address;
  if (size > 0) buf[0] = 0;
}

// ---- threads -----------------------------------------------------------------------------------

bool mx_os_barrier_all(void) {
  mx_fence_seq_cst();
#if defined(__wasm_atomics__)
  return false;
#else
  return true;
#endif
}

bool mx_os_thread_start(void (*run)(void)) {
  (void)run;
  return false;
}

void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  (void)word;
  (void)value;
  (void)msecs;
}

void mx_os_wake(mx_atomic(uint32_t)* word) { (void)word; }

#if defined(__wasm_atomics__)
static pthread_key_t exit_key;
static mx_atomic(int) exit_key_made;

void mx_os_thread_setup(void (*at_exit)(void* value)) {
  if (at_exit != NULL && pthread_key_create(&exit_key, at_exit) == 0) {
    mx_store_release(&exit_key_made, 1);
  }
}

void mx_os_thread_arm(void* value) {
  if (mx_load_acquire(&exit_key_made) != 0) pthread_setspecific(exit_key, value);
}
#else
void mx_os_thread_setup(void (*at_exit)(void* value)) { (void)at_exit; }

void mx_os_thread_arm(void* value) { (void)value; }
#endif

#endif
