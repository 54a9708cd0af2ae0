// SPDX-License-Identifier: MIT
// Arenas: reserved ranges of slices (64 KiB) that all threads share.
//
// Four bitmaps say of each slice: `free` it is nobody's; `dirty` it was used since the OS last
// gave it zeroed; `committed` it may be touched; `purgeable` it is free, dirty, and will be purged.
// A thread that clears a run of free bits owns the run. The other bits of a slice are changed only
// by its owner, except `purgeable`, which a purger reads as a hint before it claims the run itself.
// Invariants: purgeable implies dirty when it was set; a clean committed slice reads as zero.
//
// Where addresses are scarce a slice of a page of blocks is not committed, but of it those OS pages
// are mapped that hold something (`present`). It is unmapped when the page is done with it.
//
// A fifth one, `present`, is finer: a bit for every OS page, set while that may hold something, so
// that it costs memory. It follows what is carved and what is given back, not what is reserved;
// the statistics' committed bytes are its bits. A page of blocks finds its holes in it.
//
// An arena of ours takes its addresses piece by piece: what is not committed is nobody's, and may
// turn out to be somebody else's when it is wanted. The arena ends there (`usable`).
//
// In builds with guard pages `guarded` says that the last OS page of a slice may be inaccessible.
// It stays so when the slice becomes free: most are taken next for a page that wants it again.
//
// An arena's metadata (bitmaps, and a page record for every slice) lies away from what users write.
// It is touched only as slices are, and the records are mapped as they are wanted, by a 64th of the
// arena or more: what is mapped counts against limits, and takes memory where all of it is locked.
#ifndef MX_ARENA_ARENA_H
#define MX_ARENA_ARENA_H

#include <string.h>

#include "../base/check.h"
#include "../base/counters.h"
#include "../base/lock.h"
#include "../mem/bitmap.h"
#include "../mem/pagemap.h"
#include "../mem/random.h"

typedef bool(mx_commit_fn)(bool commit, void* start, size_t size, bool* is_zero, void* arg);

typedef struct mx_arena_s {
  uint8_t* start;          // constant, as are all fields down to `records`
  size_t slices;           // usable ones
  size_t words;            // of each bitmap
  mx_bits_t* free;
  mx_bits_t* dirty;
  mx_bits_t* committed;
  mx_bits_t* purgeable;
  mx_bits_t* large;        // the OS was asked for large pages here; a hint
  mx_bits_t* guarded;      // NULL in builds without guard pages
  mx_bits_t* present;      // by OS page
  union {                  // a word for each slice, by its state
    mx_atomic(uint32_t)* freed_at;  // purgeable: clock in ms (low bits) when it was freed
    mx_atomic(uint32_t)* seen;      // a page's first: its signature at the last walk for holes
  };
  mx_bits_t* abandoned;    // for each bin a bitmap of the pages that anybody may take
  uint8_t* records;        // a page record for each slice, MX_PAGE_RECORD_STRIDE apart
  uint64_t records_key;    // where pages lie apart: what tells their places; else 0
  void* mapping;           // what to unmap, NULL when the memory is the user's
  size_t mapping_size;
  size_t meta_size;
  size_t record_shift;     // of slices whose records are mapped together
  mx_bits_t recorded;      // by so many slices: whether they are
  mx_commit_fn* commit_fn; // NULL: the OS commits
  void* commit_arg;
  size_t id;               // unique in the process, from 1
  mx_atomic(size_t) item;  // which of its sub-process' arenas it is
  int numa_node;           // -1: any
  bool is_exclusive;       // serves only heaps that name it
  bool is_on_demand;       // reserved for want of slices, not by a call of the program
  bool is_reserved;        // the addresses of what is not committed are the arena's, too
  bool is_pinned;          // never purged (large OS pages, or the user said so)
  mx_atomic(bool) has_parts;  // slices in use that are mapped in part
  mx_atomic(size_t) usable;  // slices behind these are not handed out any more
  mx_atomic(size_t) free_slices;
  mx_atomic(size_t) lacks;     // no run of so many slices is free; SIZE_MAX: not known
  mx_atomic(size_t) lacks_dirty;  // nor is one that begins with a dirty slice
  mx_atomic(intptr_t) purgeable_count;  // slices waiting to be purged
  mx_atomic(size_t) low_hint;  // no free slice lies below (a hint)
  struct mx_plot_s* plots;   // constant; for heaps that have addresses of their own, else NULL
  mx_atomic(size_t) plots_spent;
  mx_atomic(int) is_spent;   // all of them, and nothing is left of what they held
} mx_arena_t;

