// SPDX-License-Identifier: MIT
// Arenas of large (2 MiB) and huge (1 GiB) OS pages. Their memory is there from the start and
// stays: such arenas are never purged.
#ifndef MX_ARENA_HUGE_PAGES_H
#define MX_ARENA_HUGE_PAGES_H

#include "arena.h"

MX_BEGIN_DECLS
// An arena of as many huge OS pages as can be had, up to `pages`, on a node (-1: any). Stops when
// that takes longer than `timeout_msecs` (0: no limit). NULL when there is not one.
mx_arena_t* mx_arena_reserve_huge_pages(mx_arenas_t* arenas, size_t pages, int numa_node,
                                        uint64_t timeout_msecs, bool is_exclusive);
// An arena of large OS pages, of at least `size` bytes; NULL when there are none.
mx_arena_t* mx_arena_reserve_large_pages(mx_arenas_t* arenas, size_t size, bool is_exclusive);
MX_END_DECLS

#endif
