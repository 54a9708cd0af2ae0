// SPDX-License-Identifier: MIT
// Guarded blocks: where they lie, which are remembered, and what is said of a fault in one.
//
//      | 64 KiB, inaccessible | unused, filled | block | fill | inaccessible ... |
//      mapping                data                      ^ at most 15 bytes
//
// A guarded block is a huge page of one block in a mapping of its own. When freed the mapping is
// made inaccessible and waits in a ring with the stacks of its allocation and its free; the oldest
// is unmapped. Records are never given back, so the fault handler may read them at any time.
// All belong to the main heap: other heaps are destroyed whole.
#include "guarded.h"

#include <string.h>

#include "../base/facts.h"
#include "../base/fmt.h"
#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "alloc.h"
#include "harden.h"

#define FRAMES_MAX MX_GUARDED_FRAMES
#define LIVE_MAX MX_GUARDED_LIVE_MAX
#define FREED_MAX MX_GUARDED_FREED_MAX

// The memory of freed blocks of one OS page stays, 1 MiB of it at most: what a sample costs is
// mostly the system's work, and that would be twice as much.
#define WARM_MAX mx_facts.os_page

#define RECORDS_MAX MX_GUARDED_RECORDS

mx_guarded_t* mx_guarded_records;
static mx_at_start mx_lock_t lock;
static mx_guarded_t* freed[FREED_MAX];
static size_t freed_next;
static mx_atomic(int) live;
mx_atomic(int) mx_guarded_ready;

// ---- reports -----------------------------------------------------------------------------------

static void say(const char* text, size_t length) { mx_os_write_stderr(text, length); }

static void say_stack(const char* title, void* const* stack) {
  char buf[96];
  say(buf, mx_format(buf, sizeof(buf), "  %s\n", title));
  for (int i = 0; i < FRAMES_MAX && stack[i] != NULL; i++) {
    if (mx_hooks.print_frame != NULL) mx_hooks.print_frame(i, stack[i]);
    else say(buf, mx_format(buf, sizeof(buf), "    #%d %p\n", i, stack[i]));
  }
  if (stack[0] == NULL) say(buf, mx_format(buf, sizeof(buf), "    (not known)\n"));
}

static void report(const mx_guarded_t* g, const uint8_t* at) {
  char buf[256];
  const size_t past = (size_t)(at - g->block);
  size_t n;
  if (mx_load_acquire(&g->is_freed) != 0) {
    n = mx_format(buf, sizeof(buf), "mimalloc: error: use after free: access at byte %zd of the "
                  "freed block %p of %zu bytes\n", (ptrdiff_t)past, (void*)g->block, g->size);
  } else if (at >= g->block + g->size) {
    n = mx_format(buf, sizeof(buf), "mimalloc: error: buffer overflow: access %zu bytes past the "
                  "end of block %p of %zu bytes\n", past - g->size, (void*)g->block, g->size);
  } else {
    n = mx_format(buf, sizeof(buf), "mimalloc: error: buffer underflow: access %zu bytes before "
                  "block %p of %zu bytes\n", (size_t)(g->block - at), (void*)g->block, g->size);
  }
  say(buf, n);
  say_stack("allocated by:", g->alloc_stack);
  if (mx_load_acquire(&g->is_freed) != 0) say_stack("freed by:", g->free_stack);
}

// The handler of faults; false when the address is none of ours.
static bool on_fault(const void* address) {
  const uint8_t* const at = (const uint8_t*)address;
  for (size_t i = 0; i < RECORDS_MAX; i++) {
    const mx_guarded_t* const g = &mx_guarded_records[i];
    const uint8_t* const start = mx_load_acquire(&g->mapping);
    if (start == NULL || (size_t)(at - start) >= g->mapping_size) continue;
    report(g, at);
    return true;
  }
  return false;
}

static void note_stack(void** stack) {
  memset(stack, 0, FRAMES_MAX * sizeof(void*));
  if (mx_hooks.capture_stack != NULL) mx_hooks.capture_stack(stack, FRAMES_MAX);
}

// ---- blocks ------------------------------------------------------------------------------------

static bool make_ready(void) {
  if (mx_load_acquire(&mx_guarded_ready) != 0) return mx_guarded_records != NULL;
  mx_guarded_t* const fresh = (mx_guarded_t*)mx_meta_alloc(RECORDS_MAX * sizeof(mx_guarded_t));
  mx_lock_acquire(&lock);
  const bool first = (mx_load_relaxed(&mx_guarded_ready) == 0);
  if (first && fresh != NULL) mx_guarded_records = fresh;
  mx_store_release(&mx_guarded_ready, 1);
  mx_lock_release(&lock);
  if (first && fresh != NULL) mx_os_on_fault(on_fault);
  return mx_guarded_records != NULL;
}

