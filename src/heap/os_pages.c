// SPDX-License-Identifier: MIT
// The memory of huge blocks: slices of an arena, or beyond `arena_max_object_size` (and when
// arenas refuse) a mapping of its own, with a record from a pool of its own. The latter pages are
// on a list of their sub-process, which is how they are found when no address leads there.
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../page/padding.h"
#include "../page/remote.h"
#include "adopt.h"
#include "dense.h"
#include "os_pages.h"
#include "own_ranges.h"
#include "page_list.h"

static mx_at_start mx_lock_t os_records_lock;
static mx_page_t* os_records;

// What stands behind the record of a page in hardened builds: whose its addresses are, if they are
// one heap's only.
typedef struct owned_s {
  uint64_t partition;  // 0: nobody's
  mx_range_t range;
} owned_t;

#define OS_RECORD_SIZE (MX_PAGE_RECORD_SIZE + (MX_ISOLATE ? sizeof(owned_t) : 0))

static owned_t* owned(const mx_page_t* page) {
  mx_check(MX_ISOLATE && page->arena == NULL);
  return (owned_t*)(void*)((uintptr_t)page + MX_PAGE_RECORD_SIZE);
}

static void set_owned(mx_page_t* page, const mx_heap_t* heap, mx_range_t range) {
  page->arena = NULL;
  owned(page)->partition = (mx_heap_is_isolated(heap) ? heap->partition.id : 0);
  owned(page)->range = range;
}

static bool is_owned(const mx_page_t* page) { return MX_ISOLATE && owned(page)->partition != 0; }

uint64_t mx_page_partition(const mx_page_t* page) {
  if (!MX_ISOLATE) return 0;
  if (page->arena == NULL) return owned(page)->partition;
  return mx_partition_at(page->arena, page->slice_index);
}

static mx_page_t* os_record_alloc(void) {
  mx_lock_acquire(&os_records_lock);
  mx_page_t* page = os_records;
  if (page != NULL) os_records = page->next;
  mx_lock_release(&os_records_lock);
  return page != NULL ? page : (mx_page_t*)mx_meta_alloc(OS_RECORD_SIZE);
}

static void os_record_free(mx_page_t* page) {
  mx_check(page->arena == NULL);
  mx_lock_acquire(&os_records_lock);
  page->next = os_records;
  os_records = page;
  mx_lock_release(&os_records_lock);
}

bool mx_os_pages_visit_locks(mx_lock_visit_fn* visit) { return visit(&os_records_lock); }

static void link_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(page->arena == NULL && mx_page_is_huge(page));
  mx_lock_acquire(&subproc->lock);
  mx_list_push(&subproc->os_pages, page);
  mx_lock_release(&subproc->lock);
}

static void unlink_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(page->arena == NULL && mx_page_is_huge(page));
  mx_lock_acquire(&subproc->lock);
  mx_list_remove(&subproc->os_pages, page);
  mx_lock_release(&subproc->lock);
}

// Addresses cost nothing: with so many times its size behind it a block seldom has to move.
#define ROOM_FACTOR 64
#define ROOM_MOST ((size_t)1 << (MX_64BIT ? 38 : 28))

// Slices whose entries of the page map are some OS pages.
#define FORGOTTEN_LEAST ((size_t)2048)

// Slices from which on a block that grows has a mapping of its own.
#define GROWS_APART ((size_t)1024)

static void* map_with_room(size_t size, size_t align) {
  mx_check(size > 0);
  const bool is_vast = (size > ROOM_MOST / ROOM_FACTOR);
  const size_t room = (is_vast ? mx_max(size, ROOM_MOST) : size * ROOM_FACTOR);
  bool is_refused;
  void* const p = mx_vmem_map_placed(MX_ZONE_FAR, size, room, align, true, &is_refused);
  return p != NULL || is_refused ? p : mx_vmem_map(size, align, true);
}

// Addresses that are the heap's only have less room for growth, as they never come again.
#define OWN_ROOM_FACTOR 4

// A range of so many bytes, of addresses of the heap's own if it has such, in which `bytes` from
// `offset` on are mapped; none where that cannot be.
static mx_range_t map_range(mx_heap_t* heap, size_t size, size_t align, size_t offset,
                            size_t bytes) {
  const mx_range_t none = {NULL, 0};
  for (unsigned tries = 0; tries < 4; tries++) {
    mx_range_t range = {NULL, size};
    if (mx_heap_is_isolated(heap)) range = mx_ranges_take(heap, size, align);
    else range.start = (uint8_t*)mx_vmem_place(MX_ZONE_FAR, size, align);
    if (range.start == NULL) return none;
    const mx_map_result_t result = mx_vmem_map_at(range.start + offset, bytes, true);
    if (result == MX_MAP_DONE) return range;
    if (result == MX_MAP_REFUSED) return none;
  }
  return none;
}

