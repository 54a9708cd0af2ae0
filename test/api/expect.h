// SPDX-License-Identifier: MIT
// What the tests of the public calls have in common: an expectation that is reported with its
// line and counted, and what a build promises beyond the interface.
#ifndef TEST_API_EXPECT_H
#define TEST_API_EXPECT_H

#include <errno.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

// Sizes that nobody can have are asked for on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="
#endif

static int expect_failures;

// Ends the program's output early only when it would run away.
static inline int expect_true(int holds, const char* file, int line, const char* text) {
  if (holds) return 1;
  if (++expect_failures <= 50) fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
  return 0;
}

#define EXPECT(e) expect_true(!!(e), __FILE__, __LINE__, #e)

// The same with a number that tells which row of a table it was.
#define EXPECT_AT(row, e)                                                                \
  do {                                                                                   \
    if (!EXPECT(e)) fprintf(stderr, "    in row %lld\n", (long long)(row));              \
  } while (0)

// The call sets errno to `code` and gives a null or false result; `call` is evaluated once.
#define EXPECT_ERRNO(call, code)       \
  do {                                 \
    errno = 0;                         \
    EXPECT(!(call));                   \
    EXPECT(errno == (code));           \
  } while (0)

// The call succeeds and leaves errno alone.
#define KEEP_ERRNO(statement)    \
  do {                           \
    errno = 4711;                \
    statement;                   \
    EXPECT(errno == 4711);       \
  } while (0)

static inline int expect_end(const char* name) {
  if (expect_failures == 0) printf("%s: as expected\n", name);
  else fprintf(stderr, "%s: %d failures\n", name, expect_failures);
  return expect_failures != 0;
}

// ---- errors ------------------------------------------------------------------------------------

static int error_last, error_count;

static inline void mi_cdecl note_error(int code, void* arg) {
  (void)arg;
  error_last = code;
  error_count++;
  errno = 999;  // a handler's errno must not show
}

// Errors are counted from now on, not printed; none ends the process.
static inline void expect_errors(void) {
  mi_option_disable(mi_option_show_errors);
  mi_register_error(note_error, NULL);
}

// ---- blocks ------------------------------------------------------------------------------------

// The same pointer. The compiler believes what the declarations say of a result's alignment and
// size, so it is kept from knowing where the pointer comes from.
static inline const void* unseen(const void* p) {
  const void* volatile seen = p;
  return seen;
}

static inline int is_multiple(const void* p, size_t align) {
  return (uintptr_t)unseen(p) % align == 0;
}

static inline int is_zero(const void* p, size_t size) {
  const unsigned char* const b = (const unsigned char*)unseen(p);
  for (size_t i = 0; i < size; i++) {
    if (b[i] != 0) return 0;
  }
  return 1;
}

static inline int is_filled(const void* p, size_t size, unsigned char value) {
  const unsigned char* const b = (const unsigned char*)unseen(p);
  for (size_t i = 0; i < size; i++) {
    if (b[i] != value) return 0;
  }
  return 1;
}

// Whether the usable size of a block is what this build promises for a request.
static inline int is_usable_for(const void* p, size_t size) {
  const size_t usable = mi_usable_size(p);
  if (MX_ZERO_BLOCKS && size == 0) return usable == 0;
  return MX_PADDING ? usable == size || size == 0 : usable >= size && usable >= 1;
}

// Leaves freed blocks of many sizes that hold no zeros.
static inline void dirty_the_heap(void) {
  enum { COUNT = 400 };
  void* blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    const size_t size = 1 + i * i / 4;
    blocks[i] = mi_malloc(size);
    if (blocks[i] != NULL) memset(blocks[i], 0xA5, size);
  }
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
}

#endif
