// SPDX-License-Identifier: MIT
// The page map's tables: their reservation, the growth of the near one, the far ones, and
// writing entries.
#include "pagemap.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/lock.h"
#include "../base/options.h"
#include "../os/os.h"
#include "../os/system.h"
#include "bitmap.h"
#include "vmem.h"

// Serves until the table exists: every address is far, and has the zero record.
static mx_aligned(128) mx_pagemap_table_t boot_table;

mx_pagemap_root_t mx_pagemap_root = {&boot_table};
mx_at_start mx_atomic(uintptr_t) mx_pagemap_near;

// What the near table covers at the least, for processes with little address space, and the most
// that it grows to.
#define NEAR_BITS_LEAST 31
#define NEAR_BITS_MOST 41

// Tables are readable everywhere and become writable in chunks, as addresses come into use: what is
// only read costs nothing, under any policy of the OS.
#define CHUNK_SIZE (64 * MX_KIB)
// Other systems than Linux let it begin with all addresses.
#define NEAR_BITS_EVER (MX_SYSTEM == MX_LINUX ? NEAR_BITS_MOST : 48)
#define NEAR_CHUNKS_MAX \
  (((size_t)1 << (NEAR_BITS_EVER - MX_SLICE_SHIFT)) * sizeof(intptr_t) / CHUNK_SIZE + 1)

typedef struct table_s {
  uint8_t* memory;      // from which chunks count
  size_t entries_from;  // the offset of the first entry
  mx_bits_t* writable;  // by chunk
} table_t;

static mx_at_start mx_bits_t near_writable[MX_64BIT ? NEAR_CHUNKS_MAX / MX_WORD_BITS + 1 : 1];

mx_static_assert(MX_FAR_ENTRIES * sizeof(intptr_t) / CHUNK_SIZE <= MX_WORD_BITS,
                 "a word says which chunks of a far table are writable");

mx_atomic(mx_far_table_t*) mx_pagemap_far[MX_FAR_TABLES];

static mx_at_start mx_lock_t table_lock;  // for adding a table and for growing
mx_at_start size_t mx_pagemap_near_size;
static mx_at_start bool is_grown;   // to the most, or cannot be any more

// ---- the near table ----------------------------------------------------------------------------

// Whole chunks, so that none is longer after the table has grown.
static size_t near_table_size(unsigned bits) {
  const size_t entries = (size_t)1 << (bits - MX_SLICE_SHIFT);
  return mx_align_up(MX_PAGE_RECORD_SIZE + entries * sizeof(intptr_t), CHUNK_SIZE);
}

static uintptr_t last_slice(unsigned bits) {
  return ((uintptr_t)1 << (bits - MX_SLICE_SHIFT)) - 1;
}

// Secure builds place each arena at random, for which they need room: of addresses, and for a table
// of 128 MiB, which a limit may count: then one of 2 MiB.
#define NEAR_BITS_RANDOM 40
#define NEAR_BITS_LIMITED 34

static unsigned wanted_bits(void) {
  unsigned bits = mx_min(mx_facts.near_bits, mx_facts.va_bits);
  if (MX_RANDOM_ADDRESS) {
    const unsigned least = (bits > NEAR_BITS_LEAST ? NEAR_BITS_RANDOM : NEAR_BITS_LIMITED);
    bits = mx_min(mx_max(bits, least), mx_facts.va_bits);
  }
  const long asked = mx_option(max_vabits);
  if (asked <= 0 || asked >= (long)bits) return bits;
  return mx_max((unsigned)asked, mx_min(bits, NEAR_BITS_LEAST));
}

static bool try_reserve(unsigned bits) {
  const size_t size = near_table_size(bits);
  const bool is_all = (bits == mx_facts.va_bits);
  const bool is_placed = (!is_all && !mx_facts.keeps_off);
  uint8_t* table = NULL;
  if (is_placed && !MX_RANDOM_ADDRESS) table = (uint8_t*)mx_vmem_map_table(bits, size);
  if (table == NULL) table = (uint8_t*)mx_vmem_map(size, mx_facts.os_page, false);
  if (table == NULL) return false;
  mx_os_reads_as_zero(table, size);
  if (is_placed) mx_vmem_open_near(bits, mx_min(NEAR_BITS_MOST, mx_facts.va_bits));
  mx_pagemap_near_size = size;
  is_grown = (is_all || bits >= NEAR_BITS_MOST);
  mx_pagemap_table = (mx_pagemap_table_t*)(void*)table;
  mx_store_release(&mx_pagemap_near, last_slice(bits));
  return true;
}

