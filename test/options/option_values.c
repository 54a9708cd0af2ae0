// SPDX-License-Identifier: MIT
// Every option with every kind of value, from the environment and by calls: the program that lives
// with it runs to its end, gets its memory, finds it as it left it, and stays small.
//
//   option_values [quick|all] [OPTION...]
//
// Each value is a process of its own, so that a crash, a hang or a dead heap is seen from outside:
// it runs under a limit of time, of writable memory (RLIMIT_DATA) and of what may be resident. Some
// options refuse memory on purpose (disallow_os_alloc, memory_limit with memory_limit_hard, a
// max_vabits of less than the program needs): under them NULL is an answer, and the only one that
// differs.
#include <errno.h>
#include <limits.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

#define SECONDS_MAX 60
#define WRITABLE_MAX ((rlim_t)8 << 30)  // records of an arena of 256 GiB: 0.6 GiB
#define RESIDENT_KIB_MAX (700 * 1024L)

enum { EXIT_NULL = 3, EXIT_SPOILED = 4 };

// ---- values ------------------------------------------------------------------------------------

static const long numbers[] = {
    // of the quick run, by calls; and the others from the environment
    -1, 2, LONG_MAX, LONG_MIN,
#if LONG_MAX > 2147483647L
    1L << 32,
#endif
    0, 1, 3, 64, 65535, 1L << 20, 2147483647L,
#if LONG_MAX > 2147483647L
    1L << 31, (1L << 32) + 1, -(1L << 32),
#endif
    // of all
    -2, 7, 29, 30, 31, 47, 63, 65, 127, 128, 255, 256, 257, 1000, 4095, 4096, 4097, 32767, 32768,
    65536, 65537, (1L << 20) + 1, (1L << 30) - 1, 1L << 30, (1L << 30) + 1, -2147483647L - 1,
    LONG_MAX - 1, LONG_MIN + 1, LONG_MAX / 1024, LONG_MAX / 1024 + 1,
#if LONG_MAX > 2147483647L
    (1L << 31) + 1, (1L << 32) - 1, (1L << 33) - 1, 1L << 40, (1L << 47) - 1, 1L << 47, 1L << 48,
    (1L << 53) - 1, 1L << 53, (1L << 62) - 1, 1L << 62, (1L << 62) + 1, -(1L << 31) - 1,
    -(1L << 62),
#endif
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))
#define QUICK_NUMBERS ((size_t)(LONG_MAX > 2147483647L ? 15 : 11))
#define QUICK_CALLS ((size_t)(LONG_MAX > 2147483647L ? 5 : 4))

static const char* const texts[] = {
    // of the quick run
    "", "64KiB", "1T", "garbage", "18446744073709551616",
    // of all
    "true", "OFF", "1K", "512MiB", "4G", "3GB", "16777216T", "99999999999T", "-5G", "1.5G", "0x10",
    "1e9", " ", "-", "+", "=", "1 ", "\xff\xfe\x01", "%s%n%s%n", "9223372036854775808",
    "-9223372036854775808", "-99999999999999999999", "00000000000000000000000000000000001",
    "1111111111111111111111111111111111111111111111111111111111111111111111111111111111",
};
#define TEXTS (sizeof(texts) / sizeof(texts[0]))
#define QUICK_TEXTS 5

// ---- names, as the library prints them ---------------------------------------------------------

static char names[128][64];
static int option_count;

static void mi_cdecl note_name(const char* line, void* arg) {
  (void)arg;
  if (strncmp(line, "option '", 8) != 0) return;
  snprintf(names[option_count++], sizeof(names[0]), "%.*s", (int)strcspn(line + 8, "'"), line + 8);
}

// ---- a program ---------------------------------------------------------------------------------

// What is refused on purpose, and found spoiled.
static int nulls, spoiled;

static void count_at(int* counter) { __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED); }

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

// The first and the last byte say whose block it is.
static unsigned char* stamped(void* p, size_t size, unsigned char mark) {
  unsigned char* const b = (unsigned char*)p;
  if (b == NULL) count_at(&nulls);
  else if (size > 0) b[0] = b[size - 1] = mark;
  return b;
}

static void drop(unsigned char* b, size_t size, unsigned char mark) {
  if (b != NULL && size > 0 && (b[0] != mark || b[size - 1] != mark)) count_at(&spoiled);
  mi_free(b);
}

typedef struct block_s {
  unsigned char* p;
  size_t size;
  unsigned char mark;
} block_t;

