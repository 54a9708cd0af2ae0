// SPDX-License-Identifier: MIT
// Guarded blocks when the system refuses one of the calls that they take: the request gets an ordinary
// block, and nothing is lost. And no more of them live at a time than may.
#include "../stress.h"

#include <errno.h>

#include "alloc/guarded.h"
#include "heap/heap.h"
#include "mem/vmem.h"
#include "mimalloc.h"
#include "mock_os.h"

static int64_t reserved(void) { return mx_load_relaxed(&mx_process_counters.reserved.current); }
static int64_t metadata(void) { return mx_load_relaxed(&mx_process_counters.metadata.current); }

static bool is_guarded(const void* p) {
  return mx_page_is_huge(mx_pagemap_get(p)) && mx_page_is_guarded(mx_pagemap_get(p));
}

static void* checked(size_t size) {
  errno = 0;
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  check(p != NULL && errno == 0 && mi_usable_size(p) >= size);
  memset(p, 0x5A, size);
  check(p[0] == 0x5A && p[size - 1] == 0x5A);
  return p;
}

// The n-th call that each takes, for blocks of new sizes and for those that take what a freed one left.
static void refused(long n) {
  static const size_t sizes[] = {1000, 1000, 1000, 5000, 70000, 200000};
  size_t guarded = 0, plain = 0;
  for (int round = 0; round < 60; round++) {
    const size_t size = sizes[round % 6];
    mock_fail_after(n);
    void* const p = checked(size);
    mock_heal();
    if (is_guarded(p)) guarded++;
    else plain++;
    mi_free(p);
  }
  check(guarded + plain == 60 && (n > 0 || plain > 0) && (n < 9 || guarded == 60));
}

static int errors;

static void on_error(int code, void* arg) {
  (void)arg;
  errors += (code == EFAULT);
}

// What was written before a block or behind its end, where that is no multiple of the alignment.
static void written(void) {
  mi_register_error(&on_error, NULL);
  mi_option_disable(mi_option_show_errors);
  for (int at = 0; at < 4; at++) {
    unsigned char* const p = (unsigned char*)checked(1001);
    check(is_guarded(p));
    if (at == 0) p[1001] = 1;
    if (at == 1) p[-1] = 1;
    if (at == 2) p[-100] = 1;
    errors = 0;
    mi_free(p);
    check(errors == (at < 3));
  }
  mi_register_error(NULL, NULL);
}

// Sizes beside those that may be guarded, and records that no memory is left for.
static void left_out(void) {
  mi_option_set(mi_option_guarded_min, 500);
  mi_option_set(mi_option_guarded_max, 2000);
  for (int i = 0; i < 10; i++) {
    void* const small = checked(100);
    void* const fit = checked(1000);
    void* const large = checked(3000);
    check(!is_guarded(small) && !is_guarded(large) && is_guarded(fit));
    mi_free(small);
    mi_free(fit);
    mi_free(large);
  }
  mi_option_set(mi_option_guarded_min, 0);
  mi_option_set(mi_option_guarded_max, 1L << 30);
  for (int i = 0; i < 40; i++) {
    mock_fail_all();
    for (size_t size = 4096; size >= 64; size /= 2) {
      while (mx_meta_alloc(size) != NULL) {
      }
    }
    mock_fail_after(i % 8);
    if (i % 2 == 0) mock_fail_all();
    void* const p = mi_malloc(100 + 5000 * (size_t)i);
    void* const aligned = mi_malloc_aligned(100 + 5000 * (size_t)i, 64);
    mock_heal();
    mi_free(p);
    mi_free(aligned);
  }
}

// What a freed one held cannot be given back.
static void kept(void) {
  for (int i = 0; i < 20; i++) {
    void* const p = checked(200000);
    check(is_guarded(p));
    if (i % 2 == 0) mock_fail_next();
    mi_free(p);
    mock_heal();
  }
}

static void most(void) {
  enum { MORE = 20 };
  static void* blocks[MX_GUARDED_LIVE_MAX + MORE];
  size_t count = 0;
  for (size_t i = 0; i < MX_GUARDED_LIVE_MAX + MORE; i++) {
    blocks[i] = mi_malloc(100);
    check(blocks[i] != NULL);
    count += is_guarded(blocks[i]);
  }
  check(count == MX_GUARDED_LIVE_MAX && !is_guarded(blocks[MX_GUARDED_LIVE_MAX + 1]));
  size_t index = 0, found = 0;
  while (mx_guarded_next(&index) != NULL) found++;
  check(found == count);
  mi_free(blocks[7]);  // there is room for one
  blocks[7] = mi_malloc(100);
  check(is_guarded(blocks[7]));
  for (size_t i = 0; i < MX_GUARDED_LIVE_MAX + MORE; i++) mi_free(blocks[i]);
  index = 0;
  check(mx_guarded_next(&index) == NULL);
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  mi_option_set(mi_option_max_warnings, 0);
  mi_option_set(mi_option_guarded_sample_rate, 1);
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 1, 1);
  mi_free(checked(100));
  for (long n = 9; n >= 0; n--) refused(n);
  const int64_t before = reserved(), records = metadata();
  for (int round = 0; round < 3; round++) {
    for (long n = 0; n < 9; n++) refused(n);
  }
  check(reserved() - before < (int64_t)(64 * MX_MIB) && metadata() - records <= (int64_t)MX_MIB);
  written();
  kept();
  most();
  left_out();
  printf("ok\n");
  return 0;
}
