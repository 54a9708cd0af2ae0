// SPDX-License-Identifier: MIT
// The making and the unmaking of arenas.
#include "arena.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../mem/random.h"
#include "../mem/vmem.h"
#include "../os/track.h"
#include "../os/os.h"

// Arenas grow: each time this many exist, the next ones are twice as large.
#define ARENAS_PER_DOUBLING 8
#define ARENA_DOUBLINGS_MAX 10

// The first page of an arena lies in one of this many slices, where addresses are random.
#define RANDOM_START ((size_t)512)

// What is mapped of an arena from the start: 512 KiB of one of the default size.
#define FIRST_SHARE 2048

static size_t first_piece(size_t size) {
  return MX_SCATTER ? MX_SLICE_SIZE : mx_align_up(size / FIRST_SHARE, MX_SLICE_SIZE);
}

// ---- making ------------------------------------------------------------------------------------

#define SLICE_BITMAPS ((size_t)(MX_GUARD_PAGES ? 6 : 5))

// What lies in front of the records.
static size_t head_bytes(size_t slices) {
  const size_t words = mx_div_up(slices, MX_WORD_BITS);
  const size_t bitmaps = SLICE_BITMAPS + mx_arena_bits_per_slice() + MX_BIN_COUNT;
  return mx_align_up(mx_align_up(sizeof(mx_arena_t), MX_CACHE_LINE) +
                         bitmaps * words * sizeof(mx_bits_t) +
                         mx_align_up(slices * sizeof(uint32_t), sizeof(mx_bits_t)),
                     MX_GROWING_RECORDS ? mx_facts.os_page : MX_CACHE_LINE);
}

static size_t meta_bytes(size_t slices) {
  mx_check(slices > 0);
  const size_t words = mx_div_up(slices, MX_WORD_BITS);
  return mx_align_up(head_bytes(slices) + slices * MX_PAGE_RECORD_STRIDE +
                         (MX_ISOLATE ? words * sizeof(mx_plot_t) : 0),
                     mx_facts.os_page);
}

// What the first allocation writes comes first, on few OS pages.
static mx_arena_t* layout_meta(void* meta, size_t slices, bool has_plots) {
  mx_arena_t* arena = (mx_arena_t*)meta;
  uint8_t* p = (uint8_t*)meta + mx_align_up(sizeof(mx_arena_t), MX_CACHE_LINE);
  arena->slices = slices;
  arena->words = mx_div_up(slices, MX_WORD_BITS);
  const size_t bitmap = arena->words * sizeof(mx_bits_t);
  arena->free = (mx_bits_t*)(void*)p;
  arena->dirty = (mx_bits_t*)(void*)(p + bitmap);
  arena->committed = (mx_bits_t*)(void*)(p + 2 * bitmap);
  arena->present = (mx_bits_t*)(void*)(p + 3 * bitmap);
  p += (3 + mx_arena_bits_per_slice()) * bitmap;
  arena->purgeable = (mx_bits_t*)(void*)p;
  arena->large = (mx_bits_t*)(void*)(p + bitmap);
  arena->guarded = (MX_GUARD_PAGES ? (mx_bits_t*)(void*)(p + 2 * bitmap) : NULL);
  p += (SLICE_BITMAPS - 3) * bitmap;
  arena->freed_at = (mx_atomic(uint32_t)*)(void*)p;
  p += mx_align_up(slices * sizeof(uint32_t), sizeof(mx_bits_t));
  arena->abandoned = (mx_bits_t*)(void*)p;
  arena->records = (uint8_t*)meta + head_bytes(slices);
  mx_check(p + MX_BIN_COUNT * bitmap <= arena->records);
  mx_check(arena->records + slices * MX_PAGE_RECORD_STRIDE <= (uint8_t*)meta + meta_bytes(slices));
  if (MX_ISOLATE && has_plots) {
    arena->plots = (mx_plot_t*)(void*)(arena->records + slices * MX_PAGE_RECORD_STRIDE);
  }
  return arena;
}

// ---- records that are mapped as they are wanted -------------------------------------------------

// A 64th of an arena at a time, as a word has so many bits, or what fills an OS page and 32 KiB.
#define RECORD_SHIFT 8