enum { SHARED = 128, OWN = 256 };
static block_t shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t some_size(uint32_t* random) {
  const uint32_t kind = next_random(random) % 64;
  if (kind == 0) return 600 * KIB + next_random(random) % (2 * MIB);
  if (kind < 4) return next_random(random) % (300 * KIB);
  if (kind < 16) return next_random(random) % (16 * KIB);
  return next_random(random) % 700;
}

static unsigned char* get(size_t size, uint32_t* random, unsigned char mark) {
  if (next_random(random) % 4 != 0) return stamped(mi_malloc(size), size, mark);
  if (next_random(random) % 2 != 0) {
    const size_t align = (size_t)16 << next_random(random) % 9;
    unsigned char* const p = (unsigned char*)mi_malloc_aligned(size, align);
    if (p != NULL && (uintptr_t)p % align != 0) count_at(&spoiled);
    return stamped(p, size, mark);
  }
  unsigned char* const p = (unsigned char*)mi_calloc(1, size);
  for (size_t i = 0; p != NULL && i < size; i += 97) {
    if (p[i] != 0) count_at(&spoiled);
  }
  return stamped(p, size, mark);
}

static void resize(block_t* b, uint32_t* random) {
  const size_t size = some_size(random) + 1;
  if (b->p == NULL || b->size == 0) return;
  unsigned char* const p = (unsigned char*)mi_realloc(b->p, size);
  if (p == NULL) {
    count_at(&nulls);
    return;
  }
  if (p[0] != b->mark) count_at(&spoiled);
  b->p = stamped(p, size, b->mark);
  b->size = size;
}

// Swaps a block with the others, whoever they are: it is freed by another thread, or resized.
static void hand_over(block_t* b, uint32_t* random) {
  pthread_mutex_lock(&shared_lock);
  block_t* const place = &shared[next_random(random) % SHARED];
  const block_t other = *place;
  *place = *b;
  *b = other;
  pthread_mutex_unlock(&shared_lock);
}

static int rounds = 500;
static int is_over;

static void* live(void* arg) {
  uint32_t random = (uint32_t)(uintptr_t)arg * 7919u + 1;
  static _Thread_local block_t own[OWN];
  for (int i = 0; i < rounds && !__atomic_load_n(&is_over, __ATOMIC_RELAXED); i++) {
    block_t* const b = &own[next_random(&random) % OWN];
    const uint32_t what = next_random(&random) % 16;
    if (what == 0) {
      hand_over(b, &random);
    } else if (what < 4) {
      resize(b, &random);
    } else {
      drop(b->p, b->size, b->mark);
      b->size = some_size(&random);
      b->mark = (unsigned char)next_random(&random);
      b->p = get(b->size, &random, b->mark);
    }
  }
  for (int i = 0; i < OWN; i++) drop(own[i].p, own[i].size, own[i].mark);
  memset(own, 0, sizeof(own));
  return NULL;
}

static void in_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    uint32_t random = 4711;
    for (int i = 0; i < 100; i++) {
      const size_t size = some_size(&random);
      drop(get(size, &random, 9), size, 9);
    }
    mi_collect(false);
    _exit(spoiled != 0 ? EXIT_SPOILED : 0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) count_at(&spoiled);
}

static void mi_cdecl swallow(const char* text, void* arg) { (void)text, (void)arg; }

static void use_heaps(void) {
  for (int i = 0; i < 3; i++) {
    mi_heap_t* const heap = mi_heap_new();
    if (heap == NULL) {
      count_at(&nulls);
      continue;
    }
    for (size_t size = 1; size < 3 * MIB; size = size * 3 + 1) {
      stamped(mi_heap_malloc(heap, size), size, 5);
    }
    if (i == 0) mi_heap_delete(heap);
    else mi_heap_destroy(heap);
  }
}

