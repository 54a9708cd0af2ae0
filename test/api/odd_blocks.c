// SPDX-License-Identifier: MIT
// In secure builds: misuse of blocks that came about in another way than by malloc of their size.
// Those that alignment made larger, that realloc made smaller or larger, that begin behind the
// start of their block, that are large and much aligned. Each crime has a control without it, which
// must say nothing.
#include <signal.h>

#include "../child.h"
#include "base/mitigations.h"
#include "expect.h"

#define KIB ((size_t)1024)

typedef enum crime_e {
  NONE,
  PAST_END,       // one byte behind the end of the block
  FREE_INSIDE,    // frees a plain block of the same page by a pointer into it
  FREE_BEHIND,    // frees a pointer that lies elsewhere in the block than the one given out
  BEFORE_START,   // one byte before the pointer
  WRITE_FREED,    // the first byte of a block that waits to be used again, changed in one bit
  READ_FREED,     // a large one
  FREE_SIZED,     // with another size than it has
  CRIMES
} crime_t;

typedef struct birth_s {
  const char* name;
  size_t align, offset, first, size;  // first: what realloc makes `size` of; 0: none
} birth_t;

typedef struct try_s {
  const birth_t* birth;
  crime_t crime;
} try_t;

// Unknown to the compiler, which must not think that it knows what these calls do.
static unsigned char* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return (unsigned char*)p;
}

static unsigned char* make(const birth_t* b) {
  unsigned char* p;
  if (b->first > 0) p = (unsigned char*)mi_realloc(hidden(mi_malloc(b->first)), b->size);
  else if (b->align > 0) p = (unsigned char*)mi_malloc_aligned_at(b->size, b->align, b->offset);
  else p = (unsigned char*)mi_malloc(b->size);
  if (p == NULL) abort();
  return hidden(p);
}

static void commit(const void* argument) {
  const try_t* const t = (const try_t*)argument;
  unsigned char* others[20];
  for (int i = 0; i < 20; i++) others[i] = hidden(mi_malloc(t->birth->size));
  unsigned char* const p = make(t->birth);
  memset(p, 0x5A, t->birth->size);
  if (t->crime == PAST_END) p[t->birth->size] ^= 0x41;
  if (t->crime == BEFORE_START) p[-1] ^= 0x41;
  if (t->crime == FREE_INSIDE) {
    // As large as what lies in front of the block with it, and a canary.
    const size_t align = t->birth->align, skip = align - t->birth->offset;
    const size_t whole = (skip + t->birth->size + 8 + align - 1) / align * align;
    mi_free(hidden(mi_malloc(whole - 8)) + 16);
  }
  if (t->crime == FREE_SIZED) mi_free_size(p, t->birth->size - 1);
  mi_free(t->crime == FREE_BEHIND ? hidden(p + 16) : p);
  if (t->crime == WRITE_FREED) hidden(p)[0] ^= 1;
  if (t->crime == READ_FREED && hidden(p)[100] == 0x5A) fprintf(stderr, "read what it was\n");
  for (int i = 0; i < 20; i++) mi_free(others[i]);
  if (!mi_heap_verify(NULL)) fprintf(stderr, "not sound\n");
  fprintf(stderr, "went on\n");
}