static size_t record_shift(size_t slices) {
  size_t shift = RECORD_SHIFT;
  while ((slices - 1) >> shift >= MX_WORD_BITS) shift++;
  while (MX_PAGE_RECORD_STRIDE << shift < mx_facts.os_page) shift++;
  mx_check((slices - 1) >> shift < MX_WORD_BITS);
  return shift;
}

// What lies between an arena's slices and its metadata, and both.
static size_t meta_room(size_t size) {
  return MX_GROWING_RECORDS ? MX_SLICE_SIZE + meta_bytes(size / MX_SLICE_SIZE) : 0;
}

// A part of the records: where it begins, and its size. The first one comes with all before it.
static uint8_t* record_part(const mx_arena_t* arena, size_t part, size_t* size) {
  const size_t first = part << arena->record_shift;
  mx_check(first < arena->slices);
  const size_t count = mx_min(arena->slices - first, (size_t)1 << arena->record_shift);
  *size = mx_align_up(count * MX_PAGE_RECORD_STRIDE, mx_facts.os_page);
  return arena->records + first * MX_PAGE_RECORD_STRIDE;
}

// All of it where it cannot grow.
static mx_arena_t* map_meta(uint8_t* start, size_t slices, bool grows, bool has_plots) {
  const size_t count = mx_min(slices, (size_t)1 << record_shift(slices));
  const size_t size = mx_align_up(head_bytes(slices) + count * MX_PAGE_RECORD_STRIDE,
                                  mx_facts.os_page);
  void* meta = start + (slices + 1) * MX_SLICE_SIZE;
  grows = grows && mx_vmem_map_at(meta, size, true) == MX_MAP_DONE;
  if (!grows) meta = mx_vmem_map_meta(meta_bytes(slices));
  if (meta == NULL) return NULL;
  mx_arena_t* const arena = layout_meta(meta, slices, has_plots);
  arena->record_shift = record_shift(slices);
  mx_store_relaxed(&arena->recorded, grows ? 1 : UINT64_MAX);
  return arena;
}

static void unmap_meta(mx_arena_t* arena) {
  const uint64_t recorded = mx_load_relaxed(&arena->recorded);
  mx_check((recorded & 1) != 0);
  size_t size = arena->meta_size;
  if (recorded != UINT64_MAX) {
    for (size_t part = MX_WORD_BITS; --part > 0;) {
      if ((recorded >> part & 1) == 0) continue;
      uint8_t* const start = record_part(arena, part, &size);
      mx_vmem_unmap(start, size, 0);
    }
    size = (size_t)(record_part(arena, 0, &size) - (uint8_t*)arena) + size;
  }
  mx_vmem_unmap_meta(arena, size);
}

// By one thread at a time: to another one what this one mapped would look like somebody else's.
mx_cold mx_commit_t mx_arena_map_records(mx_arenas_t* arenas, mx_arena_t* arena, size_t index) {
  const size_t part = index >> arena->record_shift;
  mx_check(part > 0 && index < arena->slices);
  size_t size;
  uint8_t* const start = record_part(arena, part, &size);
  mx_map_result_t result = MX_MAP_DONE;
  mx_lock_acquire(&arenas->lock);
  if (!mx_bits_test(&arena->recorded, part)) {
    result = mx_vmem_map_at(start, size, true);
    const bool has_front = mx_bits_test(&arena->recorded, part - 1);
    if (result == MX_MAP_REFUSED && has_front && mx_vmem_map_behind(start, size)) {
      result = MX_MAP_DONE;
    }
    if (result == MX_MAP_DONE) mx_bits_set(&arena->recorded, part, 1);
  }
  mx_lock_release(&arenas->lock);
  if (result == MX_MAP_TAKEN) mx_arena_end_at(arena, part << arena->record_shift);
  if (result == MX_MAP_DONE) return MX_COMMIT_DONE;
  return result == MX_MAP_TAKEN ? MX_COMMIT_TAKEN : MX_COMMIT_REFUSED;
}

// ---- adding -------------------------------------------------------------------------------------