// Where the system gives large OS pages to everybody, too, memory has them only when it shall.
static void advise_own(const mx_heap_t* heap, uint8_t* start, size_t size) {
  mx_vmem_advise_large(start, size);
  const int node = mx_heap_node(heap);
  if (node >= 0) mx_os_advise_numa(start, size, node);
}

static mx_page_t* os_page(mx_heap_t* heap, size_t slices, size_t align, mx_slices_t* out) {
  if (!mx_arenas_allow(&heap->subproc->arenas, slices * MX_SLICE_SIZE)) return NULL;
  mx_page_t* page = os_record_alloc();
  if (page == NULL) return NULL;
  const size_t size = slices * MX_SLICE_SIZE;
  mx_range_t range = {NULL, 0};
  if (mx_heap_is_isolated(heap)) {
    const size_t wanted = (size <= ROOM_MOST / OWN_ROOM_FACTOR ? size * OWN_ROOM_FACTOR : size);
    range = map_range(heap, wanted, align * MX_SLICE_SIZE, 0, size);
    out->start = range.start;
  } else {
    out->start = (uint8_t*)map_with_room(size, align * MX_SLICE_SIZE);
  }
  if (out->start == NULL) {
    os_record_free(page);
    return NULL;
  }
  if (MX_ISOLATE) set_owned(page, heap, range);
  advise_own(heap, out->start, size);
  mx_count_add(&mx_process_counters.committed, (int64_t)size);
  out->arena = NULL;
  out->index = 0;
  out->count = slices;
  out->is_zero = true;
  return page;
}

// ---- blocks that end with their mapping --------------------------------------------------------
//
//      | not mapped | slack | canary | block | not mapped
//      first slice  first OS page            end of the last slice
//
// Such a block can be overflown by what its alignment leaves, and what lies in front of it is its
// own first OS page. Around the mapping are addresses that nobody has, so it takes no guards.

#define APART_MOST 16384  // each is a mapping, of which a process may have 65,530 by default

static mx_atomic(int) apart_count;
static mx_atomic(size_t) apart_bytes;

#define KEPT_SHARE 8  // of what is in use, this part may be kept

// What is mapped of it.
static uint8_t* apart_start(const mx_page_t* page) {
  return (uint8_t*)mx_align_down((uintptr_t)page->start - MX_PAD, mx_facts.os_page);
}

// Whether the heap's blocks are to lie in memory that the program brought, or in large OS pages,
// which no mapping of a block's own can have.
static bool is_for_arenas(const mx_heap_t* heap) {
  if (heap->arena != NULL) return true;
  if (mx_heap_is_isolated(heap)) return false;
  if (mx_option(allow_large_os_pages) > 0) return true;
  const mx_arenas_t* const arenas = &heap->subproc->arenas;
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena != NULL && !arena->is_on_demand && !arena->is_exclusive) return true;
  }
  return false;
}

// To touch fresh memory costs more than all the rest, so that of the blocks that were freed a part
// is kept for the next ones: inaccessible, where it was, and moved by its page tables when it is
// used again. A block takes as many of them as it needs, and leaves what it does not. Each piece
// that moves stays a mapping of its own, so that what is kept may be of several; what is smaller
// than a share of all is unmapped, and so is what is shorter than any block that is mapped apart:
// to fault in more takes longer than to move it.
#define KEPT_MAPPINGS 16
#define PIECE_LEAST MX_SHARED_MAX
#define PIECE_SHARE 8192

typedef struct kept_s {
  uint8_t* start;  // NULL: none
  size_t bytes;
  uint64_t since;  // clock in ms
} kept_t;

static kept_t kept_mappings[KEPT_MAPPINGS];  // under the lock of the records
static mx_atomic(size_t) kept_bytes;

static size_t piece_least(void) {
  return mx_max(mx_load_relaxed(&apart_bytes) / PIECE_SHARE, PIECE_LEAST);
}

static void unmap_kept(const kept_t* mapping) {
  mx_vmem_unmap(mapping->start, mapping->bytes, mapping->bytes);
}

// Keeps what is inaccessible already, or gives it back.
static void put_kept(const kept_t* mapping) {
  mx_check(mapping->bytes > 0);
  mx_check(mx_is_aligned(mapping->start, mx_facts.os_page));
  bool done = false;
  mx_lock_acquire(&os_records_lock);
  for (size_t i = 0; i < KEPT_MAPPINGS && !done && mapping->bytes >= piece_least(); i++) {
    if (kept_mappings[i].start != NULL) continue;
    kept_mappings[i] = *mapping;
    done = true;
  }
  mx_lock_release(&os_records_lock);
  if (done) mx_add_relaxed(&kept_bytes, mapping->bytes);
  else unmap_kept(mapping);
}

