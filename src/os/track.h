// SPDX-License-Identifier: MIT
// What is told to memory tools in the builds made for one (MI_TRACK_VALGRIND, MI_TRACK_ASAN):
// which bytes are a user's block, and that everything else in a page is nobody's.
//
// The library's own reads and writes of links, canaries and fills would be errors to the tool.
// Under memcheck they happen between `pause` and `resume`. AddressSanitizer sees nothing of them,
// as the library's own sources are compiled without it; but it looks into memset and memcpy
// wherever they are called, so a block is opened before the library works in it and closed
// afterwards. In other builds nothing here costs anything.
#ifndef MX_OS_TRACK_H
#define MX_OS_TRACK_H

#include "../base/config.h"

#if defined(MI_TRACK_VALGRIND) && MI_TRACK_VALGRIND
#include <valgrind/memcheck.h>
mx_inline void mx_track_pause(void) { VALGRIND_DISABLE_ERROR_REPORTING; }
mx_inline void mx_track_resume(void) { VALGRIND_ENABLE_ERROR_REPORTING; }
// A block of `whole` bytes has `size` of its user's from now on.
mx_inline void mx_track_alloc(const void* p, size_t size, size_t whole, bool zero) {
  (void)whole;
  VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, zero);
}
mx_inline void mx_track_free(const void* p) { VALGRIND_FREELIKE_BLOCK(p, 0); }
mx_inline void mx_track_no_access(const void* p, size_t size) {
  VALGRIND_MAKE_MEM_NOACCESS(p, size);
}
mx_inline void mx_track_access(const void* p, size_t size) { VALGRIND_MAKE_MEM_DEFINED(p, size); }
mx_inline void mx_track_open(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_close(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_wrong(const void* p) { (void)p; }
#elif defined(MI_TRACK_ASAN) && MI_TRACK_ASAN
#include <sanitizer/asan_interface.h>
mx_inline void mx_track_pause(void) {}
mx_inline void mx_track_resume(void) {}
mx_inline void mx_track_open(const void* p, size_t size) { __asan_unpoison_memory_region(p, size); }
mx_inline void mx_track_close(const void* p, size_t size) { __asan_poison_memory_region(p, size); }
mx_inline void mx_track_alloc(const void* p, size_t size, size_t whole, bool zero) {
  (void)zero;
  mx_track_close((const uint8_t*)p + size, whole - size);
}
mx_inline void mx_track_free(const void* p) { (void)p; }
mx_inline void mx_track_no_access(const void* p, size_t size) { mx_track_close(p, size); }
mx_inline void mx_track_access(const void* p, size_t size) { mx_track_open(p, size); }
// A free that was refused: the tool's report has the stack of it.
mx_inline void mx_track_wrong(const void* p) {
  if (!__asan_address_is_poisoned(p)) return;
  void* const frame = __builtin_frame_address(0);
  __asan_report_error(__builtin_return_address(0), frame, frame, (void*)(uintptr_t)p, 1, 1);
}
#else
mx_inline void mx_track_pause(void) {}
mx_inline void mx_track_resume(void) {}
mx_inline void mx_track_alloc(const void* p, size_t size, size_t whole, bool zero) {
  (void)p, (void)size, (void)whole, (void)zero;
}
mx_inline void mx_track_free(const void* p) { (void)p; }
mx_inline void mx_track_no_access(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_access(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_open(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_close(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void mx_track_wrong(const void* p) { (void)p; }
#endif

#endif
