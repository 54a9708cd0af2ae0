// SPDX-License-Identifier: MIT
// Tests the public calls of options, handlers, process information and statistics against the whole
// library: arguments that are wrong, records of both versions, texts that do not fit.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/resource.h>
#endif

#include "../../include/mimalloc-stats.h"
#include "../../src/os/system.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static char text[256 * 1024];
static size_t calls;

static void receive(const char* part, void* arg) {
  EXPECT(arg == (void*)text);
  // A sink that allocates is allowed to, and what that causes is not sent to it again.
  mi_free(mi_malloc(100 + calls));
  calls++;
  strcat(text, part);
}

static void clear(void) {
  text[0] = 0;
  calls = 0;
}

// ---- options and handlers ----------------------------------------------------------------------

static void test_options(void) {
  EXPECT(mi_version() == MI_MALLOC_VERSION);
  mi_option_set(mi_option_purge_delay, 123);
  EXPECT(mi_option_get(mi_option_purge_delay) == 123);
  EXPECT(mi_option_get(mi_option_reset_delay) == 123);
  EXPECT(mi_option_get_clamp(mi_option_purge_delay, 0, 100) == 100);
  mi_option_set_default(mi_option_purge_delay, 5);
  EXPECT(mi_option_get(mi_option_purge_delay) == 123);
  mi_option_disable(mi_option_purge_holes);
  EXPECT(!mi_option_is_enabled(mi_option_purge_holes));
  mi_option_set_enabled_default(mi_option_purge_holes, true);
  EXPECT(!mi_option_is_enabled(mi_option_purge_holes));
  mi_option_enable(mi_option_purge_holes);
  EXPECT(mi_option_is_enabled(mi_option_purge_holes));
  mi_option_set_enabled(mi_option_purge_holes, false);
  EXPECT(mi_option_get(mi_option_purge_holes) == 0);
  mi_option_set_enabled(mi_option_purge_holes, true);
  EXPECT(mi_option_get(mi_option_purge_holes) == 1);
  mi_option_set(mi_option_minimal_purge_size, 3);
  EXPECT(mi_option_get_size(mi_option_minimal_purge_size) == 3 * 1024);
  mi_option_set(mi_option_minimal_purge_size, 0);
  mi_option_set((mi_option_t)1000, 7);
  EXPECT(mi_option_get((mi_option_t)1000) == 0 && !mi_option_is_enabled((mi_option_t)1000));
  EXPECT(mi_option_get((mi_option_t)_mi_option_last) == 0);
  clear();
  mi_options_print_out(receive, text);
  EXPECT(strstr(text, "option 'purge_delay': 123\n") != NULL);
  EXPECT(strstr(text, "option 'leak_report': ") != NULL);
  clear();
  mi_register_output(receive, text);
  clear();
  mi_options_print();
  EXPECT(strstr(text, "option 'purge_delay': 123\n") != NULL);
  mi_register_output(NULL, NULL);
  mi_option_set(mi_option_purge_delay, 1000);
}

static void test_process_info(void) {
  size_t elapsed = 99999999, user = elapsed, system = elapsed, rss = 0, peak_rss = 0, commit = 0;
  size_t peak_commit = 0, faults = elapsed;
  char* const p = (char*)mi_malloc(32 << 20);
  memset(p, 1, 32 << 20);
  mi_process_info(&elapsed, &user, &system, &rss, &peak_rss, &commit, &peak_commit, &faults);
  EXPECT(elapsed < 600000 && user < 600000 && system < 600000 && faults < 99999999);
  EXPECT(MX_TELLS_RESIDENT ? rss >= (size_t)32 << 20 : rss == 0);
  EXPECT(peak_rss >= (size_t)32 << 20 && peak_rss >= rss);
  EXPECT(commit >= (size_t)32 << 20 && peak_commit >= commit);
  mi_free(p);
  mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  clear();
  mi_process_info_print_out(receive, text);
  EXPECT(strstr(text, "peak rss: ") != NULL && strstr(text, "current rss: ") != NULL);
}

// ---- records -----------------------------------------------------------------------------------

