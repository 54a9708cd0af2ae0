// SPDX-License-Identifier: MIT
// A trace as the replayer runs it: one list of steps for each thread.
#ifndef TRACE_PROGRAM_H
#define TRACE_PROGRAM_H

#include <stdint.h>

#include "format.h"

// Threads do not run further apart than two epochs of this many calls.
#define EPOCH_CALLS 1024u
#define SAMPLES 256u

// Steps that are no calls; their number is in `size`.
#define STEP_EPOCH TRACE_KINDS
#define STEP_SAMPLE (TRACE_KINDS + 1)

typedef struct step_s {
  uint8_t kind;
  uint8_t wrote;
  uint8_t align_log2;
  uint8_t pad;
  uint32_t pages;
  uint64_t size;
  uint32_t block;  // the one that comes, or is named
  uint32_t old;    // realloc: the one that goes
} step_t;

typedef struct thread_s {
  step_t* steps;
  uint64_t count;
  uint64_t epoch;  // of its first call
  int ends;        // before the program did
} thread_t;

typedef struct program_s {
  thread_t* threads;
  uint32_t* order;  // threads by their first call
  uint64_t thread_count;
  uint64_t* busy;  // by epoch: threads with calls in it
  uint64_t epochs;
  uint64_t blocks;
  uint64_t calls;
  uint64_t samples;
  uint64_t live[SAMPLES + 1];  // bytes asked for at each sample
  uint64_t at[SAMPLES + 1];    // calls before each sample
} program_t;

// Reads a trace into memory of its own, all of it touched; ends the process with a message if the file
// is not a whole and sound trace.
program_t trace_load(const char* path);

// Zeroed memory that no malloc gave.
void* trace_memory(uint64_t count, uint64_t size);

// Ends the process with status 1 and a message.
void trace_fail(const char* what, const char* why);

#endif
