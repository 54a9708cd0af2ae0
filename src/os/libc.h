// SPDX-License-Identifier: MIT
// The few calls of the C library beyond ISO C that the upper floors make, where systems spell
// them differently or have none.
#ifndef MX_OS_LIBC_H
#define MX_OS_LIBC_H

#include "../base/compiler.h"

#include <limits.h>
#include <stdlib.h>
#if !defined(MI_NO_LIBC)
#include <wchar.h>

// The program's malloc, which may be this library's.
#define mx_libc_malloc(size) malloc(size)
#define mx_libc_free(p) free(p)
#else
#define mx_libc_malloc(size) ((void)(size), (void*)NULL)
#define mx_libc_free(p) ((void)(p))
#endif

#if defined(_WIN32)

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MX_PATH_MAX 4096

// Whether the process is ending and its other threads were stopped wherever they were.
MX_BEGIN_DECLS
bool mx_windows_is_ending(void);
MX_END_DECLS
#define mx_libc_threads_are_gone() mx_windows_is_ending()
#define mx_libc_is_alone() false

// Nothing forks.
#define mx_libc_on_fork(before, parent, child) ((void)(before), (void)(parent), (void)(child))

// The full name of a file that exists; links stay in it.
mx_inline char* mx_libc_realpath(const char* path, char* resolved) {
  struct _stat64 status;
  if (path == NULL) {
    _set_errno(EINVAL);
    return NULL;
  }
  return _stat64(path, &status) != 0 ? NULL : _fullpath(resolved, path, MX_PATH_MAX);
}

mx_inline const wchar_t* mx_libc_wgetenv(const wchar_t* name) { return _wgetenv(name); }
#define MX_HAS_WIDE_ENVIRONMENT 1

#else

#if !defined(__wasm__)
#include <pthread.h>
#endif

#if defined(PATH_MAX)
#define MX_PATH_MAX PATH_MAX
#else
#define MX_PATH_MAX 4096
#endif

#define mx_libc_threads_are_gone() false

#if defined(__wasm__)
#define mx_libc_on_fork(before, parent, child) ((void)(before), (void)(parent), (void)(child))
#else
#define mx_libc_on_fork(before, parent, child) ((void)pthread_atfork((before), (parent), (child)))
#endif

// Whether the process surely has this thread alone: glibc says so since 2.32.
#if defined(__GLIBC__) && !defined(MI_NO_LIBC)
MX_BEGIN_DECLS
extern char __libc_single_threaded __attribute__((weak));
MX_END_DECLS
#define mx_libc_is_alone() (&__libc_single_threaded != NULL && __libc_single_threaded != 0)
#else
#define mx_libc_is_alone() false
#endif

mx_inline char* mx_libc_realpath(const char* path, char* resolved) {
  return realpath(path, resolved);
}

#define mx_libc_wgetenv(name) ((void)(name), (const wchar_t*)NULL)
#define MX_HAS_WIDE_ENVIRONMENT 0

#endif
#endif
