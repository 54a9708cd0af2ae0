// SPDX-License-Identifier: MIT
// Accounted memory from the OS, and the pool of metadata on top of it.
#include "vmem.h"

#include <string.h>

#include "../base/check.h"
#include "../base/hooks.h"
#include "../base/lock.h"
#include "../base/options.h"
#include "../os/os.h"
#include "bitmap.h"
#include "random.h"

mx_at_start mx_memory_limit_t mx_memory_limit;

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
  if (mx_facts.keeps_off) return NULL;
  return (void*)(uintptr_t)(RANDOM_FROM + mx_random64() % RANDOM_ROOM / MX_MIB * MX_MIB);
}

// Differs from start to start as far as the system lets places in memory differ, without a call.
static uint64_t place_seed(void) {
  const int here = 0;
  const uint64_t x = (uint64_t)(uintptr_t)&here ^ ((uint64_t)(uintptr_t)&address_for << 16);
  return (x ^ x >> 29) * 0x9E3779B97F4A7C15u >> 12;
}

// Near addresses are handed out in units, so that no two arenas have one in common, whatever of
// them is mapped. What else may lie there the OS knows: such a place is passed over.
#define NEAR_UNIT MX_NEAR_UNIT
#define NEAR_UNITS_MAX ((size_t)1 << (MX_64BIT ? 15 : 0))

// Below them lies the page map, with room to grow.
#define NEAR_TABLE_ROOM ((uintptr_t)MX_GIB / 2)

static struct {
  uintptr_t first;          // a multiple of units; 0: none can be chosen
  size_t shift;             // from the start of a unit
  size_t units_most;
  mx_atomic(size_t) units;  // that may be handed out so far
  mx_atomic(size_t) opening;  // the same with those that somebody is about to open
  mx_bits_t free[NEAR_UNITS_MAX / MX_WORD_BITS + 1];
} near_zone;

mx_counters_t mx_process_counters;

static size_t near_units_to(uint64_t end) {
  return mx_min((size_t)((end - near_zone.first) / NEAR_UNIT), NEAR_UNITS_MAX);
}

static void open_near_units(size_t now, size_t units) {
  if (units > now) mx_bits_set(near_zone.free, now, units - now);
  mx_store_release(&near_zone.units, units);
}

void mx_vmem_open_near(unsigned bits, unsigned most) {
  const uint64_t seed = place_seed(), half = (uint64_t)1 << (bits - 1);
  const uint64_t offset = (seed >> 16) % (half / 4);
  const uint64_t first = mx_align_down((uintptr_t)(half + NEAR_TABLE_ROOM + offset), NEAR_UNIT);
  const uint64_t end = (MX_RANDOM_ADDRESS ? 2 * half : (uint64_t)1 << most);
  near_zone.first = (uintptr_t)first;
  near_zone.shift = (size_t)seed % NEAR_UNIT & ~(MX_SLICE_SIZE - 1);
  near_zone.units_most = near_units_to(end);
  const size_t units = near_units_to(2 * half);
  mx_store_relaxed(&near_zone.opening, units);
  open_near_units(0, units);
}

// A range begins somewhere in its first unit.
static size_t near_units(size_t size) { return mx_div_up(size, NEAR_UNIT) + 1; }

static size_t find_near(size_t units, size_t from, size_t align) {
  const size_t offset = near_zone.first / NEAR_UNIT, step = mx_max(align / NEAR_UNIT, 1);
  const size_t bits = mx_load_acquire(&near_zone.units);
  const size_t i = mx_bits_find_run(near_zone.free, NULL, bits, units, from, step, offset);
  if (i != SIZE_MAX || from == 0) return i;
  return mx_bits_find_run(near_zone.free, NULL, bits, units, 0, step, offset);
}

// Beyond those that were seen, up to the next power of two, for which the page map has to grow.
// False: there are no more, also in a forked child whose parent's other thread was about to open
// them.
static bool open_more(size_t seen) {
  const size_t units = mx_min(2 * seen + near_zone.first / NEAR_UNIT, near_zone.units_most);
  size_t now = seen;
  if (units > seen && mx_cas_strong_acq_rel(&near_zone.opening, &now, units)) {
    open_near_units(seen, units);
    return true;
  }
  return mx_load_acquire(&near_zone.units) > seen;
}

