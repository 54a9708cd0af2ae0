// SPDX-License-Identifier: MIT
// The print-out of arenas: what each slice serves, as a map of letters.
#ifndef MX_SERVICE_ARENA_MAP_H
#define MX_SERVICE_ARENA_MAP_H

#include "../heap/heap.h"
#include "log.h"

MX_BEGIN_DECLS
void mx_arena_map_print(mx_subproc_t* subproc, mx_out_t* out);
MX_END_DECLS

#endif
