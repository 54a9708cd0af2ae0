// SPDX-License-Identifier: MIT
// mallopt answers as glibc's own does for each of its parameters, and does what the documents say.
//
//   mallopt LIBRARY
//
// The program runs itself twice, without and with the library before it, and compares what mallopt
// answers to the same calls, each in a process of its own. Numbers that are no parameter get 0 from
// the library, though glibc says 1.
#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mimalloc.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// Only where the library is.
long mi_option_get(mi_option_t option) __attribute__((weak));

static const int parameters[] = {M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TRIM_THRESHOLD, M_TOP_PAD,
                                 M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION, M_PERTURB,
                                 M_ARENA_TEST, M_ARENA_MAX};
static const int unknown[] = {0, 5, 6, 100, 12345, INT_MAX, -9, -10, -99, -102, -12345, INT_MIN};
static const int values[] = {
    INT_MIN, INT_MIN + 1, -65536, -2, -1, 0, 1, 2, 3, 5, 7, 8, 16, 63, 64, 79, 80, 81, 127, 128,
    159, 160, 161, 255, 256, 1023, 1024, 1025, 4096, 65536, 131072, 1 << 20, 32 << 20,
    (32 << 20) + 1, 1 << 30, INT_MAX};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// ---- answers -----------------------------------------------------------------------------------

// One call, in a child, which then must be able to allocate.
static int answer(int parameter, int value) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    errno = 4711;
    const int result = mallopt(parameter, value);
    if (errno != 4711) _exit(100);
    for (size_t size = 1; size < (8 << 20); size = 3 * size + 1) {
      char* const p = malloc(size);
      if (p == NULL) _exit(101);
      memset(p, 1, size);
      free(p);
    }
    _exit(result >= 0 && result <= 1 ? result : 102);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

static void print_answers(void) {
  for (int i = 0; i < COUNT(parameters); i++) {
    for (int k = 0; k < COUNT(values); k++) putchar('0' + answer(parameters[i], values[k]) % 10);
  }
}

static void read_answers(const char* self, const char* library, char* text, size_t size) {
  char command[4096];
  snprintf(command, sizeof(command), "LD_PRELOAD='%s' '%s' answers", library, self);
  FILE* const pipe = popen(command, "r");
  const size_t length = (pipe == NULL ? 0 : fread(text, 1, size - 1, pipe));
  text[length] = 0;
  EXPECT(pipe != NULL && pclose(pipe) == 0);
}

// From 2.43 on glibc has no fast bins, and accepts any value for them.
static int has_fast_bins(void) {
  int major = 0, minor = 0;
  EXPECT(sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2);
  return major == 2 && minor < 43;
}

static void compare(const char* self, const char* library) {
  const int has_fast = has_fast_bins();
  static char theirs[4096], ours[4096];
  read_answers(self, "", theirs, sizeof(theirs));
  read_answers(self, library, ours, sizeof(ours));
  EXPECT(strlen(theirs) == (size_t)(COUNT(parameters) * COUNT(values)));
  EXPECT(strlen(theirs) == strlen(ours));
  for (int i = 0; i < COUNT(parameters); i++) {
    for (int k = 0; k < COUNT(values); k++) {
      const int at = i * COUNT(values) + k;
      // Some releases of glibc refuse more than half of one of their heaps.
      if (parameters[i] == M_MMAP_THRESHOLD && (values[k] < 0 || values[k] > 512 << 10)) continue;
      if (parameters[i] == M_MXFAST && !has_fast && theirs[at] == '1') continue;
      if (theirs[at] == ours[at]) continue;
      printf("mallopt(%d, %d): glibc answers %c, the library %c\n", parameters[i], values[k],
             theirs[at], ours[at]);
      failures++;
    }
  }
}

// ---- effects -----------------------------------------------------------------------------------

static int is_mapped(const void* p) {
  unsigned char present;
  void* const page = (void*)((size_t)p & ~(size_t)4095);
  return mincore(page, 1, &present) == 0;
}

// Whether a block of this size has a mapping of its own, which goes with it, or all but a part in
// front that is kept for the next one, as in secure builds. Of a block without one a part may go.
static int goes_with_its_mapping(size_t size, int is_apart) {
  char* const p = malloc(size);
  if (p == NULL) return -1;
  memset(p, 1, size);
  const char *volatile first = p, *volatile last = p + size - 1;
  free(p);
  if (!is_apart && is_mapped((const void*)(size_t)first)) return 0;
  return !is_mapped((const void*)(size_t)last);
}

#define LARGE ((size_t)16 << 20)  // more than is kept whole of a block that was freed

static size_t resident_pages(void) {
  unsigned long all = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
  fclose(file);
  return resident;
}

#define OPTION(name) mi_option_get(mi_option_##name)