// 64 slices, of which a word of each of the arena's bitmaps tells.
typedef struct mx_plot_s {
  mx_atomic(uint64_t) partition;  // whose, 0: nobody's
  mx_atomic(uint64_t) used;       // slices that somebody ever had
  mx_atomic(uint64_t) own;        // those of them that this partition had
  bool has_heap;                  // its heap lives
  mx_atomic(size_t) refs;         // slices in use, and one more as long as the heap lives
  mx_arena_t* arena;              // constant, once anybody had it
  struct mx_plot_s* next;         // in the list of the partition, or of those that are left
} mx_plot_t;

#define MX_ARENAS_MAX 4096
#define MX_ARENA_MIN_SIZE (32 * MX_MIB)

// Slices that threads gave back lately, one by one: a ring for a thread, or for several where there
// are many.
#define MX_RECENT_RINGS 16
#define MX_RECENT_PLACES 64

typedef struct mx_recent_s {
  mx_atomic(size_t) next;                    // the place behind the latest
  mx_atomic(uint64_t) at[MX_RECENT_PLACES];  // arena and slice, 0: none
} mx_recent_t;

// The arenas of one sub-process. The first ring that is used is the last one.
typedef struct mx_arenas_s {
  mx_recent_t recent[MX_RECENT_RINGS];  // hints
  mx_lock_t lock;                  // for adding one
  mx_atomic(size_t) count;         // items below are set and stay
  mx_atomic(size_t) first;         // where a search begins (a hint): what the program brought last,
                                   // then what came early, without what is full
  mx_atomic(uint64_t) purge_at;    // clock in ms of the next purge, 0: nothing waits
  mx_atomic(intptr_t) purgeable;   // slices waiting to be purged, of all arenas
  mx_atomic(intptr_t) in_use;      // slices in use
  mx_atomic(intptr_t) gone;        // slices purged lately and not asked for again (see purge.c)
  mx_atomic(intptr_t) keep;        // slices that may wait for ever: purging them did not pay
  mx_atomic(intptr_t) once;        // refaults of the last large request: its next ones count
  mx_atomic(uint64_t) keep_until;  // clock in ms when `keep` is halved
  mx_atomic(int) purging;          // somebody is at it
  mx_atomic(bool) goes_on;         // what is due at `purge_at` is the rest of what was due before
  mx_atomic(mx_arena_t*) items[MX_ARENAS_MAX];
  mx_plot_t* plots_left;           // that nobody has any more, with slices that nobody had (these
  mx_arena_t* plot_arena;          // four under the lock); those behind `next_plot` of this arena
  size_t next_plot;                // were nobody's yet
  size_t renew_at;                 // where the next arena is looked for that is spent
} mx_arenas_t;

// A run of slices that was allocated.
typedef struct mx_slices_s {
  mx_arena_t* arena;
  size_t index, count;
  uint8_t* start;
  bool is_zero;  // reads as zero
} mx_slices_t;

// What an allocation of slices may take.
typedef struct mx_slices_request_s {
  size_t count;
  size_t room;        // how many it may grow to: of fresh slices so many are free, and no other run
                      // begins there
  size_t align;       // of the start, in slices; a power of two
  mx_arena_t* arena;  // only this one, or NULL
  int numa_node;      // preferred node, or -1
  bool is_growing;    // best where much is free behind it
  bool is_carved;     // for a page of blocks, which maps what it carves where addresses are scarce
} mx_slices_request_t;

// How memory that becomes an arena is described.
typedef struct mx_arena_config_s {
  void* start;
  size_t size;
  bool is_committed, is_pinned, is_zero, is_exclusive;
  bool is_owned;  // mapped by us, so it may be unmapped
  int numa_node;
  mx_commit_fn* commit_fn;
  void* commit_arg;
  bool is_on_demand;
  bool has_plots;          // for heaps that have addresses of their own
  size_t piece;            // not 0: bytes that are mapped from the start, and no others reserved
} mx_arena_config_t;

// Memory that is the OS's own to give, zeroed and not committed, on any node; the rest is added.
static inline mx_arena_config_t mx_arena_config(void* start, size_t size) {
  mx_arena_config_t config;
  memset(&config, 0, sizeof(config));
  config.start = start;
  config.size = size;
  config.is_zero = config.is_owned = true;
  config.numa_node = -1;
  return config;
}

// What came of making slices usable.
typedef enum mx_commit_e {
  MX_COMMIT_DONE,
  MX_COMMIT_REFUSED,  // no more memory is to be had
  MX_COMMIT_TAKEN,    // something else lies there
} mx_commit_t;

