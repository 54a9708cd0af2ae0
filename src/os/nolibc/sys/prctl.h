// SPDX-License-Identifier: MIT
// The constants of <sys/prctl.h> that the library uses.
#ifndef MX_NOLIBC_SYS_PRCTL_H
#define MX_NOLIBC_SYS_PRCTL_H
#define PR_SET_NAME 15
#define PR_GET_SECCOMP 21
#define PR_SET_THP_DISABLE 41
#endif
