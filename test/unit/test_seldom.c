// SPDX-License-Identifier: MIT
// What seldom comes, or only of a program that does what it must not: pointers that are no blocks, in
// each of the calls that take one; writes to freed blocks; arenas of the program's that are pinned or
// have a function of their own; heaps in them; threads of a pool, of several NUMA nodes.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/alloc/harden.h"
#include "../../src/arena/plots.h"
#include "../../src/alloc/verify.h"
#include "../../src/api/handles.h"
#include "../../src/arena/arena.h"
#include "../../src/base/sizeclass.h"
#include "../../src/heap/heap.h"
#include "../../src/heap/heap_record.h"
#include "../../src/heap/resting.h"
#include "../../src/heap/subproc.h"
#include "../../src/heap/trim.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/blocks.h"
#include "../../src/page/freelist.h"
#include "../../src/page/shift.h"
#include "../../src/page/holes.h"
#include "../../src/page/remote.h"
#include "../page_of.h"

#define MIB ((size_t)1 << 20)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static int errors;

static void on_error(int code, void* arg) {
  (void)arg;
  errors += (code != ENOMEM);
}

static int errors_now(void) {
  const int now = errors;
  errors = 0;
  return now;
}

static void in_thread(void* (*run)(void*), void* arg) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, run, arg) == 0);
  pthread_join(thread, NULL);
}

// ---- sizes ---------------------------------------------------------------------------------------

static void test_sizes(void) {
  EXPECT(mi_good_size(0) == mi_good_size(1) && mi_good_size(1) == MX_ALIGN - MX_PAD % MX_ALIGN);
  EXPECT((mi_good_size(MX_MAX_ALLOC - MX_PAD) + MX_PAD) % mx_facts.os_page == 0);
  EXPECT(mi_good_size(SIZE_MAX) == SIZE_MAX);
}

// ---- pointers that are no blocks ------------------------------------------------------------------

// With the last block that was used a page stops looking where a pointer into a block leads.
static void test_shift_ends(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* blocks[3];
  for (int i = 0; i < 3; i++) blocks[i] = mi_heap_malloc_aligned_at(heap, 4000, 64, 8);
  mx_page_t* const page = page_of(blocks[0]);
  EXPECT(mx_load_relaxed(&page->shifted) != 0);
  mi_free(blocks[0]);
  EXPECT(mx_load_relaxed(&page->shifted) != 0);
  for (int i = 1; i < 3; i++) mi_free(blocks[i]);
  EXPECT(mx_load_relaxed(&page->shifted) == 0);
  EXPECT((mx_load_relaxed(&page->owner) & MX_OWNER_SHIFTED) == 0);
  mi_heap_delete(heap);
}

