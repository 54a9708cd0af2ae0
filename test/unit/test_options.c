// SPDX-License-Identifier: MIT
// Tests service/option_names: the syntax of values, every name with every spelling, older names,
// precedence, and what is said about a bad environment.
//
// The environment is read once in a process, so each case is a child of its own whose stderr is
// collected and whose exit status says whether its values were right.
#include <limits.h>

#include "../../src/base/config.h"
#include "../../src/service/option_names.h"
#include "../child.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// ---- values ------------------------------------------------------------------------------------

// The largest size in KiB that 32 bits hold.
#define CAPPED(kib) ((kib) < PTRDIFF_MAX / 1024 ? (long)(kib) : (long)(PTRDIFF_MAX / 1024))

static void test_parse(void) {
  static const struct {
    const char* text;
    bool ok;
    long value;
    bool size_ok;
    long size;
  } table[] = {
      {"", true, 1, true, 1},
      {"1", true, 1, true, 1},
      {"true", true, 1, true, 1},
      {"Yes", true, 1, true, 1},
      {"oN", true, 1, true, 1},
      {"0", true, 0, true, 0},
      {"false", true, 0, true, 0},
      {"NO", true, 0, true, 0},
      {"Off", true, 0, true, 0},
      {"2", true, 2, true, 1},
      {"-1", true, -1, true, -1},
      {" 25", true, 25, true, 1},
      {"+25", true, 25, true, 1},
      {"1024", true, 1024, true, 1},
      {"1025", true, 1025, true, 2},
      {"512MiB", false, 0, true, 512 * 1024},
      {"512mb", false, 0, true, 512 * 1024},
      {"512m", false, 0, true, 512 * 1024},
      {"3K", false, 0, true, 3},
      {"3KiB", false, 0, true, 3},
      {"3000B", false, 0, true, 3},
      {"2g", false, 0, true, CAPPED(2 * 1024 * 1024)},
      {"1TiB", false, 0, true, CAPPED(1024L * 1024 * 1024)},
      {"99999999T", false, 0, true, PTRDIFF_MAX / 1024},
      {"99999999999999999999999", true, LONG_MAX, true, PTRDIFF_MAX / 1024},
      {"9223372036854775807", true, LONG_MAX, true, PTRDIFF_MAX / 1024},
      {"9223372036854775808", true, LONG_MAX, true, PTRDIFF_MAX / 1024},
      {"-9223372036854775807", true, -LONG_MAX, true, -(PTRDIFF_MAX / 1024)},
      {"12x", false, 0, false, 0},
      {"5iB", false, 0, false, 0},
      {"5KB3", false, 0, false, 0},
      {"5Ki", false, 0, false, 0},
      {"5 ", false, 0, false, 0},
      {"yess", false, 0, false, 0},
      {"ye", false, 0, false, 0},
      {"-", false, 0, false, 0},
      {"0x10", false, 0, false, 0},
      {"1.5G", false, 0, false, 0},
      {"0000000000000000000000000000000000000000000000000000000000000007", true, 7, true, 1},
      {"00000000000000000000000000000000000000000000000000000000000000007", false, 0, false, 0},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    long value = 0, size = 0;
    const bool ok = mx_option_parse(table[i].text, false, &value);
    const bool size_ok = mx_option_parse(table[i].text, true, &size);
    if (ok == table[i].ok && size_ok == table[i].size_ok && (!ok || value == table[i].value) &&
        (!size_ok || size == table[i].size)) {
      continue;
    }
    printf("FAIL parse \"%s\": %d %ld, as a size %d %ld\n", table[i].text, ok, value, size_ok,
           size);
    failures++;
  }
}

// ---- children ----------------------------------------------------------------------------------

typedef struct case_s {
  const char* const* variables;
  int (*body)(void);
} case_t;

static void be_case(const void* argument) {
  const case_t* const one = (const case_t*)argument;
  clearenv();
  for (const char* const* v = one->variables; *v != NULL; v++) putenv((char*)*v);
  mx_options_init();
  mx_log_ready();
  _exit(one->body());
}

// Runs `body` in a child with these variables and nothing else in its environment.
static void run(const char* const* variables, int (*body)(void), const char* what) {
  const case_t one = {variables, body};
  run_child(be_case, &one);
  if (status == 0) return;
  printf("FAIL %s: status %x, said:\n%s\n", what, (unsigned)status, said);
  failures++;
}

