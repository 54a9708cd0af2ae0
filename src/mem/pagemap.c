// SPDX-License-Identifier: MIT
// Owns the page map's table: its reservation, its fall-back to a window, and writing entries.
#include "pagemap.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../os/os.h"
#include "bitmap.h"
#include "vmem.h"

// Serves until the table exists: one entry, zero, so every address has the zero record.
static mx_aligned(128) mx_pagemap_table_t boot_table;

mx_pagemap_table_t* mx_pagemap_table = &boot_table;
uintptr_t mx_pagemap_mask;

static bool is_window;

// Windows hold all memory of a process whose address space is too limited for the whole table.
#define WINDOW_BITS_LARGE 34
#define WINDOW_BITS_SMALL 30

// The table is readable everywhere and becomes writable in chunks, as addresses come into use: what
// is only read costs nothing, under any policy of the OS.
#define CHUNK_SIZE (2 * MX_MIB)
#define CHUNKS_MAX 16384  // of the table for 48 bits

static mx_bits_t writable[CHUNKS_MAX / MX_WORD_BITS];

static size_t table_size(unsigned bits) {
  const size_t entries = (size_t)1 << (bits - MX_SLICE_SHIFT);
  return mx_align_up(MX_PAGE_RECORD_SIZE + entries * sizeof(intptr_t), mx_facts.os_page);
}

static unsigned wanted_bits(void) {
  const long most = mx_option(max_vabits);
  return most >= WINDOW_BITS_SMALL && most < (long)mx_facts.va_bits ? (unsigned)most
                                                                    : mx_facts.va_bits;
}

size_t mx_pagemap_reserve_size(void) { return table_size(wanted_bits()); }

static bool try_reserve(unsigned bits) {
  void* table = mx_vmem_map(table_size(bits), mx_facts.os_page, false);
  if (table == NULL) return false;
  mx_os_reads_as_zero(table, table_size(bits));
  mx_pagemap_table = (mx_pagemap_table_t*)table;
  mx_pagemap_mask = ((uintptr_t)1 << (bits - MX_SLICE_SHIFT)) - 1;
  return true;
}

// Makes the whole table writable at once: then no later call of the OS can fail for it.
static void commit_all(void) {
  const size_t size = table_size((unsigned)mx_bit_high(mx_pagemap_mask + 1) + MX_SLICE_SHIFT);
  if (mx_vmem_commit(mx_pagemap_table, size)) mx_bits_set(writable, 0, mx_div_up(size, CHUNK_SIZE));
}

static bool reserve(void) {
  const unsigned bits = wanted_bits();
  is_window = (bits < mx_facts.va_bits);
  if (try_reserve(bits)) return true;
  is_window = true;
  return try_reserve(WINDOW_BITS_LARGE) || try_reserve(WINDOW_BITS_SMALL);
}

bool mx_pagemap_init(void) {
  if (mx_pagemap_table != &boot_table) return true;
  if (!reserve()) return false;
  if (mx_option(pagemap_commit) != 0) commit_all();
  return true;
}

bool mx_pagemap_is_window(void) { return is_window; }

static bool make_writable(size_t chunk) {
  const size_t size = table_size((unsigned)mx_bit_high(mx_pagemap_mask + 1) + MX_SLICE_SHIFT);
  const size_t from = chunk * CHUNK_SIZE;
  if (!mx_vmem_commit((uint8_t*)mx_pagemap_table + from, mx_min(CHUNK_SIZE, size - from))) {
    return false;
  }
  mx_bits_set(writable, chunk, 1);
  return true;
}

static size_t chunk_of(const void* p) {
  return ((uintptr_t)mx_pagemap_entry(p) - (uintptr_t)mx_pagemap_table) / CHUNK_SIZE;
}

// How many of `count` slices have their entries behind each other and in one chunk: up to the
// chunk's end, or that of a window, where the entries of a range go on at the start.
static size_t run_of(const uint8_t* slice, size_t count) {
  const uintptr_t entry = (uintptr_t)mx_pagemap_entry(slice);
  const size_t in_chunk = (entry - (uintptr_t)mx_pagemap_table) % CHUNK_SIZE;
  const size_t index = ((uintptr_t)slice >> MX_SLICE_SHIFT) & mx_pagemap_mask;
  count = mx_min(count, (CHUNK_SIZE - in_chunk) / sizeof(intptr_t));
  return mx_min(count, mx_pagemap_mask + 1 - index);
}

static bool ensure_writable(const uint8_t* slice, size_t count) {
  while (count > 0) {
    const size_t chunk = chunk_of(slice);
    if (!mx_bits_test(writable, chunk) && !make_writable(chunk)) return false;
    const size_t n = run_of(slice, count);
    slice += n * MX_SLICE_SIZE;
    count -= n;
  }
  return true;
}

bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page) {
  const uint8_t* slice = (const uint8_t*)start;
  const uint8_t* const base = (const uint8_t*)mx_pagemap_table;
  const intptr_t value = (page == NULL ? 0 : (intptr_t)((const uint8_t*)page - base));
  if (page != NULL && !ensure_writable(slice, count)) return false;
  while (count > 0) {
    const size_t n = run_of(slice, count);
    // What was never writable is clear, and must not be touched.
    if (page != NULL || mx_bits_test(writable, chunk_of(slice))) {
      mx_atomic(intptr_t)* const entry = mx_pagemap_entry(slice);
      for (size_t i = 0; i < n; i++) mx_store_relaxed(&entry[i], value);
    }
    slice += n * MX_SLICE_SIZE;
    count -= n;
  }
  return true;
}

bool mx_pagemap_collides(const void* a, size_t a_size, const void* b, size_t b_size) {
  const uintptr_t window = (mx_pagemap_mask + 1) << MX_SLICE_SHIFT;
  const uintptr_t gap = ((uintptr_t)b - (uintptr_t)a) & (window - 1);
  return gap < a_size || window - gap < b_size;
}
