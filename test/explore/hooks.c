// SPDX-License-Identifier: MIT
// What the compiler's instrumentation of plain accesses calls, and the fills and copies that it
// would leave to libc.
#include "engine.h"

#define FROM __builtin_return_address(0)
void* ex_memset(void* p, int value, size_t size) {
  ex_plain((uintptr_t)p, size, true, FROM);
  return memset(p, value, size);
}
void* ex_memcpy(void* to, const void* from, size_t size) {
  ex_plain((uintptr_t)from, size, false, FROM);
  ex_plain((uintptr_t)to, size, true, FROM);
  return memcpy(to, from, size);
}

// The compiler's instrumentation calls these.
#define HOOKS(n)                                                                  \
  void __tsan_read##n(void* p) { ex_plain((uintptr_t)p, n, false, FROM); }           \
  void __tsan_write##n(void* p) { ex_plain((uintptr_t)p, n, true, FROM); }           \
  void __tsan_unaligned_read##n(void* p) { ex_plain((uintptr_t)p, n, false, FROM); } \
  void __tsan_unaligned_write##n(void* p) { ex_plain((uintptr_t)p, n, true, FROM); } \
  void __tsan_read_write##n(void* p) { ex_plain((uintptr_t)p, n, true, FROM); }      \
  void __tsan_unaligned_read_write##n(void* p) { ex_plain((uintptr_t)p, n, true, FROM); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void* p, size_t n) { ex_plain((uintptr_t)p, n, false, FROM); }
void __tsan_write_range(void* p, size_t n) { ex_plain((uintptr_t)p, n, true, FROM); }
void __tsan_func_entry(void* p) { (void)p; }
void __tsan_func_exit(void) {}
void __tsan_init(void) {}
void* __tsan_memset(void* p, int v, size_t n) { return ex_memset(p, v, n); }
void* __tsan_memcpy(void* to, const void* from, size_t n) { return ex_memcpy(to, from, n); }
void* __tsan_memmove(void* to, const void* from, size_t n) {
  ex_plain((uintptr_t)from, n, false, FROM);
  ex_plain((uintptr_t)to, n, true, FROM);
  return memmove(to, from, n);
}
