// SPDX-License-Identifier: MIT
// Huge blocks that are resized: of any alignment they stay where they are when they shrink, and
// when they grow into what is free behind them. What they no longer have is free, what they get
// anew reads as zero where it is to, and what they held is there.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/alloc.h"
#include "../../src/alloc/harden.h"
#include "../../src/alloc/sample.h"
#include "../../src/base/hooks.h"
#include "../../src/heap/subproc.h"

#define MIB ((size_t)1 << 20)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static intptr_t slices_in_use(void) { return mx_load_relaxed(&mx_subproc_main.arenas.in_use); }

static bool is_all(const unsigned char* p, size_t from, size_t to, unsigned char byte) {
  for (size_t i = from; i < to; i++) {
    if (p[i] != byte) return false;
  }
  return true;
}

// Builds that check blocks may move them.
static void test_stays(size_t align) {
  unsigned char* const p = (unsigned char*)mi_malloc_aligned(4 * MIB, align);
  memset(p, 1, 4 * MIB);
  const intptr_t before = slices_in_use();
  unsigned char* q = (unsigned char*)mi_realloc_aligned(p, MIB, align);
  EXPECT(q == p || MX_HARDEN);
  EXPECT(slices_in_use() == before - (intptr_t)(3 * MIB / MX_SLICE_SIZE) || MX_HARDEN);
  EXPECT(is_all(q, 0, MIB, 1) && (uintptr_t)q % align == 0);
  q = (unsigned char*)mi_realloc_aligned(q, 2 * MIB, align);
  EXPECT(q == p || MX_HARDEN);
  EXPECT(is_all(q, 0, MIB, 1) && (uintptr_t)q % align == 0);
  mi_free(q);
}

// What lies behind such a block was written before.
static void test_zero(size_t align) {
  unsigned char* p = (unsigned char*)mi_zalloc_aligned(4 * MIB, align);
  memset(p, 1, 4 * MIB);
  p = (unsigned char*)mi_realloc_aligned(p, MIB, align);
  p = (unsigned char*)mi_recalloc_aligned(p, 1, 3 * MIB, align);
  EXPECT(is_all(p, 0, MIB, 1) && is_all(p, MIB, 3 * MIB, 0) && (uintptr_t)p % align == 0);
  mi_free(p);
}

// Where blocks are sampled to be guarded, and for no profile, that is asked for a note of none.
static int notes;

static void* take_note(void* block, size_t size, double probability, const void* frame) {
  (void)block, (void)size, (void)probability, (void)frame;
  notes++;
  return NULL;
}

static void test_no_notes(void) {
  mx_hooks.begin_note = &take_note;
  mi_option_set(mi_option_guarded_sample_rate, 1 << 30);
  void* const p = mi_malloc(4 * MIB);
  EXPECT(mx_tls_theap->sampling.is_on && mx_tls_theap->sampling.mean == 0);
  EXPECT(mi_realloc(p, MIB) == p && notes == 0);
  mi_free(p);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  mx_hooks.begin_note = NULL;
}

int main(void) {
  mi_free(mi_malloc(1));
  if (!MX_HARDEN) test_no_notes();
  for (size_t align = MX_ALIGN; align <= 4 * MIB; align *= 4) {
    test_stays(align);
    test_zero(align);
  }
  printf("%d failures\n", failures);
  return failures != 0;
}
