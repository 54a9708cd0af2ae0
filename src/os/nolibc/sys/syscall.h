// SPDX-License-Identifier: MIT
// The numbers of the system calls that the library makes.
#ifndef MX_NOLIBC_SYS_SYSCALL_H
#define MX_NOLIBC_SYS_SYSCALL_H
#if defined(__x86_64__)
#define SYS_mmap 9
#define SYS_mprotect 10
#define SYS_munmap 11
#define SYS_madvise 28
#define SYS_mremap 25
#define SYS_prlimit64 302
#define SYS_mbind 237
#define SYS_openat 257
#define SYS_read 0
#define SYS_write 1
#define SYS_close 3
#define SYS_lseek 8
#define SYS_mincore 27
#define SYS_ioctl 16
#define SYS_getcpu 309
#define SYS_getrandom 318
#define SYS_sched_yield 24
#define SYS_membarrier 324
#define SYS_futex 202
#define SYS_prctl 157
#define SYS_getrusage 98
#define SYS_clock_gettime 228
#define SYS_getpid 39
#define SYS_gettid 186
#define SYS_tgkill 234
#define SYS_getppid 110
#define SYS_kcmp 312
#define SYS_exit_group 231
#define SYS_set_robust_list 273
#define SYS_get_robust_list 274
#elif defined(__aarch64__)
#define SYS_mmap 222
#define SYS_mprotect 226
#define SYS_munmap 215
#define SYS_madvise 233
#define SYS_mremap 216
#define SYS_prlimit64 261
#define SYS_mbind 235
#define SYS_openat 56
#define SYS_read 63
#define SYS_write 64
#define SYS_close 57
#define SYS_lseek 62
#define SYS_mincore 232
#define SYS_ioctl 29
#define SYS_getcpu 168
#define SYS_getrandom 278
#define SYS_sched_yield 124
#define SYS_membarrier 283
#define SYS_futex 98
#define SYS_prctl 167
#define SYS_getrusage 165
#define SYS_clock_gettime 113
#define SYS_getpid 172
#define SYS_gettid 178
#define SYS_tgkill 131
#define SYS_getppid 173
#define SYS_kcmp 272
#define SYS_exit_group 94
#define SYS_set_robust_list 99
#define SYS_get_robust_list 100
#else
#error "without a libc, mimalloc runs on x86-64 and arm64"
#endif
#endif
