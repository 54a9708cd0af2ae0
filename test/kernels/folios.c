// SPDX-License-Identifier: MIT
// Transparent large pages of 64 KiB, given to everybody though nobody gets any of 2 MiB unasked
// (Linux 6.12, `thp_anon=64K:always`). The library takes them as they come; with `allow_thp` of 0 its
// memory has none, be it of a huge block, of one that grew, or of blocks that share a page.
#include "guest.h"

#include <mimalloc.h>
#include <sys/wait.h>

#define SIZE (96 * MIB)
#define STEP (64 * KIB)

// How many KiB became resident for one touched byte in each 64 KiB.
static long touch(unsigned char* p, size_t size) {
  const long before = resident_kib();
  for (size_t i = 0; i < size; i += STEP) p[i] = 1;
  return resident_kib() - before;
}

static void expect(long found, size_t size, int allow) {
  const long least = (long)(size / STEP * 4), all = (long)(size / KIB);
  CHECK_ROW(allow == 0 ? found <= least + least / 4 : found >= all / 2, allow);
}

static void look(int allow) {
  mi_option_set(mi_option_allow_thp, allow);
  unsigned char* p = (unsigned char*)mi_malloc(SIZE);
  CHECK(p != NULL);
  expect(touch(p, SIZE), SIZE, allow);
  p = (unsigned char*)mi_realloc(p, 2 * SIZE);
  p = (unsigned char*)mi_realloc(p, 3 * SIZE);
  CHECK(p != NULL);
  expect(touch(p + 2 * SIZE, SIZE), SIZE, allow);
  mi_free(p);
  const long before = resident_kib();
  for (int i = 0; i < 1024; i++) {
    unsigned char* const block = (unsigned char*)mi_malloc(32 * KIB);
    CHECK(block != NULL);
    block[0] = 1;
  }
  const long found = resident_kib() - before;
  printf("allow_thp=%d: 1,024 blocks of 32 KiB, of each a byte written: %ld KiB\n", allow, found);
  CHECK_ROW(allow == 0 ? found < 12 * 1024 : found > 16 * 1024, allow);
}

int main(void) {
  char text[128] = "";
  FILE* const f = fopen("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "r");
  CHECK(f != NULL && fgets(text, sizeof(text), f) != NULL && strstr(text, "[always]") != NULL);
  fclose(f);
  for (int allow = 0; allow <= 1; allow++) {
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
      look(allow);
      _exit(0);
    }
    CHECK_ROW(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, allow);
  }
  return 0;
}