static void* place_near(size_t size, size_t align) {
  if (near_zone.first == 0 || size > SIZE_MAX / 2) return NULL;
  const size_t units = near_units(size);
  for (;;) {
    const size_t all = mx_load_relaxed(&near_zone.units);
    const size_t i = find_near(units, MX_RANDOM_ADDRESS ? mx_random64() % all : 0, align);
    if (i == SIZE_MAX) {
      if (!open_more(all)) return NULL;
    } else if (mx_bits_try_claim(near_zone.free, i, units)) {
      const size_t shift = (MX_RANDOM_ADDRESS ? mx_random64() % NEAR_UNIT : near_zone.shift);
      return (void*)(near_zone.first + i * NEAR_UNIT + mx_align_down(shift, align));
    }
  }
}

// Places one behind the other between two bounds, the first one from `start` on; then round again,
// where what was placed may be gone.
static void* place_behind(mx_atomic(uintptr_t)* next, uint64_t first, uint64_t end, uint64_t start,
                          size_t gap, size_t room, size_t align) {
  uintptr_t from = mx_load_relaxed(next);
  for (;;) {
    uintptr_t at = mx_align_up((uintptr_t)(from != 0 ? from : start) + gap, align);
    if (at > end - room) at = mx_align_up((uintptr_t)first + gap, align);
    if (mx_cas_weak_acq_rel(next, &from, at + room)) return (void*)at;
  }
}

// Blocks that have mappings of their own lie where a program's other mappings seldom do, one behind
// the other with room to grow. A place that is taken when it is wanted is passed over.
#define FAR_FIRST ((uint64_t)1 << 44)
#define FAR_END ((uint64_t)3 << 44)

static mx_atomic(uintptr_t) far_next;

// Where addresses are random, those of moderate size lie in a window of the far ones, one behind
// the other: so they come again only when the window has been gone through, and do not make a table
// for each of them (see pagemap.h). The gap between two is more than 1 MiB and twice the size of
// the one behind it: a write that misses its block by so much finds nobody's memory.
#define FAR_WINDOW ((uint64_t)32 << 30)
#define FAR_WINDOW_ROOM ((size_t)MX_GIB)
#define FAR_GAP_LEAST (MX_MIB + MX_SLICE_SIZE)
#define FAR_GAPS 64  // slices more at most

static void* place_in_window(size_t room, size_t align) {
  static mx_atomic(uintptr_t) window_next;
  const uint64_t random = mx_random64(), windows = (FAR_END - FAR_FIRST) / FAR_WINDOW;
  const uint64_t next = mx_load_relaxed(&window_next);
  const uint64_t base = (next != 0 ? next - next % FAR_WINDOW
                                   : FAR_FIRST + random % windows * FAR_WINDOW);
  const size_t gap = FAR_GAP_LEAST + 2 * room + (size_t)(random >> 32) % FAR_GAPS * MX_SLICE_SIZE;
  // What ends with the window would make the next start in another one.
  return place_behind(&window_next, base, base + FAR_WINDOW - 1, base, gap, room, align);
}

static void* place_far(size_t room, size_t align) {
  const uint64_t spread = FAR_END - FAR_FIRST;
  if (!MX_64BIT || near_zone.first == 0 || mx_facts.va_bits < 47) return NULL;
  if (room > spread / 2 || align > spread / 2) return NULL;
  if (MX_LARGE_APART && room <= FAR_WINDOW_ROOM && align <= FAR_WINDOW_ROOM) {
    return place_in_window(room, align);
  }
  if (MX_RANDOM_ADDRESS) {
    const uint64_t at = FAR_FIRST + mx_random64() % (spread - room - align);
    return (void*)mx_align_up((uintptr_t)at, align);
  }
  const uint64_t start = FAR_FIRST + place_seed() % (spread / 2);
  return place_behind(&far_next, FAR_FIRST, FAR_END, start, 0, room, align);
}

// Addresses that are placed once lie behind all others that are chosen, one behind the other with
// gaps of a few slices. When all have been placed, after 31 TiB, the first ones come again.
#define ONCE_FIRST (FAR_END + ((uint64_t)1 << 40))
#define ONCE_END ((uint64_t)5 << 44)

bool mx_vmem_has_once(void) {
  return MX_ISOLATE && near_zone.first != 0 && mx_facts.va_bits >= 47;
}

static void* place_once(size_t room, size_t align) {
  static mx_atomic(uintptr_t) once_next;
  const uint64_t spread = ONCE_END - ONCE_FIRST;
  if (!mx_vmem_has_once() || room > spread / 4) return NULL;
  const uint64_t random = mx_random64();
  const uint64_t start = ONCE_FIRST + random % ((uint64_t)1 << 40);
  const size_t gap = (1 + (size_t)(random >> 60)) * MX_SLICE_SIZE;
  return place_behind(&once_next, ONCE_FIRST, ONCE_END, start, gap, room, align);
}