static void one_life(void) {
  pthread_t threads[3];
  bool has_started[3];
  for (int i = 0; i < 3; i++) {
    has_started[i] = (pthread_create(&threads[i], NULL, live, (void*)(uintptr_t)(i + 1)) == 0);
    if (!has_started[i]) count_at(&nulls);
  }
  live((void*)(uintptr_t)99);
  in_child();
  for (int i = 0; i < 3; i++) {
    if (has_started[i]) pthread_join(threads[i], NULL);
  }
  use_heaps();
  for (int i = 0; i < 3; i++) {
    unsigned char* const huge = stamped(mi_malloc(40 * MIB), 40 * MIB, 7);
    drop(huge, 40 * MIB, 7);
    mi_collect(i == 1);
  }
  for (int i = 0; i < SHARED; i++) drop(shared[i].p, shared[i].size, shared[i].mark);
  memset(shared, 0, sizeof(shared));
  // More than the first arena has; next to nothing of it is touched.
  static unsigned char* large[13];
  for (int i = 0; i < 13; i++) large[i] = stamped(mi_malloc(100 * MIB), 100 * MIB, 8);
  for (int i = 0; i < 13; i++) drop(large[i], 100 * MIB, 8);
  mi_options_print_out(swallow, NULL);
  mi_stats_print_out(swallow, NULL);
  mi_collect(true);
}

static int verdict(void) {
  if (spoiled != 0) return EXIT_SPOILED;
  return nulls != 0 ? EXIT_NULL : 0;
}

static bool refuses_memory(void) {
  const long bits = mi_option_get(mi_option_max_vabits);
  const bool is_limited = (mi_option_get(mi_option_memory_limit) > 0);
  return (bits >= 30 && bits <= 34) || mi_option_get(mi_option_disallow_os_alloc) != 0 ||
         (is_limited && mi_option_get(mi_option_memory_limit_hard) != 0);
}

// A process that starts with what its environment says.
static int live_with_environment(void) {
  mi_free(mi_malloc(10));
  one_life();
  if (spoiled == 0 && refuses_memory()) return 0;
  return verdict();
}

// ---- by calls ----------------------------------------------------------------------------------

static bool all_values;

static size_t number_count(void) { return all_values ? NUMBERS : QUICK_NUMBERS; }

// Back to what the program began with: it must be able to allocate again.
static int check_that_it_recovers(int option, long before) {
  mi_option_set((mi_option_t)option, before);
  nulls = 0;
  for (size_t size = 1; size < 5 * MIB; size = size * 2 + 1) {
    drop(stamped(mi_malloc(size), size, 3), size, 3);
  }
  return verdict();
}

// A process that says so first of all.
static int live_with_call(int option, long value) {
  const long before = mi_option_get((mi_option_t)option);
  mi_option_set((mi_option_t)option, value);
  one_life();
  if (refuses_memory()) nulls = 0;
  const int code = verdict();
  return code != 0 ? code : check_that_it_recovers(option, before);
}

// Threads are at work while the value changes, again and again.
static int live_with_changes(int option) {
  const long before = mi_option_get((mi_option_t)option);
  const bool may_refuse = (option == mi_option_disallow_os_alloc);
  pthread_t threads[2];
  rounds = INT_MAX;
  for (int i = 0; i < 2; i++) {
    if (pthread_create(&threads[i], NULL, live, (void*)(uintptr_t)(i + 1)) != 0) return 1;
  }
  for (int turn = 0; turn < (all_values ? 5 : 1); turn++) {
    for (size_t i = 0; i < number_count(); i++) {
      mi_option_set((mi_option_t)option, numbers[i]);
      usleep(700);
      if (i % 8 == 3) in_child();
      if (i % 8 == 5) mi_collect(i % 16 == 5);
    }
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  if (may_refuse) nulls = 0;
  const int code = verdict();
  return code != 0 ? code : check_that_it_recovers(option, before);
}

// ---- processes ---------------------------------------------------------------------------------

static const char* self;
static int failures, runs;

static void limit_this_process(void) {
  const struct rlimit writable = {WRITABLE_MAX, WRITABLE_MAX}, none = {0, 0};
  setrlimit(RLIMIT_DATA, &writable);
  setrlimit(RLIMIT_CORE, &none);
  alarm(SECONDS_MAX);
  if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
}

static void judge(const char* what, pid_t child) {
  int status = 0;
  struct rusage usage;
  memset(&usage, 0, sizeof(usage));
  runs++;
  if (child < 0 || wait4(child, &status, 0, &usage) != child) {
    printf("%s: no process: %s\n", what, strerror(errno));
    failures++;
  } else if (WIFSIGNALED(status)) {
    printf("%s: ended by signal %d (%s)\n", what, WTERMSIG(status),
           WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    failures++;
  } else if (WEXITSTATUS(status) != 0) {
    const int code = WEXITSTATUS(status);
    printf("%s: exit status %d (%s)\n", what, code,
           code == EXIT_NULL ? "no memory" : code == EXIT_SPOILED ? "memory spoiled" : "?");
    failures++;
  } else if (usage.ru_maxrss > RESIDENT_KIB_MAX) {
    printf("%s: %ld MiB resident\n", what, usage.ru_maxrss / 1024);
    failures++;
  }
}

static void run_process(char* const* arguments, char* const* environment, const char* what) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    limit_this_process();
    execve(self, arguments, environment);
    _exit(1);
  }
  judge(what, child);
}

