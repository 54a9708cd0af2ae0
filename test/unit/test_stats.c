// SPDX-License-Identifier: MIT
// Tests service/stats: the bins and the layout of the record, sums and moves of counters, and each
// output format over a record of known numbers. That the counters themselves are true is for the
// tests of the floors that count.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/mem/vmem.h"
#include "../../src/os/system.h"
#include "../../src/page/page.h"
#include "../../src/service/option_names.h"
#include "../../src/service/stats.h"
#include "heap/thread_life.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// ---- the record --------------------------------------------------------------------------------

static void test_bins(void) {
  static const size_t known[][2] = {{0, 8},    {1, 8},    {2, 16},   {3, 24},   {8, 64},
                                    {9, 80},   {10, 96},  {11, 112}, {12, 128}, {13, 160},
                                    {72, 4194304}, {73, 524296}, {74, 0}, {1000, 0}};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    EXPECT(mx_stats_bin_size(known[i][0]) == known[i][1]);
  }
  // The bin of a size is the first that holds it.
  size_t bin = 1;
  for (size_t size = 1; size <= 4194304; size++) {
    if (size > mx_stats_bin_size(bin)) bin++;
    if (mx_stats_bin_of(size) == bin) continue;
    printf("FAIL bin of %zu is %zu, not %zu\n", size, mx_stats_bin_of(size), bin);
    failures++;
    return;
  }
  EXPECT(bin == 72);
  EXPECT(mx_stats_bin_of(4194305) == MI_BIN_HUGE && mx_stats_bin_of(SIZE_MAX) == MI_BIN_HUGE);
}

// Programs that were built long ago rely on these places (64-bit).
static void test_layout(void) {
#if UINTPTR_MAX > 0xFFFFFFFFu
  EXPECT(sizeof(mi_stats_t) == 4368);
  EXPECT(offsetof(mi_stats_t, pages) == 16 && offsetof(mi_stats_t, committed) == 64);
  EXPECT(offsetof(mi_stats_t, malloc_normal) == 176 && offsetof(mi_stats_t, mmap_calls) == 248);
  EXPECT(offsetof(mi_stats_t, segments) == 360 && offsetof(mi_stats_t, heaps) == 456);
  EXPECT(offsetof(mi_stats_t, _stat_reserved) == 544);
  EXPECT(offsetof(mi_stats_t, malloc_bins) == 672 && offsetof(mi_stats_t, page_bins) == 2448);
  EXPECT(offsetof(mi_stats_t, chunk_bins) == 4224);
#endif
  // The table names every number of the record once, in order: no gap but the unused places.
  size_t at = offsetof(mi_stats_t, pages);
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    const mx_stat_field_t* const field = &mx_stat_fields[i];
    const size_t size = (field->kind == MX_STAT_COUNTER ? 8 : 24);
    if (strcmp(field->name, "heaps") == 0) at += 24;         // _segments_reserved
    if (strcmp(field->name, "holes_purged") == 0) at += 48;  // two of _stat_reserved
    if (field->offset != at) {
      printf("FAIL field %s lies at %zu, not %zu\n", field->name, field->offset, at);
      failures++;
      at = field->offset;
    }
    at += size;
  }
  EXPECT(at + 3 * 8 == offsetof(mi_stats_t, malloc_bins));  // three of _stat_counter_reserved
}

// ---- counters ----------------------------------------------------------------------------------

static void expect_count(mx_count_t* c, int64_t total, int64_t peak, int64_t current, int line) {
  if (mx_load_relaxed(&c->total) == total && mx_load_relaxed(&c->peak) == peak &&
      mx_load_relaxed(&c->current) == current) {
    return;
  }
  printf("FAIL line %d: count is %lld %lld %lld\n", line, (long long)mx_load_relaxed(&c->total),
         (long long)mx_load_relaxed(&c->peak), (long long)mx_load_relaxed(&c->current));
  failures++;
}

static mx_counters_t one, two;