void* mx_vmem_place(mx_zone_t zone, size_t size, size_t align) {
  align = mx_max(align, MX_SLICE_SIZE);
  if (MX_ISOLATE && zone == MX_ZONE_ONCE) return place_once(size, align);
  return zone == MX_ZONE_NEAR ? place_near(size, align) : place_far(size, align);
}

void mx_vmem_placed_is_free(mx_zone_t zone, const void* p, size_t size) {
  const uintptr_t at = (uintptr_t)p;
  if (MX_ISOLATE && zone == MX_ZONE_ONCE) return;
  if (zone == MX_ZONE_FAR) {
    if (MX_RANDOM_ADDRESS) return;
    uintptr_t next = mx_load_relaxed(&far_next);
    const bool is_far = ((uint64_t)at >> 44 != 0);
    while (is_far && at < next && !mx_cas_weak_acq_rel(&far_next, &next, at)) {}
    return;
  }
  // What lies elsewhere, also below, has a number beyond all units.
  const size_t i = (at - near_zone.first) / NEAR_UNIT, units = near_units(size);
  if (i + units <= mx_load_relaxed(&near_zone.units)) mx_bits_set(near_zone.free, i, units);
}

// ---- mapping -----------------------------------------------------------------------------------

mx_map_result_t mx_vmem_map_at(void* p, size_t size, bool commit) {
  mx_counter_add(&mx_process_counters.mmap_calls, 1);
  void* const got = mx_os_map(p, size, commit);
  if (got == NULL) return MX_MAP_REFUSED;
  if (got != p) {
    mx_os_unmap(got, size);
    return MX_MAP_TAKEN;
  }
  mx_count_add(&mx_process_counters.reserved, (int64_t)size);
  return MX_MAP_DONE;
}

bool mx_vmem_map_behind(void* p, size_t size) {
  if (!mx_os_map_behind(p, size)) return false;
  mx_count_add(&mx_process_counters.reserved, (int64_t)size);
  return true;
}

#define PLACE_TRIES 8

void* mx_vmem_map_placed(mx_zone_t zone, size_t size, size_t room, size_t align, bool commit,
                         bool* is_refused) {
  *is_refused = false;
  for (unsigned tries = 0; tries < PLACE_TRIES && !*is_refused; tries++) {
    void* const p = mx_vmem_place(zone, room, align);
    if (p == NULL) break;
    const mx_map_result_t result = mx_vmem_map_at(p, size, commit);
    if (result == MX_MAP_DONE) return p;
    *is_refused = (result == MX_MAP_REFUSED);
    if (*is_refused) mx_vmem_placed_is_free(zone, p, room);
  }
  return NULL;
}

void* mx_vmem_map_table(unsigned bits, size_t size) {
  const uint64_t offset = place_seed() % (NEAR_TABLE_ROOM / 2);
  const uint64_t at = ((uint64_t)1 << (bits - 1)) + offset - offset % MX_SLICE_SIZE;
  void* const table = (void*)(uintptr_t)at;
  return mx_vmem_map_at(table, size, false) == MX_MAP_DONE ? table : NULL;
}

// Cuts an aligned range out of a larger one. Without room to note the cuts nothing is lost but the
// mapping that is given up whole.
static uint8_t* cut_aligned(uint8_t* p, size_t size, size_t align) {
  uint8_t* const start = (uint8_t*)mx_align_up((uintptr_t)p, align);
  const size_t before = (size_t)(start - p);
  if (before > 0) mx_os_unmap(p, before);
  if (before < align) mx_os_unmap(start + size, align - before);
  return start;
}

void* mx_vmem_map(size_t size, size_t align, bool commit) {
  mx_counter_add(&mx_process_counters.mmap_calls, 1);
  uint8_t* p = (uint8_t*)mx_os_map(address_for(size), size, commit);
  if (p != NULL && !mx_is_aligned(p, align)) {
    // Once more with room to cut an aligned range out of.
    mx_os_unmap(p, size);
    if (MX_MAPS_WHOLE) p = (uint8_t*)mx_os_map_aligned(size, align, commit);
    else p = (size > SIZE_MAX - align ? NULL : (uint8_t*)mx_os_map(NULL, size + align, commit));
    if (p != NULL && !MX_MAPS_WHOLE) p = cut_aligned(p, size, align);
  }
  if (p == NULL) {
    mx_warning("unable to map %zu bytes of memory (aligned to %zu)\n", size, align);
    return NULL;
  }
  mx_count_add(&mx_process_counters.reserved, (int64_t)size);
  return p;
}

