// SPDX-License-Identifier: MIT
// The explorer's face: what a scenario is, and what scenario code may call.
//
// A scenario has 2 or 3 threads of a few operations each. The explorer runs it again and again,
// once for each way in which the threads' atomic operations can interleave (with a bound on
// preemptions), and in which relaxed loads can see older values (with a bound on those).
//
// What is found: a failed ex_check; a plain access that races with another (which a missing release
// or acquire always leads to); a deadlock; a run without end; blocks or pages that are lost, as
// the scenario's check sees them.
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EX_THREADS 4  // thread 0 prepares and checks; 1 to 3 are explored

typedef struct ex_scenario_s {
  const char* name;
  void (*setup)(void);                // once; what it did is the start of every run
  void (*threads[EX_THREADS - 1])(void);
  void (*check)(void);                // after every run, as thread 0
  int preemptions;                    // bound
  int stale;                          // bound on loads that see an old value
} ex_scenario_t;

// Tables that end in one without a name.
extern const ex_scenario_t ex_scenarios[];
extern const ex_scenario_t ex_heap_scenarios[];
extern const ex_scenario_t ex_holes_scenarios[];
extern const ex_scenario_t ex_calls_scenarios[];

#define ex_check(condition) \
  ((condition) ? (void)0 : ex_fail("%s:%d: %s", __FILE__, __LINE__, #condition))
__attribute__((format(printf, 1, 2), noreturn)) void ex_fail(const char* format, ...);
// Makes the following code of setup or check run in the name of a thread.
void ex_become(int thread);
int ex_self(void);
// The identity that a thread has from now on, instead of its own.
void ex_set_identity(int thread, uintptr_t id);
// A range whose atomics are statistics: they steer nothing and are not scheduled.
void ex_quiet(const void* start, size_t size);
// A variable of which each thread has its own copy (at most 8 bytes; shared by all in memory).
void ex_thread_variable(void* p, size_t size);

#endif
