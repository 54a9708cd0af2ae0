// SPDX-License-Identifier: MIT
// What takes blocks from the program where memory has tags: see tags.h.
#include "../os/os.h"
#include "alloc.h"
#include "fast.h"

mx_noinline void mx_free_tagged(void* p) {
  void* const at = mx_tags_take("free", p);
  if (at != NULL) mx_free_plain(at);
}

// What does not agree stays its user's, and so keeps its tag.
mx_noinline void mx_free_said_tagged(const char* function, void* p, size_t size, size_t align) {
  void* const at = (void*)(uintptr_t)mx_tags_look(function, p);
  if (at == NULL) return;
  if (!mx_harden_agrees(at, size, align) && !mx_harden_check_sized(function, at, size, align)) {
    return;
  }
  mx_free_tagged(p);
}

// The old block is the library's meanwhile. Where it stays what it is, or is kept since there is no
// memory for another one, it keeps its tag.
mx_noinline void* mx_realloc_tagged(mx_theap_t* theap, void* p, size_t size, size_t align,
                                    size_t offset, bool zero) {
  const unsigned tag = mx_tag_of(p);
  void* const at = mx_tags_take("realloc", p);
  if (at == NULL && p != NULL) {
    mx_os_set_errno(EINVAL);
    return NULL;
  }
  void* const q = mx_realloc_in(theap, at, size, align, offset, zero);
  if (tag == 0 || at == p || (q != NULL && q != at)) return mx_tags_give(q);
  void* const kept = mx_tags_give_back(at, tag, q == NULL);
  return q == NULL ? NULL : kept;
}