static mx_guarded_t* claim_record(uint8_t* mapping) {
  mx_check(mx_is_aligned(mapping, MX_SLICE_SIZE));
  static size_t hint;
  mx_guarded_t* found = NULL;
  mx_lock_acquire(&lock);
  for (size_t n = 0; n < RECORDS_MAX && found == NULL; n++) {
    mx_guarded_t* const g = &mx_guarded_records[(hint + n) % RECORDS_MAX];
    if (mx_load_relaxed(&g->mapping) != NULL) continue;
    found = g;
    hint = hint + n + 1;
    // The rest of the record is older than this pointer for whoever finds it.
    mx_check(mx_load_relaxed(&g->page) == NULL ||
             mx_load_relaxed(&mx_load_relaxed(&g->page)->owner) == 0);
    g->mapping_size = 0;
    mx_store_release(&g->mapping, mapping);
  }
  mx_lock_release(&lock);
  return found;
}

// Blocks are as aligned as their size lets aligned allocation expect (see realloc.c).
static uint8_t* place_of(uint8_t* data_end, size_t size) {
  const size_t whole = mx_align_up(size + MX_PAD, MX_ALIGN);
  const size_t align = mx_min(mx_block_align(whole), MX_SLICE_SIZE);
  if (align <= MX_ALIGN && mx_option(guarded_precise) != 0) return data_end - size;
  return (uint8_t*)mx_align_down((uintptr_t)(data_end - size), align);
}

static bool set_up(mx_guarded_t* g, mx_heap_t* heap, size_t size) {
  uint8_t* const data_end = g->data + g->data_size;
  g->block = place_of(data_end, size);
  g->size = size;
  mx_check(g->data_size % mx_facts.os_page == 0 && size <= g->data_size);
  mx_check(g->block >= g->data && g->block + size <= data_end);
  mx_check(MX_SLICE_SIZE + g->data_size + mx_facts.os_page <= g->mapping_size);
  if (!mx_os_commit(g->data, g->data_size)) return false;
  memset(g->data, 0, mx_min(g->used_size, g->data_size));
  g->used_size = mx_max(g->used_size, g->data_size);
  mx_page_t* page = mx_load_relaxed(&g->page);
  if (page == NULL) page = (mx_page_t*)mx_meta_alloc(sizeof(*page));
  if (page == NULL) return false;
  mx_store_relaxed(&g->page, page);
  mx_slices_t slices = {NULL, 0, (g->mapping_size - MX_SLICE_SIZE) / MX_SLICE_SIZE, g->data, true};
  mx_page_init(page, &slices, size, MX_BIN_HUGE, heap);
  if (!mx_pagemap_set(g->data, page->slice_count, page)) return false;
  page->start = g->block;
  page->capacity = page->used = 1;
  mx_store_relaxed(&page->lend, (uint8_t)MX_PAGE_GUARDED);
  page->guarded = g;
  memset(g->data, MX_FILL_SLACK, (size_t)(g->block - g->data));
  memset(g->block + size, MX_FILL_SLACK, (size_t)(data_end - g->block - size));
  mx_store_relaxed(&g->is_freed, 0);
  note_stack(g->alloc_stack);
  mx_store_release(&page->owner, MX_OWNER_HUGE);
  return true;
}

static void forget(mx_guarded_t* g) {
  mx_check(mx_load_relaxed(&g->mapping) != NULL && g->mapping_size > MX_SLICE_SIZE);
  uint8_t* const mapping = mx_load_relaxed(&g->mapping);
  mx_pagemap_set(g->data, (g->mapping_size - MX_SLICE_SIZE) / MX_SLICE_SIZE, NULL);
  mx_vmem_unmap(mapping, g->mapping_size, 0);
  mx_store_release(&g->mapping, (uint8_t*)NULL);
}

// Inaccessible memory, aligned to slices.
static uint8_t* map(size_t total) {
  uint8_t* const p = (uint8_t*)mx_vmem_map(total, MX_SLICE_SIZE, false);
  if (p == NULL || mx_os_protect(p, total, false)) return p;
  mx_vmem_unmap(p, total, 0);
  return NULL;
}

// The record and mapping that a freed block leaves when it is the oldest and of this size; so most
// samples need no new mapping.
static mx_guarded_t* recycle(size_t total) {
  mx_lock_acquire(&lock);
  mx_guarded_t* const oldest = freed[freed_next];
  const bool fits = (oldest != NULL && oldest->mapping_size == total);
  mx_check(oldest == NULL || mx_load_relaxed(&oldest->is_freed) != 0);
  if (fits) freed[freed_next] = NULL;
  mx_lock_release(&lock);
  return fits ? oldest : NULL;
}

