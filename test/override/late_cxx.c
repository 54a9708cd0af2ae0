// SPDX-License-Identifier: MIT
// A C program that loads C++ when it runs, as interpreters do with their extensions: operator new
// fails there as in any C++ program, though the library was there before the C++ run-time.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  if (dlsym(RTLD_DEFAULT, "malloc_size") == NULL) {
    fprintf(stderr, "the library is not there\n");
    return 1;
  }
  void* const module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
  void* const found = (module == NULL ? NULL : dlsym(module, "failures_of_new"));
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*failures_of_new)(void);
  memcpy(&failures_of_new, &found, sizeof(found));
  const int failures = failures_of_new();
  if (failures == 0) puts("late C++: as expected");
  return failures != 0;
}
