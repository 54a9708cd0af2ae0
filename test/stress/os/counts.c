// SPDX-License-Identifier: MIT
// What fixed courses of calls cost: what they ask of the system, what is counted, and where their
// blocks lie, to the last page, as counts.txt has it for this build. A decision that no result
// depends on (which slices, how much is carved at once, when a look is worth it) is seen here and
// nowhere else.
//
//   counts FILE          compares, and says which numbers are others, where the kernel is the same
//   counts FILE write    puts those of this build into the file
//
// After a change of a number on purpose the file is written with each build, which shows what else
// has changed.
//
// Each course is a process of its own, of threads that take turns, on a clock that moves when told
// and with random numbers from a seed; addresses are told from the start of their arena. A line has
// what was counted since the line before (+), and what is there now (=), as far as that has
// changed.
#include "courses.h"

#include <sys/utsname.h>
#include <sys/wait.h>

#include "heap/transfer.h"
#include "mimalloc.h"
#include "mock_os.h"
#include "os/os.h"

block_t* places[PLACES];
random_t common;

// ---- what is counted ----------------------------------------------------------------------------

#define COUNTS_MOST 128
typedef struct count_s {
  const char* name;
  long long flow, state;
} count_t;
static count_t counts[COUNTS_MOST];
static long long seen[COUNTS_MOST], state_seen[COUNTS_MOST];
static size_t count_count;

// What depends on where addresses are (parts of the page map, of mappings that are cut) is not told
// where that is not known: see place_all.
static bool has_any_place;
static void add(const char* name, long long flow, long long state) {
  if (MX_RANDOM_ADDRESS && state == 0 && strstr(name, "commit") != NULL) return;
  const bool is_asked = (strstr(name, "sys.") != NULL || strstr(name, "_calls") != NULL ||
                         strcmp(name, "purged") == 0);
  if (has_any_place && state == 0 && is_asked) return;
  if (has_any_place && strstr(name, "reserved") != NULL) return;
  check(count_count < COUNTS_MOST);
  counts[count_count++] = (count_t){name, flow, state};
}
static void add_state(const char* name, long long state) { add(name, 0, state); }

