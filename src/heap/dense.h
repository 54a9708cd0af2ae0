// SPDX-License-Identifier: MIT
// Which huge blocks are filled: those get large OS pages (`allow_thp=1`).
#ifndef MX_HEAP_DENSE_H
#define MX_HEAP_DENSE_H

#include "heap.h"

MX_BEGIN_DECLS
// Whether a block of so many bytes is to have large OS pages.
bool mx_dense_is_expected(size_t bytes);
// Gives the memory of a block large OS pages, as far as whole ones lie in it, if they are expected;
// is_fresh: nothing of it is present.
void mx_dense_begin(mx_page_t* page, bool is_expected, bool is_fresh);
// Looks at what of a block was touched, before its slices are given back. Of a vast one of which
// that is little it goes back to the OS.
void mx_dense_end(const mx_page_t* page);
MX_END_DECLS

#endif
