// SPDX-License-Identifier: MIT
// The lists of a theap's pages that are not current: those with free blocks, and the latest full
// ones.
#ifndef MX_HEAP_THEAP_LISTS_H
#define MX_HEAP_THEAP_LISTS_H

#include "heap.h"
#include "page_list.h"

// A pass of collecting that is at this page goes on behind it.
static inline void mx_listed_unlink(mx_theap_t* theap, mx_page_t** list, mx_page_t* page) {
  if (mx_unlikely(theap->collecting.at == page)) theap->collecting.at = page->next;
  mx_list_remove(list, page);
}

static inline void mx_partial_push_head(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->retained_slot == 0);
  mx_list_push(&theap->lists.partial[page->bin], page);
  theap->lists.partial_count[page->bin]++;
}

static inline void mx_partial_push_tail(mx_theap_t* theap, mx_page_t* page) {
  mx_partial_push_head(theap, page);
  mx_list_turn(&theap->lists.partial[page->bin]);
}

// Makes the first partial page of a bin the last one.
static inline void mx_partial_turn(mx_theap_t* theap, size_t bin) {
  mx_page_t** const list = &theap->lists.partial[bin];
  if (mx_unlikely(theap->collecting.at == *list)) theap->collecting.at = (*list)->next;
  mx_list_turn(list);
}

static inline void mx_partial_remove(mx_theap_t* theap, mx_page_t* page) {
  mx_check(theap->lists.partial_count[page->bin] > 0);
  mx_check(page->retained_slot == 0);
  mx_listed_unlink(theap, &theap->lists.partial[page->bin], page);
  theap->lists.partial_count[page->bin]--;
}

static inline void mx_full_remove(mx_theap_t* theap, mx_page_t* page) {
  mx_check(theap->lists.full_count[page->bin] > 0);
  mx_check(page->retained_slot == 0 && mx_page_theap(page) == theap);
  mx_listed_unlink(theap, &theap->lists.full[page->bin], page);
  theap->lists.full_count[page->bin]--;
  mx_page_set_owner(page, theap->tid);
}

#endif
