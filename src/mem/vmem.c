// SPDX-License-Identifier: MIT
// Owns accounted memory from the OS, and the pool of metadata on top of it.
#include "vmem.h"

#include "../base/hooks.h"
#include "../base/lock.h"
#include "../base/options.h"
#include "../os/os.h"
#include "random.h"

mx_counters_t mx_process_counters;
mx_memory_limit_t mx_memory_limit;

bool mx_memory_limit_room(size_t limit, size_t bytes) {
  const int64_t now = mx_load_relaxed(&mx_process_counters.committed.current);
  const size_t committed = (now > 0 ? (size_t)now : 0);
  return committed <= limit && bytes <= limit - committed;
}

// ---- addresses ---------------------------------------------------------------------------------

// Where large mappings go that must not be foretold: anywhere in the middle of the address space,
// not beside libraries and each other, as the OS would have it. A hint.
#define RANDOM_FROM ((uint64_t)1 << 41)
#define RANDOM_ROOM ((uint64_t)1 << 45)

static void* address_for(size_t size) {
  if (!MX_RANDOM_ADDRESS || !MX_64BIT || mx_facts.va_bits < 47 || size < 4 * MX_MIB) return NULL;
  return (void*)(uintptr_t)(RANDOM_FROM + mx_random64() % RANDOM_ROOM / MX_MIB * MX_MIB);
}

// ---- the first reservation ---------------------------------------------------------------------

// At start one mapping holds the page map, metadata and the first arena: a program that uses
// little makes four system calls for all of them. [next, writable) is writable, the rest is not.
static struct {
  mx_lock_t lock;
  uint8_t* rest;      // not yet given out: uncommitted memory from here to `end`
  uint8_t* end;
  uint8_t* meta;      // committed memory from here to `meta_end`
  uint8_t* meta_end;
  uint8_t* writable;  // the end of what follows meta_end and is writable, too
} first;

// What is writable from the start: metadata, and a first piece of the arena behind it.
#define FIRST_META (4 * MX_MIB)

void mx_vmem_reserve_first(size_t table, size_t arena) {
  const size_t size = table + FIRST_META + arena + MX_SLICE_SIZE;
  uint8_t* p = (uint8_t*)mx_os_map(address_for(size), size, false);
  if (p == NULL) return;
  // Large pages would make the few touched entries of the page map cost megabytes.
  mx_os_advise_large(p, size, false);
  const size_t writable = FIRST_META + mx_min(arena, MX_FIRST_WRITABLE);
  if (!mx_os_commit(p + table, writable)) {
    mx_os_unmap(p, size);
    return;
  }
  first.rest = p;
  first.meta = p + table;
  first.meta_end = first.meta + FIRST_META;
  first.writable = first.meta + writable;
  first.end = p + size;
}

static void* take_first(size_t size, size_t align, bool commit) {
  uint8_t** from = (commit ? &first.meta : &first.rest);
  mx_lock_acquire(&first.lock);
  // The page map comes first, up to the metadata; what is asked for after it lies behind that.
  if (!commit && *from != NULL && *from < first.meta_end && *from + size > first.meta) {
    *from = first.meta_end;
  }
  uint8_t* const end = (commit ? first.meta_end : first.end);
  uint8_t* p = (*from == NULL ? NULL : (uint8_t*)mx_align_up((uintptr_t)*from, align));
  if (p == NULL || p > end || (size_t)(end - p) < size) p = NULL;
  else *from = p + size;
  mx_lock_release(&first.lock);
  return p;
}

size_t mx_vmem_writable_from(const void* p) {
  const uint8_t* const at = (const uint8_t*)p;
  return at >= first.meta_end && at < first.writable ? (size_t)(first.writable - at) : 0;
}

void* mx_vmem_map(size_t size, size_t align, bool commit) {
  mx_counters_t* c = &mx_process_counters;
  void* early = take_first(size, align, commit);
  if (early != NULL) {
    mx_count_add(&c->reserved, (int64_t)size);
    return early;
  }
  mx_counter_add(&c->mmap_calls, 1);
  uint8_t* p = (uint8_t*)mx_os_map(address_for(size), size, commit);
  if (p != NULL && !mx_is_aligned(p, align)) {
    // Once more with room to cut an aligned range out of.
    mx_os_unmap(p, size);
    if (MX_MAPS_WHOLE) p = (uint8_t*)mx_os_map_aligned(size, align, commit);
    else p = (size > SIZE_MAX - align ? NULL : (uint8_t*)mx_os_map(NULL, size + align, commit));
    if (p != NULL && !MX_MAPS_WHOLE) {
      uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)p, align);
      if (start > p) mx_os_unmap(p, (size_t)(start - p));
      mx_os_unmap(start + size, (size_t)(p + size + align - (start + size)));
      p = start;
    }
  }
  if (p == NULL) {
    mx_warning("unable to map %zu bytes of memory (aligned to %zu)\n", size, align);
    return NULL;
  }
  mx_count_add(&c->reserved, (int64_t)size);
  return p;
}