bool mx_vmem_unmap(void* p, size_t size, size_t committed) {
  const bool done = mx_os_unmap(p, size);
  if (done) mx_count_add(&mx_process_counters.reserved, -(int64_t)size);
  mx_count_add(&mx_process_counters.committed, -(int64_t)committed);
  return done;
}

// Whether the OS gives large ones to everybody says nothing of smaller ones, which it may give as
// well: so that there shall be none at all is said without a look.
void mx_vmem_advise_large(void* p, size_t size) {
  const long wanted = mx_option(allow_thp);
  if (wanted == 0) mx_os_refuse_large(p, size);
  else mx_os_advise_large(p, size, wanted >= 2);
}

static size_t guard_size(void) { return MX_GUARD_METADATA ? mx_facts.os_page : 0; }

void* mx_vmem_map_meta(size_t size) {
  const size_t guard = guard_size();
  uint8_t* const p = (uint8_t*)mx_vmem_map(size + 2 * guard, mx_facts.os_page, true);
  if (p == NULL) return NULL;
  // A large OS page would make the few records that are touched cost megabytes.
  const bool may_have_large = (mx_facts.large_page != 0 && size >= mx_facts.large_page);
  if (may_have_large || mx_option(allow_thp) == 0) mx_os_refuse_large(p, size + 2 * guard);
  if (guard == 0) return p;
  mx_os_guard(p, guard, true);
  mx_os_guard(p + guard + size, guard, true);
  return p + guard;
}

void mx_vmem_unmap_meta(void* p, size_t size) {
  mx_vmem_unmap((uint8_t*)p - guard_size(), size + 2 * guard_size(), 0);
}

void mx_vmem_seal_meta(void* p, size_t size) {
  mx_os_seal((uint8_t*)p - guard_size(), size + 2 * guard_size());
}

bool mx_vmem_commit(void* p, size_t size) {
  mx_counter_add(&mx_process_counters.commit_calls, 1);
  return mx_os_commit(p, size);
}

bool mx_vmem_purge(void* p, size_t size, bool is_reserved, bool unmaps, bool* needs_commit) {
  mx_counters_t* c = &mx_process_counters;
  *needs_commit = false;
  if (mx_option(purge_decommits) == 0) {
    mx_counter_add(&c->reset_calls, 1);
    if (mx_os_reset(p, size)) mx_counter_add(&c->reset, (int64_t)size);
    return false;
  }
  mx_counter_add(&c->purge_calls, 1);
  // Locked memory (mlockall) cannot be purged, but unmapped.
  if (unmaps || !mx_os_overcommits() || !mx_os_purge(p, size)) {
    *needs_commit = (is_reserved ? mx_os_decommit(p, size) : mx_vmem_unmap(p, size, 0));
    if (!*needs_commit) return false;
  }
  mx_counter_add(&c->purged, (int64_t)size);
  return true;
}

bool mx_vmem_move(void* from, void* to, size_t size, bool* is_torn) {
  const mx_move_t result = mx_os_move(from, to, size);
  if (result == MX_MOVE_DONE) mx_count_add(&mx_process_counters.reserved, -(int64_t)size);
  // If nothing is mapped there any more, it can be had anew; if something is, it may be anybody's.
  *is_torn = (result == MX_MOVE_TORN && mx_vmem_map_at(to, size, true) != MX_MAP_DONE);
  return result == MX_MOVE_DONE;
}

bool mx_vmem_discard(void* p, size_t size) {
  mx_counter_add(&mx_process_counters.purge_calls, 1);
  if (!mx_os_purge(p, size)) return false;
  mx_counter_add(&mx_process_counters.purged, (int64_t)size);
  return true;
}

#define CLEARED_PART MX_MIB
#define CLEARED_LEAST (8 * CLEARED_PART)
#define CLEARED_LOOKS 8
#define WRITTEN_LOOKS 16

// To write an OS page that is not there takes longer than to write eight that are, and its memory
// may never be needed.
typedef enum fill_e {
  FILL_WRITTEN,  // all of it is likely to hold something
  FILL_MIXED,    // there are OS pages of zeros, which may be the system's as long as they are read
  FILL_SPARSE,   // little of it is present
} fill_t;