static mx_guarded_t* make_record(size_t total) {
  mx_guarded_t* g = recycle(total);
  if (g != NULL) return g;
  uint8_t* const mapping = map(total);
  if (mapping == NULL) return NULL;
  g = claim_record(mapping);
  if (g == NULL) {
    mx_vmem_unmap(mapping, total, 0);
    return NULL;
  }
  g->mapping_size = total;
  g->used_size = 0;
  mx_check(mx_load_relaxed(&g->mapping) == mapping);
  g->data = mapping + MX_SLICE_SIZE;
  // An OS page of other properties than what lies around it stays a mapping of its own when its
  // access changes: to split off one and to merge it again would be three times the work.
  mx_os_advise_large(g->data, mx_facts.os_page, false);
  return g;
}

void* mx_guarded_alloc(size_t size) {
  mx_heap_t* const heap = &mx_subproc_main.main_heap;
  if (mx_load_relaxed(&live) >= LIVE_MAX || !make_ready()) return NULL;
  const size_t data = mx_align_up(mx_max(size, 1), mx_facts.os_page);
  const size_t total =
      MX_SLICE_SIZE + mx_align_up(data + mx_facts.os_page, MX_SLICE_SIZE);
  mx_guarded_t* const g = make_record(total);
  void* result = NULL;
  if (g != NULL) {
    g->data_size = data;
    if (set_up(g, heap, size)) {
      mx_add_relaxed(&live, 1);
      mx_counter_add(&heap->counters.malloc_guarded_count, 1);
      result = g->block;
      if (mx_unlikely(mx_hooks.block_allocated != NULL)) mx_hooks.block_allocated(result);
    } else {
      forget(g);
    }
  }
  return result;
}

mx_page_t* mx_guarded_next(size_t* index) {
  const bool has_any = (mx_load_acquire(&mx_guarded_ready) != 0 && mx_guarded_records != NULL);
  while (has_any && *index < RECORDS_MAX) {
    const mx_guarded_t* const g = &mx_guarded_records[(*index)++];
    mx_page_t* const page = mx_load_relaxed(&g->page);
    if (mx_load_acquire(&g->mapping) == NULL || page == NULL) continue;
    if (mx_load_acquire(&page->owner) == MX_OWNER_HUGE) return page;
  }
  return NULL;
}

// The first byte of a range that is not the fill, or its end.
static const uint8_t* skip_fill(const uint8_t* p, const uint8_t* end) {
  const uint64_t fill = 0x0101010101010101u * MX_FILL_SLACK;
  for (uint64_t word; end - p >= 8; p += 8) {
    memcpy(&word, p, 8);
    if (word != fill) break;
  }
  while (p < end && *p == MX_FILL_SLACK) p++;
  return p;
}

// What lies around the block in its OS pages must still be the fill.
static void check_surroundings(const mx_guarded_t* g) {
  mx_check(g->block >= g->data && g->block + g->size <= g->data + g->data_size);
  const uint8_t* const before = skip_fill(g->data, g->block);
  if (before < g->block) {
    mx_error(EFAULT, "buffer underflow of heap block %B of size %zu: write %zu bytes before it\n",
             (void*)g->block, g->size, (size_t)(g->block - before));
  }
  const uint8_t* const end = g->data + g->data_size;
  const uint8_t* const behind = skip_fill(g->block + g->size, end);
  if (behind < end) {
    mx_error(EFAULT, "buffer overflow in heap block %B of size %zu: write after %zu bytes\n",
             (void*)g->block, g->size, (size_t)(behind - g->block));
  }
}

void mx_guarded_free(mx_page_t* page) {
  mx_guarded_t* const g = (mx_guarded_t*)page->guarded;
  mx_check(mx_load_relaxed(&g->page) == page && page->used == 1);
  mx_check(mx_load_relaxed(&g->is_freed) == 0 && mx_load_relaxed(&page->owner) == 0);
  check_surroundings(g);
  if (mx_unlikely(mx_hooks.block_freed != NULL)) mx_hooks.block_freed(g->block);
  note_stack(g->free_stack);
  mx_store_release(&g->is_freed, 1);
  page->capacity = page->used = 0;
  if (g->data_size > WARM_MAX && mx_os_decommit(g->data, g->data_size)) g->used_size = 0;
  else mx_os_protect(g->data, g->data_size, false);
  mx_check(mx_load_relaxed(&live) > 0);
  mx_add_relaxed(&live, -1);
  mx_lock_acquire(&lock);
  mx_guarded_t* const oldest = freed[freed_next];
  freed[freed_next] = g;
  freed_next = (freed_next + 1) % FREED_MAX;
  mx_check(oldest != g && mx_lock_is_mine(&lock));
  mx_lock_release(&lock);
  if (oldest != NULL) forget(oldest);
}

bool mx_guarded_visit_locks(mx_lock_visit_fn* visit) { return visit(&lock); }
