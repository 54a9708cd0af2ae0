// SPDX-License-Identifier: MIT
// Every number of the statistics on its way: each counter has a value of its own, which has to arrive in
// the place of the record that has its name, and each place of the record one, which every format has to
// show under its name.
#include <stdio.h>
#include <string.h>

#include "../../src/service/amounts.h"
#include "../../src/service/stats.h"

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
  fill();
  test_tables();
  test_formats();
  printf("fields: %d failures\n", failures);
  return failures != 0;
}
