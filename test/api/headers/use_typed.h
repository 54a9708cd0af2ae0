// SPDX-License-Identifier: MIT
// The use of every typed macro of mimalloc.h, the same in C and in C++.
#ifndef MX_TEST_USE_TYPED_H
#define MX_TEST_USE_TYPED_H

#include <mimalloc.h>

typedef struct pair_s {
  long first, second;
} pair_t;

static void use_typed(mi_heap_t* heap) {
  pair_t* p = mi_malloc_tp(pair_t);
  mi_free(p);
  p = mi_zalloc_tp(pair_t);
  mi_free(p);
  p = mi_calloc_tp(pair_t, 2);
  mi_free(p);
  p = mi_mallocn_tp(pair_t, 2);
#if MI_API_VERSION >= 3
  p = mi_reallocn_tp(pair_t, p, 4);
  p = mi_recalloc_tp(pair_t, p, 8);
  mi_free(p);
  p = mi_heap_malloc_tp(pair_t, heap);
  mi_free(p);
  p = mi_heap_zalloc_tp(pair_t, heap);
  mi_free(p);
  p = mi_heap_calloc_tp(pair_t, heap, 2);
  mi_free(p);
  p = mi_heap_mallocn_tp(pair_t, heap, 2);
  p = mi_heap_reallocn_tp(pair_t, heap, p, 4);
  p = mi_heap_recalloc_tp(pair_t, heap, p, 8);
#else
  p = mi_reallocn_tp(p, pair_t, 4);
  p = mi_recalloc_tp(p, pair_t, 8);
  mi_free(p);
  p = mi_heap_malloc_tp(heap, pair_t);
  mi_free(p);
  p = mi_heap_zalloc_tp(heap, pair_t);
  mi_free(p);
  p = mi_heap_calloc_tp(heap, pair_t, 2);
  mi_free(p);
  p = mi_heap_mallocn_tp(heap, pair_t, 2);
  p = mi_heap_reallocn_tp(heap, p, pair_t, 4);
  p = mi_heap_recalloc_tp(heap, p, pair_t, 8);
#endif
  if (p) p->first = p->second;
  mi_free(p);
}

#endif
