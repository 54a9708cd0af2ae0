// SPDX-License-Identifier: MIT
// The map from any address to the record of the page that holds it.
//
// One table serves the addresses from 64 KiB up to a bound (`mx_pagemap_near`): an entry of one
// word for every slice (64 KiB). The first slice is not among them: NULL lies there, and is freed
// so often that the comparison with the bound is to tell it, too. An entry is the distance in bytes
// from the table's start to the page's record, so the zero of an untouched entry leads to the
// table's own start, which is kept zero and reads as the record of a page that nobody owns. Arenas
// lie at near addresses where the system lets us choose (see vmem.h), so a small table does: 1 MiB
// of addresses for 8 GiB. It grows in place when addresses beyond are chosen.
//
// What lies elsewhere is far: memory of the program's, mappings that the system placed, blocks in
// mappings of their own. Each 16 GiB of such addresses get a table of their own when the first page
// enters there; a table of those tables covers MX_PAGEMAP_BITS. free() of a far block takes the
// slow path.
//
// Any address at all, valid or not, has a record: a wild free() finds the zero record.
//
// Entries are relaxed atomics: a block's address reaches another thread only after the entry was
// written, by whatever means that thread got the address. So did the bound, when it grew for it.
#ifndef MX_MEM_PAGEMAP_H
#define MX_MEM_PAGEMAP_H

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../base/lock.h"
#include "bitmap.h"

typedef struct mx_page_s mx_page_t;

// Bits of the addresses that can be entered. Systems give out longer ones only where a call names
// such an address.
#define MX_PAGEMAP_BITS (MX_64BIT ? 48 : 32)
// No block is larger than that: there are no such addresses.
#define MX_BLOCK_MAX \
  ((MX_64BIT ? MX_MAX_ALLOC >> (63 - MX_PAGEMAP_BITS) : MX_MAX_ALLOC) - MX_SLICE_SIZE)

// The zero record and the entries' offset behind it; at least the size of a page record.
#define MX_PAGE_RECORD_SIZE ((size_t)192)

// How many blocks of a page wait in quarantine at once (see page/delay.h).
#define MX_WAIT_PLACES (MX_SECURE >= 5 || MX_DEBUG > 0 ? 4 : 1)
// What lies behind each record in an arena: those blocks, if they are several, and where bitmaps of
// live blocks are kept (see page/live.h) two bits for every place where one can begin.
#define MX_PAGE_EXTRA_SIZE ((size_t)(MX_QUARANTINE && MX_WAIT_PLACES > 1 ? MX_CACHE_LINE : 0))
#define MX_LIVE_SIZE ((size_t)(MX_LIVE_BITS ? 2 * (MX_SLICE_SIZE / MX_ALIGN / 8) : 0))
#define MX_PAGE_RECORD_STRIDE (MX_PAGE_RECORD_SIZE + MX_PAGE_EXTRA_SIZE + MX_LIVE_SIZE)

typedef struct mx_pagemap_table_s {
  uint8_t none[MX_PAGE_RECORD_SIZE];  // always zero
  mx_atomic(intptr_t) entries[1];     // by slice; the first stays zero
} mx_pagemap_table_t;

#define MX_FAR_BITS 34
#define MX_FAR_ENTRIES ((size_t)1 << (MX_FAR_BITS - MX_SLICE_SHIFT))
#define MX_FAR_TABLES ((size_t)1 << (MX_64BIT ? MX_PAGEMAP_BITS - MX_FAR_BITS : 0))

typedef struct mx_far_table_s {
  uint8_t* entries;
  mx_bits_t writable;  // by chunk
} mx_far_table_t;

MX_BEGIN_DECLS
typedef struct mx_own_page mx_pagemap_root_s {
  mx_pagemap_table_t* table;  // constant once initialised
} mx_pagemap_root_t;
extern mx_hidden mx_pagemap_root_t mx_pagemap_root;
#define mx_pagemap_table mx_pagemap_root.table
extern mx_hidden mx_atomic(uintptr_t) mx_pagemap_near;  // the last slice in it; only grows
extern mx_hidden size_t mx_pagemap_near_size;           // bytes that the table has reserved
extern mx_hidden mx_atomic(mx_far_table_t*) mx_pagemap_far[MX_FAR_TABLES];
// Reserves the table; false when not even the smallest is to be had.
bool mx_pagemap_init(void);
// Points the `count` slices from `start` at a page record; NULL clears them. False: out of memory,
// or no address that a program can have.
bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page);
// Gives back what the cleared entries of slices hold that will not be used for long.
void mx_pagemap_forget(const void* start, size_t count);
// The record for any address: a page's, or the zero record.
mx_page_t* mx_pagemap_get(const void* p);
bool mx_pagemap_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

// Slices between the first one and an address's; for NULL more than there can be.
mx_inline uintptr_t mx_pagemap_before(const void* p) {
  return ((uintptr_t)p - MX_SLICE_SIZE) >> MX_SLICE_SHIFT;
}

mx_inline bool mx_pagemap_is_near(const void* p) {
  return mx_is_below_loaded(mx_pagemap_before(p), &mx_pagemap_near);
}

// For the paths where instructions count.
mx_inline mx_page_t* mx_pagemap_get_near(const void* p) {
  mx_pagemap_table_t* const table = mx_pagemap_table;
  return (mx_page_t*)mx_add_loaded((uintptr_t)table, &table->entries[mx_pagemap_before(p) + 1]);
}

mx_inline bool mx_pagemap_is_none(const mx_page_t* page) {
  return (const void*)page == (const void*)mx_pagemap_table;
}

// The page whose slices an address lies in, or NULL.
mx_inline mx_page_t* mx_pagemap_find(const void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  return mx_pagemap_is_none(page) ? NULL : page;
}

#endif