static size_t kept_most(void) {
  if (mx_option(purge_delay) <= 0 || mx_load_relaxed(&mx_memory_limit.bytes) != 0) return 0;
  if (!mx_os_overcommits()) return 0;
  return (size_t)mx_arenas_may_wait(&mx_subproc_main.arenas) * MX_SLICE_SIZE +
         mx_load_relaxed(&apart_bytes) / KEPT_SHARE;
}

// As much of a freed block as may be kept; the rest is unmapped, and all of one that was hardly
// used: to clear it would touch what nobody has touched.
static void keep_mapping(uint8_t* start, size_t bytes) {
  const size_t most = kept_most(), now = mx_load_relaxed(&kept_bytes);
  const size_t room = mx_align_down(most > now ? most - now : 0, mx_facts.os_page);
  const kept_t mapping = {start, mx_min(bytes, room), mx_os_clock_msecs()};
  // The program may have made guards of its own in it, which cannot be read.
  const bool keeps = (mapping.bytes >= piece_least() && mx_os_protect(start, mapping.bytes, true) &&
                      mx_vmem_seems_written(start, mapping.bytes) &&
                      mx_os_protect(start, mapping.bytes, false));
  const size_t kept = (keeps ? mapping.bytes : 0);
  if (kept < bytes) mx_vmem_unmap(start + kept, bytes - kept, bytes - kept);
  if (keeps) put_kept(&mapping);
}

static bool serves_better(const kept_t* mapping, const kept_t* other, size_t bytes) {
  if (other->start == NULL) return true;
  const bool fits = (mapping->bytes >= bytes);
  if (fits != (other->bytes >= bytes)) return fits;
  return fits ? mapping->bytes < other->bytes : mapping->bytes > other->bytes;
}

// The one that serves best for so many bytes.
static kept_t take_kept_mapping(size_t bytes) {
  kept_t best = {NULL, 0, 0};
  if (mx_load_relaxed(&kept_bytes) == 0) return best;
  size_t at = KEPT_MAPPINGS;
  mx_lock_acquire(&os_records_lock);
  for (size_t i = 0; i < KEPT_MAPPINGS; i++) {
    if (kept_mappings[i].start == NULL || !serves_better(&kept_mappings[i], &best, bytes)) continue;
    best = kept_mappings[i];
    at = i;
  }
  if (at < KEPT_MAPPINGS) kept_mappings[at].start = NULL;
  mx_lock_release(&os_records_lock);
  mx_add_relaxed(&kept_bytes, 0 - best.bytes);
  return best;
}

// Moves the first bytes of what was kept, at most `bytes`, by whole mappings, and keeps what is
// behind them: how many. What cannot be moved is lost; *is_torn: so is the target.
static size_t move_kept(kept_t mapping, uint8_t* to, size_t bytes, bool* is_torn) {
  const size_t wanted = mx_min(mapping.bytes, bytes);
  mx_check(wanted > 0 && mx_is_aligned(to, mx_facts.os_page));
  size_t moved = 0;
  bool is_movable = mx_os_protect(mapping.start, wanted, true);
  while (is_movable && moved < wanted) {
    uint8_t* const piece = mapping.start + moved;
    const size_t size = mx_os_movable(piece, wanted - moved);
    is_movable = (size >= mx_min(piece_least(), bytes - moved) &&
                  mx_vmem_move(piece, to + moved, size, is_torn));
    if (is_movable) moved += size;
  }
  mx_count_add(&mx_process_counters.committed, -(int64_t)moved);
  if (moved < wanted) mx_vmem_unmap(mapping.start + moved, wanted - moved, wanted - moved);
  const kept_t rest = {mapping.start + wanted, mapping.bytes - wanted, mapping.since};
  if (rest.bytes > 0) put_kept(&rest);
  return moved;
}

// Fills fresh memory with that of kept mappings: how many bytes of it. SIZE_MAX: it is lost.
static size_t move_in_kept(uint8_t* to, size_t bytes) {
  bool is_torn = false;
  size_t moved = 0;
  for (unsigned tries = 0; tries < KEPT_MAPPINGS && bytes - moved >= piece_least() / 4; tries++) {
    const kept_t mapping = take_kept_mapping(bytes - moved);
    if (mapping.start == NULL) break;
    moved += move_kept(mapping, to + moved, bytes - moved, &is_torn);
    if (is_torn) return SIZE_MAX;
  }
  return moved;
}

