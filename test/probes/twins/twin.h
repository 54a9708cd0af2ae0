// SPDX-License-Identifier: MIT
// What the twins share: a table of cases, the lines by which a run tells how far it came, and a heap
// that looks lived in.
//
// A program here holds the cases of one kind of misuse. `program --list` prints them; `program CASE
// SIZE wrong` commits the misuse on blocks of SIZE bytes, and `program CASE SIZE right` is the twin
// that does the same without it. Both say on standard output, one line each:
//
//   ready        all is prepared; the next thing is the misuse
//   done         the misuse did not end the process
//   after WHAT   nor did what came later and might have noticed: a free, a reuse
//   gone WHY     the misuse came to nothing: what it was after is not there
//   end          main returns
//   broken       the case could not be prepared; this says nothing about the allocator
//
// Lines are written with write(2): stdio would allocate, from a heap that may be broken.
#ifndef MX_TEST_TWINS_TWIN_H
#define MX_TEST_TWINS_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1048576)

// A small, a medium, a large and a huge block.
#define TWIN_SIZES "24,4000,200000,8388608"

typedef struct twin_case {
  const char* name;
  const char* row;    // the row of the table that the case belongs to
  const char* about;  // what it does
  void (*run)(size_t size, bool wrong);
  const char* sizes;  // the sizes that it makes sense with, or NULL: all
} twin_case_t;

static void* volatile twin_hidden;
static volatile unsigned char twin_sink;

static inline void twin_say(const char* word, const char* rest) {
  char line[128];
  const int n = snprintf(line, sizeof(line), "%s%s%s\n", word, *rest ? " " : "", rest);
  if (write(STDOUT_FILENO, line, (size_t)n) != n) _exit(78);
}

static inline void twin_ready(void) { twin_say("ready", ""); }
static inline void twin_done(void) { twin_say("done", ""); }
static inline void twin_after(const char* what) { twin_say("after", what); }
static inline void twin_gone(const char* why) { twin_say("gone", why); }

static inline void twin_broken(void) {
  twin_say("broken", "");
  _exit(77);
}

// A pointer that the compiler knows nothing about.
static inline unsigned char* twin_hide(const void* p) {
  twin_hidden = (void*)(uintptr_t)p;
  return (unsigned char*)twin_hidden;
}

static inline unsigned char* twin_must(void* p) {
  if (p == NULL) twin_broken();
  return twin_hide(p);
}

static inline unsigned char* twin_malloc(size_t n) { return twin_must(malloc(n)); }

// Byte by byte, through no function of the C library that somebody could have replaced.
static inline void twin_fill(void* p, size_t n, unsigned char byte) {
  volatile unsigned char* b = (volatile unsigned char*)p;
  for (size_t i = 0; i < n; i++) b[i] = byte;
}

// How many blocks of a size a case works among.
static inline size_t twin_many(size_t size) {
  return size >= MIB ? 4 : (size >= 100000 ? 16 : 64);
}

// What a program has in use when the misuse happens: blocks of many sizes, some freed again.
static inline void twin_furnish(void) {
  enum { BLOCKS = 400 };
  static void* held[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    const size_t n = (i % 40 == 39) ? 40000 + 1000 * (i / 40) : 16 + (i * 37) % 5000;
    held[i] = twin_malloc(n);
    twin_fill(held[i], n, 0x5a);
  }
  for (size_t i = 0; i < BLOCKS; i += 3) free(held[i]);
}

// Allocates and frees until what waits for the next user of a freed block has been met.
static inline void twin_cycle(size_t size) {
  enum { MOST = 64 };
  void* held[MOST];
  const size_t many = twin_many(size);
  for (int round = 0; round < 64; round++) {
    for (size_t i = 0; i < many; i++) held[i] = twin_malloc(size);
    for (size_t i = 0; i < many; i++) free(held[i]);
  }
}

static inline int twin_main(int argc, char** argv, const twin_case_t* cases, size_t count) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (size_t i = 0; i < count; i++) {
      printf("%s\t%s\t%s\t%s\n", cases[i].name, cases[i].row, cases[i].about,
             cases[i].sizes != NULL ? cases[i].sizes : TWIN_SIZES);
    }
    return 0;
  }
  for (size_t i = 0; argc == 4 && i < count; i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    twin_furnish();
    cases[i].run((size_t)strtoull(argv[2], NULL, 10), strcmp(argv[3], "wrong") == 0);
    twin_say("end", "");
    return 0;
  }
  return 2;
}

#define TWINS(cases)                                                       \
  int main(int argc, char** argv) {                                        \
    return twin_main(argc, argv, cases, sizeof(cases) / sizeof(*(cases))); \
  }

#endif
