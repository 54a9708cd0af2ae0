// SPDX-License-Identifier: MIT
// Blocks so large that the library may move their memory instead of copying it, laid out so that
// what is to be moved spans several mappings of the kernel. Before Linux 6.17, mremap to a given
// address first unmaps what is there and only then fails for such a source; whoever takes the
// failure for "nothing happened" writes into a hole.
//
//   turns     six buffers grow in turns by realloc to some MiB, as vectors do
//   random    blocks of 0.3 to 5 MiB by malloc, realloc and free
//   dontdump  blocks of 4 MiB, one OS page of each with another property than its neighbours, are
//             freed, and larger ones take their memory
//
// A fourth argument names one of them; without it each runs for a third of the time, and at least
// once.
#include "stress.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#define MIB ((size_t)1 << 20)

// A number into each KiB, which is into every OS page.
static void sign(unsigned char* p, size_t from, size_t to, uint64_t key) {
  for (size_t i = from & ~(size_t)1023; i + 8 <= to; i += 1024) {
    const uint64_t stamp = key + i;
    memcpy(p + i, &stamp, 8);
  }
}

static void expect(const unsigned char* p, size_t size, uint64_t key) {
  for (size_t i = 0; i + 8 <= size; i += 1024) {
    uint64_t stamp;
    memcpy(&stamp, p + i, 8);
    if (stamp != key + i) fail("byte %zu of %zu is not what was written", i, size);
  }
}

static unsigned char* resized(unsigned char* p, size_t old, size_t size, uint64_t key) {
  unsigned char* const q = (unsigned char*)realloc(p, size);
  if (q == NULL) fail("no %zu bytes", size);
  const size_t kept = old < size ? old : size;
  expect(q, kept, key);
  sign(q, kept, size, key);
  return q;
}

static void turns(random_t* r) {
  enum { BUFFERS = 6 };
  unsigned char* p[BUFFERS] = {NULL};
  size_t size[BUFFERS] = {0};
  for (size_t step = 0; step < 40; step++) {
    for (size_t i = 0; i < BUFFERS; i++) {
      const size_t more = size[i] + 65536 + random_below(r, 4) * 65536;
      p[i] = resized(p[i], size[i], more, i << 40);
      size[i] = more;
    }
  }
  for (size_t i = 0; i < BUFFERS; i++) free(p[i]);
}

static void random_calls(random_t* r) {
  enum { BLOCKS = 24 };
  unsigned char* p[BLOCKS] = {NULL};
  size_t size[BLOCKS] = {0};
  for (size_t step = 0; step < 400; step++) {
    const size_t i = random_below(r, BLOCKS);
    const size_t wanted = 300 * 1024 + random_below(r, 47 * MIB / 10);
    if (p[i] != NULL && random_below(r, 3) == 0) {
      expect(p[i], size[i], i << 40);
      free(p[i]);
      p[i] = NULL;
      size[i] = 0;
    } else {
      p[i] = resized(p[i], size[i], wanted, i << 40);
      size[i] = wanted;
    }
  }
  for (size_t i = 0; i < BLOCKS; i++) free(p[i]);
}

static void dontdump(random_t* r) {
#if defined(__linux__)
  enum { BLOCKS = 16 };
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = 4 * MIB;
  unsigned char* p[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    p[i] = (unsigned char*)malloc(size);
    if (p[i] == NULL) fail("no 4 MiB");
    sign(p[i], 0, size, i);
    const uintptr_t at = ((uintptr_t)p[i] + MIB + random_below(r, 2 * MIB)) & ~(page - 1);
    check(madvise((void*)at, page, MADV_DONTDUMP) == 0);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    expect(p[i], size, i);
    free(p[i]);
  }
  for (size_t i = 0; i < 4; i++) {
    p[i] = (unsigned char*)malloc(16 * MIB);
    if (p[i] == NULL) fail("no 16 MiB");
    sign(p[i], 0, 16 * MIB, i);
  }
  for (size_t i = 0; i < 4; i++) p[i] = resized(p[i], 16 * MIB, 24 * MIB, i);
  for (size_t i = 0; i < 4; i++) {
    expect(p[i], 24 * MIB, i);
    free(p[i]);
  }
#else
  (void)r;
#endif
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(random_t*);
  } parts[] = {{"turns", turns}, {"random", random_calls}, {"dontdump", dontdump}};
  stress_args(argc, argv);
  const char* const only = argc > 4 ? argv[4] : NULL;
  const double all = stress_seconds;
  size_t known = 0;
  for (size_t i = 0; i < 3; i++) {
    if (only != NULL && strcmp(only, parts[i].name) != 0) continue;
    known++;
    random_t r = random_of(i);
    stress_seconds = only != NULL ? all : all * (double)(i + 1) / 3;
    size_t rounds = 0;
    do {
      parts[i].run(&r);
      rounds++;
    } while (!stress_is_over());
    printf("%s: %zu rounds\n", parts[i].name, rounds);
    fflush(stdout);
  }
  if (known == 0) fail("no such part: %s", only);
  return 0;
}
