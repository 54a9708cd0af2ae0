// SPDX-License-Identifier: MIT
// A library that is opened with RTLD_DEEPBIND: it hands out and takes blocks.
#include <stdlib.h>

int deepbind_who(void);
int deepbind_ask(void);
void* deepbind_make(size_t size);
void deepbind_take(void* p);

__attribute__((noinline)) int deepbind_who(void) { return 2; }

int deepbind_ask(void) { return deepbind_who(); }

void* deepbind_make(size_t size) { return malloc(size); }

void deepbind_take(void* p) { free(p); }
