// SPDX-License-Identifier: MIT
// Transparent large pages on machines where they are given always, on request, or never; the first
// argument says which. By default none are in the library's memory, so that a program that touches
// one byte in each MiB does not have all of it resident, unless blocks of that size were filled; with
// `allow_thp` of 2 there are some in any case, where the machine has them.
#include "guest.h"

#include <mimalloc.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE (64 * MIB)

static long look(unsigned char* p) {
  for (size_t i = 0; i < SIZE; i += MIB) p[i] = 1;
  // Huge blocks may be several mappings; the middle lies in the largest.
  const long large = mapping_kib(p + SIZE / 2, "AnonHugePages:");
  mi_free(p);
  return large;
}

static long touch_and_look(void) {
  unsigned char* const p = (unsigned char*)mi_malloc(SIZE);
  CHECK(p != NULL);
  return look(p);
}

// One that grew has a mapping of its own.
static long grow_and_look(void) {
  unsigned char* p = (unsigned char*)mi_malloc(MIB);
  for (size_t size = 2 * MIB; size <= SIZE; size += MIB) p = (unsigned char*)mi_realloc(p, size);
  CHECK(p != NULL);
  return look(p);
}

// And in long steps, of which the last is looked at.
static long grow_far_and_look(void) {
  unsigned char* p = (unsigned char*)mi_malloc(2 * SIZE);
  for (size_t size = 3 * SIZE; size <= 5 * SIZE; size += SIZE) p = (unsigned char*)mi_realloc(p, size);
  CHECK(p != NULL);
  for (size_t i = 4 * SIZE; i < 5 * SIZE; i += MIB) p[i] = 1;
  const long large = mapping_kib(p + 4 * SIZE + SIZE / 2, "AnonHugePages:");
  mi_free(p);
  return large;
}

// In a heap of 160 MiB, all of it written.
static long fill_small_and_look(void) {
  unsigned char* p = NULL;
  for (size_t n = 0; n < 160 * MIB; n += 1000) {
    p = (unsigned char*)mi_malloc(1000);
    CHECK(p != NULL);
    memset(p, 1, 1000);
  }
  long found = 0;
  for (int i = 0; i < 48; i++) {
    const long more = mapping_kib(p - i * MIB, "AnonHugePages:");
    if (more > found) found = more;
  }
  return found;
}

static void fill_some(void) {
  for (int i = 0; i < 3; i++) {
    unsigned char* const p = (unsigned char*)mi_malloc(SIZE);
    CHECK(p != NULL);
    memset(p, i, SIZE);
    mi_free(p);
    mi_collect(true);  // the next one does not get this memory
  }
}

static long in_child(int allow, bool are_filled) {
  int pipe_of[2];
  CHECK(pipe(pipe_of) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    mi_option_set(mi_option_allow_thp, allow);
    if (are_filled) fill_some();
    const long found = touch_and_look();
    CHECK(write(pipe_of[1], &found, sizeof(found)) == (ssize_t)sizeof(found));
    _exit(0);
  }
  long found = -1;
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(status == 0 && read(pipe_of[0], &found, sizeof(found)) == (ssize_t)sizeof(found));
  return found;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const int has = strcmp(argv[1], "never") != 0;
  char text[128] = "";
  FILE* const f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  CHECK(f != NULL && fgets(text, sizeof(text), f) != NULL);
  char wanted[32];
  snprintf(wanted, sizeof(wanted), "[%s]", argv[1]);
  CHECK(strstr(text, wanted) != NULL);
  for (int row = 0; row < 6; row++) {
    const int allow = row / 2;
    const bool are_filled = (row % 2 != 0);
    const long found = in_child(allow, are_filled);
    printf("allow_thp=%d, %s: %ld KiB in large pages\n", allow, are_filled ? "filled" : "first", found);
    const bool wants = (has && (allow == 2 || (allow == 1 && are_filled)));
    CHECK_ROW(wants ? found >= (long)(16 * MIB / KIB) : found == 0, row);
  }
  mi_option_set(mi_option_allow_thp, 0);
  CHECK(grow_and_look() == 0 && grow_far_and_look() == 0);
  mi_option_set(mi_option_allow_thp, 1);
  CHECK(grow_far_and_look() == 0);
  const long found = fill_small_and_look();
  printf("growth: %ld KiB in large pages\n", found);
  CHECK(has || found == 0);
  return 0;
}
