// SPDX-License-Identifier: MIT
// First-class heaps from one thread: making and giving up, every allocating call, what belongs to
// whom, visits, collecting, defaults, thread-heaps, and the calls of versions 1 and 2.
#include <errno.h>
#include <limits.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <stdint.h>
#include <string.h>

#include "api_check.h"

// ---- every allocating call ---------------------------------------------------------------------

static mi_heap_t* heap_in_use;

static void* call_malloc(size_t n) { return mi_heap_malloc(heap_in_use, n); }
static void* call_zalloc(size_t n) { return mi_heap_zalloc(heap_in_use, n); }
static void* call_calloc(size_t n) { return mi_heap_calloc(heap_in_use, 1, n); }
static void* call_mallocn(size_t n) { return mi_heap_mallocn(heap_in_use, n, 1); }
static void* call_realloc(size_t n) { return mi_heap_realloc(heap_in_use, NULL, n); }
static void* call_reallocn(size_t n) { return mi_heap_reallocn(heap_in_use, NULL, n, 1); }
static void* call_reallocf(size_t n) { return mi_heap_reallocf(heap_in_use, NULL, n); }
static void* call_rezalloc(size_t n) { return mi_heap_rezalloc(heap_in_use, NULL, n); }
static void* call_recalloc(size_t n) { return mi_heap_recalloc(heap_in_use, NULL, 1, n); }
static void* call_aligned(size_t n) { return mi_heap_malloc_aligned(heap_in_use, n, 64); }
static void* call_aligned_at(size_t n) {
  return mi_heap_malloc_aligned_at(heap_in_use, n, 64, 128);
}
static void* call_zaligned(size_t n) { return mi_heap_zalloc_aligned(heap_in_use, n, 64); }
static void* call_zaligned_at(size_t n) {
  return mi_heap_zalloc_aligned_at(heap_in_use, n, 64, 128);
}
static void* call_caligned(size_t n) { return mi_heap_calloc_aligned(heap_in_use, 1, n, 64); }
static void* call_caligned_at(size_t n) {
  return mi_heap_calloc_aligned_at(heap_in_use, 1, n, 64, 128);
}
static void* call_raligned(size_t n) { return mi_heap_realloc_aligned(heap_in_use, NULL, n, 64); }
static void* call_raligned_at(size_t n) {
  return mi_heap_realloc_aligned_at(heap_in_use, NULL, n, 64, 128);
}
static void* call_rzaligned(size_t n) { return mi_heap_rezalloc_aligned(heap_in_use, NULL, n, 64); }
static void* call_rzaligned_at(size_t n) {
  return mi_heap_rezalloc_aligned_at(heap_in_use, NULL, n, 64, 128);
}
static void* call_rcaligned(size_t n) {
  return mi_heap_recalloc_aligned(heap_in_use, NULL, 1, n, 64);
}
static void* call_rcaligned_at(size_t n) {
  return mi_heap_recalloc_aligned_at(heap_in_use, NULL, 1, n, 64, 128);
}
static void* call_new(size_t n) { return mi_heap_alloc_new(heap_in_use, n); }
static void* call_new_n(size_t n) { return mi_heap_alloc_new_n(heap_in_use, n, 1); }
static void* call_theap_malloc(size_t n) { return mi_theap_malloc(mi_heap_theap(heap_in_use), n); }
static void* call_theap_zalloc(size_t n) { return mi_theap_zalloc(mi_heap_theap(heap_in_use), n); }
static void* call_theap_calloc(size_t n) {
  return mi_theap_calloc(mi_heap_theap(heap_in_use), 1, n);
}
static void* call_theap_aligned(size_t n) {
  return mi_theap_malloc_aligned(mi_heap_theap(heap_in_use), n, 64);
}
static void* call_theap_realloc(size_t n) {
  return mi_theap_realloc(mi_heap_theap(heap_in_use), NULL, n);
}

