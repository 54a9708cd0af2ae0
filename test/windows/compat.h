// SPDX-License-Identifier: MIT
// What the tests need of POSIX where a compiler for Windows lacks it. Included before each of them.
#ifndef TEST_WINDOWS_COMPAT_H
#define TEST_WINDOWS_COMPAT_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define _SC_PAGESIZE 30
#define sysconf(name) ((long)(name == _SC_PAGESIZE ? 4096 : -1))
#define setenv(name, value, replace) set_variable(name, value)
#define unsetenv(name) _putenv_s(name, "")

// By calls that the C run-time has; mimalloc-override.h may define them otherwise afterwards.
#include <malloc.h>
#define aligned_alloc(align, size) _aligned_malloc(size, align)
#define posix_memalign(p, align, size) ((*(p) = _aligned_malloc(size, align)) == NULL ? 12 : 0)
#define malloc_usable_size(p) _msize(p)

// Nobody ends a test that hangs but ctest.
#define alarm(seconds) ((void)(seconds))

// A variable without a value does not stay in the environment of the C run-time.
static inline int set_variable(const char* name, const char* value) {
  return _putenv_s(name, value);
}

#endif
