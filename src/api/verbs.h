// SPDX-License-Identifier: MIT
// What all allocating calls of the public interface have in common: arguments are checked, and
// then the work is one call down, in the thread's part (theap) of some heap. What is refused here
// sets errno here; a request that fails has it set where it fails.
#ifndef MX_API_VERBS_H
#define MX_API_VERBS_H

#include <errno.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../alloc/alloc.h"
#include "../alloc/fast.h"
#include "../alloc/verify.h"
#include "process_life.h"
#include "sized.h"

mx_inline void* mx_verb_malloc(mx_theap_t* theap, size_t size) {
  return mx_given(mx_alloc_in(theap, size));
}

mx_inline void* mx_verb_zalloc(mx_theap_t* theap, size_t size) {
  return mx_given(mx_calloc_in(theap, 1, size));
}

mx_inline void* mx_verb_calloc(mx_theap_t* theap, size_t count, size_t size) {
  return mx_given(mx_calloc_in(theap, count, size));
}

mx_inline void* mx_verb_resize(mx_theap_t* theap, void* p, size_t size, size_t align,
                               size_t offset, bool zero) {
  if (mx_has_tags()) return mx_realloc_tagged(theap, p, size, align, offset, zero);
  return mx_realloc_in(theap, p, size, align, offset, zero);
}

// A product that overflows becomes a size that nobody has: it fails like any that is too large.
mx_inline size_t mx_verb_product(size_t count, size_t size) {
  size_t total;
  return mx_unlikely(mx_mul_overflow(count, size, &total)) ? SIZE_MAX : total;
}

static inline void* mx_verb_realloc(mx_theap_t* theap, void* p, size_t size, bool zero) {
  if (mx_likely(size > 0 || p == NULL)) {
    return mx_verb_resize(theap, p, size, 0, 0, zero);
  }
  void* const fresh = mx_given(mx_zalloc_in(theap, 1));  // not 0: its first byte can be read
  if (fresh != NULL) mx_free(p);
  return fresh;
}

static inline void* mx_verb_realloc_product(mx_theap_t* theap, void* p, size_t count, size_t size,
                                            bool zero) {
  return mx_verb_realloc(theap, p, mx_verb_product(count, size), zero);
}

// 0, or the errno of an alignment that is refused.
mx_inline int mx_verb_refuses(size_t alignment, size_t offset) {
  if (mx_unlikely(!mx_is_pow2(alignment))) return EINVAL;
  const bool shifts = (offset & (alignment - 1)) != 0;
  return mx_unlikely(alignment > MX_SLICE_SIZE && shifts) ? EOVERFLOW : 0;
}

static inline void* mx_verb_aligned(mx_theap_t* theap, size_t size, size_t alignment, size_t offset,
                                    bool zero) {
  const int refused = mx_verb_refuses(alignment, offset);
  if (mx_unlikely(refused != 0)) {
    errno = refused;
    return NULL;
  }
  return mx_given(mx_alloc_aligned(theap, size, alignment, offset, zero));
}

// As operator new: runs the new-handler as long as there is one, then throws, if there is C++.
static inline void* mx_verb_new(mx_theap_t* theap, size_t size) {
  void* p;
  do {
    p = mx_alloc_in(theap, size);
  } while (mx_unlikely(p == NULL) && mx_new_again(true));
  return mx_given(p);
}

MX_BEGIN_DECLS
void* mx_verb_realloc_aligned(mx_theap_t* theap, void* p, size_t size, size_t alignment,
                              size_t offset, bool zero);
// The first `length` bytes of a text, and a zero.
char* mx_verb_text(mx_theap_t* theap, const char* s, size_t length);
// As realpath, into a text of the theap's where `resolved` is NULL.
char* mx_verb_realpath(mx_theap_t* theap, const char* path, char* resolved);
MX_END_DECLS

#endif