static void test_pointers(void) {
  enum { SIZE = 3000 };  // a page of such ends with less than a block
  uint8_t* const given = (uint8_t*)mi_malloc(SIZE);
  uint8_t* const p = (uint8_t*)mx_tag_strip(given);
  mx_page_t* const page = page_of(p);
  const size_t most = page->reserved * page->block_size;
  // Behind the last block there may be, and the last that there may be.
  uint8_t* const behind = page->start + most;
  uint8_t* const uncarved = page->start + (page->reserved - 1) * page->block_size;
  EXPECT(!mx_page_could_be_block(page, behind) && !mx_page_could_be_block(page, p + 1));
  EXPECT(mx_page_could_be_block(page, uncarved));
  mx_store_relaxed(&page->shifted, (uint8_t)MX_OWNER_SHIFTED);
  EXPECT(mx_shift_block(page, p + 1) == p && mx_page_block_of(page, behind) == NULL);
  EXPECT(mx_page_block_of(page, p + 1) == (MX_PADDING ? NULL : p));
  mx_store_relaxed(&page->shifted, (uint8_t)0);
  if (page_of(behind) == page) {
    errors_now();
    if (MX_CHECKED_FREE) {
      mi_free(behind);
      EXPECT(errors_now() == 1);
    }
    mx_store_relaxed(&page->shifted, (uint8_t)MX_OWNER_SHIFTED);
    EXPECT(mi_usable_size(behind + 1) == 0);
    mx_store_relaxed(&page->shifted, (uint8_t)0);
  }
  errors_now();
  if (MX_KNOWS_LIVE && page->capacity < page->reserved) {
    EXPECT(!mx_verify_pointer("test", uncarved) && errors_now() == 1);
    EXPECT(!mx_verify_is_inside(page, uncarved));
  }
  if (MX_KNOWS_LIVE) {
    void* const huge = mi_malloc(2 * MIB);
    EXPECT(mx_verify_pointer("test", p) && errors_now() == 0);
    EXPECT(mx_verify_pointer("test", mx_tag_strip(huge)) && errors_now() == 0);
    EXPECT(mx_verify_is_inside(page_of(huge), mx_tag_strip(huge)));
    mi_free(huge);
    void* const none = mi_malloc(0);
    EXPECT(mx_verify_pointer("test", mx_tag_strip(none)) && errors_now() == 0);
    mi_free(none);
  }
  if (MX_PADDING) {
    EXPECT(!mx_harden_resize(page, p, 0, false, false));
    EXPECT(mx_harden_check_sized("test", NULL, 1, 0) && errors_now() == 0);
    mi_free(page->start - 16);  // in front of the first block
    EXPECT(errors_now() == 1 && mi_realloc(page->start - 16, SIZE) == NULL && errors_now() == 1);
  }
  if (MX_CHECK_SIZED) {
    EXPECT(!mx_is_aligned(p, 8192) || (uintptr_t)p % 8192 == 0);
    mi_free_size_aligned(given, SIZE, 8192 << mx_is_aligned(p, 8192));
    EXPECT(errors_now() == 1);
    void* const q = mi_malloc(SIZE);
    mi_free(q);
    mi_free_size(q, SIZE);
    EXPECT(errors_now() == 1 && mi_usable_size(q) == 0);
    errors_now();
  }
  mi_free(given);
}

// ---- writes to freed blocks -----------------------------------------------------------------------

static bool is_given_out_again(const void* block, size_t size, int most) {
  for (int i = 0; i < most; i++) {
    void* const p = mi_malloc(size);
    if (p == block) return true;
    mi_free(p);
  }
  return false;
}

static void test_fill(long zero) {
  enum { SIZE = 700, MOST = 20000 };
  mi_option_set(mi_option_zero_on_free, zero);
  for (int at = 16; at <= 600; at += 584) {
    uint8_t* const p = (uint8_t*)mi_malloc(SIZE);
    mi_free(p);
    errors_now();
    p[at] ^= 0x21;
    EXPECT(is_given_out_again(p, SIZE, MOST) && errors_now() == 1);
  }
  mi_option_set(mi_option_zero_on_free, 0);
}

// A block of the free list that is marked as in use.
static void test_spoiled(void) {
  uint8_t* const p = (uint8_t*)mi_malloc(900);
  mx_page_t* const page = page_of(p);
  mx_block_t* const next = page->free;
  if (next == NULL) return;
  mx_live_begin(page, next);
  errors_now();
  EXPECT(is_given_out_again(next, 900, 5) && errors_now() == 1);
}

static void* free_twice(void* p) {
  mi_free(p);
  mi_free(p);
  return p;
}

static void test_remote(void) {
  void* const p = mi_malloc(1000);
  void* const q = mi_malloc(1000);
  void* const larger = mi_malloc(40000);
  memset(larger, 1, 40000);
  errors_now();
  in_thread(&free_twice, larger);
  EXPECT(errors_now() == 1);
  in_thread(&free_twice, p);
  EXPECT(errors_now() == 1);
  mi_free(q);
  in_thread(&free_twice, q);
  EXPECT(errors_now() == 2);
  uint64_t* const r = (uint64_t*)mi_malloc(1000);
  if (MX_PADDING) {
    const uint64_t canary = r[-1];
    r[-1] = 0x4141414141414141;
    in_thread(&free_twice, r);
    EXPECT(errors_now() >= 1);
    r[-1] = canary;
  }
}

// ---- pages at rest ------------------------------------------------------------------------------

#define RESTING 600
static unsigned char* resting[RESTING];

static void* fill_pages(void* arg) {
  for (size_t i = 0; i < RESTING; i++) resting[i] = (unsigned char*)mi_malloc(1000);
  return arg;
}

