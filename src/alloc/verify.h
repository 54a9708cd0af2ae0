// SPDX-License-Identifier: MIT
// What builds that know their live blocks say of any pointer. In others nothing calls this.
//
// A call that is given a block verifies it and reports what is none. A question that may be asked
// of any address is answered, and no error.
#ifndef MX_ALLOC_VERIFY_H
#define MX_ALLOC_VERIFY_H

#include "fast.h"

MX_BEGIN_DECLS
// Whether p stands for a live block, whose ends are verified; else reports that `function` was
// given something else. NULL is none, too, and not reported.
bool mx_verify_pointer(const char* function, const void* p);
// Whether an address lies in the bytes of a live block of the page, which holds it.
bool mx_verify_is_inside(const mx_page_t* page, const void* p);
MX_END_DECLS

// The usable bytes of what the program says is a block.
mx_inline size_t mx_usable_of_block(const char* function, const void* p) {
  size_t size;
  if (mx_has_tags()) p = mx_tags_look(function, p);
  if (mx_harden_knows(p, &size)) return size;
  if (MX_KNOWS_LIVE && !mx_verify_pointer(function, p)) return 0;
  return mx_usable(p);
}

#endif
