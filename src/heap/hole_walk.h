// SPDX-License-Identifier: MIT
// Giving back parts of pages in use, on request.
#ifndef MX_HEAP_HOLE_WALK_H
#define MX_HEAP_HOLE_WALK_H

#include "heap.h"

MX_BEGIN_DECLS
// Makes holes in all pages at rest; answers how many bytes that gave back. With idle_only only in
// those that nobody used since the walk before; *has_changed: there are others.
size_t mx_subproc_make_holes(mx_subproc_t* subproc, bool idle_only, bool* has_changed);
MX_END_DECLS

#endif