// Of a bitmap that nobody else sees yet: no word needs an atomic step of its own.
static void fill_bits(mx_bits_t* bits, size_t n) {
  memset((void*)bits, 0xFF, n / MX_WORD_BITS * sizeof(*bits));
  const uint64_t rest = ((uint64_t)1 << n % MX_WORD_BITS) - 1;
  if (rest != 0) mx_store_relaxed(&bits[n / MX_WORD_BITS], rest);
}

static mx_at_start mx_atomic(size_t) arena_ids;

// By the program, for all its heaps.
static bool is_brought(const mx_arena_t* arena) {
  return arena != NULL && !arena->is_on_demand && !arena->is_exclusive;
}

static bool publish(mx_arenas_t* arenas, mx_arena_t* arena) {
  mx_check(arena->slices > 0 && mx_is_aligned(arena->start, MX_SLICE_SIZE));
  arena->id = mx_add_relaxed(&arena_ids, 1) + 1;
  mx_lock_acquire(&arenas->lock);
  const size_t n = mx_load_relaxed(&arenas->count);
  const bool ok = (n < MX_ARENAS_MAX);
  if (ok) {
    mx_check(mx_load_relaxed(&arenas->items[n]) == NULL);
    mx_store_relaxed(&arena->item, n);
    mx_store_release(&arenas->items[n], arena);
    mx_store_release(&arenas->count, n + 1);
    const bool is_next = (n > 0 && is_brought(mx_arena_at(arenas, n - 1)));
    if (is_brought(arena) && !is_next) mx_store_relaxed(&arenas->first, n);
  }
  mx_lock_release(&arenas->lock);
  return ok;
}

mx_arena_t* mx_arena_add(mx_arenas_t* arenas, const mx_arena_config_t* config) {
  mx_check(config->piece <= config->size && config->piece % MX_SLICE_SIZE == 0);
  uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)config->start, MX_SLICE_SIZE);
  const size_t lost = (size_t)(start - (uint8_t*)config->start);
  if (config->size < lost + MX_SLICE_SIZE) return NULL;
  const size_t slices = (config->size - lost) / MX_SLICE_SIZE;
  const bool grows = (MX_GROWING_RECORDS && config->piece != 0);
  mx_arena_t* const arena = map_meta(start, slices, grows, config->has_plots);
  if (arena == NULL) return NULL;
  arena->start = start;
  arena->mapping = (config->is_owned ? config->start : NULL);
  arena->mapping_size = config->size + (grows ? meta_room(config->size) : 0);
  arena->meta_size = meta_bytes(slices);
  arena->commit_fn = config->commit_fn;
  arena->commit_arg = config->commit_arg;
  arena->numa_node = config->numa_node;
  arena->is_exclusive = config->is_exclusive;
  arena->is_on_demand = config->is_on_demand;
  arena->is_reserved = (config->piece == 0);
  arena->is_pinned = config->is_pinned;
  // What is mapped piece by piece is the library's own.
  mx_check(arena->is_reserved || (arena->commit_fn == NULL && arena->mapping != NULL));
  mx_check(arena->is_reserved || !arena->is_pinned);
  if (MX_SCATTER && !MX_LIVE_BITS && config->piece != 0 && !config->has_plots) {
    arena->records_key = mx_random64() | 1;
  }
  mx_store_relaxed(&arena->usable, slices);
  mx_store_relaxed(&arena->free_slices, slices);
  mx_store_relaxed(&arena->lacks, SIZE_MAX);
  mx_store_relaxed(&arena->lacks_dirty, SIZE_MAX);
  if (MX_RANDOM_ADDRESS) {
    mx_store_relaxed(&arena->low_hint, (size_t)(mx_random64() % mx_min(slices, RANDOM_START)));
  }
  fill_bits(arena->free, slices);
  const size_t committed = (config->is_committed ? slices : config->piece / MX_SLICE_SIZE);
  fill_bits(arena->committed, committed);
  if (!config->is_zero) {
    fill_bits(arena->dirty, slices);
    mx_arena_touch(arena, start, slices * MX_SLICE_SIZE);
  }
  if (!publish(arenas, arena)) {
    unmap_meta(arena);
    return NULL;
  }
  mx_counter_add(&mx_process_counters.arena_count, 1);
  return arena;
}

