// SPDX-License-Identifier: MIT
// Owns the page map's table: its reservation, its fall-back to a window, and writing entries.
#include "pagemap.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../os/os.h"

// Serves until the table exists: one entry, zero, so every address has the zero record.
static mx_aligned(128) mx_pagemap_table_t boot_table;

mx_pagemap_table_t* mx_pagemap_table = &boot_table;
uintptr_t mx_pagemap_mask;

static bool is_window;
static bool commits_on_demand;

// Windows hold all memory of a process whose address space is too limited for the whole table.
#define WINDOW_BITS_LARGE 34
#define WINDOW_BITS_SMALL 30

static bool try_reserve(unsigned bits) {
  const size_t entries = (size_t)1 << (bits - MX_SLICE_SHIFT);
  const size_t size = mx_align_up(MX_PAGE_RECORD_SIZE + entries * sizeof(intptr_t), mx_facts.os_page);
  const bool small = (size <= MX_MIB);
  uint8_t* table = (uint8_t*)mx_os_map(NULL, size, mx_facts.overcommits || small);
  if (table == NULL) return false;
  commits_on_demand = !mx_facts.overcommits && !small;
  if (commits_on_demand && !mx_os_protect_readable(table, size)) {
    mx_os_unmap(table, size);
    return false;
  }
  // Large pages would make the few touched entries cost megabytes.
  if (!small) mx_os_advise_large(table, size, false);
  mx_pagemap_table = (mx_pagemap_table_t*)(void*)table;
  mx_pagemap_mask = entries - 1;
  return true;
}

bool mx_pagemap_init(void) {
  if (mx_pagemap_table != &boot_table) return true;
  unsigned bits = mx_facts.va_bits;
  const long most = mx_option(max_vabits);
  if (most >= WINDOW_BITS_SMALL && most < (long)bits) bits = (unsigned)most;
  is_window = (bits < mx_facts.va_bits);
  if (try_reserve(bits)) return true;
  is_window = true;
  return try_reserve(WINDOW_BITS_LARGE) || try_reserve(WINDOW_BITS_SMALL);
}

bool mx_pagemap_is_window(void) { return is_window; }

static bool ensure_committed(const void* first, const void* last) {
  if (!commits_on_demand) return true;
  const uintptr_t from = mx_align_down((uintptr_t)mx_pagemap_entry(first), mx_facts.os_page);
  const uintptr_t to = mx_align_up((uintptr_t)(mx_pagemap_entry(last) + 1), mx_facts.os_page);
  return mx_os_commit((void*)from, to - from);
}

bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page) {
  const uint8_t* slice = (const uint8_t*)start;
  const intptr_t value = (page == NULL ? 0 : (intptr_t)((uint8_t*)page - (uint8_t*)mx_pagemap_table));
  if (page != NULL && !ensure_committed(slice, slice + (count - 1) * MX_SLICE_SIZE)) return false;
  for (size_t i = 0; i < count; i++) {
    mx_store_relaxed(mx_pagemap_entry(slice + i * MX_SLICE_SIZE), value);
  }
  return true;
}

bool mx_pagemap_collides(const void* a, size_t a_size, const void* b, size_t b_size) {
  const uintptr_t window = (mx_pagemap_mask + 1) << MX_SLICE_SHIFT;
  const uintptr_t gap = ((uintptr_t)b - (uintptr_t)a) & (window - 1);
  return gap < a_size || window - gap < b_size;
}