static void test_counters(void) {
  mx_count_add(&one.pages, 10);
  mx_count_add(&one.pages, -7);
  mx_count_add(&one.bin_pages[5], 4);
  mx_counter_add(&one.purged, 100);
  expect_count(&one.pages, 10, 10, 3, __LINE__);
  mx_count_add(&two.pages, 5);
  // What is past moves, what is there stays with its owner.
  mx_counters_move_past(&two, &one);
  expect_count(&one.pages, 3, 3, 3, __LINE__);
  expect_count(&two.pages, 12, 10, 5, __LINE__);
  expect_count(&one.bin_pages[5], 4, 4, 4, __LINE__);
  expect_count(&two.bin_pages[5], 0, 4, 0, __LINE__);
  EXPECT(mx_load_relaxed(&one.purged) == 0 && mx_load_relaxed(&two.purged) == 100);
  // An owner that ends leaves everything.
  mx_counter_add(&one.purged, 11);
  mx_counters_move(&two, &one, NULL, true);
  expect_count(&two.pages, 15, 10, 8, __LINE__);
  expect_count(&two.bin_pages[5], 4, 4, 4, __LINE__);
  EXPECT(mx_load_relaxed(&two.purged) == 111);
  mx_count_add(&one.pages, 20);
  mx_counters_move(&two, &one, NULL, true);
  expect_count(&two.pages, 15 + 20, 8 + 20, 8 + 20, __LINE__);
}

// Two heaps and the process make one record; nothing is shown below 0 or out of order.
static void test_sums(void) {
  static mx_heap_t second;
  mx_subproc_t* const subproc = &mx_subproc_main;
  mi_stats_t base, stats;
  second.subproc = subproc;
  second.id = 12345;
  mx_count_add(&subproc->main_heap.counters.pages, 5);
  mx_count_add(&subproc->main_heap.counters.pages, -5);
  mx_stats_of_subproc(subproc, &base);
  mx_lock_acquire(&subproc->lock);
  second.next = subproc->heaps;
  subproc->heaps = &second;
  mx_lock_release(&subproc->lock);
  mx_count_add(&second.counters.pages, 1000);
  mx_count_add(&second.counters.pages, -400);
  mx_count_add(&second.counters.bin_pages[MX_BIN_HUGE], 3);
  mx_counter_add(&second.counters.pages_extended, 77);
  mx_count_add(&mx_process_counters.committed, 4096);
  mx_stats_of_subproc(subproc, &stats);
  EXPECT(stats.size == sizeof(stats) && stats.version == 5);
  EXPECT(stats.pages.current == base.pages.current + 600);
  EXPECT(stats.pages.total == base.pages.total + 1000 && stats.pages.peak == 1000);
  EXPECT(stats.page_bins[MI_BIN_HUGE].current == base.page_bins[MI_BIN_HUGE].current + 3);
  EXPECT(stats.pages_extended.total == base.pages_extended.total + 77);
  EXPECT(stats.committed.current == base.committed.current + 4096);
  mx_stats_of_heap(&second, &stats);
  EXPECT(stats.pages.current == 600 && stats.committed.total == 0);
  mx_stats_of_subproc_alone(subproc, &stats);
  EXPECT(stats.pages.total == 0 && stats.committed.current == base.committed.current + 4096);
  mx_count_add(&second.counters.pages, -5000);
  mx_stats_of_heap(&second, &stats);
  EXPECT(stats.pages.current == 0 && stats.pages.peak == 1000 && stats.pages.total == 1000);
  mx_lock_acquire(&subproc->lock);
  subproc->heaps = second.next;
  mx_lock_release(&subproc->lock);
  mx_count_add(&mx_process_counters.committed, -4096);
}

static void test_process(void) {
  // What earlier tests left may go back to the system meanwhile, once.
  static volatile char touched_of[3][8 * 1024 * 1024];
  mx_process_stats_t info;
  size_t before;
  int round = 0;
  do {
    volatile char* const touched = touched_of[round];
    mx_process_stats(&info);
    before = info.current_rss;
    for (size_t i = 0; i < sizeof(touched_of[0]); i += 4096) touched[i] = 1;
    mx_process_stats(&info);
  } while (MX_TELLS_RESIDENT && info.current_rss < before + 7 * 1024 * 1024 && ++round < 3);
  // The system's number: it sees memory that is none of ours. WebAssembly's has all from the start.
#if defined(__wasm__)
  info.current_rss += sizeof(touched_of[0]);
  info.peak_rss = info.current_rss;
#endif
  if (MX_TELLS_RESIDENT) EXPECT(before > 0 && info.current_rss >= before + 7 * 1024 * 1024);
  else EXPECT(before == 0 && info.current_rss == 0);
  EXPECT(info.peak_rss >= info.current_rss && info.elapsed_msecs < 60 * 1000);
}