static void run_with_environment(char* const* environment, const char* what) {
  char* const arguments[] = {(char*)(uintptr_t)self, (char*)(uintptr_t)"live", NULL};
  run_process(arguments, environment, what);
}

static void run_with_text(int option, const char* text) {
  char entry[256], upper[64];
  snprintf(upper, sizeof(upper), "%s", names[option]);
  for (char* c = upper; *c != 0; c++) *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
  snprintf(entry, sizeof(entry), "MIMALLOC_%s=%s", upper, text);
  // A hard limit has something to be hard about.
  char* const environment[] = {entry, (char*)(uintptr_t)"MIMALLOC_MEMORY_LIMIT_HARD=1", NULL};
  if (option != mi_option_memory_limit) ((char**)(uintptr_t)environment)[1] = NULL;
  run_with_environment(environment, entry);
}

static void run_with_call(int option, long value) {
  char what[128], numbers_as_text[2][32];
  snprintf(what, sizeof(what), "mi_option_set(%s, %ld)", names[option], value);
  snprintf(numbers_as_text[0], sizeof(numbers_as_text[0]), "%d", option);
  snprintf(numbers_as_text[1], sizeof(numbers_as_text[1]), "%ld", value);
  char* const arguments[] = {(char*)(uintptr_t)self, (char*)(uintptr_t)"call", numbers_as_text[0],
                             numbers_as_text[1], NULL};
  char* const environment[] = {NULL};
  run_process(arguments, environment, what);
}

static void run_with_changes(int option) {
  char what[128];
  snprintf(what, sizeof(what), "%s changes while threads are at work", names[option]);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    limit_this_process();
    exit(live_with_changes(option));
  }
  judge(what, child);
}

static void run_option(int option) {
  char text[32];
  for (size_t i = 0; i < number_count(); i++) {
    snprintf(text, sizeof(text), "%ld", numbers[i]);
    run_with_text(option, text);
    if (all_values || i < QUICK_CALLS) run_with_call(option, numbers[i]);
  }
  const size_t count = (all_values ? TEXTS : (size_t)QUICK_TEXTS);
  for (size_t i = 0; i < count; i++) run_with_text(option, texts[i]);
  run_with_changes(option);
}

// Several options at once, always the same ones.
static void run_mixed(int count) {
  static char entries[5][192];
  uint32_t random = 1;
  for (int n = 0; n < count; n++) {
    char* environment[6];
    char what[1024] = "";
    for (int i = 0; i < 5; i++) {
      const int option = (int)(next_random(&random) % (uint32_t)option_count);
      snprintf(entries[i], sizeof(entries[0]), "mimalloc_%s=%ld", names[option],
               numbers[next_random(&random) % NUMBERS]);
      strcat(strcat(what, entries[i]), " ");
      environment[i] = entries[i];
    }
    environment[5] = NULL;
    run_with_environment(environment, what);
  }
}

int main(int argc, char** argv) {
  self = "/proc/self/exe";
  if (argc > 1 && strcmp(argv[1], "live") == 0) return live_with_environment();
  if (argc > 3 && strcmp(argv[1], "call") == 0) {
    return live_with_call(atoi(argv[2]), strtol(argv[3], NULL, 10));
  }
  all_values = (argc > 1 && strcmp(argv[1], "all") == 0);
  mi_options_print_out(note_name, NULL);
  if (option_count != (int)_mi_option_last) {
    printf("%d options are printed, there are %d\n", option_count, (int)_mi_option_last);
    return 1;
  }
  for (int i = 0; i < option_count; i++) {
    bool is_wanted = (argc <= 2);
    for (int k = 2; k < argc; k++) is_wanted = is_wanted || strcmp(argv[k], names[i]) == 0;
    if (is_wanted) run_option(i);
  }
  if (argc <= 2) run_mixed(all_values ? 2000 : 100);
  printf("%d options, %d runs, %d failed\n", option_count, runs, failures);
  return failures != 0;
}