MX_BEGIN_DECLS
// Makes an arena of memory; NULL when it is too small, collides with another in a window of the
// page map, there are too many, or metadata cannot be had.
mx_arena_t* mx_arena_add(mx_arenas_t* arenas, const mx_arena_config_t* config);
// Reserves a new arena for at least `slices`, on a NUMA node or (-1) any; NULL when the OS refuses.
mx_arena_t* mx_arena_reserve(mx_arenas_t* arenas, size_t slices, int numa_node);
// An arena of as many huge (1 GiB) OS pages as can be had, up to `pages`, on a node (-1: any), or
// NULL. Stops when that takes longer than `timeout_msecs` (0: no limit). Such memory is there from
// the start and stays: it is never purged.
mx_arena_t* mx_arena_reserve_huge_pages(mx_arenas_t* arenas, size_t pages, int numa_node,
                                        uint64_t timeout_msecs, bool is_exclusive);
// The same of large (2 MiB) OS pages, of at least `size` bytes.
mx_arena_t* mx_arena_reserve_large_pages(mx_arenas_t* arenas, size_t size, bool is_exclusive);
// One for plots, which are never anybody else's; NULL where that cannot be.
mx_arena_t* mx_arena_reserve_plots(mx_arenas_t* arenas);
// The arena that holds p, or NULL.
mx_arena_t* mx_arena_of(mx_arenas_t* arenas, const void* p);
// Adds all arenas to another list, beside which nobody uses the first one.
void mx_arenas_hand_over(mx_arenas_t* from, mx_arenas_t* to);
// Unmaps all arenas. Nothing of them may be used any more.
void mx_arenas_destroy(mx_arenas_t* arenas);

// Whether a page that takes `need` more slices from `index` on, right behind it, would have fresh
// ones, while `run` used ones, what the next page takes, wait in one piece.
bool mx_slices_wait_elsewhere(const mx_arena_t* arena, size_t index, size_t need, size_t run);

// Allocates a run of slices, committed; reserves an arena when it must. False: out of memory.
bool mx_slices_alloc(mx_arenas_t* arenas, const mx_slices_request_t* request, mx_slices_t* out);
// Claims a run of free slices; false when one of them is not, with nothing changed.
bool mx_arena_claim(mx_arena_t* arena, size_t index, size_t count);
// The same of a run that was seen to be committed: others may have unmapped it since, and its
// addresses be somebody else's.
bool mx_arena_claim_mapped(mx_arena_t* arena, size_t index, size_t count);
// A run that was claimed is anybody's again. All that becomes free goes this way.
void mx_arena_put_back(mx_arena_t* arena, size_t index, size_t count);
// Gives slices back: [index, index + count) of an arena, to be purged when the delay has passed.
void mx_slices_free(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count);
// In builds that scatter pages: a place for a fresh run apart from all others, in a window that
// begins at `home` if it can be; SIZE_MAX when there is none at hand.
size_t mx_scatter_find(const mx_arenas_t* arenas, const mx_arena_t* arena,
                       const mx_slices_request_t* request, size_t home);
// Whether it looks for places for such a run there.
bool mx_scatter_serves(const mx_arenas_t* arenas, const mx_arena_t* arena,
                       const mx_slices_request_t* request);
// Whether there are so many pages that fresh ones lie side by side.
bool mx_scatter_is_over(const mx_arenas_t* arenas);
// A free run from a slice on of which all that is not committed lies right behind committed slices;
// SIZE_MAX when there is none.
size_t mx_slices_find_joined(const mx_arena_t* arena, const mx_slices_request_t* request,
                             size_t from);
// Makes a run usable that the caller has claimed, and hands it out; if it cannot, the run is free.
mx_commit_t mx_slices_hand_out(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                               mx_slices_t* out);
// Takes the slices right behind a run, to grow it in place. `is_carved`: of a page of blocks, which
// maps what it carves where addresses are scarce.
bool mx_slices_extend(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                      bool is_carved);

// Maps the records of a slice that are not mapped, and of those beside it.
mx_commit_t mx_arena_map_records(mx_arenas_t* arenas, mx_arena_t* arena, size_t index);

