// SPDX-License-Identifier: MIT
// A page's blocks: carving them, and collecting what other threads freed.
#include "blocks.h"

#include <string.h>

#include "../base/hooks.h"
#include "../mem/random.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/tags.h"
#include "delay.h"
#include "holes.h"
#include "padding.h"
#include "remote.h"
#include "state.h"

// Memory that is present costs nothing to carve: there as many as this at once, up to a page.
#define CARVE_PRESENT_BLOCKS 16
#define CARVE_PRESENT_MAX (64 * MX_KIB)

mx_at_start mx_page_t mx_page_none;
mx_at_start mx_atomic(uint32_t) mx_color_least = MX_COLOR_STEP_MIN;

mx_unsynchronised size_t mx_page_carved(const mx_page_t* page) {
  return mx_peek_uint32(&page->capacity) * page->block_size;
}

// Right behind it: what comes then may hold memory for its growth.
bool mx_page_guard_huge(mx_page_t* page, bool install) {
  mx_check(mx_page_is_huge(page));
  const size_t end = mx_align_up(page->block_size, mx_facts.os_page);
  return mx_os_guard(page->start + end, mx_facts.os_page, install);
}

// Where a page's blocks begin, and how many fit.
static void place_blocks(mx_page_t* page) {
  const size_t front = mx_page_front(page->block_size, page->slice_index);
  const size_t all = mx_page_slices_for(page->block_size) * MX_SLICE_SIZE;
  page->start += front;
  page->reserved = (uint32_t)((all - front - mx_guard_size()) / page->block_size);
}

// Gives a page its key, and a canary in front of its first block.
static void init_hardened(mx_page_t* page) {
  page->key = mx_random64() & ~(uint64_t)0xFF;
  if (page->arena == NULL || page->bin == MX_BIN_HUGE) return;
  if (MX_QUARANTINE) mx_page_init_delay(page);
  if (MX_PADDING) mx_arena_touch(page->arena, page->start - MX_PAD, MX_PAD);
  if (MX_TRACK) {
    uint8_t* const slice = (uint8_t*)mx_align_down((uintptr_t)page->start, MX_SLICE_SIZE);
    mx_track_no_access(slice, mx_page_size(page));
  }
}

void mx_page_init(mx_page_t* page, const mx_slices_t* slices, size_t block_size, size_t bin,
                  struct mx_heap_s* heap) {
  mx_check(slices->count > 0 && slices->start != NULL);
  mx_check(mx_is_aligned(slices->start, MX_SLICE_SIZE));
  mx_check(block_size > 0 && bin <= MX_BIN_HUGE);
  mx_check(bin == MX_BIN_HUGE || slices->arena != NULL);
  page->free = NULL;
  page->used = 0;
  page->capacity = 0;
  page->reserved = 0;
  page->bin = (uint8_t)bin;
  page->is_listed = 0;
  page->is_final = 0;
  mx_store_relaxed(&page->lend, (uint8_t)0);
  page->retained_slot = 0;
  mx_store_relaxed(&page->shifted, (uint8_t)0);
  page->start = slices->start;
  page->block_size = block_size;
  page->theap = NULL;
  page->next = page->prev = NULL;
  mx_store_relaxed(&page->heap, heap);
  page->arena = slices->arena;
  page->slice_index = (uint32_t)slices->index;
  page->slice_count = (uint32_t)slices->count;
  page->heap_next = page->heap_prev = NULL;
  if (bin != MX_BIN_HUGE) place_blocks(page);
  if (MX_RECIPROCALS) page->reciprocal = (bin == MX_BIN_HUGE ? 0 : UINT64_MAX / block_size + 1);
  if (MX_ENCODE_LINKS || MX_PADDING) init_hardened(page);
  mx_check(bin == MX_BIN_HUGE || page->reserved > 0);
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_store_release(&page->remote, MX_OWNED);
}

// How many bytes for blocks its slices have from its first block on.
static size_t room_of(const mx_page_t* page) { return (size_t)(mx_page_end(page) - page->start); }

