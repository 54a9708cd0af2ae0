// SPDX-License-Identifier: MIT
// A machine with vm.overcommit_memory=2, which grants memory only as far as it could keep the word:
// the library starts, reserves without being charged, serves until nearly all is given out, then
// answers NULL with ENOMEM, and serves again after a free.
#include "guest.h"

#include <errno.h>
#include <mimalloc.h>

static size_t meminfo_kib(const char* key) {
  char line[128];
  size_t found = 0;
  FILE* const f = fopen("/proc/meminfo", "r");
  CHECK(f != NULL);
  while (fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) found = strtoul(line + strlen(key) + 1, NULL, 10);
  }
  fclose(f);
  return found;
}

static size_t left_mib(void) {
  const size_t limit = meminfo_kib("CommitLimit:"), used = meminfo_kib("Committed_AS:");
  return used < limit ? (limit - used) / 1024 : 0;
}

// Takes blocks of a size until there are none; how many MiB that were.
static size_t take_all(size_t size) {
  void** last = NULL;
  size_t got = 0;
  errno = 0;
  for (;;) {
    void** const p = (void**)mi_malloc(size);
    if (p == NULL) break;
    *p = last;
    last = p;
    got += size;
  }
  const int error = errno;
  while (last != NULL) {
    void** const next = (void**)*last;
    mi_free(last);
    last = next;
  }
  mi_collect(true);
  CHECK(error == ENOMEM);  // only now: writing a message takes memory, too
  return got / MIB;
}

int main(void) {
  CHECK(file_number("/proc/sys/vm/overcommit_memory") == 2);
  mi_free(mi_malloc(1));
  static const size_t sizes[] = {100 * KIB, 20 * MIB, 2000, 1 * MIB};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    const size_t left = left_mib(), got = take_all(sizes[i]);
    printf("blocks of %zu: %zu of %zu MiB, then %zu MiB left\n", sizes[i], got, left, left_mib());
    CHECK_ROW(left > 200, i);
    CHECK_ROW(got > left - left / 4, i);
  }
  return 0;
}