// Android's parameters: how long freed memory waits, and that it goes now.
static void check_android(void) {
  enum { DECAY_TIME = -100, PURGE = -101, PURGE_ALL = -104 };
  static void* blocks[256];
  EXPECT(mallopt(DECAY_TIME, 0) == 1 && OPTION(purge_delay) == 0);
  EXPECT(mallopt(DECAY_TIME, -1) == 1 && OPTION(purge_delay) == -1);
  EXPECT(mallopt(DECAY_TIME, 1) == 1 && OPTION(purge_delay) == 1000);
  for (int i = 0; i < COUNT(blocks); i++) {
    blocks[i] = malloc(60000);
    if (blocks[i] != NULL) memset(blocks[i], 1, 60000);
  }
  const size_t before = resident_pages();  // on a busy machine a part is purged by itself
  for (int i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  EXPECT(mallopt(PURGE, 0) == 1 && mallopt(PURGE_ALL, 0) == 1);
  EXPECT(resident_pages() + 2000 < before);
}

// `is_apart`: large blocks have mappings of their own in any case, as in secure builds.
static void check_effects(int is_apart) {
  for (int i = 0; i < COUNT(unknown); i++) {
    for (int k = 0; k < COUNT(values); k++) EXPECT(mallopt(unknown[i], values[k]) == 0);
  }
  EXPECT(goes_with_its_mapping(LARGE, is_apart) == is_apart);
  EXPECT(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && OPTION(arena_max_object_size) == 1024);
  EXPECT(goes_with_its_mapping(LARGE, is_apart));
  EXPECT(mallopt(M_MMAP_MAX, 0) == 1);
  EXPECT(goes_with_its_mapping(LARGE, is_apart) == is_apart);
  EXPECT(mallopt(M_MMAP_MAX, 65536) == 1 && OPTION(arena_max_object_size) == 2 << 20);
  EXPECT(mallopt(M_MMAP_THRESHOLD, -1) == 1);
  EXPECT(goes_with_its_mapping(LARGE, is_apart) == is_apart);
  EXPECT(mallopt(M_TRIM_THRESHOLD, 5000) == 1 && OPTION(minimal_purge_size) == 5);
  EXPECT(OPTION(purge_delay) == 1000);
  EXPECT(mallopt(M_TRIM_THRESHOLD, -1) == 1 && OPTION(purge_delay) == -1);
  EXPECT(mallopt(M_TRIM_THRESHOLD, 0) == 1 && OPTION(purge_delay) == 1000);
  EXPECT(OPTION(minimal_purge_size) == 0);
  EXPECT(mallopt(M_PERTURB, 0x55) == 1 && OPTION(zero_on_free) == 1);
  EXPECT(mallopt(M_PERTURB, 0) == 1 && OPTION(zero_on_free) == 0);
  EXPECT(mallopt(M_CHECK_ACTION, 3) == 1 && OPTION(abort_on_error) == 1);
  EXPECT(OPTION(show_errors) == 1);
  EXPECT(mallopt(M_CHECK_ACTION, 0) == 1 && OPTION(abort_on_error) == -1);
  EXPECT(OPTION(show_errors) == 0);
  EXPECT(mallopt(M_ARENA_MAX, 1) == 1 && OPTION(page_full_retain) == 0);
  EXPECT(mallopt(M_ARENA_MAX, 2) == 1 && OPTION(page_full_retain) == 1);
  EXPECT(mallopt(M_ARENA_MAX, 8) == 1 && OPTION(page_full_retain) == 2);
  EXPECT(mallopt(M_ARENA_MAX, 0) == 1 && OPTION(page_full_retain) == 2);
  EXPECT(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_MMAP_MAX, 9) == 1);
  EXPECT(OPTION(arena_max_object_size) == 1024);  // mappings were allowed already
  check_android();
  EXPECT(mallopt(M_TOP_PAD, 64 << 20) == 1 && OPTION(arena_reserve) == 1L << 20);
  EXPECT(mallopt(M_TOP_PAD, INT_MAX) == 1 && OPTION(arena_reserve) == 2L << 20);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "answers") == 0) {
    print_answers();
    return 0;
  }
  if (strcmp(argv[1], "effects") == 0) {
    if (mi_option_get == NULL) return 3;
    check_effects(argc > 2);
    return failures != 0;
  }
  char command[4096];
  compare(argv[0], argv[1]);
  snprintf(command, sizeof(command), "LD_PRELOAD='%s' '%s' effects%s", argv[1], argv[0],
           strstr(argv[1], "-secure") != NULL ? " apart" : "");
  fflush(stdout);
  EXPECT(system(command) == 0);
  if (failures == 0) printf("%d parameters as glibc answers\n", COUNT(parameters));
  return failures != 0;
}
