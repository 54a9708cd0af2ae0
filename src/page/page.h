// SPDX-License-Identifier: MIT
// A page: a run of slices cut into blocks of one size.
//
//      start                                                       the end of its slices
//        | block | block | block | ... | block |  never touched yet  |
//        |<------------- capacity ------------>|
//        |<---------------------- reserved ----------------------->|
//
// A block is in one of these places:
//   live      in the user's hands
//   free      on the page's list `free`; only the page's owner touches that
//   remote    on the atomic list `remote`, pushed there by other threads
//   uncarved  beyond `capacity`: not yet on any list, its memory never touched
//   hole      carved and free, but in OS pages that were given back: on no list (see holes.h)
//
// A page of more than one slice takes them one after the other, as its blocks are carved, and holds
// none that it does not use. When somebody else has the next one, the page stays as it is.
//
// `used` counts the live and the remote blocks, and one more while the page is a thread's current
// page of its bin, so that free() finds `used == 0` only when a page that nobody allocates from
// has become empty.
//
// The lowest bit of `remote` says that the page is owned. The owner is a thread (`owner` is its
// id), or, for the short time of a hand-over, the code that claimed the page. Everything but
// `owner` and `remote` belongs to whoever owns the page; see remote.h for how that passes on.
//
// A thread's page without any free block may wait on its full list; then `owner` is tagged, so that
// the thread's first free into it takes the slow path, which brings the page back.
//
// A user of an alignment at an offset has a pointer into the block, not to its start. A page that
// handed out such a pointer is `shifted` as long as it has live blocks, and its owner tagged, so
// that every free into it takes the slow path, which finds the block's start (shift.h). In all
// other pages a pointer into a block is an error.
//
// A huge page holds one block and is nobody's: any thread frees it whole, whoever takes the mark
// from its `owner`. Such a page, and a record that serves no page, has its owned bit set, so that
// no thread can claim it that was led there by an outdated hint.
#ifndef MX_PAGE_PAGE_H
#define MX_PAGE_PAGE_H

#include "../arena/arena.h"
#include "../base/check.h"
#include "../base/facts.h"
#include "../base/sizeclass.h"
#include "../mem/pagemap.h"
#include "../os/thread.h"
#include "color.h"

typedef struct mx_block_s {
  uintptr_t next;  // a link, see freelist.h
} mx_block_t;

struct mx_theap_s;
struct mx_heap_s;

// Tags in the low bits of page->owner: with any of them set, no free() takes the fast path.
#define MX_OWNER_HUGE ((uintptr_t)1)     // a live huge block
#define MX_OWNER_SHIFTED ((uintptr_t)2)  // a page of blocks with `shifted`
#define MX_OWNER_FULL ((uintptr_t)4)     // the page is on its theap's full list
#define MX_OWNER_TAGS ((uintptr_t)7)
// Of a vanished thread's page in the child of a fork, until that is set right: see heap/fork.c.
#define MX_OWNER_VANISHED MX_OWNER_TAGS

// Three cache lines, by the thread that writes them: a thread that frees another's block does not
// take away the line in which the owner counts.
struct mx_page_s {
  // -- written by the owner --
  mx_block_t* free;
  uint32_t used;
  uint32_t capacity;
  mx_block_t* wait;  // in the secure build: the block in quarantine (page/delay.h)
  union {
    struct mx_theap_s* theap;  // see mx_page_theap
    void* note;                // of a sampled huge page: what the profiler has of its block
  };
  union {
    struct mx_page_s* next;    // in a theap's list
    void* guarded;             // of a guarded block: its record (alloc/guarded.c)
  };
  union {
    struct mx_page_s* prev;
    void* taken;               // of blocks of no bytes: which places are (alloc/zero_sized.c)
  };
  // -- read by every free(), seldom written --
  mx_aligned(MX_CACHE_LINE) mx_atomic(uintptr_t) owner;  // id of the thread with tags, 0: none
  uint8_t* start;
  size_t block_size;
  union {
    uint64_t key;         // of links and canaries in this page, in builds that have them
    uint64_t reciprocal;  // in the others 2^64 / block_size, rounded up; 0 for a huge page
  };
  uint32_t reserved;  // blocks that fit when it has all its slices; constant, 0 if huge
  uint8_t bin;
  uint8_t is_listed : 1;       // its bit in the arena's `abandoned` bitmap may be set
  uint8_t is_final : 1;        // `capacity` is: what lies behind is not taken
  uint8_t retained_slot : 6;   // empty and kept: its place in theap->retained.pages + 1, else 0
  mx_atomic(uint8_t) lend;     // whether others may look for holes (holes.h); a huge one's marks
  mx_atomic(uint8_t) shifted;  // MX_OWNER_SHIFTED: users may have pointers into blocks; or 0
  mx_atomic(struct mx_heap_s*) heap;  // changes once at most, to the main heap: see heap_end.c
  mx_arena_t* arena;           // constant; NULL: a mapping of its own
  uint32_t slice_index;
  uint32_t slice_count;
  // -- written by other threads --
  mx_aligned(MX_CACHE_LINE) mx_atomic(uintptr_t) remote;
  struct mx_page_s* heap_next;  // pages of a first-class heap, under its lock
  struct mx_page_s* heap_prev;
};