static const struct {
  void* (*call)(size_t);
  bool zeroes;
  size_t alignment;
} calls[] = {
    {&call_malloc, false, 16},       {&call_zalloc, true, 16},
    {&call_calloc, true, 16},        {&call_mallocn, false, 16},
    {&call_realloc, false, 16},      {&call_reallocn, false, 16},
    {&call_reallocf, false, 16},     {&call_rezalloc, true, 16},
    {&call_recalloc, true, 16},      {&call_aligned, false, 64},
    {&call_aligned_at, false, 64},   {&call_zaligned, true, 64},
    {&call_zaligned_at, true, 64},   {&call_caligned, true, 64},
    {&call_caligned_at, true, 64},   {&call_raligned, false, 64},
    {&call_raligned_at, false, 64},  {&call_rzaligned, true, 64},
    {&call_rzaligned_at, true, 64},  {&call_rcaligned, true, 64},
    {&call_rcaligned_at, true, 64},  {&call_new, false, 16},
    {&call_new_n, false, 16},        {&call_theap_malloc, false, 16},
    {&call_theap_zalloc, true, 16},  {&call_theap_calloc, true, 16},
    {&call_theap_aligned, false, 64}, {&call_theap_realloc, false, 16},
};

static const size_t sizes[] = {0,    1,    8,     16,    24,     100,     1000,   1024,
                               1025, 5000, 65536, 70000, 300000, 1000000, 5000000};

static void dirty_heap(mi_heap_t* heap, size_t size) {
  void* const p = mi_heap_malloc(heap, size);
  memset(p, 0xA5, size);
  mi_free(p);
}

// Hardened builds have blocks of 0 bytes in a place of their own, which counts as the main heap's.
static bool is_of(const mi_heap_t* heap, const void* p, size_t size) {
  const mi_heap_t* const owner = mi_heap_of(p);
  if (heap == NULL) heap = mi_heap_main();
  return mi_heap_contains(owner, p) &&
         (owner == heap || (size == 0 && owner == mi_heap_main()));
}

static void test_calls(mi_heap_t* heap) {
  heap_in_use = heap;
  for (size_t row = 0; row < COUNT_OF(calls); row++) {
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
      dirty_heap(heap, sizes[i]);
      errno = 77;
      unsigned char* const p = (unsigned char*)calls[row].call(sizes[i]);
      CHECK_ROW(p != NULL && errno == 77, row);
      CHECK_ROW((uintptr_t)p % (sizes[i] <= 8 && calls[row].alignment == 16
                                    ? 8 : calls[row].alignment) == 0, row);
      CHECK_ROW(mi_usable_size(p) >= sizes[i], row);
      CHECK_ROW(is_of(heap, p, sizes[i]), row);
      for (size_t k = 0; calls[row].zeroes && k < sizes[i]; k++) CHECK_ROW(p[k] == 0, row);
      memset(p, 0x5A, sizes[i]);
      mi_free(p);
    }
    // Too large for anybody.
    errno = 0;
    CHECK_ROW(calls[row].call(SIZE_MAX) == NULL && errno == ENOMEM, row);
    errno = 0;
    CHECK_ROW(calls[row].call((size_t)PTRDIFF_MAX + 1) == NULL && errno == ENOMEM, row);
  }
}

// The calls for small blocks, from nothing to the largest that they take.
static void test_small(mi_heap_t* heap) {
  mi_heap_t* const owner = heap == NULL ? mi_heap_main() : heap;
  for (size_t size = 0; size <= MI_SMALL_SIZE_MAX; size += 1 + size / 16) {
    dirty_heap(heap, size);
    mi_theap_t* const theap = mi_heap_theap(owner);
    errno = 77;
    unsigned char* const blocks[] = {
        (unsigned char*)mi_heap_malloc_small(heap, size),
        (unsigned char*)mi_theap_malloc_small(theap, size),
        (unsigned char*)mi_heap_zalloc_small(heap, size),
        (unsigned char*)mi_theap_zalloc_small(theap, size),
    };
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
      CHECK_ROW(blocks[i] != NULL && mi_usable_size(blocks[i]) >= size && errno == 77, size);
      CHECK_ROW(is_of(owner, blocks[i], size), size);
      for (size_t k = 0; i >= 2 && k < size; k++) CHECK_ROW(blocks[i][k] == 0, size);
      memset(blocks[i], 0x5A, size);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++) mi_free_small(blocks[i]);
  }
}

