// SPDX-License-Identifier: MIT
// A collection inside a collection: an error that is found while a theap is walked reaches the
// program's handler, which may collect, or allocate. It must not wait for the walk that waits for it,
// nor is what that walk goes on with another list.
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
static void on_error(int error, void* arg) {
  (void)error, (void)arg;
  if (told++ > 0) return;
  for (int i = 0; i < 1000 && !is_at_full_list(); i++) visit();
}

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
  mi_register_error(&on_error, NULL);
  mi_option_set(mi_option_generic_collect, 1);
  for (int i = 0; i < 1000 && told == 0; i++) visit();
  if (told == 0) return 3;
  mi_option_set(mi_option_generic_collect, 0);
  const mx_page_t* const at = theap->collecting.at;
  if (is_at_full_list() && at != NULL && (mx_load_relaxed(&at->owner) & MX_OWNER_FULL) == 0) return 4;
  for (int i = 0; i < 1000 && theap->collecting.list != 0; i++) visit();
  *behind = was;
  mi_register_error(NULL, NULL);
  for (int i = 0; i < MANY; i++) mi_free(blocks[i]);
  return theap->collecting.list == 0 && mx_theap_is_valid(theap) ? 0 : 5;
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
  const int failed = (MX_PADDING ? goes_on_inside() : 0);
  printf("%s, %d\n", q != NULL ? "ok" : "no memory", failed);
  return q == NULL ? 1 : failed;
}