// Makes the whole table writable at once: then no later call of the OS can fail for it.
static void commit_all(void) {
  if (!mx_vmem_commit(mx_pagemap_table, mx_pagemap_near_size)) return;
  mx_bits_set(near_writable, 0, mx_pagemap_near_size / CHUNK_SIZE);
}

bool mx_pagemap_init(void) {
  if (mx_pagemap_table != &boot_table) return true;
  const unsigned bits = wanted_bits();
  const bool done = (try_reserve(bits) || (bits > NEAR_BITS_LEAST && try_reserve(NEAR_BITS_LEAST)));
  if (!done) return false;
  if (mx_option(pagemap_commit) != 0) commit_all();
  return true;
}

// As far as a slice needs it, by powers of two. Every address below the largest bound enters this
// table, or, once it could not grow, none beyond its present one ever does: readers look for an
// address in one place.
static void grow_near(uintptr_t slice) {
  mx_lock_acquire(&table_lock);
  const uintptr_t now = mx_load_relaxed(&mx_pagemap_near);
  if (!is_grown && slice > now) {
    const unsigned most = mx_min(NEAR_BITS_MOST, mx_facts.va_bits);
    const unsigned bits = mx_bit_high(slice) + 1 + MX_SLICE_SHIFT;
    const size_t size = near_table_size(bits);
    uint8_t* const end = (uint8_t*)mx_pagemap_table + mx_pagemap_near_size;
    const bool done =
        (mx_vmem_map_at(end, size - mx_pagemap_near_size, false) == MX_MAP_DONE);
    if (done) {
      mx_os_reads_as_zero(end, size - mx_pagemap_near_size);
      mx_pagemap_near_size = size;
      mx_store_release(&mx_pagemap_near, last_slice(bits));
    }
    is_grown = (!done || bits == most);
  }
  mx_lock_release(&table_lock);
}

// ---- far tables --------------------------------------------------------------------------------

static mx_far_table_t* far_table_of(uintptr_t slice) {
  const uintptr_t i = slice / MX_FAR_ENTRIES;
  return i < MX_FAR_TABLES ? mx_load_acquire(&mx_pagemap_far[i]) : NULL;
}

// The record comes last, since it cannot be given back.
static mx_far_table_t* make_far_table(void) {
  const size_t size = MX_FAR_ENTRIES * sizeof(intptr_t);
  uint8_t* const entries = (uint8_t*)mx_vmem_map(size, mx_facts.os_page, false);
  if (entries == NULL) return NULL;
  mx_far_table_t* const far_table = (mx_far_table_t*)mx_meta_alloc(sizeof(mx_far_table_t));
  if (far_table == NULL) {
    mx_vmem_unmap(entries, size, 0);
    return NULL;
  }
  far_table->entries = entries;
  mx_os_reads_as_zero(entries, size);
  return far_table;
}

static mx_far_table_t* add_far_table(uintptr_t slice) {
  const uintptr_t i = slice / MX_FAR_ENTRIES;
  if (i >= MX_FAR_TABLES) return NULL;
  mx_lock_acquire(&table_lock);
  mx_far_table_t* far_table = mx_load_relaxed(&mx_pagemap_far[i]);
  if (far_table == NULL) {
    far_table = make_far_table();
    mx_store_release(&mx_pagemap_far[i], far_table);
  }
  mx_lock_release(&table_lock);
  return far_table;
}

mx_page_t* mx_pagemap_get(const void* p) {
  if (mx_likely(mx_pagemap_is_near(p))) return mx_pagemap_get_near(p);
  const uintptr_t slice = (uintptr_t)p >> MX_SLICE_SHIFT;
  const mx_far_table_t* const far_table = far_table_of(slice);
  if (far_table == NULL) return (mx_page_t*)mx_pagemap_table;
  const mx_atomic(intptr_t)* const entries =
      (const mx_atomic(intptr_t)*)(const void*)far_table->entries;
  return (mx_page_t*)((uintptr_t)mx_pagemap_table +
                      (uintptr_t)mx_load_relaxed(&entries[slice % MX_FAR_ENTRIES]));
}

// ---- writing entries ---------------------------------------------------------------------------

static bool is_near_slice(uintptr_t slice) { return slice - 1 < mx_load_relaxed(&mx_pagemap_near); }

