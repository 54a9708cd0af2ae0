// SPDX-License-Identifier: MIT
// A counter that runs evenly and is read by one instruction, to see what share of the time a thing
// takes. 0 where there is none: there all takes no time.
#ifndef MX_OS_TICKS_H
#define MX_OS_TICKS_H

#include "../base/compiler.h"

mx_inline uint64_t mx_ticks(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
#elif defined(__GNUC__) && defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

#endif
