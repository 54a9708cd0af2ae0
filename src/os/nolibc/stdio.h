// SPDX-License-Identifier: MIT
// What the library's sources need of <stdio.h> where there are no streams: the standard ones
// exist as names that are equal to nothing, and there is nothing to flush.
#ifndef MX_NOLIBC_STDIO_H
#define MX_NOLIBC_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#define stdout ((void*)0)
#define stderr ((void*)0)
#define fflush(stream) ((void)(stream))
#if !defined(NULL)
#define NULL ((void*)0)
#endif

#endif
