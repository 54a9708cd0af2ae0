// SPDX-License-Identifier: MIT
// Runs mistakes in children of their own and keeps what they wrote to stderr.
#ifndef MIMALLOC_TEST_CHILD_H
#define MIMALLOC_TEST_CHILD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[64 * 1024];
static int status;  // of the last child, as waitpid has it
static int failures;

// Runs `body` in a child; `argument` is its own.
static void run(void (*body)(size_t), size_t argument) {
  int ends[2];
  fflush(stdout);
  if (pipe(ends) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    body(argument);
    exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; (n = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0;) {
    length += (size_t)n;
  }
  said[length] = 0;
  close(ends[0]);
  waitpid(child, &status, 0);
}

// Whether the last child said this; what else it said is printed when not.
static inline bool expect(int line, const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (strstr(said, text) != NULL) return true;
  printf("FAIL line %d: no \"%s\" in:\n%s\n", line, text, said);
  failures++;
  return false;
}

#define EXPECT_SAID(...) expect(__LINE__, __VA_ARGS__)
#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n%s\n", __LINE__, #cond, said), failures++))

#endif