// Where each slice that a page takes is a call of the OS, pages of many slices take more of them:
// as many as they have, up to this. A write that misses its block by as much would mostly meet the
// same page in any case. Where a guard lies behind each page, one of fewer slices takes all: each
// time that a guard moves is two calls, and an OS page to touch anew.
#define EXTEND_MOST ((size_t)MX_MEDIUM_PAGE_SLICES)

// How many slices a page takes at once, if it can have more than it needs.
static size_t slices_ahead(const mx_page_t* page, size_t all) {
  if (MX_SCATTER && all > MX_MEDIUM_PAGE_SLICES) return mx_min(page->slice_count, EXTEND_MOST);
  return MX_GUARD_PAGES ? all : 0;
}

// Takes slices behind a page that needs `need`: how many.
static size_t extend_by(mx_page_t* page, mx_arenas_t* arenas, size_t need) {
  mx_check(need > 0 && page->slice_count + need <= mx_page_slices_for(page->block_size));
  const size_t next = page->slice_index + page->slice_count;
  const size_t all = mx_page_slices_for(page->block_size);
  const size_t ahead = mx_min(slices_ahead(page, all), all - page->slice_count);
  const size_t run = mx_page_first_slices(page->block_size);
  if (mx_slices_wait_elsewhere(page->arena, next, need, run)) return 0;
  if (ahead > need && mx_slices_extend(arenas, page->arena, next, ahead, true)) return ahead;
  return mx_slices_extend(arenas, page->arena, next, need, true) ? need : 0;
}

void mx_page_grow(mx_page_t* page, mx_arenas_t* arenas) {
  mx_check(!mx_page_is_huge(page) && page->arena != NULL);
  if (page->capacity >= page->reserved || page->is_final != 0) return;
  const size_t need = (page->capacity + (size_t)1) * page->block_size;
  const size_t room = room_of(page);
  if (mx_likely(need <= room)) return;
  const size_t next = page->slice_index + page->slice_count;
  const size_t more = extend_by(page, arenas, mx_div_up(need - room, MX_SLICE_SIZE));
  const size_t all = page->slice_count + more;
  if (more == 0) {
    page->is_final = 1;
    return;
  }
  const bool is_open =
      (!MX_GUARD_PAGES || mx_arena_guard(page->arena, page->slice_index, all, true));
  if (!is_open || !mx_pagemap_set(page->arena->start + next * MX_SLICE_SIZE, more, page)) {
    mx_slices_free(arenas, page->arena, next, more);
    page->is_final = 1;
    return;
  }
  page->slice_count = (uint32_t)all;
  mx_check(page->slice_count <= mx_page_slices_for(page->block_size));
  mx_check(need <= room_of(page));
}

// How many blocks may be carved in the slices that the page has.
static uint32_t limit_of(const mx_page_t* page) {
  mx_check(page->block_size > 0);
  const size_t room = room_of(page);
  if (page->reserved * page->block_size <= room) return page->reserved;
  return (uint32_t)(room / page->block_size);
}

// At least an OS page's worth, and as many as the page already has, up to a limit: what was never
// carved was never touched.
static uint32_t carve_count(const mx_page_t* page, uint32_t limit) {
  mx_check(page->capacity < limit && limit <= page->reserved);
  const size_t size = page->block_size;
  size_t count = page->capacity;  // doubles
  if (count * size > MX_CARVE_MAX) count = MX_CARVE_MAX / size;
  if (count * size < mx_facts.os_page || mx_os_is_scarce()) count = mx_facts.os_page / size;
  if (count == 0) count = 1;
  count = mx_min(count, limit - page->capacity);
  if (mx_is_aligned(page->start, mx_facts.os_page)) return (uint32_t)count;
  // Small blocks that begin a little behind an OS page end with one, this or the next.
  const uintptr_t end = (uintptr_t)page->start + (page->capacity + count) * size;
  const size_t over = end % mx_facts.os_page;
  const size_t beyond = mx_div_up(over, size), more = (mx_facts.os_page - over) / size;
  if (more < beyond) return (uint32_t)mx_min(count + more, limit - page->capacity);
  return (uint32_t)(beyond < count ? count - beyond : count);
}