// ---- formats -----------------------------------------------------------------------------------

static char text[128 * 1024];

static void receive(const char* part, void* arg) {
  (void)arg;
  EXPECT(strlen(part) <= 255);
  strcat(text, part);
}

static void fill(mi_stats_t* stats) {
  mi_stats_init(stats);
  const mi_stat_count_t blocks = {30, 20, 10};
  stats->malloc_bins[10] = blocks;
  stats->malloc_normal.total = 30 * 96;
  stats->malloc_normal.peak = 20 * 96;
  stats->malloc_normal.current = 10 * 96;
  stats->malloc_normal_count.total = 30;
  stats->malloc_huge.total = stats->malloc_huge.peak = 1 << 20;
  stats->malloc_huge_count.total = 1;
  stats->pages.total = 1500;
  stats->pages.peak = 1200;
  stats->pages.current = 7;
  stats->reserved.total = stats->reserved.peak = stats->reserved.current = 1 << 30;
  stats->purged.total = 1536;
  stats->page_searches.total = 7;
  stats->page_searches_count.total = 2;
  stats->page_bins[10] = stats->pages;
  stats->mx_stat_waiting.current = 65536;
}

static void expect_line(const char* line) {
  if (strstr(text, line) != NULL) return;
  printf("FAIL text has no line \"%s\":\n%s\n", line, text);
  failures++;
}

static void test_text(void) {
  mi_stats_t stats;
  mx_out_t out;
  text[0] = 0;
  fill(&stats);
  mx_out_open(&out, receive, NULL);
  mx_stats_print(&out, "heap", 3, &stats);
  EXPECT(strncmp(text, "heap 3\n blocks ", 15) == 0);
  expect_line(" blocks             peak       total     current       block      total#\n");
  expect_line("  bin S   10:     1.9 KiB     2.8 KiB     960   B      96   B        30   "
              "not all freed\n");
  expect_line("  binned    :     1.9 KiB     2.8 KiB     960   B                    30   "
              "not all freed\n");
  expect_line("  huge      :     1.0 MiB     1.0 MiB       0   B                     1   ok\n");
  expect_line("  pages     :       1.2 K       1.5 K         7\n");
  expect_line("  searches  :     3.5 avg\n");
  expect_line("  reserved  :     1.0 GiB     1.0 GiB     1.0 GiB\n");
  expect_line("  waiting   :                            64.0 KiB\n");
  expect_line("  purged    :                 1.5 KiB\n");
  expect_line("\n process ");
  expect_line(" s, system: ");
  // Nothing counted, no table of blocks, no rows of memory.
  text[0] = 0;
  mi_stats_init(&stats);
  mx_stats_print(&out, "heap", 4, &stats);
  EXPECT(strstr(text, " blocks") == NULL && strstr(text, "reserved") == NULL);
  EXPECT(strncmp(text, "heap 4\n pages ", 14) == 0);
}

// A reader of JSON that only checks the grammar; NULL when it is broken.
static const char* skip_space(const char* s) {
  while (*s == ' ' || *s == '\n') s++;
  return s;
}

static const char* skip_value(const char* s);

static const char* skip_string(const char* s) {
  if (*s++ != '"') return NULL;
  while (*s != '"') {
    if (*s == 0 || *s == '\\' || *s == '\n') return NULL;
    s++;
  }
  return s + 1;
}

static const char* skip_members(const char* s, char close, bool keys) {
  s = skip_space(s + 1);
  while (*s != close) {
    if (keys) {
      s = skip_string(s);
      if (s == NULL || *(s = skip_space(s)) != ':') return NULL;
      s++;
    }
    s = skip_value(s);
    if (s == NULL) return NULL;
    s = skip_space(s);
    if (*s == ',') {
      s = skip_space(s + 1);
      if (*s == close) return NULL;
    } else if (*s != close) {
      return NULL;
    }
  }
  return s + 1;
}

static const char* skip_value(const char* s) {
  s = skip_space(s);
  if (*s == '{') return skip_members(s, '}', true);
  if (*s == '[') return skip_members(s, ']', false);
  if (*s == '"') return skip_string(s);
  char* end;
  strtoll(s, &end, 10);
  return end == s ? NULL : end;
}