// ---- commitment (commit.c) ---------------------------------------------------------------------
// Makes the caller's run usable. *is_zero becomes false when what is new does not read as zero.
mx_commit_t mx_arena_commit(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                            bool* is_zero);
// Asks the OS for large pages in the caller's run, until its memory is given back.
void mx_arena_want_large(mx_arena_t* arena, size_t index, size_t count);
// Whether the heap grows by large OS pages, by so many slices now for a page of blocks.
bool mx_arena_grows_by_large(const mx_arena_t* arena, size_t count);
// Where the large OS page ends that holds a slice, or would begin with it.
size_t mx_arena_large_end(const mx_arena_t* arena, size_t index);
// Makes the first large OS page in a fresh run of the caller's present, if others like it are full.
void mx_arena_fill_large(mx_arena_t* arena, size_t index, size_t end);
// Gives back what is present of fresh slices, which nobody had.
void mx_arena_drop_fresh(mx_arena_t* arena);
// Tells the OS what the options say of fresh memory of an arena.
void mx_arena_advise(const mx_arena_t* arena, void* start, size_t size);
// Something else lies at a slice: the arena ends there. What it has beyond is used up.
void mx_arena_end_at(mx_arena_t* arena, size_t index);
// Of the caller's slice, which may be committed or not whatever is noted, makes what is noted true.
void mx_arena_take_back(mx_arena_t* arena, size_t index);
// Unmaps an arena's memory, if it is ours.
void mx_arena_unmap(mx_arena_t* arena);
// Unmaps what is committed of slices that are the caller's.
void mx_arena_unmap_committed(mx_arena_t* arena, size_t index, size_t count);
// Whether slices of a page of blocks may be mapped in part.
bool mx_arena_may_have_parts(const mx_arena_t* arena);
// Maps the OS pages that a range overlaps and that are not present, of slices that are mapped in
// part; the caller touches them.
mx_commit_t mx_arena_map_parts(mx_arena_t* arena, const void* start, size_t size);
// Unmaps those that are: how many bytes.
size_t mx_arena_unmap_parts(mx_arena_t* arena, const void* start, size_t size);
// The same of slices that become free.
void mx_arena_drop_parts(mx_arena_t* arena, size_t index, size_t count);
// Whether no slice of a range is mapped in part.
bool mx_arena_is_whole(const mx_arena_t* arena, const void* start, size_t size);
// Maps and touches the first `size` bytes of a fresh run, at least an OS page; elsewhere where
// something else lies there. False: the run is free.
bool mx_slices_map_first(mx_arenas_t* arenas, const mx_slices_request_t* request, size_t size,
                         mx_slices_t* run);

// Moves OS pages of free slices to where the caller's run is fresh, whatever they hold. False: the
// run has lost a part and must not be used, nor given back (see mx_vmem_move).
bool mx_slices_move_in(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count);

// In builds with guard pages. Of the caller's run, makes the last OS page inaccessible when that is
// wanted, and all others accessible that former pages left otherwise; false when one stays so.
bool mx_arena_guard(mx_arena_t* arena, size_t index, size_t count, bool wanted);

// Marks the OS pages that a range overlaps as present and counts them as committed; answers how
// many were not before: those read as zero. The caller owns their slices.
size_t mx_arena_touch(mx_arena_t* arena, const void* start, size_t size);
// Whether all OS pages of a range are.
bool mx_arena_is_present(const mx_arena_t* arena, const void* start, size_t size);
// The opposite, after the OS took the contents of a range of whole OS pages.
size_t mx_arena_untouch(mx_arena_t* arena, const void* start, size_t size);
// Drops the contents of whole OS pages that stay in use: how many bytes were present.
size_t mx_arena_discard(mx_arena_t* arena, void* start, size_t size);
// How many bits of a run of slices are set there.
size_t mx_arena_present_in(const mx_arena_t* arena, size_t index, size_t count);
// Whether any of them is.
bool mx_arena_has_present(const mx_arena_t* arena, size_t index, size_t count);
// Whether more than half of them are.
bool mx_arena_is_there(const mx_arena_t* arena, size_t index, size_t count);
// The number of a present bit, and how many bits a slice has.
size_t mx_arena_bit_of(const mx_arena_t* arena, const void* p);
size_t mx_arena_bits_per_slice(void);

// How many slices may wait to be purged before a free purges at once.
intptr_t mx_arenas_may_wait(const mx_arenas_t* arenas);
// Purges what waited long enough, everything that waits when forced.
void mx_arenas_purge(mx_arenas_t* arenas, bool force);
// The delay is another one: what waits is due at some time, which with a negative one it was not.
void mx_arenas_follow_delay(mx_arenas_t* arenas);
// Unmaps free slices that are mapped, which count against limits of the process. False: none were.
bool mx_arenas_unmap_free(mx_arenas_t* arenas);
bool mx_arena_unmap_free(mx_arenas_t* arenas, mx_arena_t* arena);
// As purge, but costs one load when nothing waits, and a clock read when something does.
void mx_arenas_purge_tick(mx_arenas_t* arenas);
// For slices.c: a freed run waits to be purged from now on, before it is anybody's again; and what
// follows from that once it is.
void mx_arena_schedule_purge(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count);
void mx_arenas_after_free(mx_arenas_t* arenas);
// So many slices were handed out that are not present.
void mx_arenas_note_fresh(mx_arenas_t* arenas, size_t count);
// Told when something begins to wait, or may (the background purger); NULL: nobody listens.
typedef void(mx_wake_background_fn)(void);
extern mx_hidden mx_atomic(mx_wake_background_fn*) mx_arenas_background;
// Whether the memory limit allows to commit so much more; gives back what it can before it says no.
bool mx_arenas_allow(mx_arenas_t* arenas, size_t bytes);
MX_END_DECLS