static void test_products(mi_heap_t* heap) {
  volatile size_t half = SIZE_MAX / 2 + 1, most = SIZE_MAX;
  void* const p = mi_heap_malloc(heap, 50);
  memset(p, 7, 50);
  errno = 0;
  CHECK(mi_heap_calloc(heap, half, 2) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_mallocn(heap, half, 2) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_reallocn(heap, p, half, 2) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_recalloc(heap, p, half, 2) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_calloc_aligned(heap, half, 2, 64) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_recalloc_aligned(heap, p, half, 2, 64) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(mi_heap_alloc_new_n(heap, half, 2) == NULL && errno == ENOMEM);
  for (int i = 0; i < 50; i++) CHECK(((char*)p)[i] == 7);
  CHECK(mi_heap_reallocf(heap, p, most) == NULL);  // and p is freed
}

static void test_alignments(mi_heap_t* heap) {
  static const size_t wrong[] = {0, 3, 24, 100, SIZE_MAX};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    errno = 0;
    CHECK_ROW(mi_heap_malloc_aligned(heap, 10, wrong[i]) == NULL && errno == EINVAL, i);
    errno = 0;
    CHECK_ROW(mi_heap_realloc_aligned(heap, NULL, 10, wrong[i]) == NULL && errno == EINVAL, i);
  }
  for (size_t a = 1; a <= (size_t)64 << 20; a *= 2) {
    void* const p = mi_heap_malloc_aligned(heap, 100, a);
    CHECK_ROW(p != NULL && (uintptr_t)p % a == 0 && mi_heap_of(p) == heap, a);
    void* const q = mi_heap_realloc_aligned(heap, p, 3000, a);
    CHECK_ROW(q != NULL && (uintptr_t)q % a == 0, a);
    mi_free(q);
  }
  errno = 0;
  CHECK(mi_heap_malloc_aligned_at(heap, 100, (size_t)1 << 20, 8) == NULL && errno == EOVERFLOW);
}

static void test_text(mi_heap_t* heap) {
  CHECK(mi_heap_strdup(heap, NULL) == NULL && mi_heap_strndup(heap, NULL, 5) == NULL);
  char* const a = mi_heap_strdup(heap, "heap");
  char* const b = mi_heap_strndup(heap, "heaps of text", 5);
  char* const c = mi_heap_strndup(heap, "x", 100);
  CHECK(strcmp(a, "heap") == 0 && strcmp(b, "heaps") == 0 && strcmp(c, "x") == 0);
  CHECK(mi_heap_contains(heap, a) && mi_heap_contains(heap, b));
#if defined(_WIN32)
  const char* const given = "c:\\windows\\..\\windows", *const root = "c:\\";
  const char* const full = "c:\\windows";
#else
  const char* const given = "/proc/../tmp/.", *const full = "/tmp", *const root = "/";
#endif
  char* const path = mi_heap_realpath(heap, given, NULL);
  CHECK(path != NULL && strcmp(path, full) == 0 && mi_heap_contains(heap, path));
  errno = 0;
  CHECK(mi_heap_realpath(heap, "/nowhere/at/all", NULL) == NULL && errno == ENOENT);
  char buffer[PATH_MAX];
  CHECK(mi_heap_realpath(heap, root, buffer) == buffer && strcmp(buffer, root) == 0);
  mi_free(a);
  mi_free(b);
  mi_free(c);
  mi_free(path);
}

static void test_realloc_moves(mi_heap_t* heap) {
  unsigned char* p = (unsigned char*)mi_malloc(100);
  memset(p, 9, 100);
  p = (unsigned char*)mi_heap_realloc(heap, p, 100);
  CHECK(mi_heap_of(p) == heap && p[0] == 9 && p[99] == 9);
  p = (unsigned char*)mi_realloc(p, 100);
  CHECK(mi_heap_of(p) == mi_heap_main() && p[99] == 9);
  // A block that the compiler knows nothing of, so that it lets the first byte be looked at.
  unsigned char* const volatile empty = (unsigned char*)mi_heap_realloc(heap, p, 0);
  p = empty;
  CHECK(p != NULL && p[0] == 0);
  mi_free(p);
  p = (unsigned char*)mi_heap_zalloc(heap, 40);
  for (size_t n = 41; n < 3000000; n += n / 2) {
    const size_t old = mi_usable_size(p);
    p = (unsigned char*)mi_heap_rezalloc(heap, p, n);
    for (size_t i = old < n ? old : n; i < n; i++) CHECK(p[i] == 0);
  }
  mi_free(p);
}

