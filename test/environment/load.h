// SPDX-License-Identifier: MIT
// What load.c and steps.c share.
#ifndef LOAD_H
#define LOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

enum { NO_MEMORY = 3, WRONG_ERRNO = 4, NO_THREAD = 5, IMPOSSIBLE = 75, REFUSED = 76 };

// Prints key=value, without a buffer of malloc's.
void say(const char* key, size_t value);
// Ends the process: the scene, `what`, `size` and errno go to stderr.
void end(int status, const char* what, size_t size);
void not_so(const char* file, int at, const char* text);
// A thread with a stack of 128 KiB; ends the process if there is none.
pthread_t started(void* (*body)(void*), void* arg);
// Makes a step by its name; false if there is none.
bool step(const char* name);

#define check(condition) \
  do {                   \
    if (!(condition)) not_so(__FILE__, __LINE__, #condition); \
  } while (0)

#endif
