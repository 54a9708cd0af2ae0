// SPDX-License-Identifier: MIT
// Arenas: reserved, of the program's own memory, with a commit function, exclusive; heaps that take
// from one only; huge and large OS pages, and what is said where the system has none.
#include <errno.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "api_check.h"
#include "base/config.h"

#define MIB ((size_t)1024 * 1024)

static void* memory(size_t size, int prot) {
  void* const p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static char text[1 << 20];

static void keep(const char* msg, void* arg) {
  (void)arg;
  if (strlen(text) + strlen(msg) + 1 < sizeof(text)) strcat(text, msg);
}

// ---- reserving ---------------------------------------------------------------------------------

static void test_reserve(void) {
  static const struct {
    size_t size;
    bool commit, exclusive;
    int code;
  } rows[] = {
      {0, false, false, ENOMEM},
      {1 * MIB, false, false, ENOMEM},
      {SIZE_MAX, false, false, ENOMEM},
      {SIZE_MAX / (sizeof(size_t) == 4 ? 2 : 16) + 1, false, false, ENOMEM},
      {32 * MIB, false, true, 0},
      {64 * MIB, true, true, 0},
      {(sizeof(size_t) == 4 ? (size_t)256 : (size_t)16384) * MIB, false, true, 0},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    mi_arena_id_t id = (mi_arena_id_t)&id;
    const int code = mi_reserve_os_memory_ex(rows[i].size, rows[i].commit, false,
                                             rows[i].exclusive, &id);
    CHECK_ROW(code == rows[i].code && (id != NULL) == (code == 0), i);
    size_t size = 1;
    char* const start = (char*)mi_arena_area(id, &size);
    CHECK_ROW(size == (code == 0 ? rows[i].size : 0) && (start != NULL) == (code == 0), i);
    if (code != 0) continue;
    CHECK_ROW((uintptr_t)start % mi_arena_min_alignment() == 0, i);
    CHECK_ROW(mi_arena_contains(id, start) && mi_arena_contains(id, start + size - 1), i);
    CHECK_ROW(!mi_arena_contains(id, start + size) && !mi_arena_contains(id, &size), i);
  }
  mi_arena_id_t id;
  size_t size = 0;
  CHECK(mi_reserve_os_memory_ex(32 * MIB + 1, false, false, true, &id) == 0);
  CHECK(mi_arena_area(id, &size) != NULL && size == 32 * MIB + 65536);
  CHECK(mi_reserve_os_memory(40 * MIB, true, false) == 0);
  CHECK(mi_arena_min_size() == 32 * MIB && mi_arena_min_alignment() == 65536);
  CHECK(mi_arena_area(NULL, NULL) == NULL && !mi_arena_contains(NULL, &rows));
  const mi_arena_id_t unknown = (mi_arena_id_t)(uintptr_t)1000000;
  CHECK(mi_arena_area(unknown, &size) == NULL && size == 0);
  CHECK(!mi_arena_contains(unknown, mi_arena_area(id, NULL)));
  CHECK(mi_heap_try_new(0, true, unknown) == NULL && errno == ENOMEM);
}

// How often memory is committed for two blocks in each of some arenas, and for what they have records in.
static int64_t commits_in(bool is_committed) {
  mi_stats_t_decl(before);
  mi_stats_t_decl(after);
  int64_t commits = 0;
  for (int i = 0; i < 6; i++) {
    mi_arena_id_t id;
    CHECK(mi_reserve_os_memory_ex(32 * MIB, is_committed, false, true, &id) == 0);
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    CHECK(mi_stats_get(&before));
    CHECK(mi_heap_malloc(heap, 8 * MIB) != NULL && mi_arena_contains(id, mi_heap_malloc(heap, 1000)));
    CHECK(mi_stats_get(&after));
    mi_heap_destroy(heap);
    commits += after.commit_calls.total - before.commit_calls.total;
  }
  return commits;
}

// What is reserved when others are in use serves from then on, before what else is free there.
static void test_late(void) {
  enum { BLOCKS = 24 };  // more than the arena of test_left_on_node has room for
  mi_arena_id_t id;
  void* p[BLOCKS];
  mi_free(mi_malloc(3 * MIB));
  CHECK(mi_reserve_os_memory_ex(128 * MIB, false, false, false, &id) == 0);
  int inside = 0;
  for (int i = 0; i < BLOCKS; i++) {
    p[i] = mi_malloc(3 * MIB);
    inside += mi_arena_contains(id, p[i]);
  }
  CHECK(inside >= BLOCKS - 48 / 3 - 2);
  for (int i = 0; i < BLOCKS; i++) mi_free(p[i]);
}

// ---- heaps in an arena -------------------------------------------------------------------------

static void test_exclusive(void) {
  mi_arena_id_t id;
  CHECK(mi_reserve_os_memory_ex(64 * MIB, false, false, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  CHECK(heap != NULL);
  errno = 0;
  CHECK(mi_heap_malloc(heap, 100 * MIB) == NULL && errno == ENOMEM);
  size_t got = 0;
  for (void* p; (p = mi_heap_malloc(heap, 60000)) != NULL; got++) {
    CHECK_ROW(mi_arena_contains(id, p), got);
    memset(p, 1, 60000);
  }
  CHECK(got * 60000 > 56 * MIB);
  // Nobody else gets any of it, full or empty.
  mi_heap_destroy(heap);
  for (int i = 0; i < 3000; i++) CHECK(!mi_arena_contains(id, mi_malloc(20000)));
  mi_heap_t* const second = mi_heap_new_in_arena(id);
  void* const p = mi_heap_malloc(second, 30 * MIB);
  CHECK(mi_arena_contains(id, p));
  mi_heap_delete(second);  // p is the main heap's now, and stays where it is
  CHECK(mi_heap_of(p) == mi_heap_main());
  mi_free(p);
}

// A page takes as many slices as its blocks need, so blocks of all sizes fit into an arena that is
// small against the room that each size could fill; and pages that meet stay out of each other.
static void test_all_sizes(void) {
  enum { MOST = 4000 };
  static unsigned char* blocks[MOST];
  static size_t sizes[MOST];
  mi_arena_id_t id;
  // Where a guard follows each page, a page has all its slices at once. Such builds pad blocks.
  void* const probe = mi_malloc(100);
  const size_t size = (mi_usable_size(probe) > 100 ? 32 : 400) * MIB;
  mi_free(probe);
  CHECK(mi_reserve_os_memory_ex(size, false, false, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  size_t count = 0, bytes = 0;
  for (size_t n = 9000; n < 500000; n += n / 16, count++) {
    sizes[count] = n;
    blocks[count] = (unsigned char*)mi_heap_malloc(heap, n);
    CHECK_ROW(mi_arena_contains(id, blocks[count]), n);
  }
  const size_t kinds = count;
  for (bool any = true; any && count < MOST - kinds;) {
    any = false;
    for (size_t i = 0; i < kinds; i++) {
      unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, sizes[i]);
      if (p == NULL) continue;
      any = true;
      sizes[count] = sizes[i];
      blocks[count++] = p;
    }
  }
  for (size_t i = 0; i < count; i++) memset(blocks[i], (int)(i % 251), sizes[i]);
  for (size_t i = 0; i < count; i++) {
    CHECK_ROW(blocks[i][0] == i % 251 && blocks[i][sizes[i] - 1] == i % 251, i);
    bytes += sizes[i];
  }
  CHECK(bytes > 22 * MIB);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_heap_collect(heap, true);
  CHECK(mi_arena_contains(id, mi_heap_malloc(heap, size - 2 * MIB)));
  mi_heap_destroy(heap);
}

// ---- memory of the program's -------------------------------------------------------------------

static void test_manage(void) {
  static char small[MIB];
  CHECK(!mi_manage_os_memory(small, sizeof(small), true, false, true, -1));
  CHECK(!mi_manage_os_memory(NULL, 64 * MIB, true, false, true, -1));
  mi_arena_id_t id = (mi_arena_id_t)small;
  CHECK(!mi_manage_os_memory_ex(small, 0, true, false, true, -1, false, &id) && id == NULL);
  CHECK(!mi_manage_os_memory(small, SIZE_MAX, true, false, true, -1));
  const size_t size = 40 * MIB;
  char* const p = (char*)memory(size, PROT_READ | PROT_WRITE);
  memset(p, 0xEE, size);
  CHECK(mi_manage_os_memory_ex(p + 100, size - 100, true, true, false, 0, true, &id));
  size_t area = 0;
  char* const start = (char*)mi_arena_area(id, &area);
  CHECK(start > p && (uintptr_t)start % 65536 == 0 && start + area <= p + size);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  for (size_t n = 1; n < 8 * MIB; n *= 3) {
    unsigned char* const z = (unsigned char*)mi_heap_zalloc(heap, n);
    CHECK_ROW(mi_arena_contains(id, z), n);
    for (size_t i = 0; i < n; i++) CHECK_ROW(z[i] == 0, n);
  }
  // Two arenas would hand out the same blocks.
  mi_arena_id_t again = id;
  text[0] = 0;
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_max_warnings, 1000);
  mi_register_output(&keep, NULL);
  CHECK(!mi_manage_os_memory_ex(p + 100, size - 100, true, true, false, 0, false, &again));
  CHECK(again == NULL && !mi_manage_os_memory(p + size / 2, size / 2, true, false, false, -1));
  mi_register_output(NULL, NULL);
  mi_option_set(mi_option_show_errors, 0);
  mi_option_set(mi_option_max_warnings, 0);
  CHECK(strstr(text, "is an arena's already") != NULL);
  mi_heap_destroy(heap);
  mi_collect(true);
  CHECK(mi_manage_os_memory(memory(size, PROT_READ | PROT_WRITE), size, true, false, true, -1));
}

typedef struct commits_s {
  size_t commits, decommits, bytes;
  bool refuses;
} commits_t;

static bool commit(bool commits, void* start, size_t size, bool* is_zero, void* arg) {
  commits_t* const c = (commits_t*)arg;
  CHECK((uintptr_t)start % 4096 == 0 && size % 4096 == 0 && size > 0);
  if (commits && c->refuses) return false;
  if (commits) c->commits++;
  else c->decommits++;
  c->bytes = commits ? c->bytes + size : c->bytes - size;
  CHECK(mprotect(start, size, commits ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  if (!commits) CHECK(madvise(start, size, MADV_DONTNEED) == 0);
  if (is_zero != NULL) *is_zero = true;
  return true;
}

static void test_commit_function(void) {
  static commits_t none;
  char* const q = (char*)memory(48 * MIB, PROT_READ | PROT_WRITE);
  mi_arena_id_t whole;
  CHECK(mi_manage_memory(q, 48 * MIB, true, false, true, -1, true, &commit, &none, &whole));
  mi_heap_t* const in_whole = mi_heap_new_in_arena(whole);
  CHECK(mi_arena_contains(whole, mi_heap_malloc(in_whole, 100)) && none.commits == 0);
  static commits_t c;
  const size_t size = 64 * MIB;
  void* const p = memory(size, PROT_NONE);
  mi_arena_id_t id;
  CHECK(mi_manage_memory(p, size, false, false, true, -1, true, &commit, &c, &id));
  CHECK(c.commits == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  CHECK(mi_heap_malloc(heap, 100) != NULL && c.commits > 0 && c.bytes < 4 * MIB);
  unsigned char* const z = (unsigned char*)mi_heap_zalloc(heap, 20 * MIB);
  CHECK(z != NULL && c.bytes >= 20 * MIB);
  for (size_t i = 0; i < 20 * MIB; i += 999) CHECK(z[i] == 0);
  memset(z, 1, 20 * MIB);
  mi_free(z);
  mi_collect(true);
  CHECK(c.decommits > 0 && c.bytes < 20 * MIB);
  unsigned char* const again = (unsigned char*)mi_heap_zalloc(heap, 20 * MIB);
  for (size_t i = 0; i < 20 * MIB; i += 999) CHECK(again[i] == 0);
  c.refuses = true;
  errno = 0;
  // Of 64 MiB with a page and a block of 20 MiB anywhere (secure builds choose at random) a run of
  // 14 MiB is left at least.
  CHECK(mi_heap_malloc(heap, 12 * MIB) == NULL && errno == ENOMEM);
  c.refuses = false;
  CHECK(mi_heap_malloc(heap, 12 * MIB) != NULL);
  mi_heap_destroy(heap);
}

// ---- large and huge OS pages -------------------------------------------------------------------

static size_t free_large_pages(void) {
  FILE* const f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
  unsigned long n = 0;
  if (f == NULL) return 0;
  if (fscanf(f, "%lu", &n) != 1) n = 0;
  fclose(f);
  return n;
}

static void test_large_pages(void) {
  const size_t before = free_large_pages();
  mi_arena_id_t id;
  CHECK(mi_reserve_os_memory_ex(32 * MIB, true, true, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  char* const p = (char*)mi_heap_zalloc(heap, 8 * MIB);
  for (size_t i = 0; i < 8 * MIB; i += 4096) p[i]++;
  if (before >= 16) CHECK(free_large_pages() < before);  // they were really used
  mi_free(p);
  mi_collect(true);
  mi_heap_destroy(heap);
}

static bool has_huge_pages(void) {
  FILE* const f = fopen("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "r");
  unsigned long n = 0;
  if (f == NULL) return false;
  if (fscanf(f, "%lu", &n) != 1) n = 0;
  fclose(f);
  return n > 0;
}

static void test_huge_pages(void) {
  CHECK(mi_reserve_huge_os_pages_interleave(0, 0, 0) == 0);
  CHECK(mi_reserve_huge_os_pages_at(0, 0, 0) == 0);
  mi_arena_id_t id = (mi_arena_id_t)&id;
  CHECK(mi_reserve_huge_os_pages_at_ex(0, 0, 0, false, &id) == 0 && id == NULL);
  size_t reserved = 7;
  CHECK(mi_reserve_huge_os_pages(0, 0, &reserved) == 0 && reserved == 0);
  if (has_huge_pages()) {
    CHECK(mi_reserve_huge_os_pages_at_ex(1, -1, 60000, true, &id) == 0);
    size_t size = 0;
    CHECK(mi_arena_area(id, &size) != NULL && size == (size_t)1 << 30);
    return;
  }
  // Where there are none, each call says so.
  CHECK(mi_reserve_huge_os_pages_at_ex(1, 0, 1000, true, &id) == ENOMEM && id == NULL);
  CHECK(mi_reserve_huge_os_pages_at(2, 99, 0) == ENOMEM);
  CHECK(mi_reserve_huge_os_pages_interleave(3, 2, 100) == ENOMEM);
  reserved = 7;
  CHECK(mi_reserve_huge_os_pages(1, 0.5, &reserved) == ENOMEM && reserved == 0);
  CHECK(mi_reserve_huge_os_pages_at(SIZE_MAX, -1, 0) == ENOMEM);
}

// ---- the map -----------------------------------------------------------------------------------

static void test_print(void) {
  void* const p = mi_malloc(100);
  void* const huge = mi_malloc(5 * MIB);
  mi_register_output(&keep, NULL);
  text[0] = 0;
  mi_arenas_print();
  CHECK(strstr(text, "arenas: ") != NULL && strstr(text, "arena 1: ") != NULL);
  CHECK(strstr(text, "exclusive") != NULL && strstr(text, "pinned") != NULL);
  // Where the first slice is one of a line's last ones, the next line is all of that block.
  CHECK(strstr(text, "h-----") != NULL ||
        (strchr(text, 'h') != NULL && strstr(text, "----------------------------------------")));
  text[0] = 0;
  mi_debug_show_arenas();
  CHECK(strstr(text, "arenas: ") != NULL);
  mi_register_output(NULL, NULL);
  mi_free(p);
  mi_free(huge);
}

// ---- nodes -------------------------------------------------------------------------------------

// A heap with a preferred node takes from an arena of that node first.
static void test_nodes(void) {
  mi_option_set(mi_option_use_numa_nodes, 8);
  mi_arena_id_t id;
  const size_t size = 48 * MIB;
  CHECK(mi_manage_os_memory_ex(memory(size, PROT_READ | PROT_WRITE), size, true, false, true, 5,
                               false, &id));
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_set_numa_affinity(heap, 13);  // 5 modulo 8
  void* const p = mi_heap_malloc(heap, 3 * MIB);
  CHECK(mi_arena_contains(id, p) || MX_ISOLATE);  // which has none of the program's memory
  void* const too_large = mi_heap_malloc(heap, 60 * MIB);  // preferred only, not required
  CHECK(too_large != NULL && !mi_arena_contains(id, too_large));
  mi_heap_destroy(heap);
  mi_option_set(mi_option_use_numa_nodes, 0);
}

static void* allocate(void* size) { return mi_malloc((size_t)(uintptr_t)size); }

static void* block_of_thread(size_t size) {
  pthread_t thread;
  void* block;
  CHECK(pthread_create(&thread, NULL, allocate, (void*)(uintptr_t)size) == 0);
  CHECK(pthread_join(thread, &block) == 0);
  return block;
}

// What a thread left on its node is not for those of another one.
static void test_left_on_node(void) {
  mi_option_set(mi_option_use_numa_nodes, 8);
  mi_arena_id_t id;
  const size_t size = 48 * MIB;
  CHECK(mi_manage_os_memory_ex(memory(size, PROT_READ | PROT_WRITE), size, true, false, true, 6,
                               false, &id));
  for (size_t bytes = 100; bytes < 5000; bytes += 700) {
    mi_heap_set_numa_affinity(mi_heap_main(), 6);
    void* const left = block_of_thread(bytes);
    CHECK_ROW(mi_arena_contains(id, left), bytes);
    mi_heap_set_numa_affinity(mi_heap_main(), 2);
    void* const p = block_of_thread(bytes);
    CHECK_ROW(p != NULL && !mi_arena_contains(id, p), bytes);
    mi_free(p);
    mi_free(left);
  }
  mi_heap_set_numa_affinity(mi_heap_main(), -1);
  mi_option_set(mi_option_use_numa_nodes, 0);
}

static void test_many(void) {
  const int count = (sizeof(size_t) == 4 ? 20 : 1500);  // as the addresses allow
  for (int i = 0; i < count; i++) {
    mi_arena_id_t id;
    CHECK_ROW(mi_reserve_os_memory_ex(32 * MIB, false, false, true, &id) == 0, i);
    if (i % 100 != 0) continue;
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    CHECK_ROW(mi_arena_contains(id, mi_heap_malloc(heap, 50000)), i);
    mi_heap_destroy(heap);
  }
}

int main(void) {
  mi_option_set(mi_option_show_errors, 0);
  mi_option_set(mi_option_max_warnings, 0);
  test_left_on_node();  // first: a search for what was left sees a part of many arenas
  test_late();
  test_reserve();
  CHECK(commits_in(true) < commits_in(false));  // what is committed from the start needs it no more
  test_exclusive();
  test_all_sizes();
  test_manage();
  test_commit_function();
  test_large_pages();
  test_huge_pages();
  test_print();
  test_nodes();
  test_many();
  return 0;
}