static void test_records(void) {
  mi_stats_t_decl(stats);
  EXPECT(mi_stats_get(&stats) && stats.pages.current > 0 && stats.reserved.current > 0);
  EXPECT(stats.committed.current > 0 && stats.committed.current <= stats.reserved.current);
  EXPECT(stats.threads.current >= 1 && stats.pages.total >= stats.pages.peak);
  EXPECT(!mi_stats_get(NULL));
  mi_stats_t wrong;
  memset(&wrong, 0x5A, sizeof(wrong));
  wrong.size = sizeof(wrong) - 8;
  wrong.version = MI_STAT_VERSION;
  mi_stats_t before = wrong;
  EXPECT(!mi_stats_get(&wrong) && memcmp(&before, &wrong, sizeof(wrong)) == 0);
  wrong.size = sizeof(wrong);
  wrong.version = MI_STAT_VERSION + 1;
  before = wrong;
  EXPECT(!mi_heap_stats_get(NULL, &wrong) && memcmp(&before, &wrong, sizeof(wrong)) == 0);
  const mi_subproc_id_t none = {NULL};
  EXPECT(!mi_subproc_stats_get(none, &stats) && !mi_subproc_stats_get_exclusive(none, &stats));
  EXPECT(mi_subproc_stats_get_json(none, 0, NULL) == NULL);
  EXPECT(mi_stats_as_json(&wrong, 0, NULL) == NULL && mi_stats_as_json(NULL, 0, NULL) == NULL);
  EXPECT(mi_stats_get_bin_size(12) == 128 && mi_stats_get_bin_size(74) == 0);
}

// A block is seen in the numbers while it lives.
static void test_huge_counts(void) {
  mi_stats_t_decl(before);
  mi_stats_t_decl(during);
  mi_stats_t_decl(after);
  const int64_t size = 6 << 20;
  mi_stats_get(&before);
  void* const p = mi_malloc((size_t)size);
  mi_stats_get(&during);
  mi_free(p);
  mi_stats_get(&after);
  EXPECT(during.malloc_huge.current >= before.malloc_huge.current + size);
  EXPECT(during.malloc_huge_count.total == before.malloc_huge_count.total + 1);
  EXPECT(after.malloc_huge.current == before.malloc_huge.current);
  EXPECT(after.malloc_huge.total == during.malloc_huge.total);
}

// The record of programs built for version 1 or 2: the same numbers at their older places.
#if UINTPTR_MAX > 0xFFFFFFFFu
typedef struct record_4_s {
  size_t size, version;
  char data[4168 - 16 + 64];  // and 64 bytes behind it that must stay as they are
} record_4_t;

static int64_t at(const record_4_t* record, size_t offset) {
  int64_t value;
  memcpy(&value, (const char*)record + offset, sizeof(value));
  return value;
}

static void test_version_4(void) {
  static record_4_t record;
  mi_stats_t_decl(stats);
  memset(&record, 0x77, sizeof(record));
  record.size = 4168;
  record.version = 4;
  mi_stats_get(&stats);
  EXPECT(mi_stats_get((mi_stats_t*)(void*)&record));
  EXPECT(record.size == 4168 && record.version == 4);
  EXPECT(at(&record, 16) == stats.pages.total && at(&record, 80) == stats.committed.current);
  EXPECT(at(&record, 456) == stats.pages_reclaim_on_alloc.total);
  EXPECT(at(&record, 480) == stats.pages_unabandon_busy_wait.total);
  // After the reserved places and the bins of blocks come the bins of pages.
  const size_t bins = 488 + 4 * 24 + 4 * 8 + 74 * 24;
  EXPECT(at(&record, bins + 8 * 24 + 16) == stats.page_bins[8].current);
  EXPECT(at(&record, bins + 74 * 24) == 0x7777777777777777);
  char* const json = mi_stats_as_json((mi_stats_t*)(void*)&record, 0, NULL);
  char want[128];
  snprintf(want, sizeof(want), "\"pages\": {\"total\": %lld, ", (long long)stats.pages.total);
  EXPECT(json != NULL && strstr(json, want) != NULL);
  mi_free(json);
  record.size = 4176;
  EXPECT(!mi_stats_get((mi_stats_t*)(void*)&record));
}
#else
static void test_version_4(void) {}
#endif

// ---- text and JSON -----------------------------------------------------------------------------

