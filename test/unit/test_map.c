// SPDX-License-Identifier: MIT
// The map of an arena, letter by letter: each slice is on one line or among those that are summed up, and
// has the letter of what the program knows to be there.
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/heap.h"
#include "../../src/service/arena_map.h"
#include "../page_of.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define MIB ((size_t)1 << 20)
#define SLICES_MOST 4096

static char text[1 << 18];
static char letters[SLICES_MOST + 1];  // 0: on no line
static const mx_arena_t* arena;

static void keep(const char* part, void* arg) {
  (void)arg;
  if (strlen(text) + strlen(part) < sizeof(text)) strcat(text, part);
}

static size_t number_behind(const char* from, const char* word) {
  const char* const at = strstr(from, word);
  return at == NULL ? 0 : (size_t)strtoull(at + strlen(word), NULL, 10);
}

// Of one line the letters; false: it is none.
static bool read_line(const char* line) {
  void* start;
  char row[256];
  if (sscanf(line, "  %p  %255[^\n]", &start, row) != 2 || strncmp(line, "  0x", 4) != 0) return false;
  const size_t first = (size_t)((uint8_t*)start - arena->start) / MX_SLICE_SIZE, length = strlen(row);
  EXPECT(first % 64 == 0 && first < arena->slices);
  EXPECT(length == (arena->slices - first < 64 ? arena->slices - first : 64));
  EXPECT(strspn(row, ".") < length);
  if (first + length <= SLICES_MOST) memcpy(letters + first, row, length);
  return true;
}

// Reads the part that is about the arena.
static void read_map(void) {
  char head[64];
  mx_out_t out;
  text[0] = 0;
  memset(letters, 0, sizeof(letters));
  mx_out_open(&out, &keep, NULL);
  mx_arena_map_print(&mx_subproc_main, &out);
  EXPECT(number_behind(text, "arenas: ") == mx_load_relaxed(&mx_subproc_main.arenas.count));
  snprintf(head, sizeof(head), "\narena %zu: ", arena->id);
  const char* at = strstr(text, head);
  EXPECT(at != NULL);
  if (at == NULL) return;
  const char* const heading = at + 1;
  size_t used = 0, skipped = 0, shown = 0;
  do {
    at = strchr(at + 1, '\n');
  } while (at != NULL && read_line(at + 1));
  if (at != NULL && strncmp(at + 1, "  and ", 6) == 0) skipped = number_behind(at, "  and ");
  for (size_t i = 0; i < arena->slices; i++) {
    shown += (letters[i] != 0);
    used += (letters[i] != 0 && strchr("~:.", letters[i]) == NULL);
  }
  EXPECT(skipped > 64 && skipped % 64 != 0 && shown + skipped == arena->slices);
  EXPECT(number_behind(heading, "KiB, ") == used && number_behind(heading, "MiB, ") == arena->slices);
  EXPECT(number_behind(strchr(heading, ','), ", ") == arena->slices * MX_SLICE_SIZE / MIB);
  EXPECT(strstr(heading, "in use, exclusive\n") != NULL);
}

static size_t first_slice(const void* p) {
  return (size_t)((const uint8_t*)p - arena->start) / MX_SLICE_SIZE;
}

// The first slice of a block's page has its letter, and those behind it lines. Whoever had a page may have
// left it when it was full.
static char expect_page(const void* p, bool is_own) {
  const mx_page_t* const page = page_of(p);
  const size_t first = first_slice(mx_page_first(page)), count = page->slice_count;
  char letter = (count == 1 ? 's' : count <= MX_MEDIUM_PAGE_SLICES ? 'm' : 'l');
  if (mx_page_is_huge(page)) letter = 'h';
  else if (!is_own) letter = (char)toupper(letter);
  bool goes_on = true;
  for (size_t i = 1; i < count; i++) goes_on = goes_on && letters[first + i] == '-';
  EXPECT(letters[first] == letter || (is_own && letters[first] == toupper(letter)));
  EXPECT(goes_on && letters[first + count] != '-');
  return letters[first];
}

#define BLOCKS 300
static void *own[BLOCKS], *others[BLOCKS];
static const size_t sizes[3] = {100, 10000, 180000};  // of pages of 1, of 8 and of more slices

static void allocate(mi_heap_t* heap, void** blocks) {
  for (int i = 0; i < BLOCKS; i++) blocks[i] = mi_heap_malloc(heap, sizes[i % 3]);
}

static void* thread(void* heap) {
  allocate((mi_heap_t*)heap, others);
  return NULL;
}

static void check_pages(mi_heap_t* heap) {
  pthread_t other;
  bool seen[128] = {false};
  allocate(heap, own);
  if (pthread_create(&other, NULL, thread, heap) != 0) exit(1);
  pthread_join(other, NULL);
  read_map();
  for (int i = 0; i < BLOCKS; i++) {
    const int a = expect_page(own[i], true), b = expect_page(others[i], false);
    seen[a] = seen[b] = true;
  }
  for (const char* c = "smlSML"; *c != 0; c++) EXPECT(seen[(int)*c]);
}

// As the pages of a thread that ended and left all of them together.
static void check_parked(mi_heap_t* heap) {
  void* const p = mi_heap_malloc(heap, 5000);
  mx_page_t* const page = page_of(p);
  const uintptr_t owner = mx_load_relaxed(&page->owner);
  read_map();
  EXPECT(owner != 0 && expect_page(p, true) == (page->slice_count == 1 ? 's' : 'm'));
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  read_map();
  expect_page(p, false);
  mx_store_relaxed(&page->owner, owner);
  mi_free(p);
}

static void check_free(mi_heap_t* heap) {
  void* const p = mi_heap_malloc(heap, 7 * MIB);
  const size_t first = first_slice(p), end = first + 7 * MIB / MX_SLICE_SIZE;
  if (MX_LARGE_APART) {  // it has a mapping of its own
    mi_free(p);
    return;
  }
  memset(p, 1, 7 * MIB);
  read_map();
  EXPECT(expect_page(p, true) == 'h');
  mi_free(p);
  mi_heap_collect(heap, false);
  read_map();
  EXPECT(strspn(letters + first, "~") >= end - first);
  mi_collect(true);
  read_map();
  for (size_t i = first; i < end; i++) EXPECT(letters[i] == '.' || letters[i] == 0);
}

int main(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  mi_arena_id_t id;
  if (mi_reserve_os_memory_ex(203 * MIB, false, false, true, &id) != 0) return 1;
  const mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  arena = mx_arena_at(arenas, mx_load_relaxed(&arenas->count) - 1);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  check_pages(heap);
  check_parked(heap);
  check_free(heap);
  mi_heap_destroy(heap);
  printf("map: %d failures\n", failures);
  return failures != 0;
}
