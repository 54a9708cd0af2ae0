// SPDX-License-Identifier: MIT
// The scenes in which an option shows its effect: `option_effects SCENE` prints what can be
// seen as KEY=VALUE, and options_test.py compares runs that differ in one option.
#define _GNU_SOURCE
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static mi_stats_t now(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  if (!mi_stats_get(&stats)) exit(2);
  return stats;
}

static void print_stats(void) {
  const mi_stats_t s = now();
  printf("reserved=%lld\ncommitted=%lld\npages=%lld\npurge_calls=%lld\nreset_calls=%lld\n"
         "commit_calls=%lld\narenas=%lld\nreclaim_on_free=%lld\npurged=%lld\n",
         (long long)s.reserved.current, (long long)s.committed.current,
         (long long)s.pages.current, (long long)s.purge_calls.total,
         (long long)s.reset_calls.total, (long long)s.commit_calls.total,
         (long long)s.arena_count.total, (long long)s.pages_reclaim_on_free.total,
         (long long)s.purged.total);
}

// A number of /proc/self/status, in KiB.
static void print_status(const char* name) {
  char line[256];
  FILE* f = fopen("/proc/self/status", "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) printf("%s=%ld\n", name, atol(line + strlen(name) + 1));
  }
  if (f != NULL) fclose(f);
}

// KiB of address space that is set aside: nothing may be written there yet, and it is no file's.
static void print_set_aside(void) {
  char line[512];
  unsigned long total = 0;
  FILE* f = fopen("/proc/self/maps", "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    unsigned long from, to, file;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, rights, &file) == 4 && file == 0 &&
        rights[1] == '-' && strchr(line, '[') == NULL) {
      total += to - from;
    }
  }
  if (f != NULL) fclose(f);
  printf("set_aside=%lu\n", total / KIB);
}

// The flags of the mapping that an address lies in: 1 when `flag` is among them.
static int has_flag(const void* p, const char* flag) {
  char line[512];
  int inside = 0, found = 0;
  FILE* f = fopen("/proc/self/smaps", "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    unsigned long from, to;
    if (strncmp(line, "VmFlags:", 8) == 0) {
      if (inside && strstr(line, flag) != NULL) found = 1;
    } else if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
      inside = ((uintptr_t)p >= from && (uintptr_t)p < to);
    }
  }
  if (f != NULL) fclose(f);
  return found;
}

// What of the process lies in large OS pages.
static int kib_in_large(void) {
  char line[512];
  int total = 0, kib;
  FILE* f = fopen("/proc/self/smaps", "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    if (sscanf(line, "AnonHugePages: %d", &kib) == 1) total += kib;
  }
  if (f != NULL) fclose(f);
  return total;
}

static bool is_in_an_arena(const void* p) {
  for (intptr_t id = 1; id <= 16; id++) {
    if (mi_arena_contains((mi_arena_id_t)id, p)) return true;
  }
  return false;
}

static void small_and_large(void) {
  char* small = mi_malloc(100);
  char* large = mi_malloc(64 * MIB);
  if (small == NULL || large == NULL) {
    printf("failed=1\n");
    return;
  }
  printf("failed=0\nsmall_hg=%d\nlarge_hg=%d\nsmall_ht=%d\n", has_flag(small, " hg"),
         has_flag(large + 32 * MIB, " hg"), has_flag(small, " ht"));
  printf("apart=%d\n", !is_in_an_arena(large));
  print_stats();
  print_set_aside();
  print_status("VmData");
}

// Blocks of 64 MiB, of which every `step`-th OS page is touched.
static char* use_large(size_t step) {
  char* const p = mi_malloc(64 * MIB);
  if (p == NULL) exit(2);
  for (size_t i = 0; i < 64 * MIB; i += step * 4096) p[i] = 1;
  return p;
}

static void lives_of_large(size_t step, int lives) {
  for (int i = 0; i < lives; i++) {
    mi_free(use_large(step));
    mi_collect(true);
  }
}

static int is_large(size_t step) {
  char* const p = use_large(step);
  const int answer = has_flag(p + 32 * MIB, " hg");
  mi_free(p);
  mi_collect(true);  // what follows is fresh
  return answer;
}

static void filled_and_not(void) {
  printf("first=%d\n", is_large(1));
  lives_of_large(1, 1);
  printf("filled=%d\n", is_large(1));
  char* const small = mi_malloc(64 * 1024);
  printf("small=%d\n", has_flag(small, " hg"));
  mi_free(small);
  int many = 0;
  for (int i = 0; i < 64; i++) many += is_large(1);
  printf("many=%d\n", many);
  lives_of_large(256, 32);  // among which some had small ones
  printf("sparse=%d\n", is_large(256));
}