void mx_vmem_unmap(void* p, size_t size, size_t committed) {
  // What is mapped next may lie in the same place, and is not writable.
  if ((uint8_t*)p < first.writable && first.meta_end < (uint8_t*)p + size) {
    first.writable = first.meta_end;
  }
  mx_os_unmap(p, size);
  mx_count_add(&mx_process_counters.reserved, -(int64_t)size);
  mx_count_add(&mx_process_counters.committed, -(int64_t)committed);
}

static size_t guard_size(void) { return MX_GUARD_METADATA ? mx_facts.os_page : 0; }

void* mx_vmem_map_meta(size_t size) {
  const size_t guard = guard_size();
  uint8_t* const p = (uint8_t*)mx_vmem_map(size + 2 * guard, mx_facts.os_page, true);
  if (p == NULL || guard == 0) return p;
  mx_os_guard(p, guard, true);
  mx_os_guard(p + guard + size, guard, true);
  return p + guard;
}

void mx_vmem_unmap_meta(void* p, size_t size) {
  mx_vmem_unmap((uint8_t*)p - guard_size(), size + 2 * guard_size(), 0);
}

bool mx_vmem_commit(void* p, size_t size) {
  mx_counter_add(&mx_process_counters.commit_calls, 1);
  return mx_os_commit(p, size);
}

bool mx_vmem_purge(void* p, size_t size, bool* needs_commit) {
  mx_counters_t* c = &mx_process_counters;
  *needs_commit = false;
  if (mx_option(purge_decommits) == 0) {
    mx_counter_add(&c->reset_calls, 1);
    if (mx_os_reset(p, size)) mx_counter_add(&c->reset, (int64_t)size);
    return false;
  }
  mx_counter_add(&c->purge_calls, 1);
  if (!mx_os_overcommits()) {
    if (!mx_os_decommit(p, size)) return false;
    *needs_commit = true;
  } else if (!mx_os_purge(p, size)) {
    return false;
  }
  mx_counter_add(&c->purged, (int64_t)size);
  return true;
}

bool mx_vmem_discard(void* p, size_t size) {
  mx_counter_add(&mx_process_counters.purge_calls, 1);
  if (!mx_os_purge(p, size)) return false;
  mx_counter_add(&mx_process_counters.purged, (int64_t)size);
  return true;
}

// ---- metadata ----------------------------------------------------------------------------------

#define META_CHUNK (256 * MX_KIB)

static struct {
  mx_lock_t lock;
  uint8_t* next;
  uint8_t* end;
} meta;

static void* meta_take(size_t size) {
  void* p = NULL;
  mx_lock_acquire(&meta.lock);
  if ((size_t)(meta.end - meta.next) >= size) {
    p = meta.next;
    meta.next += size;
  }
  mx_lock_release(&meta.lock);
  return p;
}

void* mx_meta_alloc(size_t size) {
  size = mx_align_up(size, MX_CACHE_LINE);
  void* p = meta_take(size);
  if (p != NULL) return p;
  // The call to the OS is made without the lock; two threads may both bring a chunk.
  const size_t chunk = mx_max(META_CHUNK, mx_align_up(size, mx_facts.os_page));
  uint8_t* fresh = (uint8_t*)mx_vmem_map_meta(chunk);
  if (fresh == NULL) return NULL;
  mx_count_add(&mx_process_counters.metadata, (int64_t)chunk);
  mx_count_add(&mx_process_counters.committed, (int64_t)chunk);
  if (size >= META_CHUNK / 2) return fresh;
  mx_lock_acquire(&meta.lock);
  meta.next = fresh + size;
  meta.end = fresh + chunk;
  mx_lock_release(&meta.lock);
  return fresh;
}

void mx_meta_before_fork(void) {
  mx_lock_acquire(&meta.lock);
  mx_lock_acquire(&first.lock);
}

void mx_meta_after_fork(void) {
  mx_lock_release(&first.lock);
  mx_lock_release(&meta.lock);
}
