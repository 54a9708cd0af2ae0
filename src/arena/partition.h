// SPDX-License-Identifier: MIT
// Addresses of a heap's own: in hardened builds no other heap gets what a heap once had, also when
// that is gone. See partition.c.
#ifndef MX_ARENA_PARTITION_H
#define MX_ARENA_PARTITION_H

#include "plots.h"

// A heap's part: its plots, newest first.
typedef struct mx_partition_s {
  uint64_t id;                    // unique; 0: the heap has no addresses of its own
  mx_atomic(mx_plot_t*) plots;    // grows in front while the heap lives
  mx_atomic(mx_plot_t*) look_at;  // where the next search for free slices begins, or NULL
} mx_partition_t;

MX_BEGIN_DECLS
// As mx_slices_alloc, for at most MX_WORD_BITS slices without alignment: of addresses that are the
// partition's, or were nobody's yet.
bool mx_partition_slices(mx_arenas_t* arenas, mx_partition_t* partition,
                         const mx_slices_request_t* request, mx_slices_t* out);
// A heap's record may have what was its last one's: a fork came in the middle of that one's end.
void mx_partition_begin(mx_partition_t* partition, uint64_t id);
// Its heap is gone: what it has used is nobody's for ever when it is free.
void mx_partition_end(mx_arenas_t* arenas, mx_partition_t* partition);
MX_END_DECLS

#endif
