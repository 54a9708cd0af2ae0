// SPDX-License-Identifier: MIT
// Verifying pointers: see verify.h.
#include "verify.h"

#include "../base/hooks.h"
#include "../page/shift.h"

static bool is_live_huge(const mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  return (mx_load_relaxed(&page->owner) & MX_OWNER_HUGE) != 0;
}

// Whether the carved block at a place where one can begin is its user's. What was written over
// counts, so that it is reported as that.
static bool is_live(const mx_page_t* page, const void* block) {
  mx_check(!mx_page_is_huge(page) && !mx_page_is_zero_sized(page));
  if (mx_page_offset(page, block) >= mx_page_carved(page)) return false;
  return mx_page_has_live(page, block);
}

bool mx_verify_is_inside(const mx_page_t* page, const void* p) {
  if (!MX_KNOWS_LIVE || mx_page_is_zero_sized(page)) return true;
  const size_t offset = mx_page_offset(page, p);
  const bool is_huge = mx_page_is_huge(page);
  const size_t at = (is_huge ? offset : (uint32_t)offset % (uint32_t)page->block_size);
  const uint8_t* const block = (const uint8_t*)p - at;
  if (is_huge ? !is_live_huge(page) : !is_live(page, block)) return false;
  return at < mx_usable_of(page, block);
}

bool mx_verify_pointer(const char* function, const void* p) {
  mx_page_t* const page = mx_pagemap_get(p);
  if (p == NULL) return false;
  const void* const block = (mx_pagemap_is_none(page) ? NULL : mx_page_block_of(page, p));
  const bool is_ours = (block != NULL && (mx_page_is_zero_sized(page) ||
                        (mx_page_is_huge(page) ? is_live_huge(page) : is_live(page, block))));
  if (!is_ours) {
    mx_harden_report_pointer(function, mx_pagemap_is_none(page) ? NULL : page, p);
    return false;
  }
  mx_harden_check(page, block);
  return true;
}
