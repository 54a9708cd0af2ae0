// SPDX-License-Identifier: MIT
// The kernel's struct timespec of a 64-bit processor.
#ifndef MX_NOLIBC_TIME_H
#define MX_NOLIBC_TIME_H
typedef long time_t;
struct timespec {
  time_t tv_sec;
  long tv_nsec;
};
#define CLOCK_MONOTONIC_COARSE 6
#endif
