// SPDX-License-Identifier: MIT
// The picking of options out of an environment that is one text, for the systems where no libc
// has made an array of it.
#ifndef MX_OS_ENVIRON_H
#define MX_OS_ENVIRON_H

#include "../base/compiler.h"

#define MX_ENVIRON_ENTRIES 64

typedef struct mx_environ_s {
  size_t count;
  char* entries[MX_ENVIRON_ENTRIES + 1];  // as mx_os_environ has them
} mx_environ_t;

// Keeps an entry that begins like an option of this library, in letters of either case.
mx_inline void mx_environ_keep(mx_environ_t* kept, char* entry) {
  static const char prefix[] = "mimalloc_";
  if (kept->count == MX_ENVIRON_ENTRIES) return;
  for (size_t i = 0; i < sizeof(prefix) - 1; i++) {
    if ((entry[i] | (prefix[i] == '_' ? 0 : 0x20)) != prefix[i]) return;
  }
  kept->entries[kept->count++] = entry;
}

#endif
