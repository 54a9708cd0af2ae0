// SPDX-License-Identifier: MIT
// Proves of the page map: whatever address is looked up or entered, its tables are read and written
// within their ends.
//
// The tables are addresses: each read or write of an entry is shown to lie in one of them.
#include "base/compiler.h"

static intptr_t read_entry(const intptr_t* p);
static void write_entry(intptr_t* p, intptr_t value);
#undef mx_add_loaded
#undef mx_store_relaxed
#define mx_add_loaded(base, entry) ((base) + (uintptr_t)read_entry(entry))
#define mx_store_relaxed(p, v) write_entry((p), (v))
#include "base/facts.h"
#include "base/lock.h"
#include "base/options.h"
#include "mem/bitmap.h"
#include "mem/pagemap.h"
// Of the words that are loaded in pagemap.c only entries are constant ones of this type.
#undef mx_load_relaxed
#define mx_load_relaxed(p) \
  _Generic((p), const intptr_t*: read_entry((const intptr_t*)(p)), default: *(p))
// The only words that are loaded with acquire there: which far tables there are, any.
#undef mx_load_acquire
#define mx_load_acquire(p) (check_far_table((uintptr_t)(p)), (nondet_bool() ? &prove_far_table : NULL))
// Of those that are stored with release the other is the bound.
#undef mx_store_release
#define mx_store_release(p, v) \
  _Generic((p), uintptr_t*: set_bound((uintptr_t*)(p), (uintptr_t)(v)), \
           default: check_far_table((uintptr_t)(p)))
static void set_bound(uintptr_t* p, uintptr_t value) { *p = value; }
// Bits of what is writable: any.
#define mx_bits_test(a, i) any_writable((a), (i))
static bool any_writable(const mx_bits_t* a, size_t i);
static mx_far_table_t prove_far_table;
static void check_far_table(uintptr_t p);
#include "mem/pagemap.c"

mx_facts_t mx_facts;
mx_settings_t mx_settings;

// The near table at its largest, and one far table.
#define NEAR_AT ((uintptr_t)1 << (MX_64BIT ? 43 : 20))
#define FAR_AT ((uintptr_t)1 << (MX_64BIT ? 44 : 21))
#define FAR_SIZE (MX_FAR_ENTRIES * sizeof(intptr_t))

static bool is_in_near(uintptr_t p, size_t size) {
  return p >= NEAR_AT && p - NEAR_AT <= mx_pagemap_near_size && size <= mx_pagemap_near_size - (p - NEAR_AT);
}

static bool is_in_far(uintptr_t p, size_t size) {
  return p >= FAR_AT && p - FAR_AT <= FAR_SIZE && size <= FAR_SIZE - (p - FAR_AT);
}

static void check_far_table(uintptr_t p) {
  const uintptr_t first = (uintptr_t)mx_pagemap_far;
  claim(p >= first && p - first < sizeof(mx_pagemap_far) && (p - first) % sizeof(mx_pagemap_far[0]) == 0);
}

static void check_entry(const intptr_t* entry) {
  const uintptr_t p = (uintptr_t)entry;
  claim(p % sizeof(intptr_t) == 0);
  claim(is_in_far(p, sizeof(intptr_t)) ||
        (is_in_near(p, sizeof(intptr_t)) && p - NEAR_AT >= MX_PAGE_RECORD_SIZE &&
         (p - NEAR_AT - MX_PAGE_RECORD_SIZE) / sizeof(intptr_t) <= mx_pagemap_near));
}

static intptr_t read_entry(const intptr_t* p) {
  check_entry(p);
  return (intptr_t)nondet_size();
}

// The chunks that were made writable last, and that are known to be writable.
static uintptr_t prove_committed, prove_writable;

static void write_entry(intptr_t* p, intptr_t value) {
  (void)value;
  check_entry(p);
  claim((uintptr_t)p - prove_writable < CHUNK_SIZE);
}

