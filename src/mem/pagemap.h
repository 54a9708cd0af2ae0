// SPDX-License-Identifier: MIT
// Owns the map from any address to the record of the page that holds it.
//
// One table for the whole address space, reserved and untouched until needed: an entry of one
// word for every slice (64 KiB) of address space. An entry is the distance in bytes from the
// table's start to the page's record, so the zero of an untouched entry leads to the table's own
// start, which is kept zero and reads as the record of a page that nobody owns. A free() of any
// address at all therefore finds a readable record with two loads and no test.
//
// Where the full table (16 GiB for 47-bit addresses) cannot be reserved, for instance under a
// limit on address space, a smaller one serves a window: addresses are taken modulo its size. An
// address from elsewhere may then meet one of our records, so there (`mx_pagemap_is_window()`)
// owners are stored with their lowest bit set: the fast path of free() never matches, and the slow
// path compares the address with the page's bounds.
//
// Entries are relaxed atomics: a block's address reaches another thread only after the entry was
// written, by whatever means that thread got the address.
#ifndef MX_MEM_PAGEMAP_H
#define MX_MEM_PAGEMAP_H

#include "../base/atomic.h"
#include "../base/bits.h"

typedef struct mx_page_s mx_page_t;

// The zero record and the entries' offset behind it; at least the size of a page record.
#define MX_PAGE_RECORD_SIZE ((size_t)128)

// What lies behind each record in an arena: the blocks in quarantine (see page/delay.h), and where
// bitmaps of live blocks are kept (see page/live.h) two bits for every place where one can begin.
#define MX_PAGE_EXTRA_SIZE ((size_t)(MX_QUARANTINE ? 64 : 0))
#define MX_LIVE_SIZE ((size_t)(MX_LIVE_BITS ? 2 * (MX_SLICE_SIZE / MX_ALIGN / 8) : 0))
#define MX_PAGE_RECORD_STRIDE (MX_PAGE_RECORD_SIZE + MX_PAGE_EXTRA_SIZE + MX_LIVE_SIZE)

typedef struct mx_pagemap_table_s {
  uint8_t none[MX_PAGE_RECORD_SIZE];  // always zero
  mx_atomic(intptr_t) entries[1];     // as many as there are slices
} mx_pagemap_table_t;

MX_BEGIN_DECLS
// Constant once initialised.
extern mx_hidden mx_pagemap_table_t* mx_pagemap_table;
extern mx_hidden uintptr_t mx_pagemap_mask;  // entries - 1
// Reserves the table; false when not even the smallest window is to be had.
bool mx_pagemap_init(void);
// Bytes that the whole table takes.
size_t mx_pagemap_reserve_size(void);
// Points the `count` slices from `start` at a page record; NULL clears them. False: out of memory.
bool mx_pagemap_set(const void* start, size_t count, mx_page_t* page);
bool mx_pagemap_is_window(void);
// In a window: whether two ranges would share entries.
bool mx_pagemap_collides(const void* a, size_t a_size, const void* b, size_t b_size);
MX_END_DECLS

mx_inline mx_atomic(intptr_t) * mx_pagemap_entry(const void* p) {
  return &mx_pagemap_table->entries[((uintptr_t)p >> MX_SLICE_SHIFT) & mx_pagemap_mask];
}

// The record for any address: a page's, or the zero record.
mx_inline mx_page_t* mx_pagemap_get(const void* p) {
  return (mx_page_t*)mx_add_loaded((uintptr_t)mx_pagemap_table, mx_pagemap_entry(p));
}

mx_inline bool mx_pagemap_is_none(const mx_page_t* page) {
  return (const void*)page == (const void*)mx_pagemap_table;
}

#endif
