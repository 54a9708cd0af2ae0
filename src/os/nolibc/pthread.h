// SPDX-License-Identifier: MIT
// What the composition root needs of <pthread.h> where there are no pthreads.
#ifndef MX_NOLIBC_PTHREAD_H
#define MX_NOLIBC_PTHREAD_H

// Has the last function called in the child of a fork, by the child's first slow call; the others
// are called only where a libc has joined the program after all.
int mx_nolibc_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
#define pthread_atfork mx_nolibc_atfork

#endif
