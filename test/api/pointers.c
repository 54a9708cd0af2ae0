// SPDX-License-Identifier: MIT
// In builds that know which blocks are live: every call that is given a block reports a pointer
// that is none, with its own name, and what has become of the block. Secure builds end the process.
// Questions that may be asked of any address are answered as if freed blocks were not there.
#include "../child.h"
#include "base/mitigations.h"
#include "expect.h"

enum { FREED, INTERIOR, FOREIGN, MANNERS };
static const char* const expected[MANNERS] = {"was freed", "invalid pointer", "invalid pointer"};

enum {
  USABLE_SIZE, MALLOC_USABLE_SIZE, MALLOC_SIZE, EXPAND, EXPAND_OF_WINDOWS, REALLOC, REALLOCF,
  REZALLOC, REALLOC_ALIGNED, HEAP_REALLOC, CALLS
};
static const char* const names[CALLS] = {
  "usable_size", "malloc_usable_size", "malloc_size", "expand", "expand", "realloc", "realloc",
  "realloc", "realloc", "realloc"
};

typedef struct crime_s {
  size_t size;
  int manner, call;
} crime_t;

// Unknown to the compiler, which must not think that it knows what these calls do.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static bool call_with(int call, void* p) {
  switch (call) {
    case USABLE_SIZE: return mi_usable_size(p) != 0;
    case MALLOC_USABLE_SIZE: return mi_malloc_usable_size(p) != 0;
    case MALLOC_SIZE: return mi_malloc_size(p) != 0;
    case EXPAND: return mi_expand(p, 1) != NULL;
    case EXPAND_OF_WINDOWS: return mi__expand(p, 1) != NULL;
    case REALLOC: return mi_realloc(p, 100) != NULL;
    case REALLOCF: return mi_reallocf(p, 100) != NULL;
    case REZALLOC: return mi_rezalloc(p, 100) != NULL;
    case REALLOC_ALIGNED: return mi_realloc_aligned(p, 100, 64) != NULL;
    default: return mi_heap_realloc(mi_heap_main(), p, 100) != NULL;
  }
}

static void commit(const void* argument) {
  static char foreign[64];
  const crime_t* const crime = (const crime_t*)argument;
  char* const p = (char*)hidden(mi_malloc(crime->size));
  char* const other = (char*)hidden(mi_malloc(crime->size));  // keeps the page
  void* wrong = p;
  if (crime->manner == FREED) mi_free(p);
  if (crime->manner == INTERIOR) wrong = p + 16;
  if (crime->manner == FOREIGN) wrong = foreign + 16;
  fprintf(stderr, call_with(crime->call, hidden(wrong)) ? "served\n" : "refused\n");
  mi_free(other);
  _exit(0);
}

static void commit_each(void) {
  static const size_t sizes[] = {24, 4000, 200000, 3000000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (int manner = 0; manner < MANNERS; manner++) {
      for (int call = 0; call < CALLS; call++) {
        const crime_t crime = {sizes[s], manner, call};
        run_child(commit, &crime);
        // A freed huge block may be nobody's by now, and malloc_size may be asked of any address.
        const size_t huge = (MX_LARGE_APART ? 192 * 1024 : 1000000);
        const bool is_gone = (manner == FREED && sizes[s] > huge);
        const bool is_silent = (call == MALLOC_SIZE && manner == FOREIGN);
        bool told = (strstr(said, names[call]) != NULL && strstr(said, expected[manner]) != NULL);
        if (is_gone) told = told || strstr(said, "invalid pointer") != NULL || call == MALLOC_SIZE;
        const bool ended = (MX_SECURE >= 4 ? WIFSIGNALED(status) : strstr(said, "refused") != NULL);
        const bool is_right =
            (is_silent || (is_gone && call == MALLOC_SIZE) ? strstr(said, "refused") != NULL || ended
                                                          : told && ended);
        if (!EXPECT(is_right)) {
          fprintf(stderr, "    %s, %zu bytes, manner %d: %s\n", names[call], sizes[s], manner, said);
        }
      }
    }
  }
}

// A free of what lies inside a block finds out by what is there, and not by what would be behind:
// behind the last block of a page nothing may be.
static void test_frees_inside(void) {
  static const size_t sizes[] = {24, 56, 248, 504, 1016, 4000};
  enum { BLOCKS = 1000 };
  static char* blocks[BLOCKS];
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (size_t i = 0; i < BLOCKS; i++) blocks[i] = (char*)hidden(mi_malloc(sizes[s]));
    for (size_t i = 1; i < BLOCKS; i += 2) mi_free(blocks[i]);  // full pages take another way
    int wrong = 0;
    error_count = 0;
    for (size_t i = 0; i < BLOCKS; i += 2) {
      for (size_t at = 16; at < sizes[s]; at += 16, wrong++) mi_free(hidden(blocks[i] + at));
    }
    EXPECT_AT(sizes[s], error_count == wrong);
    for (size_t i = 0; i < BLOCKS; i += 2) mi_free(blocks[i]);
    EXPECT_AT(sizes[s], error_count == wrong);
  }
  error_count = 0;
}

static bool is_in_none(const void* p) {
  mi_heap_t* const heap = mi_heap_main();
  return mi_heap_of(p) == NULL && !mi_heap_contains(heap, p) && !mi_any_heap_contains(p) &&
         !mi_is_in_heap_region(p) && !mi_check_owned(p) && !mi_heap_check_owned(heap, p) &&
         !mi_heap_contains_block(heap, p) &&
         !mi_unsafe_heap_page_is_under_utilized(heap, (void*)(uintptr_t)p, 100);
}

static bool is_inside(const void* p) {
  mi_heap_t* const heap = mi_heap_main();
  return mi_heap_of(p) == heap && mi_heap_contains(heap, p) && mi_any_heap_contains(p) &&
         mi_is_in_heap_region(p) && mi_check_owned(p);
}

// What one may ask of any address is answered, and no error.
static void test_questions(void) {
  static const size_t sizes[] = {24, 40, 4000, 200000, 3000000};
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    const size_t size = sizes[s];
    char* const p = (char*)hidden(mi_malloc(size));
    char* const other = (char*)hidden(mi_malloc(size));
    EXPECT_AT(size, is_inside(p) && mi_heap_contains_block(mi_heap_main(), p));
    EXPECT_AT(size, is_inside(p + 16) && is_inside(p + size - 1));
    EXPECT_AT(size, !mi_heap_contains_block(mi_heap_main(), p + 16));
    EXPECT_AT(size, !MX_PADDING || is_in_none(p + size));
    mi_free(p);
    EXPECT_AT(size, is_in_none(hidden(p)) && is_in_none((char*)hidden(p) + 16));
    mi_free(other);
  }
  char* const shifted = (char*)mi_malloc_aligned_at(100, 64, 8);
  EXPECT(is_inside(shifted) && mi_usable_size(shifted) >= 100);
  mi_free(shifted);
  EXPECT(error_count == 0);
}

int main(void) {
  if (!MX_PADDING || (MX_SECURE < 4 && MX_DEBUG == 0)) {
    printf("this build does not know which blocks are live\n");
    return 77;
  }
  commit_each();
  expect_errors();
  test_frees_inside();
  test_questions();
  return expect_end("pointers");
}
