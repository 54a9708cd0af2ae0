// SPDX-License-Identifier: MIT
// A collection inside a collection. An error that is found while a theap is walked reaches the
// program's handler, which may collect, allocate and free: it must not wait for the walk that waits for
// it, and is told when that is over. Its output function is told at once: what the walk goes on with
// then is no other list.
#include <stdio.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../../src/page/padding.h"
#include "../page_of.h"

enum { SIZE = 600, SOME = 300, MANY = 4000 };

static mx_theap_t* theap;
static int told;

// What a slow allocation does, but no round of housekeeping.
static void visit(void) {
  theap->visits = 1;
  mx_theap_housekeeping(theap, 1);
}

static bool is_at_full_list(void) { return theap->collecting.list % 2 != 0; }

// Goes on with the pass that found the error, up to a list of full pages.
static void mi_cdecl on_message(const char* text, void* arg) {
  (void)text, (void)arg;
  if (theap->collecting.list == 0 || told++ > 0) return;
  for (int i = 0; i < 1000 && !is_at_full_list(); i++) visit();
}

static void mi_cdecl ignore(int error, void* arg) { (void)error, (void)arg; }

// A damaged block in a current page, beside a few partial pages of its size and more full ones than a
// visit comes to.
static int goes_on_inside(void) {
  static void* blocks[MANY];
  mi_option_set(mi_option_page_full_retain, 100);
  for (int i = 0; i < MANY; i++) blocks[i] = mi_malloc(SIZE);
  mx_page_t* const page = page_of(blocks[MANY - 1]);
  for (int i = 0; i < SOME; i += 2) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
  if (theap->bins.current[page->bin] != page || theap->lists.partial[page->bin] == NULL) return 2;
  allow_damage();
  uint8_t* const behind = (uint8_t*)blocks[MANY - 1] + SIZE;
  const uint8_t was = *behind;
  *behind = (uint8_t)~was;
  mi_register_error(&ignore, NULL);
  mi_register_output(&on_message, NULL);
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_generic_collect, 1);
  for (int i = 0; i < 1000 && told == 0; i++) visit();
  if (told == 0) return 3;
  mi_option_set(mi_option_generic_collect, 0);
  const mx_page_t* const at = theap->collecting.at;
  if (is_at_full_list() && at != NULL && (mx_load_relaxed(&at->owner) & MX_OWNER_FULL) == 0) return 4;
  for (int i = 0; i < 1000 && theap->collecting.list != 0; i++) visit();
  *behind = was;
  mi_register_error(NULL, NULL);
  mi_register_output(NULL, NULL);
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  return theap->collecting.list == 0 && mx_theap_is_valid(theap) ? 0 : 5;
}

// ---- a handler that allocates from the bin whose current page is looked at -----------------------

static void* of_handler;

static void mi_cdecl allocate(int error, void* arg) {
  (void)error, (void)arg;
  if (of_handler == NULL) of_handler = mi_malloc(SIZE);
}

static bool has_in_list(const mx_page_t* list, const mx_page_t* page) {
  while (list != NULL && list != page) list = list->next;
  return list != NULL;
}

static bool has_listed(const mx_page_t* page) {
  const size_t bin = page->bin;
  return theap->bins.current[bin] == page || has_in_list(theap->lists.partial[bin], page) ||
         has_in_list(theap->lists.full[bin], page);
}

static int allocates_inside(bool force) {
  void* const p = mi_malloc(SIZE);
  mx_page_t* const page = page_of(p);
  if (theap->bins.current[page->bin] != page) return 6;
  allow_damage();
  uint8_t* const behind = (uint8_t*)p + SIZE;
  const uint8_t was = *behind;
  *behind = (uint8_t)~was;
  of_handler = NULL;
  mi_register_error(&allocate, NULL);
  mx_theap_collect(theap, force);
  if (of_handler == NULL) return 7;
  *behind = was;
  mi_register_error(NULL, NULL);
  if (!has_listed(page) || !has_listed(page_of(of_handler))) return 8;
  mi_free(p);
  mi_free(of_handler);
  return mx_theap_is_valid(theap) ? 0 : 9;
}

// ---- a handler that frees all of the page that is looked at, and collects ------------------------

static void* blocks_of_page[SOME];

static void mi_cdecl empty_page(int error, void* arg) {
  (void)error, (void)arg;
  if (told++ > 0) return;
  for (int i = 0; i < SOME; i++) {
    mi_free(blocks_of_page[i]);
    blocks_of_page[i] = NULL;
  }
  mi_collect(true);
}

// Two blocks are left of a page that is on a list, or current, one damaged behind.
static int goes_inside(bool is_current, bool verifies) {
  void** const blocks = blocks_of_page;
  for (int i = 0; i < SOME; i++) blocks[i] = mi_malloc(SIZE);
  mx_page_t* const page = page_of(blocks[is_current ? SOME - 1 : 0]);
  if ((theap->bins.current[page->bin] == page) != is_current) return 10;
  uint8_t* behind = NULL;
  for (int i = 0, left = 2; i < SOME; i++) {
    if (page_of(blocks[i]) == page && left-- > 0) {
      behind = (uint8_t*)blocks[i] + SIZE;
    } else {
      mi_free(blocks[i]);
      blocks[i] = NULL;
    }
  }
  allow_damage();
  *behind = (uint8_t)~*behind;
  told = 0;
  mi_register_error(&empty_page, NULL);
  if (verifies) mi_heap_verify(NULL);
  else mx_theap_collect(theap, true);
  mi_register_error(NULL, NULL);
  if (told != 1) return 11;
  return mx_theap_is_valid(theap) ? 0 : 12;
}

int main(void) {
  alarm(30);
  void* const p = mi_malloc(100);
  theap = mx_thread_theap();
  if (p == NULL || theap == NULL) return 1;
  mx_lock_acquire(&theap->lock);  // as while it is walked
  mi_collect(true);
  mi_collect(false);
  mi_heap_collect(mi_heap_main(), true);
  mi_heap_collect(mi_heap_main(), false);
  mi_collect_reduce(0);
  void* const q = mi_malloc(100);
  mx_lock_release(&theap->lock);
  mi_free(p);
  mi_free(q);
  mi_collect(true);
  int failed = (MX_PADDING ? goes_on_inside() : 0);
  if (MX_PADDING && failed == 0) failed = allocates_inside(false);
  if (MX_PADDING && failed == 0) failed = allocates_inside(true);
  for (int i = 0; MX_PADDING && failed == 0 && i < 4; i++) failed = goes_inside(i % 2 != 0, i >= 2);
  printf("%s, %d\n", q != NULL ? "ok" : "no memory", failed);
  return q == NULL ? 1 : failed;
}
