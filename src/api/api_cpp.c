// SPDX-License-Identifier: MIT
// Allocation that fails as operator new does: the new-handler runs as long as there is one,
// then std::bad_alloc is thrown, or NULL returned by the forms that do not throw. Where the program
// has no C++ (see host/cxx.h) there is nothing to throw, and all of them return NULL with ENOMEM.
#include "../alloc/sample.h"
#include "../host/cxx.h"
#include "verbs.h"

static void* new_in_full(size_t size, bool throws) {
  void* p;
  do {
    p = mx_alloc(size);
  } while (mx_unlikely(p == NULL) && mx_new_again(throws));
  return p;
}

// While the program is sampled all that it allocates comes by here.
mx_noinline void* mx_new_slow(size_t size) {
  void* const p = (size - MX_SIZE_MIN > MX_SMALL_MAX - MX_PAD - MX_SIZE_MIN
                       ? NULL : mx_alloc_counted(mx_tls_theap, size));
  return mx_likely(p != NULL) ? mx_given(p) : new_in_full(size, true);
}

// No handler can make an impossible alignment possible.
static void* new_aligned(size_t size, size_t alignment, bool throws) {
  if (mx_unlikely(!mx_is_pow2(alignment))) {
    errno = EINVAL;
    if (throws) mx_cxx_throw_bad_alloc();
    return NULL;
  }
  void* p;
  do {
    p = mx_alloc_aligned(mx_tls_theap, size, alignment, 0, false);
  } while (mx_unlikely(p == NULL) && mx_new_again(throws));
  return mx_given(p);
}

void* mi_new(size_t size) { return mx_new(size); }

void* mi_new_nothrow(size_t size) mi_attr_noexcept { return new_in_full(size, false); }

void* mi_new_aligned(size_t size, size_t alignment) { return new_aligned(size, alignment, true); }

void* mi_new_aligned_nothrow(size_t size, size_t alignment) mi_attr_noexcept {
  return new_aligned(size, alignment, false);
}

void* mi_new_n(size_t count, size_t size) { return mx_new(mx_verb_product(count, size)); }

void* mi_new_realloc(void* p, size_t newsize) {
  void* q;
  do {
    q = mx_verb_realloc(mx_tls_theap, p, newsize, false);
  } while (mx_unlikely(q == NULL) && mx_new_again(true));
  return q;
}

void* mi_new_reallocn(void* p, size_t newcount, size_t size) {
  return mi_new_realloc(p, mx_verb_product(newcount, size));
}
