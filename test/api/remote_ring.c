// SPDX-License-Identifier: MIT
// A block that another thread frees twice makes a ring of the list that its page's owner takes in.
// Whatever the owner allocates then, zeroed or not, is a block of its own; the ring is reported.
#include <pthread.h>

#include "expect.h"

enum { BLOCKS = 600 };

static void* blocks[BLOCKS];

static void* free_twice(void* p) {
  mi_free(p);
  mi_free(p);
  return NULL;
}

static void free_elsewhere(int i) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &free_twice, blocks[i]) != 0) exit(2);
  pthread_join(thread, NULL);
  blocks[i] = NULL;
}

static void allocate(int from, int to, size_t size, bool zero) {
  for (int i = from; i < to; i++) {
    unsigned char* const p = (unsigned char*)(zero ? mi_zalloc(size) : mi_malloc(size));
    blocks[i] = p;
    if (!EXPECT(p != NULL)) continue;
    if (zero) EXPECT(is_zero(p, size));
    memset(p, 0xA5, size);
  }
}

static void test(size_t size, bool zero, bool in_current) {
  const int in_page = (int)(65536 / mi_good_size(size));
  const int count = 5 * in_page + in_page / 4;  // and that many are in the current page, or so
  error_count = 0;
  allocate(0, count, size, false);
  free_elsewhere(count - (in_current ? 1 : in_page / 2 + in_page / 4));
  allocate(count, BLOCKS, size, zero);
  EXPECT(error_count > 0);
  for (int i = 0; i < BLOCKS; i++) {
    for (int k = 0; k < i; k++) EXPECT(blocks[i] == NULL || blocks[i] != blocks[k]);
  }
  for (int i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
}

int main(void) {
  expect_errors();
  test(1000, true, true);
  test(1200, true, false);
  test(1500, false, true);
  test(1800, false, false);
  return expect_end("remote-ring");
}