static size_t count_on_demand(const mx_arenas_t* arenas, bool has_plots) {
  size_t count = 0;
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena == NULL || !arena->is_on_demand) continue;
    count += (!MX_ISOLATE || (arena->plots != NULL) == has_plots);
  }
  return count;
}

static size_t reserve_size(const mx_arenas_t* arenas, size_t least) {
  // Records for what can never be had would be a share of the few addresses.
  const long wanted = (MX_PIECEWISE && mx_os_is_scarce() ? 0 : mx_option(arena_reserve));
  const size_t doublings =
      mx_min(count_on_demand(arenas, false) / ARENAS_PER_DOUBLING, (size_t)ARENA_DOUBLINGS_MAX);
  const size_t most = MX_MAX_ALLOC / MX_KIB >> ARENA_DOUBLINGS_MAX;
  const size_t size = (wanted <= 0 ? 0 : mx_min((size_t)wanted, most) * MX_KIB) << doublings;
  return mx_align_up(mx_max(mx_max(size, MX_ARENA_MIN_SIZE), least), MX_SLICE_SIZE);
}

static mx_arena_t* make_arena(mx_arenas_t* arenas, void* p, size_t size, size_t piece,
                              bool is_committed, int numa_node, bool has_plots) {
  mx_check(size % MX_SLICE_SIZE == 0 && mx_is_aligned(p, MX_SLICE_SIZE));
  mx_arena_config_t config = mx_arena_config(p, size);
  config.is_committed = is_committed;
  config.is_on_demand = true;
  config.is_exclusive = config.has_plots = has_plots;
  config.numa_node = numa_node;
  config.piece = piece;
  mx_arena_t* const arena = mx_arena_add(arenas, &config);
  if (arena != NULL) mx_arena_advise(arena, p, piece != 0 ? piece : size);
  return arena;
}

static mx_arena_t* reserve_arena(mx_arenas_t* arenas, size_t size, int numa_node, bool is_eager,
                                 bool* is_refused) {
  const size_t piece = (is_eager ? size : first_piece(size));
  const size_t room = size + meta_room(size);
  void* p = mx_vmem_map_placed(MX_ZONE_NEAR, piece, room, MX_SLICE_SIZE, true, is_refused);
  if (*is_refused) return NULL;
  if (p != NULL) {
    mx_arena_t* const arena = make_arena(arenas, p, size, piece, is_eager, numa_node, false);
    if (arena != NULL) return arena;
    mx_vmem_unmap(p, piece, 0);
    mx_vmem_placed_is_free(MX_ZONE_NEAR, p, room);
    return NULL;
  }
  p = mx_vmem_map(size, MX_SLICE_SIZE, is_eager);
  if (p == NULL) return NULL;
  mx_arena_t* const arena = make_arena(arenas, p, size, 0, is_eager, numa_node, false);
  if (arena == NULL) mx_vmem_unmap(p, size, 0);
  return arena;
}

mx_arena_t* mx_arena_reserve(mx_arenas_t* arenas, size_t slices, int numa_node) {
  mx_check(slices > 0);
  const size_t least = slices * MX_SLICE_SIZE;
  size_t size = reserve_size(arenas, least);
  bool is_eager = (mx_option(arena_eager_commit) == 1);
  for (;;) {
    bool is_refused = false;
    mx_arena_t* const arena = reserve_arena(arenas, size, numa_node, is_eager, &is_refused);
    if (is_refused && is_eager) {
      is_eager = false;  // more than the system lends at once
      continue;
    }
    if (arena != NULL || is_refused || size <= least) return arena;
    // Less may be had: its records take less, too.
    size = mx_max(mx_align_up(size / 2, MX_SLICE_SIZE), least);
  }
}

// ---- for plots ---------------------------------------------------------------------------------

// Near addresses, where frees are fastest, for the first of them; then far ones, in larger arenas,
// which leave room for others among all that there may be.
#define PLOT_ARENAS_SMALL 4
#define PLOT_ARENAS_NEAR 16
#define PLOT_ARENAS_MOST (MX_ARENAS_MAX / 4 * 3)