// The table of a slice, made if need be, and the number of its entry there.
static bool table_of(uintptr_t slice, bool create, table_t* table, size_t* index) {
  const unsigned bits = mx_min(NEAR_BITS_MOST, mx_facts.va_bits);
  const uintptr_t most = (uintptr_t)1 << (bits - MX_SLICE_SHIFT);
  if (create && slice > mx_load_relaxed(&mx_pagemap_near) && slice < most) grow_near(slice);
  if (is_near_slice(slice)) {
    table->memory = (uint8_t*)mx_pagemap_table;
    table->entries_from = MX_PAGE_RECORD_SIZE;
    table->writable = near_writable;
    *index = slice;
    return true;
  }
  mx_far_table_t* far_table = far_table_of(slice);
  if (far_table == NULL && create) far_table = add_far_table(slice);
  if (far_table == NULL) return false;
  table->memory = far_table->entries;
  table->entries_from = 0;
  table->writable = &far_table->writable;
  *index = slice % MX_FAR_ENTRIES;
  return true;
}

static bool ensure_writable(const table_t* table, size_t chunk) {
  if (mx_bits_test(table->writable, chunk)) return true;
  if (!mx_vmem_commit(table->memory + chunk * CHUNK_SIZE, CHUNK_SIZE)) return false;
  mx_bits_set(table->writable, chunk, 1);
  return true;
}

// Sets the entries that lie behind each other in one chunk of one table; answers how many, 0 when
// they cannot be written.
static size_t set_run(uintptr_t slice, size_t count, mx_page_t* page) {
  table_t table;
  size_t index;
  // What never had a table, or was never writable, is clear, and must not be touched.
  if (!table_of(slice, page != NULL, &table, &index)) {
    return page == NULL ? mx_min(count, MX_FAR_ENTRIES - slice % MX_FAR_ENTRIES) : 0;
  }
  const size_t at = table.entries_from + index * sizeof(intptr_t);
  const size_t chunk = at / CHUNK_SIZE;
  const size_t in_chunk = (CHUNK_SIZE - at % CHUNK_SIZE) / sizeof(intptr_t);
  const size_t in_table = (table.writable == near_writable ? mx_load_relaxed(&mx_pagemap_near) + 1
                                                           : MX_FAR_ENTRIES) - index;
  count = mx_min(count, mx_min(in_chunk, in_table));
  if (page == NULL ? !mx_bits_test(table.writable, chunk) : !ensure_writable(&table, chunk)) {
    return page == NULL ? count : 0;
  }
  mx_atomic(intptr_t)* const entry = (mx_atomic(intptr_t)*)(void*)(table.memory + at);
  const intptr_t value = (page == NULL ? 0 : (intptr_t)page - (intptr_t)mx_pagemap_table);
  for (size_t i = 0; i < count; i++) mx_store_relaxed(&entry[i], value);
  return count;
}

// Mostly an entry that has been written before, and is written again.
static bool set_near_again(uintptr_t slice, mx_page_t* page) {
  if (!is_near_slice(slice)) return false;
  mx_atomic(intptr_t)* const entry = &mx_pagemap_table->entries[slice];
  const size_t at = (size_t)((uintptr_t)entry - (uintptr_t)mx_pagemap_table);
  if (!mx_bits_test(near_writable, at / CHUNK_SIZE)) return false;
  mx_store_relaxed(entry, page == NULL ? 0 : (intptr_t)page - (intptr_t)mx_pagemap_table);
  return true;
}

bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page) {
  const uintptr_t slice = (uintptr_t)start >> MX_SLICE_SHIFT;
  if (count == 1 && set_near_again(slice, page)) return true;
  for (size_t done = 0; done < count;) {
    const size_t n = set_run(slice + done, count - done, page);
    if (n == 0) {
      mx_pagemap_set(start, done, NULL);
      return false;
    }
    done += n;
  }
  return true;
}

void mx_pagemap_forget(const void* start, size_t count) {
  uintptr_t slice = (uintptr_t)start >> MX_SLICE_SHIFT;
  for (size_t n; count > 0; slice += n, count -= n) {
    n = mx_min(count, MX_FAR_ENTRIES - slice % MX_FAR_ENTRIES);
    uint8_t* first = (uint8_t*)&mx_pagemap_table->entries[slice];
    if (is_near_slice(slice)) {
      n = mx_min(n, mx_load_relaxed(&mx_pagemap_near) + 1 - slice);
    } else {
      mx_far_table_t* const far_table = mx_load_acquire(&mx_pagemap_far[slice / MX_FAR_ENTRIES]);
      if (far_table == NULL) continue;
      first = far_table->entries + slice % MX_FAR_ENTRIES * sizeof(intptr_t);
    }
    uint8_t* const from = (uint8_t*)mx_align_up((uintptr_t)first, mx_facts.os_page);
    uint8_t* const end =
        (uint8_t*)mx_align_down((uintptr_t)(first + n * sizeof(intptr_t)), mx_facts.os_page);
    if (from < end) mx_os_purge(from, (size_t)(end - from));
  }
}

bool mx_pagemap_visit_locks(mx_lock_visit_fn* visit) { return visit(&table_lock); }
