// SPDX-License-Identifier: MIT
// The C library's own malloc, whichever other libraries of the process have one.
#ifndef TRACE_REAL_H
#define TRACE_REAL_H

#include <stdbool.h>
#include <stddef.h>

// Finds the functions below; each finds them itself when it is called before. False when the process
// has no such library.
bool real_find(void);

void* real_malloc(size_t size);
void* real_calloc(size_t count, size_t size);
void* real_realloc(void* block, size_t size);
void* real_memalign(size_t alignment, size_t size);
void real_free(void* block);
size_t real_usable(void* block);
void real_option(int parameter, int value);

// The file name of a library with a malloc and with operators of C++ of its own, whose calls nobody
// else sees; NULL when there is none.
const char* real_rival(void);

#endif
