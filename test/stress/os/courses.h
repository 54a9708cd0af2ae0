// SPDX-License-Identifier: MIT
// Courses of calls, each of which says at its stages what has been counted.
#ifndef MX_TEST_COURSES_H
#define MX_TEST_COURSES_H

#include "../../audit.h"
#include "../stress.h"

#define PLACES 6000

typedef struct course_s {
  const char* name;
  void (*run)(void);
  const char* where;   // what the shell is told before
  bool has_any_place;  // where its addresses are is not known
} course_t;

extern const course_t courses[];
extern const size_t course_count;

// Of the course that runs: its blocks, its random numbers, and how many blocks it found to be zero.
extern block_t* places[PLACES];
extern random_t common;
extern long long zeros;

// Prints what has been counted since the stage before.
void say(const char* stage);

#endif