void mx_huge_kept_flush(bool force) {
  if (mx_load_relaxed(&kept_bytes) == 0) return;
  const long delay = mx_option(purge_delay);
  const uint64_t now = mx_os_clock_msecs();
  for (size_t i = 0; i < KEPT_MAPPINGS; i++) {
    kept_t old = {NULL, 0, 0};
    mx_lock_acquire(&os_records_lock);
    if (force || (delay >= 0 && now - kept_mappings[i].since >= (uint64_t)delay)) {
      old = kept_mappings[i];
      kept_mappings[i].start = NULL;
    }
    mx_lock_release(&os_records_lock);
    if (old.start == NULL) continue;
    mx_add_relaxed(&kept_bytes, 0 - old.bytes);
    unmap_kept(&old);
  }
}

mx_page_t* mx_huge_page_apart(mx_heap_t* heap, size_t room, size_t align, bool is_fresh,
                              size_t* used) {
  mx_check(MX_LARGE_APART && room > 0 && room % MX_ALIGN == 0);
  mx_check(align <= MX_SLICE_SIZE || room % MX_SLICE_SIZE == 0);
  const size_t bytes = mx_align_up(room + MX_PAD, mx_facts.os_page);
  const size_t count = mx_div_up(bytes, MX_SLICE_SIZE);
  if (mx_option(disallow_os_alloc) != 0 || count > UINT32_MAX) return NULL;
  if (mx_load_relaxed(&apart_count) >= APART_MOST || is_for_arenas(heap)) return NULL;
  if (!mx_arenas_allow(&heap->subproc->arenas, bytes)) return NULL;
  mx_page_t* const page = os_record_alloc();
  if (page == NULL) return NULL;
  const size_t size = count * MX_SLICE_SIZE;
  // The block is aligned, not its first slice.
  const size_t skip = (align > MX_SLICE_SIZE ? align - MX_SLICE_SIZE : 0);
  const mx_range_t range = map_range(heap, skip + size, mx_max(align, MX_SLICE_SIZE),
                                     skip + size - bytes, bytes);
  if (range.start == NULL) {
    os_record_free(page);
    return NULL;
  }
  uint8_t* const first = range.start + skip;
  uint8_t* const start = first + size - bytes;
  // Kept mappings are on any node.
  const bool may_move = (!is_fresh && mx_heap_node(heap) < 0);
  const size_t moved = (may_move ? move_in_kept(start, bytes) : 0);
  if (moved == SIZE_MAX) {
    os_record_free(page);
    return NULL;
  }
  mx_add_relaxed(&apart_count, 1);
  mx_add_relaxed(&apart_bytes, bytes);
  mx_count_add(&mx_process_counters.committed, (int64_t)bytes);
  const mx_slices_t slices = {NULL, 0, count, first, true};
  if (MX_ISOLATE) set_owned(page, heap, range);
  mx_page_init(page, &slices, room + MX_PAD, MX_BIN_HUGE, heap);
  page->start = first + size - room;
  mx_store_relaxed(&page->lend, (uint8_t)MX_PAGE_APART);
  mx_check(mx_page_first(page) == first && apart_start(page) == start);
  mx_check(mx_is_aligned(page->start, align));
  const size_t slack = (size_t)(page->start - start);
  *used = (moved > slack ? moved - slack : 0);
  advise_own(heap, start, bytes);
  return page;
}

static void unmap_apart(mx_page_t* page) {
  uint8_t* const start = apart_start(page);
  const size_t bytes = (size_t)(mx_page_first(page) + mx_page_size(page) - start);
  mx_add_relaxed(&apart_count, -1);
  mx_check(mx_load_relaxed(&apart_bytes) >= bytes);
  mx_add_relaxed(&apart_bytes, 0 - bytes);
  keep_mapping(start, bytes);
}

mx_page_t* mx_huge_page_alloc(mx_heap_t* heap, size_t count, size_t align, bool is_growing,
                              mx_slices_t* out) {
  const mx_slices_request_t request = {count, count, align, heap->arena, mx_heap_node(heap),
                                       is_growing, false};
  const size_t most = (size_t)mx_option(arena_max_object_size) * MX_KIB;
  if (mx_heap_is_isolated(heap)) {
    const bool may = (mx_option(disallow_os_alloc) == 0);
    return may ? os_page(heap, count, align, out) : NULL;
  }
  const bool may_own = (heap->arena == NULL && mx_option(disallow_os_alloc) == 0);
  const bool grows_apart = (MX_PIECEWISE && is_growing && count >= GROWS_APART);
  const bool wants_own = (mx_option(disallow_arena_alloc) != 0 || grows_apart);
  if (may_own && wants_own) return os_page(heap, count, align, out);
  if (count * MX_SLICE_SIZE <= most && mx_slices_alloc(&heap->subproc->arenas, &request, out)) {
    return mx_arena_record(out->arena, out->index);
  }
  return may_own ? os_page(heap, count, align, out) : NULL;
}

