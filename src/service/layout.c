// SPDX-License-Identifier: MIT
// The table behind layout.h. A field that is read from outside stands here; nothing else does.
#include "layout.h"

#include "../alloc/guarded.h"
#include "../base/facts.h"
#include "../mem/vmem.h"
#include "../page/delay.h"
#include "../page/live.h"
#include "../page/padding.h"
#include "../page/remote.h"
#include "../profile/profile.h"
#include "report.h"

#define FIELD_IN(type, part, field)                                                                \
  X(#type "." #field, offsetof(mx_##type##_t, part field), sizeof(((mx_##type##_t*)0)->part field))
#define FIELD(type, field) FIELD_IN(type, , field)
#define SIZE(type) X("sizeof." #type, sizeof(mx_##type##_t), 0)
#define NUMBER(name, value) X(name, value, 0)

#define LAYOUT_FIELDS                                                                             \
  FIELD(page, owner) FIELD(page, free) FIELD(page, used) FIELD(page, capacity)                    \
  FIELD(page, reserved) FIELD(page, bin) FIELD(page, lend) FIELD(page, shifted)                   \
  FIELD(page, start) FIELD(page, block_size) FIELD(page, theap) FIELD(page, key)                  \
  FIELD(page, remote) FIELD(page, next) FIELD(page, heap) FIELD(page, arena)                      \
  FIELD(page, slice_index) FIELD(page, slice_count) SIZE(page)                                    \
  FIELD(arena, start) FIELD(arena, slices) FIELD(arena, words) FIELD(arena, free)                 \
  FIELD(arena, dirty) FIELD(arena, committed) FIELD(arena, purgeable) FIELD(arena, present)       \
  FIELD(arena, records) FIELD(arena, meta_size) FIELD(arena, id) FIELD(arena, is_pinned)          \
  FIELD(arena, mapping) FIELD(arena, mapping_size) SIZE(arena)                                    \
  FIELD(arenas, count) FIELD(arenas, items)                                                       \
  FIELD(theap, tid) FIELD(theap, heap) FIELD(theap, first) FIELD_IN(theap, thread., number)       \
  FIELD_IN(theap, links., next_in_heap) FIELD(theap, spares) SIZE(theap)                          \
  FIELD(heap, subproc) FIELD(heap, theaps) FIELD(heap, next) FIELD(heap, tag) FIELD(heap, id)     \
  SIZE(heap)                                                                                      \
  FIELD(subproc, heaps) FIELD(subproc, next) FIELD(subproc, os_pages) FIELD(subproc, main_heap)   \
  FIELD(subproc, arenas) SIZE(subproc)                                                            \
  FIELD(guarded, mapping) FIELD(guarded, mapping_size) FIELD(guarded, data)                       \
  FIELD(guarded, data_size) FIELD(guarded, block) FIELD(guarded, size) FIELD(guarded, page)       \
  FIELD(guarded, used_size) FIELD(guarded, alloc_stack) FIELD(guarded, free_stack) SIZE(guarded)  \
  FIELD(page, note) FIELD(note, site) FIELD(note, size) FIELD(site, depth) FIELD(site, frames)    \
  FIELD(meta_chunk, next) FIELD(meta_chunk, size) FIELD(far_table, entries)                       \
  FIELD(facts, os_page) FIELD(report_field, name) FIELD(report_field, label)                      \
  FIELD(report_field, group) SIZE(report_field)                                                   \
  NUMBER("slice_shift", MX_SLICE_SHIFT) NUMBER("align", MX_ALIGN)                                 \
  NUMBER("page_record_size", MX_PAGE_RECORD_SIZE)                                                 \
  NUMBER("page_record_stride", MX_PAGE_RECORD_STRIDE)                                             \
  NUMBER("page_extra_size", MX_PAGE_EXTRA_SIZE) FIELD(arena, records_key)                         \
  NUMBER("scatter_group", MX_SCATTER_GROUP) NUMBER("scatter_places", MX_SCATTER_PLACES)           \
  NUMBER("far_bits", MX_FAR_BITS) NUMBER("far_tables", MX_FAR_TABLES)                             \
  NUMBER("guarded_records", MX_GUARDED_RECORDS) NUMBER("guarded_frames", MX_GUARDED_FRAMES)       \
  NUMBER("small_bins", MX_SMALL_BINS) NUMBER("bin_huge", MX_BIN_HUGE)                             \
  NUMBER("owner_huge", MX_OWNER_HUGE) NUMBER("owner_tags", MX_OWNER_TAGS)                         \
  NUMBER("remote_count_shift", MX_REMOTE_COUNT_SHIFT)                                             \
  NUMBER("page_rests", MX_PAGE_RESTS) NUMBER("page_holes", MX_PAGE_HOLES)                         \
  NUMBER("page_guarded", MX_PAGE_GUARDED) NUMBER("page_noted", MX_PAGE_NOTED)                     \
  NUMBER("encodes_links", MX_ENCODE_LINKS) NUMBER("live_bits", MX_LIVE_BITS)                      \
  NUMBER("padding", MX_PADDING) NUMBER("pad", MX_PAD)                                             \
  NUMBER("pad_state_shift", MX_PAD_STATE_SHIFT) NUMBER("pad_state_bits", MX_PAD_STATE_BITS)       \
  NUMBER("pad_first_size", MX_PAD_FIRST_SIZE) NUMBER("debug", MX_DEBUG)                           \
  NUMBER("secure", MX_SECURE) NUMBER("report_rows", MX_ROW_COUNT)

#define LAYOUT_ADDRESSES                                                                          \
  Y("subproc_main", mx_subproc_main) Y("pagemap_table", mx_pagemap_table)                         \
  Y("pagemap_near", mx_pagemap_near) Y("pagemap_near_size", mx_pagemap_near_size)                 \
  Y("pagemap_far", mx_pagemap_far) Y("meta_chunks", mx_meta_chunks)                               \
  Y("guarded_records", mx_guarded_records) Y("page_none", mx_page_none) Y("facts", mx_facts)      \
  Y("report_fields", mx_report_fields)

// How many there are of each.
#define X(name, value, size) +1
#define Y(name, variable) +1
enum { FIELD_COUNT = 0 LAYOUT_FIELDS, ADDRESS_COUNT = 0 LAYOUT_ADDRESSES };
#undef X
#undef Y

typedef struct layout_table_s {
  mx_layout_t head;
  mx_layout_field_t fields[FIELD_COUNT];
  mx_layout_address_t addresses[ADDRESS_COUNT];
} layout_table_t;

#define X(name, value, size) {name, (uint32_t)(value), (uint32_t)(size)},
#define Y(name, variable) {name, &variable},
mx_used static const layout_table_t layout_table = {
    {"mimalloc-layout", MX_LAYOUT_VERSION, MX_VERSION, sizeof(void*), FIELD_COUNT, ADDRESS_COUNT,
     offsetof(layout_table_t, fields), offsetof(layout_table_t, addresses)},
    {LAYOUT_FIELDS},
    {LAYOUT_ADDRESSES},
};
#undef X
#undef Y

const mx_layout_t* const mx_layout = &layout_table.head;

#undef FIELD
#undef FIELD_IN
#undef SIZE
#undef NUMBER
