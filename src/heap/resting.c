// SPDX-License-Identifier: MIT
// Verifying pages at rest, whoever has them: see resting.h.
//
// They are borrowed one by one, as for holes (page/holes.h): so each stays, and has the blocks that
// it has. Its owner and others may free into it meanwhile. Canaries are valid while they do; the
// slack of a block and the link of a free one are not, and are left to the page's owner. What is
// found is told when the page is given back, since a handler of errors may do anything.
#include "../page/ends.h"
#include "../page/holes.h"
#include "adopt.h"
#include "resting.h"

static bool verify_resting(mx_page_t* page) {
  if (!mx_lending_begin()) return true;
  mx_damage_t damage;
  damage.block = NULL;
  if (mx_holes_borrow(page)) {
    damage = mx_page_damage_of_lent(page);
    if (mx_holes_give_back(page, false)) mx_page_release(page);
  }
  mx_holes_end();
  if (damage.block != NULL) mx_damage_report(&damage);
  return damage.block == NULL;
}

bool mx_subproc_verify_resting(mx_subproc_t* subproc) {
  bool is_sound = true;
  size_t item = 0, index = 0;
  for (mx_page_t* page; (page = mx_page_next_of(&subproc->arenas, &item, &index)) != NULL;) {
    if ((mx_load_acquire(&page->lend) & MX_PAGE_RESTS) == 0 || mx_page_is_mine(page)) continue;
    is_sound = verify_resting(page) && is_sound;
  }
  return is_sound;
}
