// SPDX-License-Identifier: MIT
// What the loads of patterns.c and replaced.c share.
#ifndef MI_TEST_MEMORY_PATTERNS_H
#define MI_TEST_MEMORY_PATTERNS_H

#include <stddef.h>

// Allocates nothing.
long resident_kib(void);
// Page faults of the process so far.
long faults(void);
// A block that is written all over; without memory the process ends.
unsigned char* make(size_t size);

int run_replaced(unsigned count, size_t mib, int rounds);
int run_passed(unsigned count, int rounds);
int run_wide(size_t count, size_t steps);
int run_drift(size_t mib);
int run_again(int rounds);
int run_many(unsigned count, unsigned each);

#endif