// Memory tools are told of all slices at once.
#define MX_PAGE_GROWS (!MX_TRACK)

// Whether a page knows its reciprocal: where nothing else needs the place, and words are wide.
#define MX_RECIPROCALS \
  (MX_64BIT && !MX_ENCODE_LINKS && !MX_PADDING && !MX_RANDOM_ORDER && !MX_QUARANTINE)

mx_static_assert(sizeof(struct mx_page_s) == MX_PAGE_RECORD_SIZE &&
                     MX_PAGE_RECORD_SIZE == 3 * MX_CACHE_LINE,
                 "a page record is three cache lines");

MX_BEGIN_DECLS
// Stands where there is no page: it has no block and no owner.
extern mx_hidden mx_page_t mx_page_none;
// How many bytes from the start of a page of blocks are carved, or were a moment ago: it may be
// another thread's. Whoever was given a block of it sees a number that includes that.
size_t mx_page_carved(const mx_page_t* page);
MX_END_DECLS

// What lies behind the record of a page of blocks, in its arena, where more than one waits.
typedef struct mx_page_extra_s {
  mx_block_t* wait[MX_WAIT_PLACES];
  uint32_t random;  // what the next place is drawn with
  uint32_t mask;    // how many places there are, less one
} mx_page_extra_t;

mx_static_assert(MX_PAGE_EXTRA_SIZE == 0 || sizeof(mx_page_extra_t) <= MX_PAGE_EXTRA_SIZE,
                 "it fits its place");

mx_inline mx_page_extra_t* mx_page_extra(const mx_page_t* page) {
  return (mx_page_extra_t*)((uintptr_t)page + MX_PAGE_RECORD_SIZE);
}

// The theap of a page of blocks: owned: whose; abandoned: whose it was (its record is another
// thread's by now, or nobody's: what it says is a hint).
mx_inline struct mx_theap_s* mx_page_theap(const mx_page_t* page) {
  mx_check(page->bin != MX_BIN_HUGE);
  return page->theap;
}

mx_inline void mx_page_set_theap(mx_page_t* page, struct mx_theap_s* theap) {
  mx_check(page->bin != MX_BIN_HUGE);
  page->theap = theap;
}

mx_inline size_t mx_page_size(const mx_page_t* page) {
  return (size_t)page->slice_count * MX_SLICE_SIZE;
}

// What a guard takes of the end of a page.
mx_inline size_t mx_guard_size(void) { return MX_GUARD_PAGES ? mx_facts.os_page : 0; }

// Where the room for blocks ends in the slices that a page has.
mx_inline uint8_t* mx_page_end(const mx_page_t* page) {
  mx_check(page->slice_count > 0 && page->bin != MX_BIN_HUGE);
  uint8_t* const first = page->start - (uintptr_t)page->start % MX_SLICE_SIZE;
  return first + mx_page_size(page) - mx_guard_size();
}

// How many slices a new page must have for its first block.
mx_inline size_t mx_page_first_slices(size_t block_size) {
  mx_check(block_size > 0 && block_size <= MX_BIN_MAX_SIZE);
  const size_t fence = (MX_PADDING ? MX_SLICE_SIZE / 2 : 0);
  const size_t most = mx_page_slices_for(block_size);
  if (!MX_PAGE_GROWS) return most;
  return mx_min(mx_div_up(block_size + fence + mx_guard_size(), MX_SLICE_SIZE), most);
}

// How many bytes from its start may belong to a page, judged by what never changes while it lives.
mx_inline size_t mx_page_span(const mx_page_t* page) {
  return page->bin == MX_BIN_HUGE ? mx_page_size(page) : page->reserved * page->block_size;
}

mx_inline struct mx_heap_s* mx_page_heap(const mx_page_t* page) {
  return mx_load_relaxed(&page->heap);
}

mx_inline bool mx_page_is_huge(const mx_page_t* page) { return page->bin == MX_BIN_HUGE; }

// `lend`, see holes.h.
#define MX_PAGE_RESTS 1     // no block is taken from it: its owner only frees into it
#define MX_PAGE_LENT 2      // somebody looks for holes, and the page must stay as it is
#define MX_PAGE_HOLES 4     // it has holes
#define MX_PAGE_GONE 8      // it was released while it was lent; its borrower does the rest
#define MX_PAGE_GUARDED 16  // these of huge pages, which have no other use for the field: see
#define MX_PAGE_NOTED 32    // guarded.h and sample.h,
#define MX_PAGE_APART 64    // heap/os_pages.c,
#define MX_PAGE_FRESH 128   // and heap/dense.h