static size_t pages_lent(void) {
  size_t item = 0, index = 0, count = 0;
  for (mx_page_t* p; (p = mx_page_next_of(&mx_subproc_main.arenas, &item, &index)) != NULL;) {
    count += mx_page_is_lent(p);
  }
  return count;
}

// Each is looked at whenever all are, and is lent no more when that is over. Damage is told once.
static void test_resting(void) {
  in_thread(&fill_pages, NULL);
  unsigned char* const end = resting[RESTING / 2] + 1000;
  EXPECT(mx_subproc_verify_resting(&mx_subproc_main) && pages_lent() == 0);
  *end ^= 0x41;
  errors_now();
  EXPECT(!mx_subproc_verify_resting(&mx_subproc_main) && pages_lent() == 0);
  EXPECT(errors_now() == 1);
  EXPECT(mx_subproc_verify_resting(&mx_subproc_main) && errors_now() == 0);
  for (size_t i = 0; i < RESTING; i++) mi_free(resting[i]);
  EXPECT(errors_now() == 0);
}

// The list of a page that other threads freed into: with a block that is there already.
static void test_ring(void) {
  if (MX_PADDING || MX_LIVE_BITS) return;
  void* const twice = mi_malloc(1200);
  errors_now();
  in_thread(&free_twice, twice);
  EXPECT(errors_now() == 1);
  // Two in turns, where the owner has free blocks and where it has none.
  for (int has_free = 0; has_free < 2; has_free++) {
    mi_heap_t* const heap = mi_heap_new();
    void* const a = mi_heap_malloc(heap, 2000);
    void* const b = mi_heap_malloc(heap, 2000);
    mx_page_t* const of_both = page_of(a);
    EXPECT(page_of(b) == of_both);
    mi_free(mi_heap_malloc(heap, 2000));
    mx_block_t* const list = of_both->free;
    if (has_free == 0) of_both->free = NULL;
    EXPECT(mx_remote_push_owned(of_both, (mx_block_t*)a));
    EXPECT(mx_remote_push_owned(of_both, (mx_block_t*)b));
    EXPECT(mx_remote_push_owned(of_both, (mx_block_t*)a));
    const uint32_t used = of_both->used;
    if (has_free == 0) of_both->used = 2;
    errors_now();
    mx_page_collect(of_both);
    EXPECT(errors_now() == 1 && of_both->used == (has_free == 0 ? 2 : used));
    of_both->used = used;
    of_both->free = list;
  }
  void* const p = mi_malloc(1200);
  mx_page_t* const page = page_of(p);
  EXPECT(mx_remote_push_owned(page, (mx_block_t*)p));
  errors_now();
  EXPECT(mx_remote_push_owned(page, (mx_block_t*)p) && errors_now() == 1);
  mx_page_collect(page);
}

// ---- arenas of the program's ----------------------------------------------------------------------

static bool nothing_to_do(bool commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)commit, (void)start, (void)size, (void)arg;
  if (is_zero != NULL) *is_zero = false;
  return true;
}

static mx_page_t* page_in(mx_heap_t* heap, size_t size, void** p) {
  *p = mi_heap_malloc(mx_api_heap_handle(heap), size);
  return *p == NULL ? NULL : page_of(*p);
}

static void use_arena(mi_arena_id_t id) {
  mi_heap_t* const handle = mi_heap_new_in_arena(id);
  mx_heap_t* const heap = mx_api_heap(handle);
  EXPECT(handle != NULL);
  mx_arena_t* const arena = heap->arena;
  void *p, *q, *behind;
  mx_page_t* const page = page_in(heap, 5000, &p);
  EXPECT(page != NULL && page->arena == arena);
  // Several pages of blocks of which some are free, that rest.
  void* some[200];
  for (int i = 0; i < 200; i++) some[i] = mi_heap_malloc(handle, 20000);
  for (int i = 0; i < 200; i += 2) mi_free(some[i]);
  bool has_changed;
  mx_heap_release_cached(&mx_subproc_main);
  mx_subproc_make_holes(&mx_subproc_main, false, &has_changed);
  EXPECT(mx_page_make_holes(page, true) == 0);
  if (mx_holes_begin()) {
    mx_pins_of(page, p);
    mx_holes_end();
  }
  // A large block that grows where another lies behind it.
  uint8_t* large = (uint8_t*)mi_heap_malloc(handle, MIB);
  behind = mi_heap_malloc(handle, MIB);
  EXPECT(large != NULL && behind != NULL);
  memset(large, 7, MIB);
  large = (uint8_t*)mi_heap_realloc(handle, large, 4 * MIB);
  EXPECT(large != NULL && large[0] == 7 && large[MIB - 1] == 7);
  q = mi_heap_malloc_aligned(handle, 3 * MIB, 4 * MX_SLICE_SIZE);
  EXPECT(mx_is_aligned(q, 4 * MX_SLICE_SIZE));
  EXPECT(!mx_arena_may_have_parts(arena));
  if (arena->is_pinned) EXPECT(!mx_arena_unmap_free(&mx_subproc_main.arenas, arena));
  mi_free(q);
  mi_free(large);
  mi_free(behind);
  for (int i = 1; i < 200; i += 2) mi_free(some[i]);
  mi_free(p);
  mi_collect(true);
  mi_heap_destroy(handle);
  mi_collect(true);
}