// ---- giving up ---------------------------------------------------------------------------------

static void test_delete(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* blocks[COUNT_OF(sizes)];
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    blocks[i] = mi_heap_malloc(heap, sizes[i]);
    memset(blocks[i], (int)i, sizes[i]);
  }
  mi_heap_delete(heap);
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    if (sizes[i] > 0) CHECK_ROW(mi_heap_of(blocks[i]) == mi_heap_main(), i);
    for (size_t k = 0; k < sizes[i]; k++) CHECK_ROW(((unsigned char*)blocks[i])[k] == i, i);
    mi_free(blocks[i]);
  }
}

static void test_destroy(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* last = NULL;
  for (size_t i = 0; i < 20000; i++) last = mi_heap_malloc(heap, sizes[i % 9]);
  void* const huge = mi_heap_malloc(heap, (size_t)40 << 20);
  CHECK(mi_any_heap_contains(huge) && mi_any_heap_contains(last));
  mi_heap_destroy(heap);
  CHECK(!mi_any_heap_contains(huge) && !mi_is_in_heap_region(huge) && mi_heap_of(huge) == NULL);
  // Nothing of it stays: as often as one likes, with as many as one likes.
  size_t before = 0, after = 0;
  for (int round = 0; round < 300; round++) {
    mi_heap_t* const h = mi_heap_new();
    for (size_t i = 0; i < 2000; i++) CHECK(mi_heap_malloc(h, sizes[i % 9]) != NULL);
    CHECK(mi_heap_malloc(h, 3000000) != NULL);
    mi_heap_destroy(h);
    if (round == 20) mi_process_info(NULL, NULL, NULL, NULL, NULL, &before, NULL, NULL);
  }
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &after, NULL, NULL);
  CHECK(after <= before + ((size_t)4 << 20));
}

static void test_refusals(void) {
  mi_heap_delete(NULL);
  mi_heap_destroy(NULL);
  void* const p = mi_malloc(10);
  mi_heap_delete(mi_heap_main());
  mi_heap_destroy(mi_heap_main());
  CHECK(mi_heap_of(p) == mi_heap_main());
  mi_free(p);
  int local = 0;
  CHECK(mi_heap_of(NULL) == NULL && mi_heap_of(&local) == NULL && mi_heap_of((void*)8) == NULL);
  CHECK(!mi_heap_contains(NULL, NULL) && !mi_any_heap_contains(&local));
  CHECK(!mi_is_in_heap_region(NULL) && !mi_check_owned(&local));
}

static void test_many(void) {
  enum { MANY = 2000 };
  static mi_heap_t* heaps[MANY];
  static void* blocks[MANY];
  for (size_t i = 0; i < MANY; i++) {
    heaps[i] = mi_heap_new();
    CHECK(heaps[i] != NULL);
  }
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < MANY; i++) {
      if (round > 0) mi_free(blocks[i]);
      blocks[i] = mi_heap_malloc(heaps[i], 64);
      CHECK_ROW(mi_heap_of(blocks[i]) == heaps[i], i);
    }
  }
  for (size_t i = 0; i < MANY; i++) {
    if (i % 2 == 0) mi_heap_destroy(heaps[i]);
    else mi_heap_delete(heaps[i]);
  }
  for (size_t i = 1; i < MANY; i += 2) mi_free(blocks[i]);
}

// ---- asking ------------------------------------------------------------------------------------