static bool reads_as_zero(const uint8_t* p, size_t size) {
  static const uint64_t zero = 0;
  const size_t rest = size - sizeof(zero);
  return memcmp(p, &zero, sizeof(zero)) == 0 && memcmp(p, p + sizeof(zero), rest) == 0;
}

bool mx_vmem_seems_written(const uint8_t* p, size_t size) {
  const size_t unit = mx_facts.os_page, step = size / WRITTEN_LOOKS;
  for (size_t i = 0; i < WRITTEN_LOOKS; i++) {
    if (reads_as_zero(p + mx_align_down(mx_look_at(i, step, unit), unit), unit)) return false;
  }
  return true;
}

void mx_vmem_copy(void* to, const void* from, size_t size) {
  const size_t unit = (size < CLEARED_LEAST ? size : mx_facts.os_page);
  for (size_t at = 0, n; at < size; at += n) {
    uint8_t* const target = (uint8_t*)to + at;
    const uint8_t* const source = (const uint8_t*)from + at;
    n = mx_min(unit, size - at);
    const bool may_skip = (n < size && n == unit && reads_as_zero(source, n));
    if (!may_skip || !reads_as_zero(target, n)) memcpy(target, source, n);
  }
}

static fill_t fill_of(const uint8_t* part) {
  const size_t unit = mx_facts.os_page, step = CLEARED_PART / CLEARED_LOOKS;
  if (mx_os_is_sparse(part, CLEARED_PART, 1)) return FILL_SPARSE;
  for (size_t i = 0; i < CLEARED_LOOKS; i++) {
    if (reads_as_zero(part + mx_look_at(i, step, unit), unit)) return FILL_MIXED;
  }
  return FILL_WRITTEN;
}

// The longer what is written at once the faster, since processors then read none of it.
static void clear_run(fill_t fill, uint8_t* p, size_t size) {
  const size_t unit = mx_facts.os_page;
  if (size == 0 || (fill == FILL_SPARSE && mx_vmem_discard(p, size))) return;
  if (fill != FILL_MIXED) {
    memset(p, 0, size);
    return;
  }
  for (size_t at = 0; at < size; at += unit) {
    if (!reads_as_zero(p + at, unit)) memset(p + at, 0, unit);
  }
}

void mx_vmem_clear(void* p, size_t size) {
  if (size < CLEARED_LEAST) {
    memset(p, 0, size);
    return;
  }
  uint8_t* const end = (uint8_t*)p + size;
  uint8_t* at = (uint8_t*)mx_align_up((uintptr_t)p, mx_facts.os_page);
  memset(p, 0, (size_t)(at - (uint8_t*)p));
  uint8_t* run = at;
  fill_t fill = fill_of(at);
  for (at += CLEARED_PART; (size_t)(end - at) >= CLEARED_PART; at += CLEARED_PART) {
    const fill_t next = fill_of(at);
    if (next == fill) continue;
    clear_run(fill, run, (size_t)(at - run));
    run = at;
    fill = next;
  }
  clear_run(fill, run, (size_t)(at - run));
  memset(at, 0, (size_t)(end - at));
}

// ---- metadata ----------------------------------------------------------------------------------

#define META_CHUNK (256 * MX_KIB)
#define META_CHUNK_SCARCE (32 * MX_KIB)

mx_at_start mx_atomic(mx_meta_chunk_t*) mx_meta_chunks;

static mx_at_start struct {
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
  const size_t least = (mx_os_is_scarce() ? META_CHUNK_SCARCE : META_CHUNK);
  const size_t chunk = mx_max(least, mx_align_up(size + MX_CACHE_LINE, mx_facts.os_page));
  uint8_t* fresh = (uint8_t*)mx_vmem_map_meta(chunk);
  if (fresh == NULL) return NULL;
  mx_meta_chunk_t* const listed = (mx_meta_chunk_t*)(void*)fresh;
  listed->size = chunk;
  listed->next = mx_load_relaxed(&mx_meta_chunks);
  while (!mx_cas_weak_acq_rel(&mx_meta_chunks, &listed->next, listed)) {}
  mx_count_add(&mx_process_counters.metadata, (int64_t)chunk);
  mx_count_add(&mx_process_counters.committed, (int64_t)chunk);
  uint8_t* const first = fresh + MX_CACHE_LINE;
  if (size >= least / 2) return first;
  mx_lock_acquire(&meta.lock);
  meta.next = first + size;
  meta.end = fresh + chunk;
  mx_lock_release(&meta.lock);
  return first;
}

bool mx_meta_visit_locks(mx_lock_visit_fn* visit) { return visit(&meta.lock); }