// Whether a huge page's block lies at its end, in a mapping that is no longer than that.
mx_inline bool mx_page_is_apart(const mx_page_t* page) {
  return MX_LARGE_APART && (mx_load_relaxed(&page->lend) & MX_PAGE_APART) != 0;
}

// The start of a huge page's slices, which its block may begin behind.
mx_inline uint8_t* mx_page_first(const mx_page_t* page) {
  if (!mx_page_is_apart(page)) return page->start;
  return (uint8_t*)mx_align_down((uintptr_t)page->start - (MX_PADDING ? 8 : 0), MX_SLICE_SIZE);
}

// Whether the profiler has a note of the page's block.
mx_inline bool mx_page_has_note(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_NOTED) != 0;
}

mx_inline bool mx_page_has_holes(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_HOLES) != 0;
}

mx_inline bool mx_page_is_lent(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_LENT) != 0;
}

mx_inline bool mx_page_is_guarded(const mx_page_t* page) {
  return (mx_load_relaxed(&page->lend) & MX_PAGE_GUARDED) != 0;
}

// Whether mx_page_extend would find something.
mx_inline bool mx_page_can_extend(const mx_page_t* page) {
  return (page->capacity < page->reserved && page->is_final == 0) || mx_page_has_holes(page);
}

// An empty one may be lent, so that its list and its capacity are being changed: see holes.h.
mx_inline bool mx_page_has_free(const mx_page_t* page) {
  return page->used == 0 || page->free != NULL || mx_page_can_extend(page);
}

// How far p lies behind the page's first block. Of any address: no difference of pointers, which
// would have to lie in one object.
mx_inline size_t mx_page_offset(const mx_page_t* page, const void* p) {
  return (size_t)((uintptr_t)p - (uintptr_t)page->start);
}

// Whether p lies whole blocks behind a page's start, and how many: a multiplication for a division.
// Never of a huge page and of the zero record; only in builds with reciprocals.
//
// With b = block_size, r = reciprocal = (2^64 + e) / b, e < b, an offset q * b + m with m < b gives
//   offset * r = q * 2^64 + q * e + m * r.
// No page is longer than 2^22 bytes, so in it q * e < 2^22; r is more than that, and q * e + m * r
// less than 2^64. So the upper word is q, and the lower one is below 2^22 just when m is 0. For
// offsets behind the page's last block the upper word is too large. In front of the first block by
// q * b + m the lower word is that of -(q * e + m * r), small only if that is 0: then b is a power
// of two, and the upper word is r - q, whose lower half is 2^32 - q.
mx_inline bool mx_page_divides(const mx_page_t* page, const void* p, uint64_t* index) {
  const uint64_t rest = mx_mul_wide(mx_page_offset(page, p), page->reciprocal, index);
  return rest < MX_LARGE_PAGE_SLICES * MX_SLICE_SIZE;
}

// Whether a page's block can begin at p, an address in the page's slices, judged by what never
// changes while the page lives. Builds with reciprocals only.
mx_inline bool mx_page_begins_block(const mx_page_t* page, const void* p) {
  uint64_t index;
  return mx_page_divides(page, p, &index) && (uint32_t)index < page->reserved;
}

// Whether p can be the start of a block, judged by what never changes while the page lives.
mx_inline bool mx_page_could_be_block(const mx_page_t* page, const void* p) {
  const size_t offset = mx_page_offset(page, p);
  if (mx_page_is_huge(page)) return offset == 0;
  uint64_t index;  // of any address, so all of it counts
  if (MX_RECIPROCALS) return mx_page_divides(page, p, &index) && index < page->reserved;
  return (uint32_t)offset % (uint32_t)page->block_size == 0 &&
         offset < page->reserved * page->block_size;
}

// Enters a thread, as its theaps write it, as the page's owner.
mx_inline void mx_page_set_owner(mx_page_t* page, uintptr_t tid) {
  mx_check(page != &mx_page_none && (tid & ~MX_OWNER_TAGS) != 0);
  mx_store_relaxed(&page->owner, tid | mx_load_relaxed(&page->shifted));
}

// Whether the calling thread is the page's owner, whatever the tags say.
mx_inline bool mx_page_is_mine(const mx_page_t* page) {
  return mx_thread_apart(mx_load_relaxed(&page->owner)) <= MX_OWNER_TAGS;
}

// Whether p is the start of a carved block of this page. Owner only.
mx_inline bool mx_page_is_block(const mx_page_t* page, const void* p) {
  const size_t offset = mx_page_offset(page, p);
  if (offset >= page->capacity * page->block_size) return false;
  if (mx_page_is_huge(page)) return offset == 0;
  return (uint32_t)offset % (uint32_t)page->block_size == 0;
}

#endif