mx_arena_t* mx_arena_reserve_plots(mx_arenas_t* arenas) {
  const size_t before = count_on_demand(arenas, true);
  if (before >= PLOT_ARENAS_MOST) return NULL;
  const size_t size = (before < PLOT_ARENAS_SMALL ? MX_ARENA_RESERVE : 4 * MX_ARENA_RESERVE);
  const mx_zone_t zone = (before < PLOT_ARENAS_NEAR ? MX_ZONE_NEAR : MX_ZONE_ONCE);
  const size_t piece = first_piece(size);
  bool is_refused;
  void* p = mx_vmem_map_placed(zone, piece, size, MX_SLICE_SIZE, true, &is_refused);
  if (p == NULL && !is_refused && zone == MX_ZONE_NEAR) {
    p = mx_vmem_map_placed(MX_ZONE_ONCE, piece, size, MX_SLICE_SIZE, true, &is_refused);
  }
  if (p == NULL) return NULL;
  mx_arena_t* const arena = make_arena(arenas, p, size, piece, false, -1, true);
  if (arena == NULL) mx_vmem_unmap(p, piece, 0);
  return arena;
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

// ---- the ends of a sub-process' arenas ----------------------------------------------------------

// Those that nobody has are lost: their arenas are no longer where plots are looked for.
static void forget_plots(mx_arenas_t* arenas) {
  arenas->plots_left = NULL;
  arenas->plot_arena = NULL;
  arenas->next_plot = arenas->renew_at = 0;
}

void mx_arenas_hand_over(mx_arenas_t* from, mx_arenas_t* to) {
  mx_check(from != to);
  const size_t count = mx_exchange_acq_rel(&from->count, (size_t)0);
  mx_store_relaxed(&from->first, (size_t)0);
  if (MX_ISOLATE) forget_plots(from);
  mx_lock_acquire(&to->lock);
  size_t n = mx_load_relaxed(&to->count);
  for (size_t i = 0; i < count; i++) {
    // Beyond the last place arenas stay what they are to their blocks, but serve no new ones.
    if (n < MX_ARENAS_MAX) mx_store_release(&to->items[n++], mx_arena_at(from, i));
    mx_store_relaxed(&from->items[i], (mx_arena_t*)NULL);
  }
  mx_check(n <= MX_ARENAS_MAX && mx_lock_is_mine(&to->lock));
  mx_store_release(&to->count, n);
  mx_lock_release(&to->lock);
  mx_add_relaxed(&to->in_use, mx_exchange_relaxed(&from->in_use, (intptr_t)0));
  mx_add_relaxed(&to->purgeable, mx_exchange_relaxed(&from->purgeable, (intptr_t)0));
  uint64_t none = 0;
  mx_cas_strong_acq_rel(&to->purge_at, &none, mx_exchange_relaxed(&from->purge_at, (uint64_t)0));
}

void mx_arenas_destroy(mx_arenas_t* arenas) {
  const size_t count = mx_exchange_acq_rel(&arenas->count, (size_t)0);
  mx_store_relaxed(&arenas->first, (size_t)0);
  mx_store_relaxed(&arenas->purge_at, (uint64_t)0);
  mx_store_relaxed(&arenas->purgeable, (intptr_t)0);
  mx_store_relaxed(&arenas->in_use, (intptr_t)0);
  if (MX_ISOLATE) forget_plots(arenas);
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    mx_store_relaxed(&arenas->items[i], (mx_arena_t*)NULL);
    if (arena == NULL) continue;
    if (MX_PARTS && mx_load_relaxed(&arena->has_parts)) {
      mx_arena_unmap_parts(arena, arena->start, arena->slices * MX_SLICE_SIZE);
    }
    mx_arena_untouch(arena, arena->start, arena->slices * MX_SLICE_SIZE);
    mx_pagemap_set(arena->start, arena->slices, NULL);
    mx_track_open(arena->start, arena->slices * MX_SLICE_SIZE);
    // What is the user's again is as it was.
    if (MX_GUARD_PAGES && arena->mapping == NULL) mx_arena_guard(arena, 0, arena->slices, false);
    mx_arena_unmap(arena);
    unmap_meta(arena);
  }
}