static void test_asking(mi_heap_t* heap) {
  char* const p = (char*)mi_heap_malloc(heap, 200);
  const size_t far = (sizeof(size_t) == 4 ? (size_t)200 << 20 : (size_t)2 << 30);
  char* const huge = (char*)mi_heap_malloc(heap, far + far / 2);
  CHECK(huge != NULL);
  CHECK(mi_heap_of(p + 100) == heap && mi_heap_of(huge + far) == heap);
  CHECK(mi_heap_contains(heap, p) && !mi_heap_contains(NULL, p));
  CHECK(mi_heap_contains_block(heap, p) && !mi_heap_contains_block(heap, p + 16));
  CHECK(mi_heap_contains_block(heap, huge) && !mi_heap_contains_block(mi_heap_main(), p));
  CHECK(mi_heap_check_owned(heap, p + 8) && !mi_heap_check_owned(heap, p + 1));
  CHECK(mi_check_owned(p) && mi_is_in_heap_region(p + 3));
  mi_free(p);
  mi_free(huge);
}

typedef struct visited_s {
  size_t areas, blocks, bytes, used, stop_after;
  void* wanted;
  bool found;
} visited_t;

static bool visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  visited_t* const v = (visited_t*)arg;
  CHECK(heap != NULL && area->block_size == size && area->full_block_size >= size);
  if (block == NULL) {
    v->areas++;
    v->used += area->used;
    CHECK(area->committed <= area->reserved);
    CHECK(area->used * area->full_block_size <= area->committed);
    return true;
  }
  const size_t offset = (size_t)((char*)block - (char*)area->blocks);
  CHECK(offset % area->full_block_size == 0 && offset < area->committed);
  v->blocks++;
  v->bytes += size;
  if (block == v->wanted) v->found = true;
  return v->blocks != v->stop_after;
}

static void test_visits(void) {
  mi_heap_t* const heap = mi_heap_new();
  enum { LIVE = 500 };
  void* live[LIVE];
  size_t bytes = 0;
  for (size_t i = 0; i < LIVE; i++) {
    const size_t size = sizes[1 + i % (COUNT_OF(sizes) - 1)];
    live[i] = mi_heap_malloc(heap, size);
    void* const gone = mi_heap_malloc(heap, sizes[1 + i * 7 % (COUNT_OF(sizes) - 1)]);
    bytes += size;
    mi_free(gone);
  }
  visited_t v = {0, 0, 0, 0, 0, live[LIVE / 2], false};
  CHECK(mi_heap_visit_blocks(heap, true, &visit, &v));
  CHECK(v.blocks == LIVE && v.used == LIVE && v.found && v.bytes >= bytes && v.areas > 0);
  visited_t only_areas = {0, 0, 0, 0, 0, NULL, false};
  CHECK(mi_heap_visit_blocks(heap, false, &visit, &only_areas));
  CHECK(only_areas.areas == v.areas && only_areas.blocks == 0);
  visited_t stopped = {0, 0, 0, 0, 5, NULL, false};
  CHECK(!mi_heap_visit_blocks(heap, true, &visit, &stopped) && stopped.blocks == 5);
  visited_t abandoned = {0, 0, 0, 0, 0, NULL, false};
  CHECK(mi_heap_visit_abandoned_blocks(heap, true, &visit, &abandoned));
  CHECK(abandoned.blocks < LIVE);
  visited_t main_heap = {0, 0, 0, 0, 0, live[0], false};
  CHECK(mi_heap_visit_blocks(mi_heap_main(), true, &visit, &main_heap) && !main_heap.found);
  mi_heap_delete(heap);
  CHECK(mi_heap_visit_blocks(mi_heap_main(), true, &visit, &main_heap) && main_heap.found);
  for (size_t i = 0; i < LIVE; i++) mi_free(live[i]);
  mi_subproc_id_t none = {NULL};
  CHECK(!mi_abandoned_visit_blocks(none, -1, true, &visit, &v));
}

static void test_under_utilized(mi_heap_t* heap) {
  enum { BLOCKS = 3000 };
  static void* blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = mi_heap_malloc(heap, 200);
  void* const kept = blocks[10];
  CHECK(!mi_unsafe_heap_page_is_under_utilized(heap, kept, 50));
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i != 10 && i != BLOCKS - 1) mi_free(blocks[i]);
  }
  CHECK(mi_unsafe_heap_page_is_under_utilized(heap, kept, 50));
  CHECK(mi_unsafe_heap_page_is_under_utilized(NULL, kept, 100));
  CHECK(!mi_unsafe_heap_page_is_under_utilized(heap, kept, 0));
  CHECK(!mi_unsafe_heap_page_is_under_utilized(mi_heap_main(), kept, 50));
  CHECK(!mi_unsafe_heap_page_is_under_utilized(heap, NULL, 100));
  CHECK(!mi_unsafe_heap_page_is_under_utilized(heap, &heap, 100));
  mi_free(kept);
  mi_free(blocks[BLOCKS - 1]);
}

