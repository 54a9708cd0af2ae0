// SPDX-License-Identifier: MIT
// Owns the making and the unmaking of arenas.
#include "arena.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../mem/random.h"
#include "../mem/vmem.h"
#include "../os/os.h"

// Arenas grow: each time this many exist, the next ones are twice as large.
#define ARENAS_PER_DOUBLING 8
#define ARENA_DOUBLINGS_MAX 10

// The first page of an arena lies in one of this many slices, where addresses are random.
#define RANDOM_START ((size_t)512)

// ---- presence ----------------------------------------------------------------------------------

// All sizes here are powers of two. A division would cost more than the rest of a touch, which
// comes with every few blocks that are carved.
static unsigned bit_shift(void) {
  return (unsigned)mx_min(mx_bit_high(mx_facts.os_page), MX_SLICE_SHIFT);
}

size_t mx_arena_bits_per_slice(void) { return MX_SLICE_SIZE >> bit_shift(); }

size_t mx_arena_bit_of(const mx_arena_t* arena, const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) >> bit_shift();
}

bool mx_arena_is_present(const mx_arena_t* arena, const void* start, size_t size) {
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t last = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1);
  return mx_bits_count(arena->present, first, last - first + 1) == last - first + 1;
}

size_t mx_arena_touch(mx_arena_t* arena, const void* start, size_t size) {
  if (size == 0) return 0;
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t last = mx_arena_bit_of(arena, (const uint8_t*)start + size - 1);
  // Nearly always memory is used again; seeing that costs no write to shared words.
  if (mx_arena_is_present(arena, start, size)) return 0;
  const size_t fresh = mx_bits_set(arena->present, first, last - first + 1);
  mx_count_add(&mx_process_counters.committed, (int64_t)(fresh << bit_shift()));
  return fresh;
}

size_t mx_arena_untouch(mx_arena_t* arena, const void* start, size_t size) {
  const size_t first = mx_arena_bit_of(arena, start);
  const size_t gone = mx_bits_clear(arena->present, first, size >> bit_shift());
  if (gone > 0) mx_count_add(&mx_process_counters.committed, -(int64_t)(gone << bit_shift()));
  return gone;
}

size_t mx_arena_discard(mx_arena_t* arena, void* start, size_t size) {
  if (!mx_vmem_discard(start, size)) return 0;
  return mx_arena_untouch(arena, start, size) << bit_shift();
}

// ---- making ------------------------------------------------------------------------------------

#define SLICE_BITMAPS ((size_t)(MX_GUARD_PAGES ? 5 : 4))

static size_t meta_bytes(size_t slices) {
  const size_t words = mx_div_up(slices, MX_WORD_BITS);
  return mx_align_up(mx_align_up(sizeof(mx_arena_t), MX_CACHE_LINE) +
                         (SLICE_BITMAPS + mx_arena_bits_per_slice() + MX_BIN_COUNT) * words *
                             sizeof(mx_bits_t) +
                         mx_align_up(slices * sizeof(uint32_t), sizeof(mx_bits_t)) +
                         slices * MX_PAGE_RECORD_STRIDE + MX_PAGE_RECORD_SIZE,
                     mx_facts.os_page);
}

static mx_arena_t* layout_meta(void* meta, size_t slices) {
  mx_arena_t* arena = (mx_arena_t*)meta;
  uint8_t* p = (uint8_t*)meta + mx_align_up(sizeof(mx_arena_t), MX_CACHE_LINE);
  arena->slices = slices;
  arena->words = mx_div_up(slices, MX_WORD_BITS);
  const size_t bitmap = arena->words * sizeof(mx_bits_t);
  arena->free = (mx_bits_t*)(void*)p;
  arena->dirty = (mx_bits_t*)(void*)(p + bitmap);
  arena->committed = (mx_bits_t*)(void*)(p + 2 * bitmap);
  arena->waiting = (mx_bits_t*)(void*)(p + 3 * bitmap);
  arena->guarded = (MX_GUARD_PAGES ? (mx_bits_t*)(void*)(p + 4 * bitmap) : NULL);
  arena->present = (mx_bits_t*)(void*)(p + SLICE_BITMAPS * bitmap);
  p += (SLICE_BITMAPS + mx_arena_bits_per_slice()) * bitmap;
  arena->freed_at = (mx_atomic(uint32_t)*)(void*)p;
  p += mx_align_up(slices * sizeof(uint32_t), sizeof(mx_bits_t));
  arena->abandoned = (mx_bits_t*)(void*)p;
  arena->records =
      (uint8_t*)mx_align_up((uintptr_t)(p + MX_BIN_COUNT * bitmap), MX_PAGE_RECORD_SIZE);
  return arena;
}

static bool collides(const mx_arenas_t* arenas, const mx_arena_t* arena) {
  if (!mx_pagemap_is_window()) return false;
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* other = mx_arena_at(arenas, i);
    if (other != NULL && mx_pagemap_collides(other->start, other->slices * MX_SLICE_SIZE,
                                             arena->start, arena->slices * MX_SLICE_SIZE)) {
      return true;
    }
  }
  return false;
}

