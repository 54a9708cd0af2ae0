// SPDX-License-Identifier: MIT
// The reservation of large and huge OS pages.
//
// Huge pages come one by one, since each can take the system a second to clear, and the caller may
// have set a limit of time. They must lie in a row, so a range of addresses is sought first and
// then filled from its start; a page that lands elsewhere, because somebody else took the address
// meanwhile, ends the row.
#include "arena.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"

#define HUGE_PAGE MX_GIB

static void* range_for(size_t pages) {
  if (pages >= SIZE_MAX / HUGE_PAGE - 1) return NULL;
  void* const place = mx_vmem_place(MX_ZONE_NEAR, pages * HUGE_PAGE, HUGE_PAGE);
  if (place != NULL) return place;
  const size_t size = (pages + 1) * HUGE_PAGE;
  void* const p = mx_os_map(NULL, size, false);
  if (p == NULL) return NULL;
  mx_os_unmap(p, size);
  return (void*)mx_align_up((uintptr_t)p, HUGE_PAGE);
}

static bool map_huge_page(uint8_t* at, int numa_node) {
  mx_check(mx_is_aligned(at, HUGE_PAGE));
  mx_counter_add(&mx_process_counters.mmap_calls, 1);
  void* const p = mx_os_map_large(at, HUGE_PAGE, HUGE_PAGE, numa_node);
  if (p == (void*)at) return true;
  if (p != NULL) mx_os_unmap(p, HUGE_PAGE);
  return false;
}

// Also when at this pace it would end far too late.
static bool is_too_slow(uint64_t elapsed, size_t done, size_t pages, uint64_t timeout) {
  if (timeout == 0) return false;
  if (elapsed > timeout) return true;
  return done == 1 && elapsed * pages > 2 * timeout;
}

static size_t fill_range(uint8_t* start, size_t pages, int numa_node, uint64_t timeout) {
  const uint64_t begin = mx_os_clock_msecs();
  size_t done = 0;
  while (done < pages) {
    if (!map_huge_page(start + done * HUGE_PAGE, numa_node)) {
      mx_warning("unable to get huge OS page %zu of %zu (node %d)\n", done + 1, pages, numa_node);
      break;
    }
    done++;
    if (done < pages && is_too_slow(mx_os_clock_msecs() - begin, done, pages, timeout)) {
      mx_warning("huge OS pages took too long: stopped after %zu of %zu\n", done, pages);
      break;
    }
  }
  return done;
}

static mx_arena_t* add_pinned(mx_arenas_t* arenas, void* start, size_t size, int numa_node,
                              bool is_exclusive) {
  mx_check(size > 0 && size % MX_SLICE_SIZE == 0 && mx_is_aligned(start, MX_SLICE_SIZE));
  mx_arena_config_t config = mx_arena_config(start, size);
  config.is_committed = config.is_pinned = true;
  config.is_exclusive = is_exclusive;
  config.numa_node = numa_node;
  mx_count_add(&mx_process_counters.reserved, (int64_t)size);
  mx_arena_t* const arena = mx_arena_add(arenas, &config);
  if (arena == NULL) {
    mx_vmem_unmap(start, size, 0);
    mx_vmem_placed_is_free(MX_ZONE_NEAR, start, size);
  }
  return arena;
}

mx_arena_t* mx_arena_reserve_huge_pages(mx_arenas_t* arenas, size_t pages, int numa_node,
                                        uint64_t timeout_msecs, bool is_exclusive) {
  uint8_t* const start = (uint8_t*)range_for(pages);
  if (start == NULL) return NULL;
  const size_t done = fill_range(start, pages, numa_node, timeout_msecs);
  if (done < pages) {
    const size_t used = done * HUGE_PAGE + (done > 0 ? MX_NEAR_UNIT : 0);
    mx_vmem_placed_is_free(MX_ZONE_NEAR, start + used, pages * HUGE_PAGE - used);
  }
  if (done == 0) return NULL;
  mx_verbose("reserved %zu of %zu GiB of huge OS pages (node %d)\n", done, pages, numa_node);
  return add_pinned(arenas, start, done * HUGE_PAGE, numa_node, is_exclusive);
}

mx_arena_t* mx_arena_reserve_large_pages(mx_arenas_t* arenas, size_t size, bool is_exclusive) {
  if (mx_facts.large_page == 0 || size > SIZE_MAX - mx_facts.large_page) return NULL;
  size = mx_align_up(size, mx_facts.large_page);
  mx_counter_add(&mx_process_counters.mmap_calls, 1);
  void* const hint = mx_vmem_place(MX_ZONE_NEAR, size, mx_facts.large_page);
  void* const p = mx_os_map_large(hint, size, mx_facts.large_page, -1);
  if (p != hint && hint != NULL) mx_vmem_placed_is_free(MX_ZONE_NEAR, hint, size);
  return p == NULL ? NULL : add_pinned(arenas, p, size, -1, is_exclusive);
}
