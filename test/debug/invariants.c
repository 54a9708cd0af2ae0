// SPDX-License-Identifier: MIT
// Debug level 3 walks whole heaps: at heartbeats, when they collect, when a thread ends. Each walk
// must notice a page record that is wrong, and nothing else may.
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>

#include "heap/theap.h"
#include "mistakes.h"

#define BLOCKS 2000

static void* blocks[BLOCKS];

static void fill(void) {
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(16 + i % 700);
  for (size_t i = 0; i < BLOCKS; i += 3) {
    mi_free(blocks[i]);
    blocks[i] = NULL;
  }
}

// A page that is on a list of this thread.
static mx_page_t* some_page(void) { return mx_pagemap_get(blocks[BLOCKS / 2 + 1]); }

enum { COUNT, OWNER, BIN, CAPACITY, LIST, HEALTHY };

static void damage(int what) {
  mx_page_t* const page = some_page();
  switch (what) {
    case COUNT: page->used = page->capacity + 2; break;
    case OWNER: mx_page_set_theap(page, NULL); break;
    case BIN: page->bin++; break;
    case CAPACITY: page->capacity = page->reserved + 1; break;
    case LIST: mx_tls_theap->lists.partial_count[page->bin]++; break;
    default: break;
  }
}

static void at_collect(size_t what) {
  fill();
  damage((int)what);
  mi_collect(false);
}

static void at_heartbeat(size_t what) {
  fill();
  damage((int)what);
  // Pages of another size, so that nobody stumbles over the damage on the way.
  for (int i = 0; i < 4000; i++) blocks[i % BLOCKS] = mi_malloc(3000);
}

static void* end_of_thread(void* what) {
  fill();
  damage((int)(intptr_t)what);
  return NULL;
}

static void at_thread_end(size_t what) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, end_of_thread, (void*)(intptr_t)what) != 0) abort();
  pthread_join(thread, NULL);
}

int main(void) {
  mi_free(mi_malloc(1));
  void (*const whens[])(size_t) = {at_collect, at_heartbeat, at_thread_end};
  for (size_t when = 0; when < 3; when++) {
    for (size_t what = COUNT; what <= HEALTHY; what++) {
      run(whens[when], what);
      const bool noticed = (strstr(said, "mx_theap_is_valid(theap)") != NULL);
      if (noticed == (what != HEALTHY) && (noticed || status == 0)) continue;
      printf("FAIL: walk %zu, damage %zu: %s (status %d)\n", when, what, said, status);
      failures++;
    }
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
