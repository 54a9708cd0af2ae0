// SPDX-License-Identifier: MIT
// What the library's sources need of <string.h> where there is no libc. Compilers emit calls
// of memcpy, memmove and memset by themselves, so every run-time has these three.
#ifndef MX_NOLIBC_STRING_H
#define MX_NOLIBC_STRING_H

#include <stddef.h>

#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset

static inline __attribute__((unused)) size_t mx_nolibc_strlen(const char* s) {
  const char* end = s;
  while (*end != 0) end++;
  return (size_t)(end - s);
}
#define strlen mx_nolibc_strlen

static inline __attribute__((unused)) int mx_nolibc_memcmp(const void* a, const void* b, size_t n) {
  const unsigned char* p = (const unsigned char*)a;
  const unsigned char* q = (const unsigned char*)b;
  for (size_t i = 0; i < n; i++) {
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  }
  return 0;
}
#define memcmp mx_nolibc_memcmp

static inline __attribute__((unused)) void* mx_nolibc_memchr(const void* s, int c, size_t n) {
  const unsigned char* p = (const unsigned char*)s;
  for (; n > 0; p++, n--) {
    if (*p == (unsigned char)c) return (void*)(size_t)p;
  }
  return NULL;
}
#define memchr mx_nolibc_memchr

#endif