// As carve_count, but for what is present: 0 when it would be no more.
static uint32_t carve_count_present(const mx_page_t* page, uint32_t count, uint32_t limit) {
  mx_check(count > 0 && count <= limit - page->capacity);
  const size_t size = page->block_size;
  size_t more = mx_min(CARVE_PRESENT_BLOCKS, limit - page->capacity);
  if (more * size > CARVE_PRESENT_MAX) more = CARVE_PRESENT_MAX / size;
  if (more <= count) return 0;
  const uint8_t* const first = page->start + page->capacity * size;
  return mx_arena_is_present(page->arena, first, more * size) ? (uint32_t)more : 0;
}

// The range is about to be used. *was_clean: none of its OS pages was present, so it reads as zero.
// False: it cannot be mapped.
static bool touch(const mx_page_t* page, const uint8_t* first, size_t size, bool* was_clean) {
  mx_check(size > 0 && first >= page->start && first + size <= mx_page_end(page));
  mx_arena_t* const arena = page->arena;
  const size_t overlapped =
      mx_arena_bit_of(arena, first + size - 1) - mx_arena_bit_of(arena, first) + 1;
  if (!mx_arena_reach(arena, first, size)) return false;
  *was_clean = (mx_arena_touch(arena, first, size) == overlapped);
  return true;
}

static mx_block_t* block_at(const mx_page_t* page, size_t index) {
  mx_check(index <= page->reserved);
  return (mx_block_t*)(void*)(page->start + index * page->block_size);
}

void mx_page_link_in_order(mx_page_t* page, size_t first, size_t count) {
  mx_check(count > 0 && first + count <= page->capacity);
  const size_t size = page->block_size;
  uint8_t* const start = page->start + first * size;
  uint8_t* const last = start + (count - 1) * size;
  for (uint8_t* p = start; p < last; p += size) {
    mx_block_set_next(page, (mx_block_t*)(void*)p, (mx_block_t*)(void*)(p + size));
  }
  mx_block_set_next(page, (mx_block_t*)(void*)last, page->free);
  page->free = (mx_block_t*)(void*)start;
}

// What checked builds keep in every carved block, free or not; and the canary behind the last one.
// With a random order the rest comes with the links.
static void dress(mx_page_t* page, size_t first, size_t count) {
  mx_check(count > 0 && first + count <= page->reserved);
  if (MX_TRACK) mx_track_access(block_at(page, first), count * page->block_size);
  const size_t size = page->block_size;
  uint8_t* const start = page->start + first * size;
  uint8_t* const end = start + count * size;
  for (uint8_t* p = start; MX_DEBUG_FILL && p < end; p += size) {
    memset(p, MX_FILL_FREED, size - MX_PAD);
  }
  if (!MX_PADDING) return;
  for (uint8_t* p = start; !MX_RANDOM_ORDER && p < end; p += size) {
    mx_pad_set(page, p, MX_PAD_CARVED);
  }
  mx_pad_set(page, end, MX_PAD_FREE);
}

// ---- a random order ----------------------------------------------------------------------------

// So many neighbours are shuffled: the processor fetches ahead what lies in a row, and groups do.
#define SHUFFLED 8u

// Links a free block, and gives it its canary.
mx_inline void make_free(const mx_page_t* page, uint8_t* p, const void* next) {
  mx_block_t* const block = (mx_block_t*)(void*)p;
  mx_block_set_next(page, block, (const mx_block_t*)next);
  if (MX_PADDING) mx_pad_set(page, block, MX_PAD_CARVED);
}

// Which of a group comes at each place, a byte for each: one of 512 orders, as `random` says. No
// byte gets larger than 56 on the way.
mx_inline uint64_t shuffled(uint32_t random) {
  const uint64_t ones = UINT64_C(0x0101010101010101), low = ones * (SHUFFLED - 1);
  const uint64_t step = (random >> 28 | 1) % SHUFFLED, turn = (random >> 24) % SHUFFLED;
  const uint64_t other_step = (random >> 20 | 1) % SHUFFLED, other_turn = (random >> 16) % SHUFFLED;
  const uint64_t x = (UINT64_C(0x0706050403020100) * step + ones * turn) & low;
  return ((x ^ (x >> 2 & ones)) * other_step + ones * other_turn) & low;
}

