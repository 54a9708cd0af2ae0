// SPDX-License-Identifier: MIT
// What the explorer's two parts share: the engine (which run comes next, which thread steps)
// and the model (what a load may see, which accesses race).
#ifndef EXPLORE_ENGINE_H
#define EXPLORE_ENGINE_H

#include "atomic_explore.h"
#include "explore.h"
#undef memset
#undef memcpy

// ---- engine (engine.c) ---------------------------------------------------------------------------
// Answers a number below n, another one in another run.
int ex_choose(int n);
// The running thread is about to touch a shared word: another thread may step first.
void ex_point(void);
// Counts a step of a run; too many mean that it would not end.
void ex_step(void);
// Whether `p` lies on the stack of an explored thread.
bool ex_on_stack(uintptr_t p);
bool ex_is_running(void);  // a run is on, and its writes are to be undone

extern int ex_current;        // the running thread
extern int ex_stale_left;     // loads of this run that may still see an old value
extern bool ex_must_restart;  // a word turned out to be shared: what was explored was too little
extern int ex_fresh[EX_THREADS];    // loads of a thread that must see the newest value
extern bool ex_was_stale[EX_THREADS];  // the last load of a thread saw an old value
extern uint64_t ex_writes[EX_THREADS];  // in this run, so that a waiter knows of news

// ---- model (model.c) -----------------------------------------------------------------------------
void ex_model_start_scenario(void);
void ex_model_start_run(void);
void ex_model_end_run(void);  // everything is undone
void ex_model_join_all(int thread);   // what every thread did happened before what follows
void ex_model_print_trace(void);
// A plain access, from the code at an address.
void ex_plain(uintptr_t p, size_t size, bool writes, const void* from);
void ex_model_add_private(const void* start, size_t size);
// The running thread ends: what it wrote is there now.
void ex_model_end_thread(void);

// ---- mutants -------------------------------------------------------------------------------------
typedef enum ex_mutation_e { EX_NONE, EX_WEAKEN, EX_SKIP, EX_FORCE, EX_MUTATIONS } ex_mutation_t;
typedef struct ex_mutant_s {
  char function[48];
  int line;
  ex_op_t op;
  ex_order_t order;
  ex_mutation_t mutation;
} ex_mutant_t;
extern ex_mutant_t ex_mutant;  // mutation EX_NONE: the source as it is

#define EX_SITES_MAX 256
extern const ex_site_t* ex_sites[EX_SITES_MAX];  // all that this scenario passed in its threads
extern int ex_site_count;
extern const char* const ex_op_names[];
extern const char* const ex_order_names[];

#endif