// ---- defaults ----------------------------------------------------------------------------------

static void test_defaults(void) {
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  mi_theap_t* const before = mi_theap_set_default(theap);
  CHECK(before != NULL && mi_theap_get_default() == theap && mi_heap_get_default() == heap);
  void* const p = mi_malloc(30);
  CHECK(mi_heap_of(p) == heap);
  void* const q = mi_heap_malloc(NULL, 30);
  CHECK(mi_heap_of(q) == mi_heap_main() && mi_heap_main() == mi_heap_get_backing());
  CHECK(mi_theap_set_default(NULL) == NULL && mi_theap_get_default() == theap);
  CHECK(mi_theap_set_default(before) == theap);
  CHECK(mi_heap_set_default(NULL) == NULL);
  CHECK(mi_heap_set_default(heap) == mi_heap_main() && mi_heap_set_default(mi_heap_main()) == heap);
  visited_t v = {0, 0, 0, 0, 0, p, false};
  CHECK(mi_theap_visit_blocks(theap, true, &visit, &v) && v.blocks == 1 && v.found);
  mi_heap_set_default(heap);
  mi_heap_destroy(heap);  // the default goes with it
  void* const r = mi_malloc(30);
  CHECK(mi_heap_of(r) == mi_heap_main() && mi_heap_get_default() == mi_heap_main());
  mi_free(q);
  mi_free(r);
}

static void test_collect(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* blocks[200];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) blocks[i] = mi_heap_malloc(heap, 5000);
  for (size_t i = 0; i < COUNT_OF(blocks); i++) mi_free(blocks[i]);
  mi_heap_collect(heap, true);
  mi_theap_collect(mi_heap_theap(heap), true);
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_heap_stats_get(heap, &stats) && stats.pages.current == 0 && stats.pages.total > 0);
  mi_heap_collect(NULL, false);
  mi_theap_collect(NULL, true);
  mi_heap_delete(heap);
}

static void test_tags(void) {
  mi_heap_t* const kept = mi_heap_new_ex(7, false, NULL);
  void* const p = mi_heap_malloc(kept, 100);
  mi_heap_destroy(kept);  // not allowed to: it only deletes
  CHECK(mi_heap_of(p) == mi_heap_main());
  mi_free(p);
  mi_heap_t* const tried = mi_heap_try_new(3, true, NULL);
  CHECK(tried != NULL);
  mi_heap_destroy(tried);
  errno = 0;
  CHECK(mi_heap_try_new(0, true, (mi_arena_id_t)(uintptr_t)99999) == NULL && errno == ENOMEM);
}

static void test_numa(void) {
  mi_option_set(mi_option_use_numa_nodes, 4);
  mi_heap_t* const heap = mi_heap_new();
  static const int nodes[] = {0, 3, 4, 1000, -1, -5};
  for (size_t i = 0; i < COUNT_OF(nodes); i++) {
    mi_heap_set_numa_affinity(heap, nodes[i]);
    void* const p = mi_heap_malloc(heap, 70000);
    CHECK_ROW(mi_heap_of(p) == heap, i);
    mi_free(p);
  }
  mi_heap_destroy(heap);
  mi_option_set(mi_option_use_numa_nodes, 0);
}

int main(void) {
  mi_option_set(mi_option_show_errors, 0);
  mi_option_set(mi_option_max_errors, 0);
  mi_heap_t* const heap = mi_heap_new();
  test_calls(heap);
  test_calls(NULL);
  test_small(heap);
  test_small(NULL);
  test_products(heap);
  test_alignments(heap);
  test_text(heap);
  test_realloc_moves(heap);
  test_asking(heap);
  test_under_utilized(heap);
  mi_heap_destroy(heap);
  test_delete();
  test_destroy();
  test_refusals();
  test_many();
  test_visits();
  test_defaults();
  test_collect();
  test_tags();
  test_numa();
  return 0;
}
