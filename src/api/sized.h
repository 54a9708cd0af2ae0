// SPDX-License-Identifier: MIT
// The frees that also say what they believe a block to be, and operator new as it is inlined:
// in mi_ functions and in the symbols that replace the C and C++ libraries' own.
#ifndef MX_API_SIZED_H
#define MX_API_SIZED_H

#include "../alloc/fast.h"

#define MX_ANY_SIZE SIZE_MAX
#define MX_ANY_ALIGN ((size_t)0)

MX_BEGIN_DECLS
// operator new in full, which may throw when there is no memory.
void* mx_new_slow(size_t size);
// After a failure: whether a new-handler ran and the caller should try again. Else errno is ENOMEM,
// and std::bad_alloc has been thrown where it was asked for and there is C++.
bool mx_new_again(bool throws);
MX_END_DECLS

// The fast path of mx_alloc_in alone; NULL says only that it does not serve. What fails as C++ does
// is more than a jump away, and must not cost the fast path a stack frame.
mx_inline void* mx_alloc_quick(size_t size) {
  if (mx_unlikely(size - MX_SIZE_MIN > MX_SMALL_MAX - MX_PAD - MX_SIZE_MIN)) return NULL;
  mx_page_t* const page = mx_tls_theap->bins.front[(size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  return mx_take(page, size, true);
}

mx_inline void* mx_new(size_t size) {
  void* const p = mx_alloc_quick(size);
  return mx_likely(p != NULL) ? mx_given(p) : mx_new_slow(size);
}

#endif
