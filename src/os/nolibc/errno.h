// SPDX-License-Identifier: MIT
// The error numbers that the library reports, and an errno of each thread for them.
#ifndef MX_NOLIBC_ERRNO_H
#define MX_NOLIBC_ERRNO_H

#include "../../base/compiler.h"

extern mx_thread_local int mx_nolibc_errno;
#define errno mx_nolibc_errno

#define EAGAIN 11
#define ENOMEM 12
#define EFAULT 14
#define EINVAL 22
#define ERANGE 34
#define ENOSYS 38
#define EOVERFLOW 75

#endif
