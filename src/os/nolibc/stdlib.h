// SPDX-License-Identifier: MIT
// What the library's sources need of <stdlib.h> where there is no libc: paths are not resolved.
#ifndef MX_NOLIBC_STDLIB_H
#define MX_NOLIBC_STDLIB_H

#include <errno.h>
#include <stddef.h>

#define ENOSYS 38
#define PATH_MAX 4096

static inline __attribute__((unused)) char* realpath(const char* name, char* resolved) {
  (void)name;
  (void)resolved;
  errno = ENOSYS;
  return NULL;
}

#endif