static mx_atomic(size_t) arena_ids;

static bool publish(mx_arenas_t* arenas, mx_arena_t* arena) {
  arena->id = mx_add_relaxed(&arena_ids, 1) + 1;
  mx_lock_acquire(&arenas->lock);
  const size_t n = mx_load_relaxed(&arenas->count);
  const bool ok = (n < MX_ARENAS_MAX && !collides(arenas, arena));
  if (ok) {
    mx_store_release(&arenas->items[n], arena);
    mx_store_release(&arenas->count, n + 1);
  }
  mx_lock_release(&arenas->lock);
  return ok;
}

mx_arena_t* mx_arena_add(mx_arenas_t* arenas, const mx_arena_config_t* config) {
  uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)config->start, MX_SLICE_SIZE);
  const size_t lost = (size_t)(start - (uint8_t*)config->start);
  if (config->size < lost + MX_SLICE_SIZE) return NULL;
  const size_t slices = (config->size - lost) / MX_SLICE_SIZE;
  const size_t meta_size = meta_bytes(slices);
  void* meta = mx_vmem_map_meta(meta_size);
  if (meta == NULL) return NULL;
  mx_arena_t* arena = layout_meta(meta, slices);
  arena->start = start;
  arena->mapping = (config->is_owned ? config->start : NULL);
  arena->mapping_size = config->size;
  arena->meta_size = meta_size;
  arena->commit_fn = config->commit_fn;
  arena->commit_arg = config->commit_arg;
  arena->numa_node = config->numa_node;
  arena->is_exclusive = config->is_exclusive;
  arena->is_pinned = config->is_pinned;
  mx_store_relaxed(&arena->free_slices, slices);
  if (MX_RANDOM_ADDRESS) {
    mx_store_relaxed(&arena->low_hint, (size_t)(mx_random64() % mx_min(slices, RANDOM_START)));
  }
  mx_bits_set(arena->free, 0, slices);
  if (config->is_committed) mx_bits_set(arena->committed, 0, slices);
  if (!config->is_zero) {
    mx_bits_set(arena->dirty, 0, slices);
    mx_arena_touch(arena, start, slices * MX_SLICE_SIZE);
  }
  if (!publish(arenas, arena)) {
    mx_vmem_unmap_meta(meta, meta_size);
    return NULL;
  }
  mx_counter_add(&mx_process_counters.arena_count, 1);
  return arena;
}

static size_t reserve_size(const mx_arenas_t* arenas, size_t least) {
  // Where address space is short, so is the share that we may take at once.
  size_t size = (size_t)mx_option(arena_reserve) * MX_KIB;
  if (mx_pagemap_is_window()) size = mx_min(size, MX_ARENA_MIN_SIZE);
  const size_t doublings = mx_load_relaxed(&arenas->count) / ARENAS_PER_DOUBLING;
  size <<= mx_min(doublings, (size_t)ARENA_DOUBLINGS_MAX);
  return mx_align_up(mx_max(mx_max(size, MX_ARENA_MIN_SIZE), least), MX_SLICE_SIZE);
}

mx_arena_t* mx_arena_reserve(mx_arenas_t* arenas, size_t slices, int numa_node) {
  const size_t least = slices * MX_SLICE_SIZE;
  for (size_t size = reserve_size(arenas, least); size >= least; size /= 2) {
    size = mx_align_up(size, MX_SLICE_SIZE);
    // Otherwise it becomes writable in pieces, as it is used.
    const bool eager = (mx_option(arena_eager_commit) == 1);
    void* p = mx_vmem_map(size, MX_SLICE_SIZE, eager);
    if (p != NULL) {
      const size_t writable = mx_vmem_writable_from(p);
      const long thp = mx_option(allow_thp);
      if (thp >= 2) mx_os_advise_large(p, size, true);
      else if (writable == 0) mx_os_advise_large(p, size, false);
      if (numa_node >= 0) mx_os_advise_numa(p, size, numa_node);
      mx_arena_config_t config = {p, size, eager, false, true, false, true, numa_node, NULL, NULL};
      mx_arena_t* arena = mx_arena_add(arenas, &config);
      if (arena != NULL) {
        if (writable > 0) mx_bits_set(arena->committed, 0, mx_min(writable, size) / MX_SLICE_SIZE);
        return arena;
      }
      mx_vmem_unmap(p, size, 0);
      return NULL;
    }
    if (size == least) break;
    if (size / 2 < least) size = least * 2;
  }
  return NULL;
}

mx_arena_t* mx_arena_of(mx_arenas_t* arenas, const void* p) {
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    if (arena != NULL && (uintptr_t)p - (uintptr_t)arena->start < arena->slices * MX_SLICE_SIZE) {
      return arena;
    }
  }
  return NULL;
}
