// SPDX-License-Identifier: MIT
// A process in a control group with a limit on memory, where the kernel kills a process that
// exceeds it. With `cgroup_limit`, garbage never adds up to the limit, however much is allocated
// and freed in turns of different sizes; and with `memory_limit_hard` malloc answers NULL before
// the kernel kills.
#include "guest.h"

#include <errno.h>
#include <mimalloc.h>

static size_t limit;

static size_t used(void) { return (size_t)file_number("/sys/fs/cgroup/limited/memory.current"); }

// Half of the limit is live at a time, of one size after the other, and nothing waits long enough to
// be given back otherwise.
static void test_turns(void) {
  static const size_t sizes[] = {100, 1000, 60000, 700, 300000, 48, 5000};
  static unsigned char* blocks[5000000];
  for (size_t round = 0; round < COUNT_OF(sizes); round++) {
    const size_t size = sizes[round], count = limit / 2 / size;
    CHECK(count <= COUNT_OF(blocks));
    for (size_t i = 0; i < count; i++) {
      blocks[i] = (unsigned char*)mi_malloc(size);
      CHECK_ROW(blocks[i] != NULL, i);
      memset(blocks[i], 7, size);
    }
    CHECK_ROW(used() <= limit, round);
    for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  }
}

static void test_end(void) {
  size_t got = 0;
  void** last = NULL;
  errno = 0;
  for (;;) {
    void** const p = (void**)mi_malloc(100000);
    if (p == NULL) break;
    memset(p, 1, 100000);
    *p = last;
    last = p;
    got += 100000;
    CHECK(got < limit);
  }
  CHECK(errno == ENOMEM);
  printf("%zu of %zu bytes\n", got, limit);
  CHECK(got > limit / 2);
  while (last != NULL) {
    void** const next = (void**)*last;
    mi_free(last);
    last = next;
  }
  void* const p = mi_malloc(limit / 4);
  CHECK(p != NULL);
  memset(p, 1, limit / 4);
  mi_free(p);
}

int main(void) {
  limit = (size_t)file_number("/sys/fs/cgroup/limited/memory.max");
  CHECK(mi_option_get(mi_option_cgroup_limit) == 1);
  mi_option_set(mi_option_purge_delay, 100000);
  test_turns();
  test_end();
  return 0;
}
