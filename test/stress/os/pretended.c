// SPDX-License-Identifier: MIT
// What few machines have, pretended: huge OS pages that come slowly, somewhere else or not at all, several
// memory nodes, no random numbers.
#include "../stress.h"

#include "heap/heap.h"
#include "mem/pagemap.h"
#include "mem/random.h"
#include "mem/settings.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"

static char said[1 << 14];
static void keep(const char* text, void* arg) {
  (void)arg;
  if (strlen(said) + strlen(text) < sizeof(said)) strcat(said, text);
}

static bool was_said(const char* text) {
  const bool was = (strstr(said, text) != NULL);
  said[0] = 0;
  return was;
}

static int64_t reserved(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }

static size_t size_of(mi_arena_id_t id) {
  size_t size = 0;
  check(mi_arena_area(id, &size) != NULL);
  return size;
}

// An exclusive arena of `pages` huge pages, of which it gets `wanted`; 0: there is none.
static mi_arena_id_t reserve(size_t pages, size_t timeout, size_t wanted) {
  mi_arena_id_t id = NULL;
  const int64_t before = reserved();
  const int code = mi_reserve_huge_os_pages_at_ex(pages, -1, timeout, true, &id);
  check((code == 0) == (wanted > 0));
  check(code == 0 || code == ENOMEM);
  const int64_t grown = reserved() - before;  // beside it there are records
  check(grown >= (int64_t)(wanted * MX_GIB) && grown < (int64_t)((wanted + 1) * MX_GIB));
  if (wanted > 0) check(size_of(id) == wanted * MX_GIB);
  return id;
}

// All of them: blocks come from there, and it cannot be purged.
static void huge_pages(void) {
  mock_large(2, 5, false);
  const mi_arena_id_t id = reserve(2, 0, 2);
  void* const other = mi_malloc(200 * MX_MIB);  // it is for calls that name it
  check(other != NULL && !mi_arena_contains(id, other));
  mi_free(other);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  char* const p = (char*)mi_heap_zalloc(heap, 100 * MX_MIB);
  check(p != NULL && mi_arena_contains(id, p));
  memset(p, 1, 100 * MX_MIB);
  mi_free(p);
  mi_collect(true);
  check(p[5] == 1);  // pinned memory is not given back
  char* const q = (char*)mi_heap_zalloc(heap, 100 * MX_MIB);
  check(q != NULL && mi_arena_contains(id, q));
  for (size_t i = 0; i < 100 * MX_MIB; i += 64) check(q[i] == 0);
  mi_free(q);
  mi_heap_destroy(heap);
}

// What was begun and had no pages is there for others.
static void addresses_come_back(void) {
  if (!MX_64BIT || MX_RANDOM_ADDRESS) return;
  void* const next = mx_vmem_place(MX_ZONE_NEAR, 4 * MX_GIB, MX_GIB);
  mx_vmem_placed_is_free(MX_ZONE_NEAR, next, 4 * MX_GIB);
  mock_large(1, 0, false);
  const mi_arena_id_t id = reserve(4, 0, 1);
  check(was_said("unable to get huge OS page 2 of 4"));
  check(mi_arena_area(id, NULL) == next);
  // Behind it, but for the rest of a unit, there is room again.
  uint8_t* const rest = (uint8_t*)mx_vmem_place(MX_ZONE_NEAR, MX_GIB, MX_GIB);
  check(rest == (uint8_t*)next + 2 * MX_GIB);
  mx_vmem_placed_is_free(MX_ZONE_NEAR, rest, MX_GIB);
}

static void time_is_up(void) {
  mock_large(9, 10, false);
  reserve(4, 0, 4);  // no limit
  mock_large(9, 10, false);
  reserve(4, 20, 2 + 1);  // after 30 ms it is late
  check(was_said("took too long: stopped after 3 of 4"));
  mock_large(9, 10, false);
  reserve(4, 19, 1);  // at this pace it would take twice as long
  check(was_said("took too long: stopped after 1 of 4"));
  mock_large(9, 10, false);
  reserve(1, 1, 1);  // what is there counts, however late
}

