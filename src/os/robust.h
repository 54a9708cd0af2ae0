// SPDX-License-Identifier: MIT
// The contract between a program without a libc and the end of its threads: see robust.c.
#ifndef MX_OS_ROBUST_H
#define MX_OS_ROBUST_H

#include "../base/compiler.h"

// What a libc offers, if the program has one after all. The front defines `mx_libc` then.
typedef struct mx_libc_s {
  int (*key_create)(unsigned* key, void (*at_exit)(void*));
  int (*key_delete)(unsigned key);
  int (*set_specific)(unsigned key, const void* value);
  int (*atfork)(void (*before)(void), void (*parent)(void), void (*child)(void));
} mx_libc_t;

typedef void mx_thread_died_fn(void* value, uintptr_t id);

MX_BEGIN_DECLS
// The calling thread's entry gets `value`; a thread with NULL leaves nothing to clean up.
void mx_robust_arm(void* value);
// Looks at all threads or some: for those that are gone `on_death` is called, with the value they
// armed themselves with and their id. Does nothing until there is such a function.
void mx_robust_look(bool at_all);
void mx_robust_setup(mx_thread_died_fn* on_death);
// In the child of a fork. Where only the calling thread is left, the entries of others are dropped.
void mx_robust_after_fork(bool is_alone);
// To be called at the beginning of slow calls: notices a fork, and the ends of threads.
void mx_nolibc_visit(void);
MX_END_DECLS

#endif