static void test_arenas(void) {
  const size_t size = 64 * MIB;
  for (int kind = 0; kind < 3; kind++) {
    void* const p = mx_vmem_map(size, 4 * MIB, true);
    mi_arena_id_t id;
    EXPECT(p != NULL);
    const bool is_ours = (kind < 2 ? mi_manage_os_memory_ex(p, size, true, kind == 1, true, -1, true, &id)
                                   : mi_manage_memory(p, size, false, false, true, -1, true,
                                                      &nothing_to_do, NULL, &id));
    EXPECT(is_ours);
    if (is_ours) use_arena(id);
  }
  EXPECT(mx_slices_move_in(&mx_subproc_main.arenas, NULL, 0, 1));
}

// ---- threads and heaps ----------------------------------------------------------------------------

static void* collect_first(void* arg) {
  mi_collect(false);
  EXPECT(mi_theap_set_default(NULL) == NULL);
  return arg;
}

enum { LEFT = 300 };
static void* left[LEFT];

static void* leave(void* arg) {
  for (int i = 0; i < LEFT; i++) left[i] = mi_malloc(3000);
  return arg;
}

static void* free_from_a_pool(void* arg) {
  mi_thread_set_in_threadpool();
  mi_free(mi_malloc(1));
  in_thread(&leave, NULL);
  for (int i = 0; i < LEFT; i += 3) mi_free(left[i]);
  return arg;
}

static void test_pool(void) {
  mi_option_set(mi_option_theap_retain, 0);
  const long policy = mi_option_get(mi_option_page_reclaim_on_free);
  mi_option_set(mi_option_page_reclaim_on_free, 0);
  in_thread(&free_from_a_pool, NULL);
  for (int i = 0; i < LEFT; i++) {
    if (i % 3 != 0) mi_free(left[i]);
  }
  mi_option_set(mi_option_page_reclaim_on_free, policy);
  mi_option_set(mi_option_theap_retain, 8);
}

static void test_nodes(void) {
  mi_option_set(mi_option_arena_is_numa_local, 1);
  for (int count = 1; count <= 2; count++) {
    mi_option_set(mi_option_use_numa_nodes, count);
    in_thread(&leave, NULL);
    for (int i = 0; i < LEFT; i++) mi_free(left[i]);
  }
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_set_numa_affinity(heap, 0);
  EXPECT(mi_heap_malloc(heap, 100) != NULL);
  mi_heap_destroy(heap);
  mi_option_set(mi_option_arena_is_numa_local, 0);
  mi_option_set(mi_option_use_numa_nodes, 0);
}

// Of other heaps than the main one nothing is said of guarded blocks.
static void test_guarded_of_heaps(void) {
  mi_heap_t* const heap = mi_heap_new();
  mi_theap_t* const theap = mi_heap_theap(heap);
  EXPECT(theap != NULL);
  mi_theap_guarded_set_sample_rate(theap, 1, 1);
  mi_theap_guarded_set_size_bound(theap, 1, 2);
  for (int i = 0; i < 10; i++) {
    void* const p = mi_heap_malloc(heap, 100);
    EXPECT(p != NULL && !(mx_page_is_huge(page_of(p))));
  }
  mi_heap_destroy(heap);
}

