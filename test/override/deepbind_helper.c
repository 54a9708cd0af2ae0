// SPDX-License-Identifier: MIT
// A library that opens others for its program, by a RUNPATH of its own.
#include <dlfcn.h>

void* deepbind_open(const char* name, int mode);

// The result is looked at, so that this is no jump: the caller of dlopen is this library.
void* deepbind_open(const char* name, int mode) {
  void* volatile opened = dlopen(name, mode);
  return opened;
}