// The line of the source that was wrong is the exit status.
#define CHECK(cond) \
  do {              \
    if (!(cond)) { fprintf(stderr, "line %d: %s\n", __LINE__, #cond); return 1; } \
  } while (0)

static void expect_said(const char* text, const char* what) {
  if (text == NULL ? said[0] == 0 : strstr(said, text) != NULL) return;
  printf("FAIL %s: said \"%s\" instead of \"%s\"\n", what, said, text == NULL ? "" : text);
  failures++;
}

static int the_option;
static long the_value;

static int has_value(void) { return mx_option_get(the_option) == the_value ? 0 : 1; }

// Every option under its name in capitals, in small letters and mixed.
static void test_names(void) {
  for (int i = 0; i < mx_opt_count; i++) {
    for (int spelling = 0; spelling < 3; spelling++) {
      char entry[128];
      snprintf(entry, sizeof(entry), "mimalloc_%s=%s", mx_option_name(i),
               mx_option_is_size(i) ? "77KiB" : "77");
      for (char* c = entry; *c != '='; c++) {
        const bool upper = (spelling == 0 || (spelling == 2 && (c - entry) % 2 == 0));
        if (upper && *c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
      }
      const char* const variables[] = {entry, NULL};
      the_option = i;
      the_value = mx_option_clamp(i, 77);
      run(variables, has_value, entry);
    }
  }
}

static void test_older_names(void) {
  static const struct {
    const char* entry;
    int option;
    long value;
  } table[] = {
      {"MIMALLOC_EAGER_REGION_COMMIT=0", mx_opt_arena_eager_commit, 0},
      {"MIMALLOC_RESET_DECOMMITS=0", mx_opt_purge_decommits, 0},
      {"MIMALLOC_LARGE_OS_PAGES=1", mx_opt_allow_large_os_pages, 1},
      {"MIMALLOC_RESET_DELAY=25", mx_opt_purge_delay, 25},
      {"MIMALLOC_DECOMMIT_DELAY=26", mx_opt_purge_delay, 26},
      {"MIMALLOC_SEGMENT_DECOMMIT_DELAY=27", mx_opt_purge_delay, 27},
      {"MIMALLOC_PAGE_RESET=0", mx_opt_purge_delay, -1},
      {"MIMALLOC_PAGE_RESET=1", mx_opt_purge_delay, 1000},
      {"MIMALLOC_ALLOW_DECOMMIT=0", mx_opt_purge_delay, -1},
      {"MIMALLOC_LIMIT_OS_ALLOC=1", mx_opt_disallow_os_alloc, 1},
      {"MIMALLOC_ABANDONED_RECLAIM_ON_FREE=1", mx_opt_page_reclaim_on_free, 1},
      {"mimalloc_stats=1", mx_opt_show_stats, 1},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    the_option = table[i].option;
    the_value = table[i].value;
    const char* const quiet[] = {table[i].entry, NULL};
    run(quiet, has_value, table[i].entry);
    if (!MX_SHOW_ERRORS) expect_said(NULL, table[i].entry);
    const char* const loud[] = {table[i].entry, "MIMALLOC_SHOW_ERRORS=1", NULL};
    run(loud, has_value, table[i].entry);
    expect_said("mimalloc: warning: environment option \"mimalloc_", table[i].entry);
    expect_said(" is deprecated -- use \"mimalloc_", table[i].entry);
  }
  static const char* const unused[] = {
      "pool_commit", "eager_commit", "segment_cache", "cache_reset", "abandoned_page_reset",
      "abandoned_page_decommit", "abandoned_page_purge", "segment_reset", "eager_commit_delay",
      "max_segment_reclaim", "decommit_extend_delay", "purge_extend_delay", "secure",
      "target_segments_per_thread", "deprecated_segment_cache"};
  for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++) {
    char entry[64], text[96];
    snprintf(entry, sizeof(entry), "MIMALLOC_%s=3", unused[i]);
    snprintf(text, sizeof(text), "mimalloc: environment option mimalloc_%s has no effect: ",
             unused[i]);
    the_option = mx_opt_purge_delay;
    the_value = 1000;
    const char* const quiet[] = {entry, NULL};
    run(quiet, has_value, entry);
    expect_said(NULL, entry);
    const char* const loud[] = {entry, "MIMALLOC_VERBOSE=1", NULL};
    run(loud, has_value, entry);
    expect_said(text, entry);
  }
}

// ---- precedence --------------------------------------------------------------------------------

static int own_name_wins(void) {
  CHECK(mx_option_get(mx_opt_purge_delay) == 5);
  return 0;
}

static int environment_beats_default(void) {
  mx_option_set_default(mx_opt_purge_delay, 7);
  CHECK(mx_option_get(mx_opt_purge_delay) == 5);
  mx_option_set(mx_opt_purge_delay, 8);
  CHECK(mx_option_get(mx_opt_purge_delay) == 8);
  mx_option_set_default(mx_opt_purge_delay, 9);
  CHECK(mx_option_get(mx_opt_purge_delay) == 8);
  mx_option_set_default(mx_opt_max_errors, 3);
  CHECK(mx_option_get(mx_opt_max_errors) == 3);
  mx_option_set_default(mx_opt_max_errors, 4);
  CHECK(mx_option_get(mx_opt_max_errors) == 4);
  return 0;
}

static int access_rules(void) {
  static const int outside[] = {-1, mx_opt_count, mx_opt_count + 1000, INT_MIN, INT_MAX};
  for (size_t i = 0; i < 5; i++) {
    mx_option_set(outside[i], 5);
    mx_option_set_default(outside[i], 5);
    CHECK(mx_option_get(outside[i]) == 0 && mx_option_get_size(outside[i]) == 0);
    CHECK(mx_option_name(outside[i]) == NULL && !mx_option_is_size(outside[i]));
  }
  mx_option_set(mx_opt_memory_limit, 3);
  CHECK(mx_option_get(mx_opt_memory_limit) == 3);
  CHECK(mx_option_get_size(mx_opt_memory_limit) == 3 * 1024);
  mx_option_set(mx_opt_memory_limit, -3);
  CHECK(mx_option_get_size(mx_opt_memory_limit) == 0);
  mx_option_set(mx_opt_memory_limit, LONG_MAX);
  CHECK(mx_option_get(mx_opt_memory_limit) == MX_KIB_MAX);
  CHECK(mx_option_get_size(mx_opt_memory_limit) == (size_t)MX_KIB_MAX * 1024);
  mx_option_set(mx_opt_os_tag, 33);
  CHECK(mx_option_get_size(mx_opt_os_tag) == 33);
  CHECK(mx_option_get_clamp(mx_opt_os_tag, 1, 10) == 10);
  CHECK(mx_option_get_clamp(mx_opt_os_tag, 40, 50) == 40);
  CHECK(mx_option_get_clamp(mx_opt_os_tag, 1, 50) == 33);
  CHECK(mx_option_get(mx_opt_os_tag) == 33);
  mx_option_set(mx_opt_guarded_max, 100);
  mx_option_set(mx_opt_guarded_min, 200);
  CHECK(mx_option_get(mx_opt_guarded_max) == 200);
  mx_option_set(mx_opt_guarded_max, 50);
  CHECK(mx_option_get(mx_opt_guarded_min) == 50);
  return 0;
}

// What no option must be, from whoever it comes.
static int values_are_in_range(void) {
  static const long values[] = {LONG_MIN, -4096,     -2,           -1,      0, 1, 2,
                                100000,   INT32_MAX, LONG_MAX - 1, LONG_MAX};
  for (int i = 0; i < mx_opt_count; i++) {
    for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
      const long wanted = values[k], meant = mx_option_clamp(i, wanted);
      mx_option_set_default(i, wanted);
      CHECK(mx_option_get(i) == meant);
      CHECK(mx_option_clamp(i, meant) == meant);
      CHECK(meant == wanted || (meant > wanted) == (wanted < 0));
    }
    mx_option_set(i, -9);
    CHECK(mx_option_get(i) == mx_option_clamp(i, -9));
  }
  return 0;
}

static void test_ranges(void) {
  static const struct {
    const char* entry;
    int option;
    long value;
    const char* text;  // NULL: nothing is wrong with it
  } table[] = {
      {"MIMALLOC_GENERIC_COLLECT=4294967296", mx_opt_generic_collect, INT32_MAX,
       "option generic_collect: 4294967296 is beyond what it can be; it is 2147483647\n"},
      {"MIMALLOC_GENERIC_COLLECT=-1", mx_opt_generic_collect, 0, "it is 0\n"},
      {"MIMALLOC_PURGE_DELAY=-2", mx_opt_purge_delay, -1, "it is -1\n"},
      {"MIMALLOC_PURGE_DELAY=-1", mx_opt_purge_delay, -1, NULL},
      {"MIMALLOC_ARENA_PURGE_MULT=9000000000", mx_opt_arena_purge_mult, 1000000, "it is 1000000\n"},
      {"MIMALLOC_USE_NUMA_NODES=4294967296", mx_opt_use_numa_nodes, 1024, "it is 1024\n"},
      {"MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=4294967297", mx_opt_reserve_huge_os_pages_at, 1023,
       "it is 1023\n"},
      {"MIMALLOC_ALLOW_THP=3", mx_opt_allow_thp, 2, "it is 2\n"},
      {"MIMALLOC_ARENA_RESERVE=-1", mx_opt_arena_reserve, 0, "it is 0 KiB\n"},
      {"MIMALLOC_ARENA_RESERVE=100T", mx_opt_arena_reserve, MX_ARENA_KIB_MAX, " KiB\n"},
      {"MIMALLOC_MAX_ERRORS=-7", mx_opt_max_errors, -7, NULL},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    // 32 bits have no such number, or no such memory.
    if (sizeof(long) == 4 && strlen(strchr(table[i].entry, '=')) > 10) continue;
    const char* const variables[] = {table[i].entry, "MIMALLOC_SHOW_ERRORS=1", NULL};
    the_option = table[i].option;
    the_value = table[i].value;
    run(variables, has_value, table[i].entry);
    expect_said(table[i].text, table[i].entry);
  }
  const char* const none[] = {NULL};
  run(none, values_are_in_range, "every option is in its range");
}

static int nothing(void) { return 0; }

static void test_precedence(void) {
  const char* const both[] = {"MIMALLOC_RESET_DELAY=4", "MIMALLOC_PURGE_DELAY=5",
                              "MIMALLOC_DECOMMIT_DELAY=6", "mimalloc_purge_delay=7", NULL};
  run(both, own_name_wins, "own name wins");
  const char* const one[] = {"MIMALLOC_PURGE_DELAY=5", NULL};
  run(one, environment_beats_default, "precedence");
  const char* const none[] = {NULL};
  run(none, access_rules, "access");
}

// ---- what is said ------------------------------------------------------------------------------

static int purge_delay_is_1000(void) { return mx_option_get(mx_opt_purge_delay) == 1000 ? 0 : 1; }

static int verbose_is_off(void) { return mx_option_get(mx_opt_verbose) == 0 ? 0 : 1; }

static int print_all(void) {
  mx_options_print(NULL, NULL);
  return 0;
}

static void test_messages(void) {
  const char* const bad[] = {"MIMALLOC_PURGE_DELAY=10ms", "MIMALLOC_SHOW_ERRORS=1",
                             "MIMALLOC_NO_SUCH_OPTION=1", "MIMALLOCPURGE_DELAY=1",
                             "MIMALLOC_PURGE_DELAYS=1", "MIMALLOC_PURGE_DELA=1", NULL};
  run(bad, purge_delay_is_1000, "bad value");
  if (strcmp(said, "mimalloc: warning: environment option mimalloc_purge_delay has an invalid "
             "value: \"10ms\" (it stays 1000)\n") != 0) {
    expect_said("exactly one warning", "bad value");
  }
  const char* const bad_verbose[] = {"MIMALLOC_VERBOSE=loud", "MIMALLOC_SHOW_ERRORS=0", NULL};
  run(bad_verbose, verbose_is_off, "bad verbose");
  expect_said("environment option mimalloc_verbose has an invalid value: \"loud\" (it stays 0)",
              "bad verbose");
  const char* const size[] = {"MIMALLOC_MEMORY_LIMIT=512MiB", NULL};
  run(size, print_all, "print");
  expect_said("option 'memory_limit': 524288 KiB\n", "print");
  expect_said("option 'purge_delay': 1000\n", "print");
  expect_said("option 'deprecated_segment_cache': 0 (no effect)\n", "print");
  expect_said(MX_DEBUG > 0 ? ", debug\n" : ", release\n", "print");
  char level[32];
  snprintf(level, sizeof(level), "secure level: %d\n", MX_SECURE);
  expect_said(level, "print");
  const char* const silent[] = {"MIMALLOC_PURGE_DELAY=10ms", "MIMALLOC_SHOW_ERRORS=0", NULL};
  run(silent, nothing, "silent");
  expect_said(NULL, "silent");
  // The limit holds for what the rest of the environment brings about, wherever it stands in it.
  const char* const limited[] = {"MIMALLOC_PURGE_DELAY=10ms", "MIMALLOC_SHOW_ERRORS=1",
                                 "MIMALLOC_MAX_WARNINGS=0", NULL};
  run(limited, nothing, "limited");
  expect_said(NULL, "limited");
}

int main(void) {
  test_parse();
  test_names();
  test_older_names();
  test_precedence();
  test_ranges();
  test_messages();
  if (failures == 0) printf("options: ok\n");
  return failures != 0;
}
