// SPDX-License-Identifier: MIT
// The constants of <fcntl.h> that the ground floor uses.
#ifndef MX_NOLIBC_FCNTL_H
#define MX_NOLIBC_FCNTL_H
#define AT_FDCWD (-100)
#define O_RDONLY 0
#define O_CLOEXEC 02000000
#endif