// A heap that grows by blocks of which all or the first OS page is used: of 40 places in what came
// last, those whose mapping was told to get no more large pages, as it is where some are.
static int places_told(size_t size, size_t used, size_t total) {
  enum { PLACES = 40 };
  char* places[PLACES];
  const size_t count = total / size, step = count / 2 / PLACES;
  int told = 0;
  for (size_t i = 0; i < count; i++) {
    char* const p = mi_malloc(size);
    if (p == NULL) exit(2);
    memset(p, 1, used);
    const size_t n = (count - 1 - i) / step;
    if (n < PLACES) places[n] = p;
  }
  for (int n = 0; n < PLACES; n++) told += has_flag(places[n], " nh");
  return told;
}

static void growth(void) {
  printf("small=%d\n", places_told(1000, 1000, 40 * MIB));
  printf("dense=%d\n", places_told(1000, 1000, 160 * MIB));
  int mappings = 0;
  FILE* f = fopen("/proc/self/maps", "r");
  for (int c; f != NULL && (c = fgetc(f)) != EOF;) mappings += (c == '\n');
  if (f != NULL) fclose(f);
  printf("mappings=%d\nlarge=%d\n", mappings, kib_in_large());
}

static int present_pages(void* p, size_t size) {
  unsigned char state[512];
  int present = 0;
  if (size / 4096 > sizeof(state) || mincore(p, size, state) != 0) return -1;
  for (size_t i = 0; i < size / 4096; i++) present += state[i] & 1;
  return present;
}

static int has_large_pages(void) {
  char* const p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return 0;
  char* const at = p + (2 * MIB - (uintptr_t)p % (2 * MIB)) % (2 * MIB);
  madvise(at, 2 * MIB, MADV_HUGEPAGE);
  *at = 1;
  return present_pages(at, 2 * MIB) == 512;
}

// A heap that grows a few slices at a time, as those of most programs do.
static void small_growth(void) {
  places_told(1000, 1000, 24 * MIB);
  printf("exist=%d\nlarge=%d\n", has_large_pages(), kib_in_large());
}

// How much of the last large page is present when a part is used, and when what nobody had went.
static void unused_growth(void) {
  places_told(1000, 1000, 160 * MIB);
  char* at = NULL;
  for (size_t n = 0; at == NULL && n < 64 * MIB; n += 1000) {
    char* const p = memset(mi_malloc(1000), 1, 1000);
    char* const start = p - (uintptr_t)p % (2 * MIB);
    if (p - start < (ptrdiff_t)(256 * KIB) && present_pages(start, 2 * MIB) == 512) at = start;
  }
  printf("exist=%d\nfound=%d\n", has_large_pages(), at != NULL);
  if (at == NULL) return;
  mi_collect(true);
  printf("left=%d\n", present_pages(at, 2 * MIB));
}

static void sparse_growth(void) {
  const char* const p = mi_malloc(32 * KIB);  // debug builds write to all of it
  printf("filled=%d\n", p != NULL && p[20 * KIB] != 0);
  printf("sparse=%d\n", places_told(32 * KIB, 1, 256 * MIB));
}

static void errors(void) {
  int local = 0;
  for (int i = 0; i < 10; i++) mi_free((char*)&local + 16 * i);
  for (int i = 0; i < 10; i++) mi_heap_delete(mi_heap_main());
  printf("alive=1\n");
}

// 4 MiB wait after this, which is below what waits in any case.
static void delay(void) {
  // Larger ones have mappings of their own in hardened builds.
  void* large[32];
  for (int i = 0; i < 32; i++) large[i] = memset(mi_malloc(128 * KIB), 1, 128 * KIB);
  for (int i = 0; i < 32; i++) mi_free(large[i]);
  // Some of their pages are retained, and only slow allocations look at what waits.
  void* kept[4][400];
  for (int round = 0; round < 4; round++) {
    usleep(60000);
    for (int i = 0; i < 400; i++) kept[round][i] = mi_malloc(3000);
  }
  for (int i = 0; i < 1600; i++) mi_free(kept[i / 400][i % 400]);
  print_stats();
}

// ---- pages between threads ---------------------------------------------------------------------

enum { COUNT = 2000 };
static unsigned char* blocks[COUNT];

static void* fill(void* arg) {
  for (int i = 0; i < COUNT; i++) blocks[i] = mi_malloc(1000);
  return arg;
}

static void* drop(void* arg) {
  for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
  return arg;
}

static void in_thread(void* (*run)(void*)) {
  pthread_t id;
  pthread_create(&id, NULL, run, NULL);
  pthread_join(id, NULL);
}

// Another thread leaves pages in which this one frees.
static void reclaim(void) {
  void* mine = mi_malloc(1000);
  in_thread(&fill);
  for (int i = 0; i < COUNT; i += 2) mi_free(blocks[i]);
  print_stats();
  mi_free(mine);
}

// This thread fills pages and frees one block in each.
static void full_pages(void) {
  fill(NULL);
  for (int i = 0; i < COUNT; i += 64) mi_free(blocks[i]);
  print_stats();
}

