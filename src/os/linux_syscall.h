// SPDX-License-Identifier: MIT
// The way into the Linux kernel: a call that returns -errno and never touches errno itself,
// so that a successful malloc leaves errno alone and a program without a libc can use us.
#ifndef MX_OS_LINUX_SYSCALL_H
#define MX_OS_LINUX_SYSCALL_H

#include <sys/syscall.h>

#include "../base/compiler.h"

#if defined(__x86_64__) && !defined(__ILP32__)
mx_inline long mx_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#define MX_SYS_MMAP SYS_mmap
#elif defined(__aarch64__)
mx_inline long mx_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory", "cc");
  return x0;
}
#define MX_SYS_MMAP SYS_mmap
#else
// Other processors go through libc, which knows their calling conventions.
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
mx_inline long mx_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  const int saved = errno;
  long result = syscall(n, a, b, c, d, e, f);
  if (result == -1) result = -errno;
  errno = saved;
  return result;
}
#endif

#define mx_syscall1(n, a) mx_syscall6(n, (long)(a), 0, 0, 0, 0, 0)
#define mx_syscall2(n, a, b) mx_syscall6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define mx_syscall3(n, a, b, c) mx_syscall6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define mx_syscall4(n, a, b, c, d) mx_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

// The address, or a small negative number (-errno) as a pointer.
mx_inline long mx_syscall_mmap(void* hint, size_t size, int prot, int flags) {
#if defined(MX_SYS_MMAP)
  return mx_syscall6(MX_SYS_MMAP, (long)hint, (long)size, prot, flags, -1, 0);
#else
  const int saved = errno;
  void* p = mmap(hint, size, prot, flags, -1, 0);
  const long result = (p == MAP_FAILED ? -errno : (long)p);
  errno = saved;
  return result;
#endif
}

mx_inline bool mx_syscall_failed(long result) { return (unsigned long)result > -4096UL; }

#endif