static bool is_told(const try_t* t) {
  const bool has_error = (strstr(said, "error: ") != NULL && WIFSIGNALED(status));
  const bool faulted = (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  if (t->crime == NONE) return status == 0 && strcmp(said, "went on\n") == 0;
  return has_error || faulted;
}

static void expect_told(const birth_t* birth, crime_t crime) {
  const try_t t = {birth, crime};
  run_child(commit, &t);
  if (!EXPECT(is_told(&t))) {
    fprintf(stderr, "    %s: align %zu at %zu, from %zu, size %zu, crime %d: %s\n", birth->name,
            birth->align, birth->offset, birth->first, birth->size, (int)crime, said);
  }
}

static void try_all(const birth_t* births, size_t count, const crime_t* crimes) {
  for (size_t i = 0; i < count; i++) {
    expect_told(&births[i], NONE);
    for (size_t c = 0; crimes[c] != CRIMES; c++) expect_told(&births[i], crimes[c]);
  }
}

#define TRY_ALL(births, ...)                                        \
  do {                                                              \
    static const crime_t crimes[] = {__VA_ARGS__, CRIMES};          \
    try_all(births, sizeof(births) / sizeof((births)[0]), crimes);  \
  } while (0)

static const birth_t with_slack[] = {
  {"aligned", 64, 0, 0, 8},       {"aligned", 128, 0, 0, 24},     {"aligned", 64, 0, 0, 1000},
  {"aligned", 256, 0, 0, 200},    {"aligned", 4096, 0, 0, 5000},  {"smaller", 0, 0, 1000, 520},
  {"smaller", 0, 0, 1016, 509},   {"smaller", 0, 0, 100, 60},     {"smaller", 0, 0, 4000, 2100},
};
static const birth_t inside[] = {
  {"at an offset", 64, 8, 0, 100},   {"at an offset", 64, 60, 0, 100},
  {"at an offset", 256, 16, 0, 700}, {"at an offset", 16, 1, 0, 40},
  {"at an offset", 4096, 24, 0, 9000}, {"at an offset", 64, 8, 0, 300 * KIB},
};
static const birth_t beside[] = {
  {"at an offset", 64, 8, 0, 100},
  {"at an offset", 256, 16, 0, 700},
  {"at an offset", 16, 1, 0, 40},
};
static const birth_t large[] = {
  {"malloc", 0, 0, 0, 200000},           {"aligned", 64 * KIB, 0, 0, 200000},
  {"aligned", 1024 * KIB, 0, 0, 200000}, {"aligned", 2048 * KIB, 0, 0, 8192 * KIB},
  {"larger", 0, 0, 150000, 200000},      {"larger", 0, 0, 1000, 200000},
};
static const birth_t plain[] = {
  {"malloc", 0, 0, 0, 24}, {"malloc", 0, 0, 0, 120}, {"malloc", 0, 0, 0, 1000},
};

// What a much aligned block leaves holds nothing of the one before.
static void test_old_contents(void) {
  const birth_t birth = {"aligned", 2048 * KIB, 0, 0, 8192 * KIB};
  for (int i = 0; i < 4; i++) {
    unsigned char* const p = make(&birth);
    EXPECT(((uintptr_t)p & (birth.align - 1)) == 0);
    EXPECT(p[100] == 0 && p[birth.size / 2] == 0 && p[birth.size - 1] == 0);
    memset(p, 0x5A, birth.size);
    mi_free(p);
  }
}

// A guarded block is exactly as long as was asked for, also if that is nothing.
static void test_guarded(void) {
  mi_option_set(mi_option_guarded_min, 0);
  mi_heap_guarded_set_sample_rate(mi_heap_get_default(), 1, 0);
  for (size_t size = 0; size < 40; size += 13) {
    for (size_t offset = 1; offset < 64; offset += 5) {
      unsigned char* const p = (unsigned char*)mi_malloc_aligned_at(size, 64, offset);
      EXPECT_AT(offset, ((uintptr_t)p + offset) % 64 == 0 && mi_usable_size(p) == size);
      memset(p, 1, size);
      mi_free_size(p, size);
    }
  }
  mi_heap_guarded_set_sample_rate(mi_heap_get_default(), 0, 0);
}

int main(void) {
  if (!MX_PADDING || MX_SECURE < 4 || !MX_LARGE_APART) {
    printf("no secure build, or not all of one\n");
    return 77;
  }
  TRY_ALL(with_slack, PAST_END);
  TRY_ALL(inside, BEFORE_START, FREE_BEHIND, FREE_SIZED);
  TRY_ALL(beside, FREE_INSIDE);
  TRY_ALL(large, READ_FREED);
  TRY_ALL(plain, WRITE_FREED);
  test_old_contents();
  test_guarded();
  return expect_end("odd-blocks");
}
