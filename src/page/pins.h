// SPDX-License-Identifier: MIT
// What a live block keeps from being given back: the free memory of the OS pages that it lies in.
#ifndef MX_PAGE_PINS_H
#define MX_PAGE_PINS_H

#include "page.h"

typedef struct mx_pins_s {
  double shared;  // bytes of free blocks there, divided by the live ones that keep them
  size_t alone;   // of these, in OS pages where no other block is live
} mx_pins_t;

MX_BEGIN_DECLS
// Of a block that stays live meanwhile. Between mx_holes_begin and mx_holes_end. Nothing when its
// page is not at rest: what is free there is about to be used.
mx_pins_t mx_pins_of(mx_page_t* page, const void* block);
MX_END_DECLS

#endif
