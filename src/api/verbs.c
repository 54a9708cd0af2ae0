// SPDX-License-Identifier: MIT
// The larger ones of the verbs: see verbs.h.
#include "verbs.h"

#include "../host/cxx.h"
#include "../os/libc.h"

bool mx_new_again(bool throws) {
  mx_new_handler_fn* const handler = mx_cxx_new_handler();
  if (handler != NULL) {
    handler();
    return true;
  }
  errno = ENOMEM;
  if (throws) mx_cxx_throw_bad_alloc();
  return false;
}

void* mx_verb_realloc_aligned(mx_theap_t* theap, void* p, size_t size, size_t alignment,
                              size_t offset, bool zero) {
  const int refused = mx_verb_refuses(alignment, offset);
  if (mx_unlikely(refused != 0)) {
    errno = refused;
    return NULL;
  }
  if (mx_likely(size > 0 || p == NULL)) {
    return mx_verb_resize(theap, p, size, alignment, offset, zero);
  }
  void* const fresh = mx_given(mx_alloc_aligned(theap, 1, alignment, offset, true));
  if (fresh != NULL) mx_free(p);
  return fresh;
}

char* mx_verb_text(mx_theap_t* theap, const char* s, size_t length) {
  char* const copy = (char*)mx_verb_malloc(theap, length == SIZE_MAX ? length : length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, s, length);
  copy[length] = 0;
  return copy;
}

// The C library would allocate the result itself, perhaps by another malloc than ours. What it
// asks the system on the way may fail although it does not.
char* mx_verb_realpath(mx_theap_t* theap, const char* path, char* resolved) {
  char own[MX_PATH_MAX];
  const int before = errno;
  char* const found = mx_libc_realpath(path, resolved != NULL ? resolved : own);
  if (found == NULL) return NULL;
  errno = before;
  return resolved != NULL ? found : mx_verb_text(theap, found, strlen(found));
}
