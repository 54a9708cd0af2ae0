// SPDX-License-Identifier: MIT
// Every number of the statistics on its way: each counter has a value of its own, which has to arrive in
// the place of the record that has its name, and each place of the record one, which every format has to
// show under its name.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/service/amounts.h"
#include "../../src/service/stats.h"
#include "../page_of.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// ---- counters to the record --------------------------------------------------------------------

static mx_heap_t heap;
static mi_stats_t stats;
static int64_t next_value = 1000;

static const mx_stat_field_t* field_of(const char* name) {
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    if (strcmp(mx_stat_fields[i].name, name) == 0) return &mx_stat_fields[i];
  }
  printf("FAIL no field %s\n", name);
  failures++;
  return &mx_stat_fields[0];
}

static void set_count(mx_count_t* c) {
  mx_store_relaxed(&c->current, next_value++);
  mx_store_relaxed(&c->peak, next_value++);
  mx_store_relaxed(&c->total, next_value++);
}

static bool has_count(const mi_stat_count_t* c) {
  next_value += 3;
  return c->current == next_value - 3 && c->peak == next_value - 2 && c->total == next_value - 1;
}

#define SET_COUNT(name) set_count(&heap.counters.name);
#define SET_COUNTER(name) mx_store_relaxed(&heap.counters.name, next_value++);
#define EXPECT_COUNT(name) \
  EXPECT(has_count((const mi_stat_count_t*)((const char*)&stats + field_of(#name)->offset)));
#define EXPECT_COUNTER(name)                                                                       \
  EXPECT(((const mi_stat_counter_t*)((const char*)&stats + field_of(#name)->offset))->total ==     \
         next_value++);

static void test_record(void) {
  mi_stat_count_t bins[MI_BIN_HUGE + 1];
  memset(bins, 0, sizeof(bins));
  MX_COUNTERS(SET_COUNT, SET_COUNTER)
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    mx_count_t* const c = &heap.counters.bin_pages[bin];
    mi_stat_count_t* const sum =
        &bins[bin == MX_BIN_HUGE ? MI_BIN_HUGE : mx_stats_bin_of(mx_bin_size(bin))];
    set_count(c);
    sum->current += mx_load_relaxed(&c->current);
    sum->total += mx_load_relaxed(&c->total);
    sum->peak = mx_load_relaxed(&c->peak);  // the last is the highest
    if (sum->peak < sum->current) sum->peak = sum->current;
  }
  mx_stats_of_heap(&heap, &stats);
  next_value = 1000;
  MX_COUNTERS(EXPECT_COUNT, EXPECT_COUNTER)
  EXPECT(memcmp(stats.page_bins, bins, sizeof(bins)) == 0);
  // What its threads count by themselves.
  static mx_theap_t threads[2];
  mx_store_relaxed(&threads[0].counted.reclaims, (int64_t)7);
  mx_store_relaxed(&threads[1].counted.reclaims, (int64_t)70);
  mx_store_relaxed(&threads[0].counted.extends, (int64_t)9);
  mx_store_relaxed(&threads[1].counted.extends, (int64_t)90);
  threads[0].links.next_in_heap = &threads[1];
  heap.theaps = &threads[0];
  const int64_t reclaims = stats.pages_reclaim_on_free.total, extends = stats.pages_extended.total;
  mx_stats_of_heap(&heap, &stats);
  EXPECT(stats.pages_reclaim_on_free.total == reclaims + 77);
  EXPECT(stats.pages_extended.total == extends + 99);
}

// ---- live blocks -------------------------------------------------------------------------------

#define BLOCKS 400
#define SIZE ((size_t)2000)

static void* blocks[BLOCKS];

typedef struct seen_s {
  size_t pages, used, committed, huge;
} seen_t;

static bool see(const mi_heap_t* of, const mi_heap_area_t* area, void* block, size_t size,
                void* arg) {
  seen_t* const seen = (seen_t*)arg;
  (void)of, (void)block, (void)size;
  if (area->full_block_size > MX_BIN_MAX_SIZE) {
    seen->huge++;
    return true;
  }
  seen->pages++;
  seen->used += area->used;
  seen->committed += area->committed;
  return true;
}

// What is counted of a heap's blocks is what a visit of it sees, and nothing of other heaps.
static void expect_blocks(const char* what, const mi_stats_t* before, mi_heap_t* of) {
  const mi_stats_t* const now = &stats;
  const int known = failures;
  seen_t seen = {0, 0, 0, 0};
  const size_t size = page_of(blocks[0])->block_size, bin = mx_stats_bin_of(size);
  EXPECT(mi_heap_visit_blocks(of, false, &see, &seen) && seen.huge == 1 && seen.pages > 2);
  EXPECT(now->malloc_bins[bin].current - before->malloc_bins[bin].current == (int64_t)seen.used);
  EXPECT(now->malloc_normal.current - before->malloc_normal.current == (int64_t)(seen.used * size));
  EXPECT(now->page_committed.current - before->page_committed.current == (int64_t)seen.committed);
  EXPECT(now->page_bins[bin].current - before->page_bins[bin].current == (int64_t)seen.pages);
  EXPECT(now->malloc_bins[MI_BIN_HUGE].current == before->malloc_bins[MI_BIN_HUGE].current);
  if (failures > known) printf("  of a %s\n", what);
}

static void test_blocks(void) {
  mi_stats_t none, thread, process, subproc;
  mi_option_set(mi_option_page_full_retain, 32);  // so that the thread goes on to own full pages
  mi_heap_t* const own = mi_heap_new();
  mi_heap_t* const other = mi_heap_new();
  void* const elsewhere = mi_heap_malloc(other, SIZE);
  mi_stats_init(&none);
  mi_heap_collect(own, true);
  mx_stats_of_thread(&thread);
  mx_stats_of_subproc(&mx_subproc_main, &subproc);
  mx_stats_of_process(&process);
  for (int i = 0; i < BLOCKS; i++) blocks[i] = mi_heap_malloc(own, SIZE);
  void* const huge = mi_heap_malloc(own, 3 * MX_MIB);
  for (int round = 0; round < 3; round++) {
    mx_stats_of_heap((mx_heap_t*)(void*)own, &stats);
    expect_blocks("heap", &none, own);
    mx_stats_of_thread(&stats);
    expect_blocks("thread", &thread, own);
    EXPECT(stats.threads.current == 1 && stats.theaps.current == thread.theaps.current + 1);
    mx_stats_of_subproc(&mx_subproc_main, &stats);
    expect_blocks("sub-process", &subproc, own);
    mx_stats_of_process(&stats);
    expect_blocks("process", &process, own);
    // The second time some pages have free blocks, then all of them.
    for (int i = 0; i < BLOCKS && round < 2; i++) {
      if (i % (round == 0 ? 97 : 5) != 1) continue;
      mi_free(blocks[i]);
      blocks[i] = NULL;
    }
  }
  for (int i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  mi_free(huge);
  mi_free(elsewhere);
  mi_heap_delete(own);
  mi_heap_delete(other);
}

// What the arenas of a sub-process hold, in two of them.
static void* allocate_in(void* subproc) {
  const mi_subproc_id_t id = {subproc};
  mi_subproc_add_current_thread(id);
  mx_arenas_t* const arenas = &((mx_subproc_t*)subproc)->arenas;
  mx_stats_of_subproc_alone((mx_subproc_t*)subproc, &stats);
  EXPECT(stats.reserved.current == 0 && stats.committed.current == 0);
  mx_counter_add(&((mx_subproc_t*)subproc)->counters.arena_purges, 5);
  EXPECT(mx_arena_reserve(arenas, 1000, -1) != NULL && mx_arena_reserve(arenas, 500, -1) != NULL);
  void* const p = mi_malloc(7 * MX_MIB);
  size_t reserved = 0, committed = 0;
  for (size_t i = 0; i < mx_load_relaxed(&arenas->count); i++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    const size_t bits = mx_arena_bits_per_slice();
    reserved += arena->slices * MX_SLICE_SIZE;
    for (size_t bit = 0; bit < arena->slices * bits; bit++) {
      committed += (mx_bits_test(arena->present, bit) ? MX_SLICE_SIZE / bits : 0);
    }
  }
  for (int with_heaps = 0; with_heaps < 2; with_heaps++) {
    if (with_heaps) mx_stats_of_subproc((mx_subproc_t*)subproc, &stats);
    else mx_stats_of_subproc_alone((mx_subproc_t*)subproc, &stats);
    EXPECT(reserved >= 1500 * MX_SLICE_SIZE && stats.reserved.current == (int64_t)reserved);
    EXPECT(stats.committed.current == (int64_t)committed && (MX_LARGE_APART || committed > 0));
    EXPECT(stats.arena_count.total == (int64_t)mx_load_relaxed(&arenas->count));
    EXPECT(stats.arena_purges.total >= 5);
    EXPECT((stats.malloc_huge.current > 0) == (with_heaps == 1));
  }
  mi_free(p);
  return NULL;
}

static void test_arenas(void) {
  pthread_t thread;
  const mi_subproc_id_t id = mi_subproc_new();
  EXPECT(pthread_create(&thread, NULL, &allocate_in, id.opaque) == 0);
  pthread_join(thread, NULL);
  mi_subproc_destroy(id);
}

// ---- the record to texts -----------------------------------------------------------------------

static char text[128 * 1024];

static void receive(const char* part, void* arg) {
  (void)arg;
  if (strlen(text) + strlen(part) < sizeof(text)) strcat(text, part);
}

static void expect_line(const char* line) {
  if (strstr(text, line) != NULL) return;
  printf("FAIL no \"%s\"\n", line);
  failures++;
}

// Less than 1,000, so that no format rounds them.
static void fill(void) {
  int64_t value = 300;
  mi_stats_init(&stats);
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    int64_t* const at = (int64_t*)(void*)((char*)&stats + mx_stat_fields[i].offset);
    for (int k = 0; k < (mx_stat_fields[i].kind == MX_STAT_COUNTER ? 1 : 3); k++) at[k] = value++;
  }
  EXPECT(value < 1000);
}

// One row of the tables: an amount in each column where `shows` has a P, a T or a C.
static void expect_row(const char* label, const char* name, const char* shows) {
  const mx_stat_field_t* const field = field_of(name);
  const mi_stat_count_t* const c =
      (const mi_stat_count_t*)(const void*)((const char*)&stats + field->offset);
  const int64_t values[] = {field->kind == MX_STAT_COUNTER ? 0 : c->peak, c->total,
                            field->kind == MX_STAT_COUNTER ? 0 : c->current};
  char line[128], column[16];
  int length = snprintf(line, sizeof(line), "\n  %-10s:", label);
  for (int i = 0; shows[i] != 0; i++) {
    column[0] = 0;
    if (shows[i] != ' ') {
      snprintf(column, sizeof(column), "%d%s", (int)values[i], field->is_bytes ? "   B" : "  ");
    }
    length += snprintf(line + length, sizeof(line) - (size_t)length, "%12s", column);
  }
  while (line[length - 1] == ' ') length--;
  strcpy(line + length, "\n");
  expect_line(line);
}

static void test_tables(void) {
  mx_out_t out;
  static const char* const rows[][3] = {
      {"malloc req", "malloc_requested", " T"},
      {"touched", "page_committed", "PTC"},       {"pages", "pages", "PTC"},
      {"abandoned", "pages_abandoned", "PTC"},    {"reclaima", "pages_reclaim_on_alloc", " T"},
      {"reclaimf", "pages_reclaim_on_free", " T"}, {"extended", "pages_extended", " T"},
      {"retire", "pages_retire", " T"},           {"reserved", "reserved", "PTC"},
      {"committed", "committed", "PTC"},          {"metadata", "metadata", "PTC"},
      {"waiting", "waiting", "  C"},              {"reset", "reset", " T"},
      {"purged", "purged", " T"},                 {"holes", "holes_purged", " T"},
      {"arenas", "arena_count", " T"},            {"rollback", "arena_rollback_count", " T"},
      {"mmaps", "mmap_calls", " T"},              {"commits", "commit_calls", " T"},
      {"resets", "reset_calls", " T"},            {"purges", "purge_calls", " T"},
      {"guarded", "malloc_guarded_count", " T"},  {"theaps", "theaps", "PTC"},
      {"heaps", "heaps", "PTC"},                  {"heap waits", "heaps_delete_wait", " T"},
      {"threads", "threads", "PTC"},
  };
  text[0] = 0;
  mx_out_open(&out, &receive, NULL);
  mx_stats_print(&out, "record", 1, &stats);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    expect_row(rows[i][0], rows[i][1], rows[i][2]);
  }
  // Blocks of both kinds, and their sum.
  char line[160], average[MX_AMOUNT_SIZE];
  const mi_stat_count_t *const a = &stats.malloc_normal, *const b = &stats.malloc_huge;
  snprintf(line, sizeof(line), "\n  huge      :%8d   B%8d   B%8d   B%12s%10d   not all freed\n",
           (int)b->peak, (int)b->total, (int)b->current, "", (int)stats.malloc_huge_count.total);
  expect_line(line);
  snprintf(line, sizeof(line), "\n  total     :%8d   B%8d   B%8d   B%12s%10d   not all freed\n",
           (int)(a->current + b->current), (int)(a->total + b->total), (int)(a->current + b->current),
           "", (int)(stats.malloc_normal_count.total + stats.malloc_huge_count.total));
  expect_line(line);
  mx_amount_ratio(average, stats.page_searches.total, stats.page_searches_count.total);
  snprintf(line, sizeof(line), "\n  searches  :%8s avg\n", average);
  expect_line(line);
  // The sum's peak is that of the kind that was higher.
  stats.malloc_huge.peak = 5000;
  text[0] = 0;
  mx_stats_print(&out, "record", 1, &stats);
  expect_line("\n  total     :     4.9 KiB");
  stats.malloc_huge.peak = b->total + 1;
}

static void test_formats(void) {
  static char metrics[sizeof(text)];
  mx_text_t json;
  mx_out_t out;
  text[0] = 0;
  mx_out_open(&out, &receive, NULL);
  mx_stats_prometheus(&out, &stats);
  strcpy(metrics, text);
  mx_text_init(&json, text, sizeof(text));
  mx_stats_json(&json, &stats);
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    const mx_stat_field_t* const f = &mx_stat_fields[i];
    const mi_stat_count_t* const c =
        (const mi_stat_count_t*)(const void*)((const char*)&stats + f->offset);
    const char* const unit = (f->is_bytes ? "_bytes" : "");
    const int total = (int)c->total;
    const bool is_shown = (strncmp(f->name, "segments", 8) != 0);
    char line[200], lines[3][100];
    if (f->kind == MX_STAT_COUNT) {
      snprintf(line, sizeof(line), "  \"%s\": {\"total\": %d, \"peak\": %d, \"current\": %d},\n",
               f->name, total, (int)c->peak, (int)c->current);
    } else {
      snprintf(line, sizeof(line), "  \"%s\": %d,\n", f->name,
               f->kind == MX_STAT_COUNTER ? total : (int)c->current);
    }
    expect_line(line);
    snprintf(lines[0], 100, "\nmimalloc_%s%s_total %d\n", f->name, unit, total);
    if (f->kind != MX_STAT_COUNTER) {
      snprintf(lines[0], 100, "\nmimalloc_%s%s %d\n", f->name, unit, (int)c->current);
      snprintf(lines[1], 100, "\nmimalloc_%s_peak%s %d\n", f->name, unit, (int)c->peak);
      snprintf(lines[2], 100, "\nmimalloc_%s_added%s_total %d\n", f->name, unit, total);
    }
    for (int k = 0; k < (f->kind == MX_STAT_COUNT ? 3 : 1); k++) {
      if ((strstr(metrics, lines[k]) != NULL) == is_shown) continue;
      printf("FAIL metrics, or too much of them: %s", lines[k]);
      failures++;
    }
  }
}

int main(void) {
  test_record();
  test_blocks();
  test_arenas();
  fill();
  test_tables();
  test_formats();
  printf("fields: %d failures\n", failures);
  return failures != 0;
}