static void test_json(void) {
  mi_stats_t_decl(stats);
  mi_stats_get(&stats);
  char* const whole = mi_stats_as_json(&stats, 0, NULL);
  EXPECT(whole != NULL);
  if (whole == NULL) return;
  const size_t length = strlen(whole);
  EXPECT(length > 12 * 1024 && strcmp(whole + length - 4, "]\n}\n") == 0);
  // Cut off anywhere, it is what begins the same text, and nothing behind the buffer is touched.
  for (size_t size = 1; size < length; size += 997) {
    memset(text, 'Z', sizeof(text));
    EXPECT(mi_stats_as_json(&stats, size, text) == text && strlen(text) == size - 1);
    EXPECT(text[size] == 'Z' && strncmp(text, whole, size < 100 ? size - 1 : 60) == 0);
  }
  text[0] = 'Q';
  EXPECT(mi_stats_as_json(&stats, 0, text) == text && text[0] == 'Q');
  mi_free(whole);
  char* const mine = mi_stats_get_json(sizeof(text), text);
  EXPECT(mine == text && strstr(text, "\"stat_version\": 5") != NULL);
  char* const heap = mi_heap_stats_get_json(NULL, 0, NULL);
  EXPECT(heap != NULL && strstr(heap, "\"page_bins\"") != NULL);
  mi_free(heap);
}

static void test_prints(void) {
  clear();
  mi_stats_print_out(receive, text);
  EXPECT(strncmp(text, "subproc 0\n", 10) == 0 && calls > 20);
  EXPECT(strstr(text, "\n  committed :") != NULL);
  clear();
  mi_heap_stats_print_out(NULL, receive, text);
  EXPECT(strncmp(text, "heap ", 5) == 0);
  clear();
  mi_thread_stats_print_out(receive, text);
  EXPECT(strncmp(text, "thread ", 7) == 0 && strstr(text, "\n  theaps    :         1") != NULL);
  clear();
  mi_stats_print_prometheus(receive, text);
  EXPECT(strncmp(text, "# HELP mimalloc_pages ", 22) == 0);
}

// Sizes of blocks come in the order of the memory that they take.
static void test_report_order(void) {
  static void* blocks[5000];
  for (size_t i = 0; i < 5000; i++) {
    blocks[i] = mi_malloc(i < 1000 ? 1000 : 3000);
    memset(blocks[i], 1, 1000);
  }
  clear();
  EXPECT(mi_report(MI_REPORT_TEXT, receive, text));
  const char* const head = strstr(text, "  blocks of size");
  const char* const first = (head == NULL ? NULL : strchr(head, '\n'));
  const unsigned long size = (first == NULL ? 0 : strtoul(first, NULL, 10));
  EXPECT(size >= 3000 && size <= 3600);
  for (size_t i = 0; i < 5000; i++) mi_free(blocks[i]);
}

static void test_report(void) {
  clear();
  EXPECT(mi_report(MI_REPORT_TEXT, receive, text));
  EXPECT(strncmp(text, "memory report\n", 14) == 0 && strstr(text, "the rest of the process") != NULL);
  clear();
  EXPECT(mi_report(MI_REPORT_JSON, receive, text));
  EXPECT(strstr(text, "\"report_version\": 1") != NULL && strstr(text, "\"advice\": [") != NULL);
  clear();
  EXPECT(mi_report(MI_REPORT_METRICS, receive, text));
  EXPECT(strncmp(text, "# TYPE mimalloc_report_bytes gauge\n", 35) == 0);
  EXPECT(strcmp(text + strlen(text) - 6, "# EOF\n") == 0);
  clear();
  EXPECT(!mi_report((mi_report_format_t)3, receive, text) && text[0] == 0);
}

// A process that cannot open a file is told what was touched, and that it is no more than that.
static void test_report_without_files(void) {
#ifdef __linux__
  struct rlimit before, none = {0, 0};
  char* const p = (char*)mi_malloc(9 << 20);
  void* const small = mi_malloc(100);
  memset(p, 1, 9 << 20);
  EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
  none.rlim_max = before.rlim_max;
  EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
  clear();
  EXPECT(mi_report(MI_REPORT_JSON, receive, text));
  EXPECT(strstr(text, "\"is_exact\": false") != NULL);
  clear();
  EXPECT(mi_report(MI_REPORT_TEXT, receive, text));
  EXPECT(strstr(text, "what was touched") != NULL && strstr(text, "memory report\n") == text);
  setrlimit(RLIMIT_NOFILE, &before);
  clear();
  EXPECT(mi_report(MI_REPORT_JSON, receive, text));
  EXPECT(strstr(text, "\"is_exact\": true") != NULL);
  mi_free(small);
  mi_free(p);
#endif
}