// Makes at most SHUFFLED fresh neighbours free blocks in front of `next`, in an order that
// only the page's key tells. `index` is the first one's. Answers which comes first.
static uint8_t* shuffle(const mx_page_t* page, size_t index, size_t count, uint8_t* next) {
  mx_check(count > 0 && count <= SHUFFLED && index + count <= page->reserved);
  uint64_t order = shuffled(mx_page_random(page, index));
  const size_t size = page->block_size;
  uint8_t* const start = page->start + index * size;
  for (uint32_t i = 0; i < SHUFFLED; i++, order >>= 8) {
    const size_t at = order & (SHUFFLED - 1);
    if (at >= count) continue;
    uint8_t* const p = start + at * size;
    make_free(page, p, next);
    next = p;
  }
  return next;
}

// The same for any number of them, group by group.
static mx_block_t* scatter(const mx_page_t* page, size_t first, size_t count) {
  uint8_t* next = (uint8_t*)page->free;
  for (size_t end = count; end > 0;) {
    const size_t start = (end - 1) / SHUFFLED * SHUFFLED;
    next = shuffle(page, first + start, end - start, next);
    end = start;
  }
  return (mx_block_t*)(void*)next;
}

// ---- more blocks -------------------------------------------------------------------------------

bool mx_page_extend(mx_page_t* page, bool* is_zero) {
  mx_check(!mx_page_is_huge(page) && page->used <= page->capacity + 1);
  *is_zero = false;
  if (mx_page_has_holes(page) && mx_holes_carve(page)) return true;
  const uint32_t limit = limit_of(page);
  if (page->capacity >= limit) return false;
  uint32_t count = carve_count(page, limit);
  mx_check(page->used <= page->capacity + 1);
  const size_t first = page->capacity;
  const uint32_t present = carve_count_present(page, count, limit);
  bool was_clean = false;
  if (present != 0) {
    count = present;
  } else if (!touch(page, (uint8_t*)block_at(page, first), count * page->block_size, &was_clean)) {
    return false;
  }
  *is_zero = (was_clean && page->free == NULL && !MX_DEBUG_FILL);
  mx_block_t* head = NULL;
  if (MX_PADDING || MX_DEBUG_FILL) dress(page, first, count);
  if (MX_RANDOM_ORDER) head = scatter(page, first, count);
  // A fork may come in between: what counts as carved there has its canaries.
  if (MX_PADDING || MX_DEBUG_FILL) mx_fence_seq_cst();
  page->capacity += (uint32_t)count;  // first, so that links into the new blocks are valid
  if (MX_RANDOM_ORDER) {
    page->free = head;
  } else if (MX_TRACK) {
    // Backwards: the record's pointer to the first block would make a lost one seem reachable.
    for (size_t i = first; i < first + count; i++) {
      mx_block_set_next(page, block_at(page, i), page->free);
      page->free = block_at(page, i);
    }
  } else {
    mx_page_link_in_order(page, first, count);
  }
  if (MX_TRACK) mx_track_no_access(block_at(page, first), count * page->block_size);
  mx_check(page->free != NULL && page->capacity <= limit);
  return true;
}

static bool is_cycle(const mx_page_t* page) {
  mx_error(14 /* EFAULT */, "corrupted free list in the page at %p (block size %zu)\n",
           (void*)page->start, page->block_size);
  return false;
}

// The last block of a list, and how many it has; NULL: it is a cycle. The list can hold no more
// blocks than the page has.
static mx_block_t* last_of(const mx_page_t* page, mx_remote_list_t* list) {
  mx_block_t* last = list->first;
  list->count = 1;
  for (mx_block_t* next; (next = mx_block_next(page, last)) != NULL; last = next) {
    if (++list->count > page->capacity) return NULL;
  }
  return last;
}

// Puts a list of blocks back onto `free`, and lowers `used` by their number; false: it is a cycle.
static bool put_back(mx_page_t* page, mx_remote_list_t list) {
  mx_check(list.first != NULL && !mx_page_is_huge(page));
  if (page->free != NULL || list.count == 0) {
    mx_block_t* const last = last_of(page, &list);
    if (last == NULL) return is_cycle(page);
    mx_block_set_next(page, last, page->free);
  } else if (list.count > page->used) {
    return is_cycle(page);
  }
  mx_check(page->used >= list.count);
  mx_fence_compiler();  // as in mx_page_push
  page->free = list.first;
  mx_fence_compiler();
  page->used -= list.count;
  return true;
}

