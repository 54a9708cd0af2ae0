// SPDX-License-Identifier: MIT
// The ground floor on WebAssembly, for WASI and Emscripten: one memory that grows and never
// shrinks. What is given back is kept in a list of ranges for the next mapping.
//
// There is nothing to drop contents with, and no protection: purging does nothing, and guards are
// refused. Without threads (the default of both) nobody waits.
#include "os.h"
#include "system.h"

#if MX_SYSTEM == MX_WASM

#include <errno.h>
#include <string.h>
#include <unistd.h>
#if defined(__wasm_atomics__)
#include <pthread.h>
#endif

#include "../base/lock.h"

#define WASM_PAGE 65536  // memory grows by this

void mx_os_init(void) {
  mx_facts.os_page = WASM_PAGE;
  mx_facts.large_page = 0;
  mx_facts.va_bits = mx_facts.near_bits = (MX_64BIT ? 34 : 32);  // engines grant no more
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

bool mx_os_unmap(void* p, size_t size) {
  mx_lock_acquire(&lock);
  add_range((uintptr_t)p, (uintptr_t)p + mx_align_up(size, WASM_PAGE));
  mx_lock_release(&lock);
  return true;
}

// ---- contents ----------------------------------------------------------------------------------

bool mx_os_commit(void* p, size_t size) {
  (void)p, (void)size;
  return true;
}

bool mx_os_overcommits(void) { return true; }

// ---- process and machine -----------------------------------------------------------------------

void mx_os_process_info(mx_process_info_t* info) {
  memset(info, 0, sizeof(*info));
  info->current_rss = info->peak_rss = (size_t)__builtin_wasm_memory_size(0) * WASM_PAGE;
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
