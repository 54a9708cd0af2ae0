// SPDX-License-Identifier: MIT
// The walk that verifies a thread-heap: all its lists, their counts, and each page on them.
// Builds of debug level 3 make it at every heartbeat, when they collect and when a thread ends.
#include "../mem/vmem.h"
#include "heap.h"

static bool is_own(const mx_theap_t* theap, const mx_page_t* page, size_t bin) {
  const uintptr_t owner = mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS;
  if (page->bin != bin || page->theap != theap || mx_pagemap_get(page->start) != page) return false;
  return owner == (theap->tid & ~MX_OWNER_TAGS) && mx_page_is_valid(page);
}

static bool is_list_valid(const mx_theap_t* theap, const mx_page_t* list, size_t bin, size_t most) {
  const mx_page_t* before = (list == NULL ? NULL : list->prev);
  size_t count = 0;
  for (const mx_page_t* page = list; page != NULL; before = page, page = page->next) {
    if (page->prev != before || ++count > most || !is_own(theap, page, bin)) return false;
    const uint32_t slot = page->retained_slot;
    if (slot != 0 && theap->retained.pages[slot - 1] != page) return false;
  }
  return count == most && (list == NULL || before == list->prev);
}

static bool are_full(const mx_page_t* page) {
  for (; page != NULL; page = page->next) {
    if (page->free != NULL || (mx_load_relaxed(&page->owner) & MX_OWNER_FULL) == 0) return false;
  }
  return true;
}

bool mx_theap_is_valid(const mx_theap_t* theap) {
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const mx_page_t* const current = theap->bins.current[bin];
    if (current != &mx_page_none && (current->used == 0 || !is_own(theap, current, bin))) {
      return false;
    }
    if (!is_list_valid(theap, theap->bins.partial[bin], bin, theap->bins.partial_count[bin]) ||
        !is_list_valid(theap, theap->bins.full[bin], bin, theap->bins.full_count[bin]) ||
        !are_full(theap->bins.full[bin])) {
      return false;
    }
  }
  return true;
}
