// SPDX-License-Identifier: MIT
// The lists that a theap's pages are on: doubly linked, ended by NULL, and the first page's
// `prev` is the last one, so that both ends are found in one step.
#ifndef MX_HEAP_PAGE_LIST_H
#define MX_HEAP_PAGE_LIST_H

#include "../page/page.h"

mx_inline mx_page_t* mx_list_last(mx_page_t* list) {
  mx_check(list != NULL);
  return list->prev;
}

mx_inline void mx_list_push(mx_page_t** list, mx_page_t* page) {
  mx_check(page->next == NULL && page->prev == NULL);
  mx_page_t* const head = *list;
  page->next = head;
  mx_check(head == NULL || head->prev->next == NULL);
  page->prev = page;
  if (head != NULL) {
    page->prev = head->prev;
    head->prev = page;
  }
  *list = page;
}

mx_inline void mx_list_remove(mx_page_t** list, mx_page_t* page) {
  mx_check(*list != NULL && page->prev != NULL);
  mx_check(*list == page || page->prev->next == page);
  mx_check(page->next == NULL || page->next->prev == page);
  if (*list == page) *list = page->next;
  else page->prev->next = page->next;
  if (page->next != NULL) page->next->prev = page->prev;
  else if (*list != NULL) (*list)->prev = page->prev;
  page->next = page->prev = NULL;
}

// Makes the first page the last one.
mx_inline void mx_list_turn(mx_page_t** list) {
  mx_check(*list != NULL);
  mx_page_t* const page = *list;
  if (page->next == NULL) return;
  *list = page->next;
  page->prev->next = page;
  page->next = NULL;
}

#endif
