// SPDX-License-Identifier: MIT
// A DLL that knows nothing of the library: it calls its C run-time, and gives blocks to others.
#include <stdlib.h>
#include <string.h>

static char* early;

// Before the program, and perhaps before the library, starts.
__attribute__((constructor)) static void on_load(void) { early = _strdup("from the start"); }

__declspec(dllexport) char* other_early(void) { return early; }

__declspec(dllexport) void* other_malloc(size_t size) { return malloc(size); }

__declspec(dllexport) void other_free(void* p) { free(p); }