static void test_json(void) {
  mi_stats_t stats;
  mx_text_t json;
  fill(&stats);
  mx_text_init(&json, text, sizeof(text));
  mx_stats_json(&json, &stats);
  const char* const end = skip_value(text);
  EXPECT(end != NULL && *skip_space(end) == 0);
  expect_line("{\n  \"stat_version\": 5,\n  \"mimalloc_version\": ");
  expect_line("  \"pages\": {\"total\": 1500, \"peak\": 1200, \"current\": 7},\n");
  expect_line("  \"purged\": 1536,\n");
  expect_line("  \"waiting\": 65536,\n");
  expect_line("{\"total\": 30, \"peak\": 20, \"current\": 10, \"block_size\": 96, "
              "\"page_size\": 65536}");
  static const char* const order[] = {"\"process\"", "\"elapsed_msecs\"", "\"commit_peak\"",
                                      "\"pages\"", "\"heaps_delete_wait\"", "\"malloc_bins\"",
                                      "\"page_bins\"", "\"chunk_bins\"", "\"bin\": \"S\"",
                                      "\"bin\": \"N\""};
  const char* at = text;
  for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && at != NULL; i++) {
    at = strstr(at, order[i]);
    if (at == NULL) printf("FAIL %s is missing or out of order\n", order[i]), failures++;
  }
  size_t bins = 0;
  for (at = text; (at = strstr(at, "\"block_size\"")) != NULL; at++) {
    size_t block = 0, page = 0;
    EXPECT(sscanf(at, "\"block_size\": %zu, \"page_size\": %zu", &block, &page) == 2);
    const bool is_huge = (block > MX_BIN_MAX_SIZE);  // which has pages of any size
    EXPECT(page == (is_huge ? 0 : mx_page_slices_for(block) * MX_SLICE_SIZE));
    bins++;
  }
  EXPECT(bins == 2 * 74);
}

// Every sample follows the HELP and TYPE of its own name, no name comes twice, counters and only
// they end in _total.
static void test_prometheus(void) {
  mi_stats_t stats;
  mx_out_t out;
  text[0] = 0;
  fill(&stats);
  mx_out_open(&out, receive, NULL);
  mx_stats_prometheus(&out, &stats);
  expect_line("mimalloc_pages 7\n");
  expect_line("mimalloc_pages_peak 1200\n");
  expect_line("mimalloc_pages_added_total 1500\n");
  expect_line("mimalloc_purged_bytes_total 1536\n");
  expect_line("mimalloc_bin_pages{block_bytes=\"96\"} 7\n");
  EXPECT(strstr(text, "segments") == NULL && strstr(text, "waiting_peak") == NULL);
  char name[128] = "", type[32] = "", again[160];
  size_t families = 0;
  for (char* line = text; *line != 0; line = strchr(line, '\n') + 1) {
    char got[128], value[64];
    if (sscanf(line, "# HELP %127s %63s", got, value) == 2) {
      snprintf(again, sizeof(again), "# HELP %s ", got);
      EXPECT(strncmp(line, again, strlen(again)) == 0 && strstr(line + 1, again) == NULL);
      strcpy(name, got);
      families++;
    } else if (sscanf(line, "# TYPE %127s %31s", got, type) == 2) {
      const size_t length = strlen(got);
      const bool total = length > 6 && strcmp(got + length - 6, "_total") == 0;
      EXPECT(strcmp(got, name) == 0 && strcmp(type, total ? "counter" : "gauge") == 0);
    } else if (sscanf(line, "%127[a-z_]%*[^ ] %63[0-9.]\n", got, value) == 2 ||
               sscanf(line, "%127[a-z_] %63[0-9.]\n", got, value) == 2) {
      EXPECT(strcmp(got, name) == 0);
    } else {
      printf("FAIL line of an unknown form: %.60s\n", line);
      failures++;
    }
  }
  EXPECT(families > 60);
}

int main(void) {
  mx_options_init();
  mx_stats_init();
  mx_heap_start();
  test_bins();
  test_layout();
  test_counters();
  test_sums();
  test_process();
  test_text();
  test_json();
  test_prometheus();
  if (failures == 0) printf("stats: ok\n");
  return failures != 0;
}