bool mx_huge_page_enter(mx_page_t* page) {
  mx_heap_t* const heap = mx_page_heap(page);
  mx_check(mx_page_is_huge(page) && mx_load_relaxed(&page->owner) == 0);
  if (page->arena == NULL) link_os_page(heap->subproc, page);
  if (!mx_pagemap_set(mx_page_first(page), page->slice_count, page)) {
    mx_huge_page_drop(heap->subproc, page);
    return false;
  }
  mx_heap_link_page(heap, page);
  return true;
}

void mx_huge_page_drop(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  mx_dense_end(page);
  if (page->arena != NULL) {
    mx_page_drop(&subproc->arenas, page);
    return;
  }
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_pagemap_set(mx_page_first(page), page->slice_count, NULL);
  // Random addresses do not come again soon, and nor do these entries.
  if (MX_RANDOM_ADDRESS && page->slice_count >= FORGOTTEN_LEAST) {
    mx_pagemap_forget(mx_page_first(page), page->slice_count);
  }
  unlink_os_page(subproc, page);
  if (mx_page_is_apart(page)) {
    unmap_apart(page);
  } else {
    mx_vmem_unmap(page->start, mx_page_size(page), mx_page_size(page));
    if (!is_owned(page)) mx_vmem_placed_is_free(MX_ZONE_FAR, page->start, 0);
  }
  if (is_owned(page)) mx_ranges_put(mx_page_heap(page), owned(page)->partition, owned(page)->range);
  os_record_free(page);
}

bool mx_huge_page_extend(mx_page_t* page, size_t more) {
  mx_check(mx_page_is_huge(page) && page->arena == NULL && more > 0);
  uint8_t* const end = page->start + mx_page_size(page);
  const size_t size = more * MX_SLICE_SIZE;
  if (!MX_PIECEWISE || more > UINT32_MAX - page->slice_count) return false;
  if (!mx_arenas_allow(&mx_page_heap(page)->subproc->arenas, size)) return false;
  if (is_owned(page) && end + size > owned(page)->range.start + owned(page)->range.size) {
    return false;
  }
  if (mx_vmem_map_at(end, size, true) != MX_MAP_DONE) return false;
  if (!mx_pagemap_set(end, more, page)) {
    mx_vmem_unmap(end, size, 0);
    return false;
  }
  advise_own(mx_page_heap(page), end, size);
  mx_count_add(&mx_process_counters.committed, (int64_t)size);
  page->slice_count += (uint32_t)more;
  return true;
}

void mx_huge_page_shorten(mx_page_t* page, size_t keep) {
  mx_check(page->arena == NULL && keep > 0 && keep < page->slice_count);
  uint8_t* const end = page->start + keep * MX_SLICE_SIZE;
  const size_t drop = page->slice_count - keep;
  if (MX_MAPS_WHOLE) return;
  mx_pagemap_set(end, drop, NULL);
  page->slice_count = (uint32_t)keep;
  mx_vmem_unmap(end, drop * MX_SLICE_SIZE, drop * MX_SLICE_SIZE);
}

void mx_huge_page_lose(mx_subproc_t* subproc, mx_page_t* page, size_t torn) {
  mx_check(torn <= page->slice_count && mx_load_relaxed(&page->owner) == 0);
  mx_pagemap_set(page->start, page->slice_count, NULL);
  if (page->arena == NULL) unlink_os_page(subproc, page);
  else mx_bits_clear(page->arena->committed, page->slice_index, torn);
}

// The size is counted with the page's heap, so both change under its lock.
void mx_huge_page_resize(mx_page_t* page, size_t bytes) {
  mx_check(mx_page_is_huge(page));
  const int64_t change = (int64_t)bytes - (int64_t)page->block_size;
  for (bool done = false; !done;) {
    mx_heap_t* const heap = mx_page_heap(page);
    const bool has_list = !mx_heap_is_main(heap);
    if (has_list) mx_lock_acquire(&heap->lock);
    done = (mx_page_heap(page) == heap);
    if (done) {
      page->block_size = bytes;
      mx_count_add(&heap->counters.malloc_huge, change);
    }
    if (has_list) mx_lock_release(&heap->lock);
  }
}
