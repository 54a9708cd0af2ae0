// SPDX-License-Identifier: MIT
// What the tests of mistakes share: each is made in a child of its own, which must say so.
#ifndef MIMALLOC_TEST_MISTAKES_H
#define MIMALLOC_TEST_MISTAKES_H

#include <stdarg.h>
#include <stdbool.h>

#include "../child.h"

static int failures;

typedef struct mistake_s {
  void (*body)(size_t);
  size_t argument;
} mistake_t;

static void make_mistake(const void* mistake) {
  ((const mistake_t*)mistake)->body(((const mistake_t*)mistake)->argument);
}

// Runs `body` in a child; `argument` is its own.
static void run(void (*body)(size_t), size_t argument) {
  const mistake_t mistake = {body, argument};
  run_child(make_mistake, &mistake);
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