// A map that has grown to any size, and in which any one far table exists.
static void any_map(void) {
  mx_facts.os_page = 4096;
  mx_facts.va_bits = (MX_64BIT ? 48 : 32);
  mx_pagemap_table = (mx_pagemap_table_t*)NEAR_AT;
  const unsigned most = (MX_64BIT ? NEAR_BITS_MOST : 32);
  const unsigned bits = (unsigned)any_size(MX_64BIT ? NEAR_BITS_LEAST : 32, most);
  mx_pagemap_near_size = near_table_size(bits);
  mx_pagemap_near = last_slice(bits);
  is_grown = nondet_bool() || bits == most;
  prove_far_table.entries = (uint8_t*)FAR_AT;
}

// prove: every address, canonical or not, finds an entry within a table, or the zero record
// bound: all addresses, near tables of all sizes, one far table anywhere
// addresses: yes
// mutant: mem/pagemap.c: return i < MX_FAR_TABLES ? => return i <= MX_FAR_TABLES ?
void prove_pagemap_reads_within(void) {
  any_map();
  const mx_page_t* const page = mx_pagemap_get((const void*)nondet_uintptr());
  (void)page;
}

// What is made writable: ranges of the tables only.
bool mx_vmem_commit(void* p, size_t size) {
  claim(is_in_near((uintptr_t)p, size) || is_in_far((uintptr_t)p, size));
  const bool done = nondet_bool();
  prove_committed = (done ? (uintptr_t)p : 0);
  return done;
}
mx_map_result_t mx_vmem_map_at(void* p, size_t size, bool commit) {
  claim(!commit);
  claim((uintptr_t)p == NEAR_AT + mx_pagemap_near_size);
  claim(mx_pagemap_near_size + size <= near_table_size(MX_64BIT ? NEAR_BITS_MOST : 32));
  return nondet_bool() ? MX_MAP_DONE : MX_MAP_TAKEN;
}
void* mx_vmem_map(size_t size, size_t align, bool commit) {
  (void)align, (void)commit;
  claim(size == FAR_SIZE);
  return nondet_bool() ? (void*)FAR_AT : NULL;
}
bool mx_vmem_unmap(void* p, size_t size, size_t committed) {
  claim((uintptr_t)p == FAR_AT && size == FAR_SIZE && committed == 0);
  return nondet_bool();
}
void* mx_meta_alloc(size_t size) {
  claim(size <= sizeof(prove_far_table));
  return nondet_bool() ? &prove_far_table : NULL;
}
void* mx_vmem_map_table(unsigned bits, size_t size) { (void)bits, (void)size; return NULL; }
void mx_vmem_open_near(unsigned bits, unsigned most) { (void)bits, (void)most; }
void mx_os_reads_as_zero(void* p, size_t size) { (void)p, (void)size; }
void mx_lock_acquire(mx_lock_t* lock) { (void)lock; }
void mx_lock_release(mx_lock_t* lock) { (void)lock; }

// What is writable, within the map of it.
static uintptr_t chunk_of(const mx_bits_t* a, size_t i) {
  const bool is_far = (a == &prove_far_table.writable);
  claim(i < (is_far ? MX_WORD_BITS : MX_WORD_BITS * (sizeof(near_writable) / 8)));
  return (is_far ? FAR_AT : NEAR_AT) + i * CHUNK_SIZE;
}
static bool any_writable(const mx_bits_t* a, size_t i) {
  const bool is_writable = nondet_bool();
  const uintptr_t chunk = chunk_of(a, i);
  if (is_writable) prove_writable = chunk;
  return is_writable;
}
size_t mx_bits_set(mx_bits_t* a, size_t first, size_t n) {
  claim(n == 1 && chunk_of(a, first) == prove_committed);
  prove_writable = prove_committed;
  return nondet_size();
}

// prove: an entry is written within a table, where it is writable, for every address
// bound: all addresses, runs of up to 16 slices, near tables of all sizes, one far table anywhere
// unwind: 18
// addresses: yes
// mutant: mem/pagemap.c: count = mx_min(count, mx_min(in_chunk, in_table)); => count = mx_min(count, in_table);
void prove_pagemap_writes_within(void) {
  any_map();
  const uintptr_t slice = nondet_uintptr() >> MX_SLICE_SHIFT;
  const size_t count = any_size(1, 16);
  const size_t done = set_run(slice, count, nondet_bool() ? (mx_page_t*)FAR_AT : NULL);
  claim(done <= count);
}
