// SPDX-License-Identifier: MIT
// Owns what is told to memory tools in the builds made for one (MI_TRACK_VALGRIND): which bytes are
// a user's block, and that everything else in a page is nobody's.
//
// The library's own reads and writes of links, canaries and fills would be errors to the tool, so
// they happen between `pause` and `resume`. In other builds nothing here costs anything.
#ifndef MX_OS_TRACK_H
#define MX_OS_TRACK_H

#include "../base/config.h"

#if defined(MI_TRACK_VALGRIND) && MI_TRACK_VALGRIND
#include <valgrind/memcheck.h>
mx_inline void mx_track_pause(void) { VALGRIND_DISABLE_ERROR_REPORTING; }
mx_inline void mx_track_resume(void) { VALGRIND_ENABLE_ERROR_REPORTING; }
mx_inline void mx_track_alloc(const void* p, size_t size, bool zero) {
  VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, zero);
}
mx_inline void mx_track_free(const void* p) { VALGRIND_FREELIKE_BLOCK(p, 0); }
mx_inline void mx_track_no_access(const void* p, size_t size) {
  VALGRIND_MAKE_MEM_NOACCESS(p, size);
}
mx_inline void mx_track_access(const void* p, size_t size) { VALGRIND_MAKE_MEM_DEFINED(p, size); }
#else
mx_inline void mx_track_pause(void) {}
mx_inline void mx_track_resume(void) {}
mx_inline void mx_track_alloc(const void* p, size_t size, bool zero) {
  (void)p;
  (void)size;
  (void)zero;
}
mx_inline void mx_track_free(const void* p) { (void)p; }
mx_inline void mx_track_no_access(const void* p, size_t size) {
  (void)p;
  (void)size;
}
mx_inline void mx_track_access(const void* p, size_t size) {
  (void)p;
  (void)size;
}
#endif

#endif