// Another thread frees all blocks of pages that this one does not look at. What follows takes less
// memory than what a collection would follow upon.
static void generic_collect(void) {
  fill(NULL);
  in_thread(&drop);
  for (int i = 0; i < 2000; i++) mi_free(mi_malloc(600 * KIB + (size_t)(i % 10) * 16 * KIB));
  print_stats();
}

static void* allocate_each(void* arg) {
  for (size_t size = 16; size <= 512; size += 16) mi_free(mi_malloc(size));
  return arg;
}

// Thread after thread uses the same sizes.
static void threads(void) {
  for (int i = 0; i < 20; i++) in_thread(&allocate_each);
  printf("made=%lld\n", (long long)now().pages.total);
}

// One partial page with many free blocks, freed into first, and one with few: which is next? Few are
// more than the places where builds with a quarantine let freed blocks wait.
static void candidates(void) {
  for (int i = 0; i < COUNT; i++) blocks[i] = mi_malloc(2048);
  const uintptr_t sparse = (uintptr_t)blocks[96] >> 16, dense = (uintptr_t)blocks[640] >> 16;
  for (int i = 0; i < COUNT; i++) {
    if ((uintptr_t)blocks[i] >> 16 == sparse && i % 8 > 2) mi_free(blocks[i]);
  }
  for (int i = 0; i < COUNT; i++) {
    if ((uintptr_t)blocks[i] >> 16 == dense && i % 8 == 5) mi_free(blocks[i]);
  }
  // Past the rest of the current page.
  int from_dense = 0, from_sparse = 0;
  for (int i = 0; i < 100 && !from_dense && !from_sparse; i++) {
    const uintptr_t page = (uintptr_t)mi_malloc(2048) >> 16;
    from_dense = (page == dense);
    from_sparse = (page == sparse);
  }
  printf("from_dense=%d\nfrom_sparse=%d\n", from_dense, from_sparse);
}

// Which requests get memory of an arena that the program brought, and of one for a heap of its own.
static void given_arenas(void) {
  mi_arena_id_t shared, exclusive;
  if (mi_reserve_os_memory_ex(64 * MIB, false, false, false, &shared) != 0) exit(2);
  if (mi_reserve_os_memory_ex(64 * MIB, false, false, true, &exclusive) != 0) exit(2);
  mi_heap_t* const heap = mi_heap_new_in_arena(exclusive);
  int null = 0, in_shared = 0, in_exclusive = 0;
  for (int i = 0; i < 20000; i++) {
    const size_t size = (i % 100 == 0 ? 2 * MIB : (size_t)1 << i % 17);
    char* const p = mi_malloc(size);
    char* const q = mi_heap_malloc(heap, (size & 0xFFFF) + 1);
    if (p == NULL || q == NULL) null++;
    else p[size - 1] = q[0] = 1;
    in_shared += mi_arena_contains(shared, p);
    in_exclusive += mi_arena_contains(exclusive, q);
    mi_free(q);
    if (i % 5 != 0) mi_free(p);
  }
  printf("null=%d\nin_shared=%d\nin_exclusive=%d\n", null, in_shared, in_exclusive);
}

static void zero_on_free(void) {
  volatile unsigned char* p = mi_malloc(128);
  memset((void*)(uintptr_t)p, 0xAB, 128);
  mi_free((void*)(uintptr_t)p);
  // The first bytes are the list's.
  int zeros = 0;
  for (int i = 32; i < 96; i++) zeros += (p[i] == 0);
  printf("zeros=%d\n", zeros);
}

int main(int argc, char** argv) {
  const char* scene = (argc > 1 ? argv[1] : "");
  if (strcmp(scene, "sizes") == 0) small_and_large();
  else if (strcmp(scene, "filled") == 0) filled_and_not();
  else if (strcmp(scene, "growth") == 0) growth();
  else if (strcmp(scene, "small growth") == 0) small_growth();
  else if (strcmp(scene, "unused growth") == 0) unused_growth();
  else if (strcmp(scene, "sparse growth") == 0) sparse_growth();
  else if (strcmp(scene, "errors") == 0) errors();
  else if (strcmp(scene, "delay") == 0) delay();
  else if (strcmp(scene, "reclaim") == 0) reclaim();
  else if (strcmp(scene, "full") == 0) full_pages();
  else if (strcmp(scene, "collect") == 0) generic_collect();
  else if (strcmp(scene, "candidates") == 0) candidates();
  else if (strcmp(scene, "threads") == 0) threads();
  else if (strcmp(scene, "zero") == 0) zero_on_free();
  else if (strcmp(scene, "given") == 0) given_arenas();
  else if (strcmp(scene, "start") == 0) print_stats();
  else if (strcmp(scene, "end") == 0) mi_free(mi_malloc(1)), mi_process_done();
  else if (strcmp(scene, "stream") == 0) return fopen("/dev/null", "r") == NULL;
  else return 2;
  return 0;
}