// The forms that older programs know, and those that print where messages go.
static void test_older_prints(void) {
  clear();
  mi_register_output(receive, text);
  clear();
  mi_process_info_print();
  EXPECT(strstr(text, "peak rss: ") != NULL);
  void* const defaults[] = {NULL, (void*)stdout, (void*)stderr};
  for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
    clear();
    mi_stats_print(defaults[i]);
    EXPECT(strncmp(text, "subproc 0\n", 10) == 0);
    clear();
    mi_thread_stats_print(defaults[i]);
    EXPECT(strncmp(text, "thread ", 7) == 0);
  }
  mi_register_output(NULL, NULL);
}

static size_t count(const char* part) {
  size_t n = 0;
  for (const char* at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
  return n;
}

static void test_subproc_prints(void) {
  const mi_subproc_id_t none = {NULL};
  clear();
  mi_subproc_stats_print_out(none, receive, text);
  mi_subproc_heap_stats_print_out(none, receive, text);
  EXPECT(calls == 0);
  const mi_subproc_id_t id = mi_subproc_new();
  mi_subproc_stats_print_out(id, receive, text);
  EXPECT(strncmp(text, "subproc 1\n", 10) == 0 && count("\nheap ") == 0);
  mi_subproc_destroy(id);
  mi_heap_t* const heap = mi_heap_new();
  clear();
  mi_subproc_heap_stats_print_out(mi_subproc_main(), receive, text);
  EXPECT(strncmp(text, "subproc 0\n", 10) == 0 && count("\nheap ") == 2);
  mi_heap_delete(heap);
}

// The thread's own table counts the blocks that it holds, no more when they are freed: the rows of
// one size differ by exactly what was allocated in between, less what lies in full pages, which
// belong to nobody.
static size_t held(const char* size) {
  clear();
  mi_thread_stats_print_out(receive, text);
  for (char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    char block[16], unit[8];
    double count;
    const int fields = sscanf(line, "  bin %*c %*d: %*f %*s %*f %*s %*f %*s %15s %7s %lf", block,
                              unit, &count);
    if (fields == 3 && strcmp(block, size) == 0) return (size_t)count;
  }
  return 0;
}

static void test_thread_counts(void) {
  void* blocks[3];
  const size_t before = held("896");
  for (int i = 0; i < 3; i++) blocks[i] = mi_malloc(840);
  EXPECT(held("896") == before + 3);
  mi_free(blocks[1]);
  EXPECT(held("896") == before + 2);
  mi_free(blocks[0]);
  mi_free(blocks[2]);
  EXPECT(held("896") == before);
}

// What is past moves to the sub-process, sums stay the same, nothing becomes negative.
static void test_reset(void) {
  mi_stats_t_decl(before);
  mi_stats_t_decl(heap);
  mi_stats_t_decl(after);
  mi_stats_get(&before);
  mi_stats_reset();
  mi_stats_merge();
  mi_heap_stats_get(NULL, &heap);
  mi_stats_get(&after);
  EXPECT(heap.pages.total == heap.pages.current && heap.pages.peak == heap.pages.current);
  EXPECT(after.pages.total == before.pages.total && after.pages.current == before.pages.current);
  EXPECT(after.pages_extended.total == before.pages_extended.total && after.pages_extended.total > 0);
  mi_heap_stats_merge_to_subproc(NULL);
  mi_stats_get(&after);
  EXPECT(after.pages.total == before.pages.total && after.pages.peak == before.pages.peak);
}

int main(void) {
  test_options();
  test_process_info();
  test_records();
  test_huge_counts();
  test_version_4();
  test_json();
  test_prints();
  test_report();
  test_report_order();
  test_report_without_files();
  test_older_prints();
  test_subproc_prints();
  test_thread_counts();
  test_reset();
  if (failures == 0) printf("api service: ok\n");
  return failures != 0;
}