mx_cold void mx_remote_refuse(const mx_page_t* page, const mx_block_t* block) {
  mx_error(EAGAIN, "free: double free detected of block %p with size %zu\n",
           (const void*)block, page->block_size);
}

// What others freed lies in their processors' caches. A walk along the list waits for one line
// after the other; these come all at once.
static void fetch_all(const mx_page_t* page) {
  for (size_t i = 0; i < page->capacity; i++) {
    const uint8_t* const p = (const uint8_t*)block_at(page, i);
    mx_prefetch_write(p - MX_PAD);
    mx_prefetch_write(p);
  }
}

bool mx_page_collect(mx_page_t* page) {
  const bool waited = (MX_QUARANTINE && mx_page_end_delay(page));
  return mx_page_collect_remote(page) || waited;
}

bool mx_page_collect_remote(mx_page_t* page) {
  const mx_remote_list_t list = mx_remote_take(page);
  if (list.first == NULL) return false;
  if (MX_KNOWS_LIVE) {
    if (list.count >= page->capacity / 2) fetch_all(page);
    return mx_page_accept(page, list.first);
  }
  return put_back(page, list);
}

mx_cold void mx_page_end_note(mx_page_t* page) {
  mx_check(mx_page_is_huge(page) && mx_page_has_note(page));
  const uint8_t lend = mx_load_relaxed(&page->lend);
  mx_store_relaxed(&page->lend, (uint8_t)(lend & ~MX_PAGE_NOTED));
  void* const note = page->note;
  page->note = NULL;
  mx_hooks.end_note(note);
}

// Whoever has the memory next knows nothing of tags.
void mx_page_end_tags(const mx_page_t* page) {
  mx_check(!mx_page_is_huge(page));
  for (size_t i = 0; i < page->capacity; i++) {
    const mx_block_t* const block = block_at(page, i);
    if (mx_tag_read(block) != 0) mx_tag_write(block, page->block_size);
  }
}

mx_cold bool mx_page_is_valid(const mx_page_t* page) {
  mx_check(page != &mx_page_none);
  if (page->capacity > page->reserved || page->used > page->capacity + 1) return false;
  size_t count = 0;
  for (const mx_block_t* b = page->free; b != NULL; b = mx_block_next(page, b)) {
    if (!mx_page_is_block(page, b) || ++count > page->capacity) return false;
    if (MX_LIVE_BITS && mx_live_test(page, b)) return false;
  }
  size_t live = 0;
  for (size_t i = 0; MX_LIVE_BITS && i < page->capacity; i++) {
    if (mx_live_test(page, block_at(page, i))) live++;
  }
  return live <= page->used && count + page->used <= page->capacity + 1;
}

// ---- the pages of an arena ----------------------------------------------------------------------

// A page may come and go meanwhile; then its extent is as good as none.
mx_unsynchronised mx_page_t* mx_page_next_in(const mx_arena_t* arena, size_t* index) {
  mx_check(*index <= arena->slices);
  size_t i = *index;
  for (; (i = mx_bits_next_clear(arena->free, arena->slices, i)) < arena->slices; i++) {
    mx_page_t* const page = mx_pagemap_get(arena->start + i * MX_SLICE_SIZE);
    if (page == mx_arena_record(arena, i)) {
      *index = i + mx_max(mx_peek_uint32(&page->slice_count), 1);
      return page;
    }
  }
  *index = arena->slices;
  return NULL;
}

mx_page_t* mx_page_next_of(const mx_arenas_t* arenas, size_t* item, size_t* index) {
  for (; *item < mx_load_acquire(&arenas->count); ++*item, *index = 0) {
    const mx_arena_t* const arena = mx_arena_at(arenas, *item);
    mx_page_t* const page = (arena == NULL ? NULL : mx_page_next_in(arena, index));
    if (page != NULL) return page;
  }
  return NULL;
}