static void elsewhere(void) {
  mock_large(9, 0, true);
  reserve(2, 0, 0);
  check(was_said("unable to get huge OS page 1 of 2"));
  mock_large(0, 0, false);
  reserve(1, 0, 0);
  reserve(SIZE_MAX, 0, 0);
}

// Large pages, where asked for: memory of them is never given back in parts.
static void large_pages(void) {
  mi_arena_id_t id;
  mock_large(1, 0, false);
  const int64_t before = reserved();
  if (mx_facts.large_page == 0) return;
  check(mi_reserve_os_memory_ex(65 * MX_MIB, true, true, true, &id) == 0);
  check(size_of(id) == mx_align_up(65 * MX_MIB, mx_facts.large_page));
  check(reserved() - before >= (int64_t)size_of(id));
  mock_large(-1, 0, false);
}

// Memory of a heap's node first, or where it has none of the thread's; then any.
static void nodes(void) {
  static mx_aligned(65536) char memory[2][40 * MX_MIB];
  mi_option_set(mi_option_use_numa_nodes, 2);
  mi_option_set(mi_option_arena_is_numa_local, 1);
  mi_option_set(mi_option_disallow_os_alloc, 1);
  mi_arena_id_t ids[2];
  for (int i = 0; i < 2; i++) {
    check(mi_manage_os_memory_ex(memory[i], sizeof(memory[i]), true, false, true, i, false, &ids[i]));
  }
  for (int turn = 0; turn < 6; turn++) {
    const int here = turn % 2, own = turn / 2 - 1;
    mock_node((unsigned)(here + 2 * here));  // there are two
    mi_heap_t* const heap = mi_heap_new();
    mi_heap_set_numa_affinity(heap, own);
    void* const p = mi_heap_malloc(heap, 15 * MX_MIB);
    if (p != NULL) check(!mi_arena_contains(ids[1 - (own >= 0 ? own : here)], p));
    void* const more[3] = {mi_heap_malloc(heap, 15 * MX_MIB), mi_heap_malloc(heap, 15 * MX_MIB),
                           mi_heap_malloc(heap, 15 * MX_MIB)};
    check(p != NULL && more[0] != NULL && more[1] != NULL && more[2] != NULL);
    mi_heap_destroy(heap);
  }
  mi_option_set(mi_option_disallow_os_alloc, 0);
  mi_arena_id_t id = NULL;
  mock_large(1, 0, false);
  check(mi_reserve_huge_os_pages_at_ex(1, 1, 0, true, &id) == 0);
  const mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  const mx_arena_t* const arena = mx_arena_at(arenas, mx_load_relaxed(&arenas->count) - 1);
  check(arena->numa_node == 1 && arena->is_exclusive && arena->is_pinned);
  mock_large(-1, 0, false);
}

static void no_random_numbers(void) {
  mx_random64();  // has a key, which a child of a fork draws anew
  mock_random_fails(true);
  said[0] = 0;
  mx_random_after_fork();
  check(was_said("no random numbers"));
  // Addresses are random where the OS makes them so: half of the key is made of one of the stack.
  uint64_t inverse = 1;
  for (int i = 0; i < 6; i++) inverse *= 2 - (uint64_t)0x9E3779B97F4A7C15u * inverse;
  const uint64_t place = mx_settings.key0 * inverse, here = (uint64_t)(uintptr_t)&inverse;
  check(place - here < MX_MIB || here - place < MX_MIB);
  const uint64_t a = mx_random64(), b = mx_random64();
  mock_sleep(1);
  mx_random_after_fork();
  const uint64_t c = mx_random64();
  check(a != b && b != c && a != c && a != 0);
  mock_random_fails(false);
}

static void refused(void) {
  said[0] = 0;
  mock_fail_all();
  check(mx_vmem_map(MX_MIB, MX_SLICE_SIZE, true) == NULL);
  mock_heal();
  check(was_said("unable to map 1048576 bytes"));
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 1000);
  mi_option_set(mi_option_show_errors, 1);
  mi_register_output(keep, NULL);
  mi_free(mi_malloc(100));
  said[0] = 0;
  if (MX_64BIT) {
    addresses_come_back();
    huge_pages();
    time_is_up();
    elsewhere();
  }
  large_pages();
  nodes();
  no_random_numbers();
  refused();
  printf("ok\n");
  return 0;
}