static void add_asked(void) {
#define ASKED(kind)                                                           \
  add("sys." #kind, (long long)mock_asked(MOCK_##kind).calls, 0);             \
  add("sys." #kind ".kib", (long long)(mock_asked(MOCK_##kind).bytes / 1024), 0);
  MOCK_KINDS(ASKED)
#undef ASKED
}

static void add_counters(void) {
  mx_counters_t sum;
  memset(&sum, 0, sizeof(sum));
  const mx_counters_t* const all[] = {&mx_process_counters, &mx_subproc_main.main_heap.counters,
                                      &mx_subproc_main.counters};
  for (size_t i = 0; i < 3; i++) {
    const long long* const from = (const long long*)(const void*)all[i];
    long long* const to = (long long*)(void*)&sum;
    for (size_t n = 0; n < sizeof(sum) / sizeof(long long); n++) to[n] += from[n];
  }
#define IS_COUNT(name)                             \
  add(#name, sum.name.total, sum.name.current);    \
  add_state(#name ".most", sum.name.peak);
#define IS_COUNTER(name) add(#name, sum.name, 0);
  MX_COUNTERS(IS_COUNT, IS_COUNTER)
#undef IS_COUNT
#undef IS_COUNTER
}

static void add_arenas(void) {
  const mx_arenas_t* const arenas = &mx_subproc_main.arenas;
  long long dirty = 0, committed = 0, large = 0, low = 0, high = 0, apart = 0;
  for (size_t i = 0; i < mx_load_relaxed(&arenas->count); i++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena == NULL) continue;
    dirty += (long long)mx_bits_count(arena->dirty, 0, arena->slices);
    committed += (long long)mx_bits_count(arena->committed, 0, arena->slices);
    large += (long long)mx_bits_count(arena->large, 0, arena->slices);
    low += (long long)mx_load_relaxed(&arena->low_hint);
    for (size_t n = 0; n < arena->slices; n++) {
      const bool is_used = !mx_bits_test(arena->free, n);
      const bool was_used = (n > 0 && !mx_bits_test(arena->free, n - 1));
      if (is_used) high = (long long)n;
      apart += (is_used && !was_used);
    }
  }
  add_state("arenas", (long long)mx_load_relaxed(&arenas->count));
  add_state("in_use", (long long)mx_load_relaxed(&arenas->in_use));
  add_state("runs", apart);
  add_state("highest", high);
  add_state("low_hint", low);
  add_state("dirty", dirty);
  add_state("mapped", committed);
  add_state("large", large);
  add_state("purgeable", (long long)mx_load_relaxed(&arenas->purgeable));
  add_state("gone", (long long)mx_load_relaxed(&arenas->gone));
  add_state("keep", (long long)mx_load_relaxed(&arenas->keep));
  const uint64_t at = mx_load_relaxed(&arenas->purge_at);
  add_state("purge_in", at == 0 ? 0 : (long long)(at - mx_os_clock_msecs()));
}

static void add_theap(void) {
  const mx_theap_t* const theap = mx_tls_theap;
  long long current = 0, partial = 0, full = 0, carved = 0, waiting = 0, parked = 0;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const mx_page_t* const page = theap->bins.current[bin];
    current += (page != &mx_page_none);
    if (page != &mx_page_none) carved += page->capacity;
    partial += theap->lists.partial_count[bin];
    full += theap->lists.full_count[bin];
    waiting += (long long)mx_transfer_count(bin);
  }
  for (size_t i = 0; i < MX_PARKED_MAX; i++) parked += (mx_subproc_main.parked[i].theap != NULL);
  add("visits", theap->visits, 0);
  add("extended", theap->counted.extends, 0);
  add("reclaimed", theap->counted.reclaims, 0);
  add("retired", theap->counted.retires, 0);
  add_state("current", current);
  add_state("carved", carved);
  add_state("partial", partial);
  add_state("full", full);
  add_state("retained", (long long)theap->retained.slices);
  add_state("transfer", waiting);
  add_state("parked", parked);
}

// Blocks that were found to be zero; how far one lies from the one before, all together; and what
// they hold beyond what was asked for.
long long zeros;
static void add_places(void) {
  add("zeros", zeros, 0);
  uint64_t far = 0, more = 0, last = 0, live = 0, apart = 0;
  for (size_t i = 0; i < PLACES; i++) {
    if (places[i] == NULL) continue;
    const mx_page_t* const page = mx_pagemap_find(places[i]);
    live++;
    more += mi_usable_size(places[i]) - places[i]->size;
    apart += (page->arena == NULL);
    if (page->arena == NULL) continue;
    const uint64_t at = (uint64_t)((const uint8_t*)places[i] - page->arena->start);
    far += (at > last ? at - last : last - at);
    last = at;
  }
  add_state("live", (long long)live);
  add_state("far", (long long)far);
  add_state("more", (long long)more);
  add_state("apart", (long long)apart);
}

static const char* course_name;

void say(const char* stage) {
  count_count = 0;
  add_asked();
  add_counters();
  add_arenas();
  add_theap();
  add_places();
  printf("%s/%s:", course_name, stage);
  for (size_t i = 0; i < count_count; i++) {
    const long long flow = counts[i].flow - seen[i];
    seen[i] = counts[i].flow;
    if (flow != 0) printf(" %s+%lld", counts[i].name, flow);
    if (counts[i].state != state_seen[i]) printf(" %s=%lld", counts[i].name, counts[i].state);
    state_seen[i] = counts[i].state;
  }
  printf("\n");
}

// ---- comparing ----------------------------------------------------------------------------------

static const char* build_name(void) {
  if (MX_TRACK != 0 || !MX_64BIT || MX_OMIT_MITIGATIONS != 0) return NULL;
  if (MX_DEBUG != 0) return NULL;
  return MX_SECURE == 0 ? "release" : MX_SECURE == 4 ? "secure" : NULL;
}

// Where addresses begin depends on the stack and the code (src/mem/vmem.c): here always at the same
// multiple of what arenas, large OS pages and parts of the page map are aligned to.
#define PLACED (5 * MX_SLICE_SIZE)

static uintptr_t next_place(mx_zone_t zone) {
  return (uintptr_t)mx_vmem_place(zone, MX_SLICE_SIZE, MX_SLICE_SIZE);
}

// Of the near ones, with so much more of the stack.
static __attribute__((noinline)) uintptr_t place_near_from(size_t depth) {
  volatile char stack[16 * depth + 16];
  stack[0] = 0;
  uintptr_t at = next_place(MX_ZONE_NEAR);
  const unsigned bits = mx_bit_high(at) + 1;
  mx_vmem_open_near(bits, bits + (stack[0] != 0));
  at = next_place(MX_ZONE_NEAR);
  mx_vmem_placed_is_free(MX_ZONE_NEAR, (void*)at, MX_SLICE_SIZE);
  return at;
}

static void place_all(void) {
  if (MX_RANDOM_ADDRESS) return;  // by random numbers, of which these are known
  size_t depth = 0;
  uintptr_t at = 0;
  // Each takes two units.
  while (place_near_from(depth) % (2 * MX_NEAR_UNIT) != PLACED) check(++depth < 80000);
  int more = 8;
  while (next_place(MX_ZONE_NEAR) % MX_GIB != PLACED + 2 * MX_NEAR_UNIT) check(--more > 0);
  for (more = 16384; next_place(MX_ZONE_FAR) % MX_GIB != PLACED;) check(--more >= 0);
  for (more = 100; at / MX_GIB % 64 != 1; more--) {
    check(more > 0);
    at = (uintptr_t)mx_vmem_place(MX_ZONE_FAR, MX_GIB, MX_SLICE_SIZE);
  }
}

static int child(size_t n) {
  course_name = courses[n].name;
  has_any_place = courses[n].has_any_place;
  common = random_of(n);
  mock_seed(n + 1);
  mock_fill(1, false);
  mock_large(3, 1, false);
  mi_option_set(mi_option_max_warnings, 0);
  place_all();
  mock_fault(getenv("FAULT"));
  if (getenv("FAIL") != NULL) mock_fail_every(atol(getenv("FAIL")));
  if (getenv("SCARCE") != NULL) mx_store_relaxed(&mx_os_scarce, true);  // after the start has asked
  mi_free(mi_malloc(1));
  if (mx_facts.os_page != 4096) return 77;
  say("begin");
  courses[n].run();
  return 0;
}

static char text[1 << 20];

// What else than the library decides what is counted.
static size_t say_conditions(void) {
  struct utsname system;
  uname(&system);
  const char* const dot = strchr(system.release, '.');
  const size_t length = (size_t)(dot - system.release) + 1 + strspn(dot + 1, "0123456789");
  return (size_t)snprintf(text, sizeof(text), "%s conditions: %.*s\n", build_name(), (int)length,
                          system.release);
}

// What all courses print, each line with the build's name in front.
static bool run_all(const char* self) {
  size_t length = say_conditions();
  for (size_t n = 0; n < course_count; n++) {
    char command[700], line[8000];
    const char* const where = courses[n].where;
    if (MX_RANDOM_ADDRESS && strstr(where, "FAIL=") != NULL) continue;  // which calls is not known
    // Variables hold for the program that follows, limits for all that do.
    snprintf(command, sizeof(command), "%s MIMALLOC_BACKGROUND_PURGE=0 '%s' course %zu", where,
             self, n);
    FILE* const f = popen(command, "r");
    check(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL) {
      length += (size_t)snprintf(text + length, sizeof(text) - length, "%s %s", build_name(), line);
      check(length < sizeof(text));
    }
    const int status = pclose(f);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
    if (status != 0) fail("failed: %s", command);
  }
  return true;
}

static bool is_of_build(const char* line) {
  const size_t length = strlen(build_name());
  return strncmp(line, build_name(), length) == 0 && line[length] == ' ';
}

// Which words of two lines are others.
static void say_difference(const char* was, const char* is) {
  printf("%.*s\n", (int)(strchr(is, ':') - is), is);
  const char* const both[] = {was, is};
  for (int n = 0; n < 2; n++) {
    char word[200];
    printf(n == 0 ? "  was:" : "  is: ");
    for (const char* at = strchr(both[n], ':'); *at != 0 && *at != '\n'; at += strcspn(at, " \n")) {
      at += strspn(at, ": ");
      const int length = snprintf(word, sizeof(word), " %.*s", (int)strcspn(at, " \n"), at);
      const char* found = strstr(both[1 - n], word);
      while (found != NULL && strchr(" \n", found[length]) == NULL) found = strstr(found + 1, word);
      if (found == NULL) printf("%s", word);
    }
    printf("\n");
  }
}

static int compare(const char* path) {
  static char line[8000];
  int others = 0;
  const char* is = text;
  FILE* const f = fopen(path, "r");
  check(f != NULL);
  while (fgets(line, sizeof(line), f) != NULL) {
    if (!is_of_build(line)) continue;
    const size_t length = strcspn(is, "\n") + 1;
    if (is == text && strncmp(line, is, length) != 0) return 77;  // there is another kernel
    if (*is == 0 || (strncmp(line, is, length) != 0 && others++ < 20)) say_difference(line, is);
    if (*is != 0) is += length;
  }
  fclose(f);
  fflush(stdout);
  if (*is != 0) fail("more lines than %s has for this build", path);
  if (others > 0) fail("%d lines of %s are others; on purpose: `counts FILE write`", others, path);
  return 0;
}

static void write_file(const char* path) {
  static char rest[1 << 22], line[8000];
  size_t length = 0;
  FILE* f = fopen(path, "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    if (is_of_build(line)) continue;
    length += (size_t)snprintf(rest + length, sizeof(rest) - length, "%s", line);
  }
  if (f != NULL) fclose(f);
  f = fopen(path, "w");
  check(f != NULL);
  fprintf(f, "%s%s", rest, text);
  fclose(f);
}

int main(int argc, char** argv) {
  check(argc > 1);
  if (strcmp(argv[1], "course") == 0) return child((size_t)atoi(argv[2]));
  if (build_name() == NULL || !mx_os_overcommits() || mx_os_is_scarce()) return 77;
  if (!run_all(argv[0])) return 77;
  if (argc <= 2) return compare(argv[1]);
  write_file(argv[1]);
  return 0;
}
