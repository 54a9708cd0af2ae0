// SPDX-License-Identifier: MIT
// Memory that went back and is wanted again may wait longer from then on: each slice of it counts,
// the first of a page as well as those by which the page grows. Of hardened builds' large blocks the
// memory that was used is kept, of the least as well.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"

#define SIZE ((size_t)100 * 1024)
#define BLOCKS 60  // of more pages than one, which grow by a slice or two
#define GONE 1000
#define LARGE ((size_t)40 << 20)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// A request as large as that: a block that shrinks for the second time gives back what it did the
// first time. From the third time on it takes turns.
static void test_large(mx_arenas_t* arenas) {
  const intptr_t slices = (intptr_t)(LARGE / MX_SLICE_SIZE);
  for (int turn = 0; turn < 3; turn++) {
    mi_collect(true);
    mx_store_relaxed(&arenas->gone, slices);
    mx_store_relaxed(&arenas->keep, (intptr_t)0);
    void* const p = mi_malloc(LARGE);
    EXPECT(p != NULL && mx_load_relaxed(&arenas->gone) == 0);
    EXPECT(mx_load_relaxed(&arenas->keep) == (turn == 0 ? 0 : slices));
    mi_free(p);
  }
}

static int64_t committed(void) {
  return mx_load_relaxed(&mx_process_counters.committed.current);
}

static bool is_present(const uint8_t* p, size_t size) {
  const uint8_t* const start = (const uint8_t*)mx_align_up((uintptr_t)p, mx_facts.os_page);
  return !mx_os_is_sparse(start, mx_align_down(size - mx_facts.os_page, mx_facts.os_page), 3);
}

// The next block of that size lies elsewhere, and its memory is there already.
static void test_kept(size_t size) {
  uint8_t* const first = (uint8_t*)mi_malloc(size);
  memset(first, 1, size);
  const bool was_present = is_present(first, size);  // not every system tells
  const int64_t before = committed();
  mi_free(first);
  EXPECT(committed() == before);
  uint8_t* const second = (uint8_t*)mi_malloc(size);
  EXPECT(committed() == before && second != first);
  EXPECT(is_present(second, size) == was_present);
  for (size_t i = 0; i < size; i += mx_facts.os_page) EXPECT(second[i] == 0);
  mi_free(second);
  mi_collect(true);
}

// Several of different sizes become one, which is kept as a whole.
static void test_pieces(void) {
  enum { PIECES = 5 };
  static const size_t sizes[PIECES] = {200000, 210000, 220000, 230000, 250000};
  void* blocks[PIECES];
  for (size_t i = 0; i < PIECES; i++) memset(blocks[i] = mi_malloc(sizes[i]), 1, sizes[i]);
  for (size_t i = 0; i < PIECES; i++) mi_free(blocks[i]);
  for (int turn = 0; turn < 4; turn++) {
    const int64_t before = committed();
    uint8_t* const p = (uint8_t*)mi_malloc(1000000);
    EXPECT(turn == 0 || committed() == before);
    for (size_t i = 0; i < 1000000; i++) EXPECT(p[i] == 0);
    memset(p, 1, 1000000);
    mi_free(p);
  }
  mi_collect(true);
}

// To clear what was hardly used would cost more than to map it anew.
static void test_unused(size_t size) {
  const int64_t before = committed();
  mi_free(mi_malloc(size));
  EXPECT(committed() == before);
}

static void test_apart(void) {
  for (size_t size = 192 * 1024; size <= (size_t)320 * 1024; size += 9999) {
    test_kept(size);
    test_unused(size);
  }
  test_pieces();
}

int main(void) {
  mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  void* blocks[BLOCKS];
  mi_free(mi_malloc(1));
  mi_collect(true);
  EXPECT(mx_load_relaxed(&arenas->purgeable) == 0 && mx_load_relaxed(&arenas->keep) == 0);
  mx_store_relaxed(&arenas->gone, (intptr_t)GONE);
  const intptr_t before = mx_load_relaxed(&arenas->in_use);
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_malloc(SIZE);
  const intptr_t taken = mx_load_relaxed(&arenas->in_use) - before;
  EXPECT(taken >= (intptr_t)(BLOCKS * SIZE / MX_SLICE_SIZE));
  EXPECT(mx_load_relaxed(&arenas->keep) == taken);
  EXPECT(mx_load_relaxed(&arenas->gone) == GONE - taken);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  if (MX_LARGE_APART) test_apart();
  else test_large(arenas);
  printf("%d failures\n", failures);
  return failures != 0;
}