mx_inline void mx_arenas_wake_background(void) {
  mx_wake_background_fn* const fn = mx_load_relaxed(&mx_arenas_background);
  if (fn != NULL) fn();
}

// Slices of an arena began to wait for being purged, or (negative) ceased to.
mx_inline void mx_arena_count_purgeable(mx_arenas_t* arenas, mx_arena_t* arena, intptr_t count) {
  mx_add_relaxed(&arena->purgeable_count, count);
  mx_add_relaxed(&arenas->purgeable, count);
}

// Whether what holds nothing may be given back to the OS while its slices are in use.
mx_inline bool mx_arena_is_discardable(const mx_arena_t* arena) {
  return !arena->is_pinned && arena->commit_fn == NULL;
}

// Whether its slices are for heaps that have addresses of their own.
mx_inline bool mx_arena_has_plots(const mx_arena_t* arena) {
  return MX_ISOLATE && arena->plots != NULL;
}

mx_inline uint8_t* mx_arena_slice(const mx_arena_t* arena, size_t index) {
  mx_check(index <= arena->slices);
  return arena->start + index * MX_SLICE_SIZE;
}

// Before anything is written to a range of the caller's slices; see mx_arena_map_parts.
mx_inline bool mx_arena_reach(mx_arena_t* arena, const void* start, size_t size) {
  mx_check(size > 0 && (const uint8_t*)start >= arena->start);
  if (!MX_PARTS || mx_likely(!mx_load_relaxed(&arena->has_parts))) return true;
  return mx_arena_map_parts(arena, start, size) == MX_COMMIT_DONE;
}

// Makes the record of a slice usable.
mx_inline mx_commit_t mx_arena_reach_record(mx_arenas_t* arenas, mx_arena_t* arena, size_t index) {
  mx_check(index < arena->slices);
  const size_t part = index >> arena->record_shift;
  const bool is_there = (!MX_GROWING_RECORDS || mx_bits_test(&arena->recorded, part));
  return mx_likely(is_there) ? MX_COMMIT_DONE : mx_arena_map_records(arenas, arena, index);
}

// Where in a group of slices the page begins that lies there alone: with slices around it, of which
// none is another group's, also when it grows to MX_MEDIUM_PAGE_SLICES.
#define MX_SCATTER_GROUP ((size_t)32)
#define MX_SCATTER_PLACES (MX_SCATTER_GROUP - MX_MEDIUM_PAGE_SLICES - 1)

mx_inline size_t mx_arena_group_place(const mx_arena_t* arena, size_t group) {
  mx_check(group < arena->slices / MX_SCATTER_GROUP);
  const uint64_t random = mx_random_of(arena->records_key, group);
  return 1 + (size_t)(random * MX_SCATTER_PLACES >> 32);
}

// The number of a slice's record: those of the groups' places come first.
mx_inline size_t mx_arena_record_number(const mx_arena_t* arena, size_t index) {
  const size_t groups = arena->slices / MX_SCATTER_GROUP, group = index / MX_SCATTER_GROUP;
  if (!MX_SCATTER || arena->records_key == 0 || group == groups) return index;
  const size_t turn = (index - mx_arena_group_place(arena, group)) % MX_SCATTER_GROUP;
  return turn * groups + group;
}

mx_inline mx_page_t* mx_arena_record(const mx_arena_t* arena, size_t index) {
  mx_check(index < arena->slices);
  const size_t number = mx_arena_record_number(arena, index);
  mx_check(number < arena->slices);
  return (mx_page_t*)(void*)(arena->records + number * MX_PAGE_RECORD_STRIDE);
}

mx_inline mx_bits_t* mx_arena_abandoned(const mx_arena_t* arena, size_t bin) {
  mx_check(bin < MX_BIN_COUNT);
  return arena->abandoned + bin * arena->words;
}

mx_inline mx_arena_t* mx_arena_at(const mx_arenas_t* arenas, size_t i) {
  mx_check(i < MX_ARENAS_MAX);
  return mx_load_acquire(&arenas->items[i]);
}

#endif
