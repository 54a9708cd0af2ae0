// SPDX-License-Identifier: MIT
// What is known of this machine and process: set once at start, read by everyone.
#ifndef MX_BASE_FACTS_H
#define MX_BASE_FACTS_H

#include "atomic.h"
#include "config.h"

typedef struct mx_own_page mx_facts_s {
  size_t os_page;       // bytes of the smallest OS page: 4, 16 or 64 KiB
  size_t large_page;    // bytes of a large OS page (2 MiB on most), 0 when the OS has none
  unsigned va_bits;     // usable bits of an address
  unsigned near_bits;   // addresses below 2^near_bits can be asked for with a hint: see mem/vmem.c
  bool keeps_off;       // no address is asked for: a sanitizer's run-time wants those for itself
  bool makes_filters;   // libseccomp is loaded: looks for a filter may be the end of the process
  bool purge_keeps_guards;  // an inaccessible place is one still when contents were dropped
  bool is_redirected;   // the calls of a C run-time were turned to us (Windows)
  bool has_tags;        // memory of ours has tags, and accesses are compared with them
} mx_facts_t;

extern mx_facts_t mx_facts;

#endif