// An empty page that is kept in a heap's record is none with holes.
static void test_large_in_own_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* const vast = mi_heap_malloc(heap, (size_t)MX_MAX_ALLOC / 2);
  if (MX_64BIT) {
    void* const p = mi_heap_malloc(heap, (size_t)80 << 30);  // of which nothing is touched
    if (p != NULL) EXPECT(mi_usable_size(p) >= (size_t)80 << 30);
    mi_free(p);
  }
  EXPECT(vast == NULL);
  mi_heap_delete(heap);
}

// In builds that give large blocks mappings of their own: whatever they are aligned to, and when
// realloc makes a block large. One that grows on does not.
static void test_apart(void) {
  for (size_t align = 16; align <= (size_t)64 * MIB; align *= 2) {
    uint8_t* const p = (uint8_t*)mi_malloc_aligned(300 * 1000, align);
    const mx_page_t* const page = page_of(p);
    EXPECT(((uintptr_t)p & (align - 1)) == 0 && mx_page_is_apart(page) == (MX_LARGE_APART != 0));
    if (MX_LARGE_APART) {
      const size_t left = (size_t)(mx_page_first(page) + mx_page_size(page) - p) - 300 * 1000;
      EXPECT(left < (align < MX_SLICE_SIZE ? align : MX_SLICE_SIZE));
    }
    p[0] = p[300 * 1000 - 1] = 1;
    mi_free(p);
  }
  void* p = mi_realloc(mi_malloc(100), (size_t)1 << 20);
  EXPECT(mx_page_is_apart(page_of(p)) == (MX_LARGE_APART != 0));
  p = mi_realloc(p, (size_t)2 << 20);
  EXPECT(!mx_page_is_apart(page_of(p)));
  mi_free(p);
}

// Where heaps have addresses of their own, a page grows into what nobody had of its 64 slices, no
// further.
static void test_plots(void) {
  mi_heap_t* const heap = mi_heap_new();
  const mx_page_t* const page = page_of(mi_heap_malloc(heap, 100));
  const size_t end = page->slice_index + page->slice_count, left = 64 - end % 64;
  EXPECT(mx_arena_has_plots(page->arena));
  if (left < 64) EXPECT(mx_plot_can_grow(page->arena, end, 1));
  EXPECT(left < 64 || !mx_plot_can_grow(page->arena, end, 1));
  EXPECT(!mx_plot_can_grow(page->arena, end, left + 1));
  mi_heap_destroy(heap);
}

// An arena all of whose addresses have served stays what it is, but for what it has in memory.
static void test_spent(void) {
  static mx_arenas_t mine;
  mx_arena_t* const arena = mx_arena_reserve_plots(&mine);
  EXPECT(arena != NULL && mx_arena_has_plots(arena));
  const size_t slices = arena->slices, bytes = arena->meta_size;
  uint8_t* const start = arena->start;
  mx_plots_spend(&mine, arena);
  EXPECT(mx_load_relaxed(&arena->is_spent) == 0);
  mx_store_relaxed(&arena->plots_spent, arena->words);
  mx_plots_spend(&mine, arena);
  EXPECT(mx_load_relaxed(&arena->is_spent) == 1 && mx_load_relaxed(&arena->free_slices) == 0);
  EXPECT(arena->slices == slices && arena->start == start && arena->meta_size == bytes);
  mx_arenas_destroy(&mine);
}

int main(void) {
  allow_damage();
  mi_free(mi_malloc(1));
  mi_option_disable(mi_option_show_errors);
  mi_option_set(mi_option_max_warnings, 0);
  mi_register_error(&on_error, NULL);
  test_sizes();
  test_pointers();
  test_shift_ends();
  if (MX_DEBUG_FILL) {
    test_fill(0);
    test_fill(1);
  }
  if (MX_LIVE_BITS) test_spoiled();
  if (MX_PADDING) test_resting();
  if (MX_PADDING) test_remote();
  test_ring();
  test_apart();
  if (MX_ISOLATE) test_plots();
  if (MX_ISOLATE) test_spent();
  test_arenas();
  in_thread(&collect_first, NULL);
  test_pool();
  test_nodes();
  test_guarded_of_heaps();
  test_large_in_own_heap();
  printf("seldom: %d failures\n", failures);
  return failures != 0;
}
