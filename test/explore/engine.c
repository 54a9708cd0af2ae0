// SPDX-License-Identifier: MIT
// The explorer's search: depth first over all choices of which thread steps next and what a
// load sees, with a bound on preemptions (switches away from a thread that could go on).
//
// Threads are fibers: one stack each, switched by _setjmp and _longjmp. A run replays the choices
// of the one before up to the last that has an alternative, and takes that. Memory is restored by
// undoing the writes of the run, so a run costs microseconds.
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"

#define STACK_SIZE (256 * 1024)
#define CHOICES_MAX 8192
#define STEPS_MAX 200000
#define OWN_IDENTITY ((uintptr_t)1 << 12)

typedef struct fiber_s {
  ucontext_t start;
  jmp_buf state;
  void (*body)(void);
  bool has_started, is_done, spins;
  const void* sleeps_on;  // a word, until a thread wakes those that sleep on it
  uint64_t spins_since;   // writes of others until its last turn in a waiting loop
  uintptr_t identity;
  unsigned char vars[64];  // its copies of the thread variables
} fiber_t;

static fiber_t fibers[EX_THREADS];
static char stacks[EX_THREADS][STACK_SIZE] __attribute__((aligned(64)));
static jmp_buf engine_state;
static struct { int chosen, of; } choices[CHOICES_MAX];
static int depth, known_depth;
static int preemptions_left;
static uint64_t random_state;  // 0: depth first
#define RANDOM_PREEMPTIONS 5
static unsigned steps;
static bool running, is_quiet_run;
static const ex_scenario_t* scenario;
static struct { void* p; size_t size, offset; } vars[8];
static int var_count;
static size_t vars_size;
static unsigned char first_vars[EX_THREADS][64];
static uintptr_t first_identity[EX_THREADS];
static int borrowed;  // whose variables thread 0 works with


int ex_current;
int ex_stale_left;
bool ex_must_restart;
int ex_fresh[EX_THREADS];
bool ex_was_stale[EX_THREADS];
uint64_t ex_writes[EX_THREADS];

bool ex_is_running(void) { return running; }
int ex_self(void) { return ex_current; }
uintptr_t ex_thread_id(void) { return fibers[ex_current].identity; }
void ex_set_identity(int thread, uintptr_t id) { fibers[thread].identity = id; }

bool ex_on_stack(uintptr_t p) {
  return p - (uintptr_t)stacks < sizeof(stacks);
}

// ---- failures ------------------------------------------------------------------------------------

void ex_fail(const char* format, ...) {
  if (!is_quiet_run) {
    va_list args;
    va_start(args, format);
    printf("%s: FAILED: ", scenario->name);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    ex_model_print_trace();
    fflush(stdout);
  }
  _exit(1);
}

void ex_step(void) {
  if (!running || ++steps < STEPS_MAX) return;
  ex_fail("a run does not end");
}

// ---- choices -------------------------------------------------------------------------------------

// Random runs mostly go on with the first choice: few preemptions, at any place, find most.
static int choose_at_random(int n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  const unsigned r = (unsigned)(random_state >> 20);
  return r % 12 != 0 ? 0 : (int)(r / 12 % (unsigned)n);
}

int ex_choose(int n) {
  if (n <= 1) return 0;
  if (random_state != 0) return choose_at_random(n);
  if (depth == CHOICES_MAX) ex_fail("a run has too many choices");
  if (depth >= known_depth) {
    choices[depth].chosen = 0;
    choices[depth].of = n;
    known_depth = depth + 1;
  } else if (choices[depth].of != n) {
    fprintf(stderr, "explorer: a run was not repeated exactly (%d, %d)\n", choices[depth].of, n);
    abort();
  }
  return choices[depth++].chosen;
}

static bool next_run(void) {
  while (known_depth > 0 && choices[known_depth - 1].chosen + 1 >= choices[known_depth - 1].of) {
    known_depth--;
  }
  if (known_depth == 0) return false;
  choices[known_depth - 1].chosen++;
  return true;
}

// ---- threads -------------------------------------------------------------------------------------

static void save_vars(int thread) {
  for (int i = 0; i < var_count; i++) {
    memcpy(fibers[thread].vars + vars[i].offset, vars[i].p, vars[i].size);
  }
}

static void load_vars(int thread) {
  for (int i = 0; i < var_count; i++) {
    memcpy(vars[i].p, fibers[thread].vars + vars[i].offset, vars[i].size);
  }
}

static void enter(int thread) {
  ex_current = thread;
  load_vars(thread);
  fiber_t* f = &fibers[thread];
  if (f->has_started) _longjmp(f->state, 1);
  f->has_started = true;
  setcontext(&f->start);
}

static void switch_to(int thread) {
  save_vars(ex_current);
  if (_setjmp(fibers[ex_current].state) == 0) enter(thread);
}

static uint64_t writes_of_others(int thread) {
  uint64_t sum = 0;
  for (int i = 1; i < EX_THREADS; i++) sum += (i == thread ? 0 : ex_writes[i]);
  return sum;
}

static bool is_enabled(int thread) {
  const fiber_t* f = &fibers[thread];
  if (f->body == NULL || f->is_done || f->sleeps_on != NULL) return false;
  return !f->spins || writes_of_others(thread) != f->spins_since;
}

// Picks the next of the enabled threads; with `stays`, the current one is the first choice.
static int pick(bool stays) {
  int options[EX_THREADS];
  int n = 0;
  if (stays) options[n++] = ex_current;
  if (!stays || preemptions_left > 0) {
    for (int i = 1; i < EX_THREADS; i++) {
      if (is_enabled(i) && !(stays && i == ex_current)) options[n++] = i;
    }
  }
  return n == 0 ? 0 : options[ex_choose(n)];
}

void ex_point(void) {
  if (ex_current == 0) return;
  const int next = pick(true);
  if (next == ex_current) return;
  preemptions_left--;
  switch_to(next);
}

// A turn of a waiting loop is worth it when others wrote something since the turn before; its loads
// then see what is newest. Meanwhile the others go on.
void ex_spin(void) {
  if (ex_current == 0) {
    ex_step();
    return;
  }
  fiber_t* f = &fibers[ex_current];
  ex_fresh[ex_current] = 2;
  if (ex_was_stale[ex_current]) return;
  const uint64_t now = writes_of_others(ex_current);
  const bool has_news = (now != f->spins_since);
  f->spins = true;
  f->spins_since = now;
  const int next = pick(false);
  if (next != 0 && next != ex_current) switch_to(next);
  else if (!has_news) ex_fail("deadlock: every thread waits");
  f->spins = false;
}

// As the systems do it: that the word still has the value, and falling asleep, is one step. Nothing
// but ex_wake ends it, so a wake-up that is lost is a deadlock.
void ex_sleep(const void* word, uint32_t value) {
  ex_point();
  if (*(const uint32_t*)word != value) return;
  ex_fresh[ex_current] = 2;
  fibers[ex_current].sleeps_on = word;
  const int next = pick(false);
  if (next == 0) ex_fail("deadlock: every thread waits");
  switch_to(next);
}

void ex_wake(const void* word) {
  ex_point();
  for (int i = 1; i < EX_THREADS; i++) {
    if (fibers[i].sleeps_on != word) continue;
    fibers[i].sleeps_on = NULL;
    return;
  }
}

static void fiber_main(void) {
  fibers[ex_current].body();
  ex_model_end_thread();
  fibers[ex_current].is_done = true;
  if (ex_current == 0) {
    ex_become(0);
    save_vars(0);
    _longjmp(engine_state, 1);
  }
  save_vars(ex_current);
  const int next = pick(false);
  if (next != 0) enter(next);
  for (int i = 1; i < EX_THREADS; i++) {
    if (fibers[i].body != NULL && !fibers[i].is_done) ex_fail("deadlock: thread %d waits", i);
  }
  _longjmp(engine_state, 1);
}

static void prepare_fiber(int thread, void (*body)(void)) {
  fiber_t* f = &fibers[thread];
  f->body = body;
  f->has_started = f->is_done = f->spins = false;
  f->sleeps_on = NULL;
  if (body == NULL) return;
  getcontext(&f->start);
  f->start.uc_stack.ss_sp = stacks[thread];
  f->start.uc_stack.ss_size = STACK_SIZE;
  f->start.uc_link = NULL;
  makecontext(&f->start, fiber_main, 0);
}

// Runs code as thread 0, on its stack.
static void run_alone(void (*body)(void)) {
  prepare_fiber(0, body);
  if (_setjmp(engine_state) == 0) enter(0);
}

void ex_become(int thread) {
  save_vars(borrowed);
  load_vars(thread);
  borrowed = thread;
  fibers[0].identity = thread == 0 ? OWN_IDENTITY : fibers[thread].identity;
}

void ex_thread_variable(void* p, size_t size) {
  vars[var_count].p = p;
  vars[var_count].size = size;
  vars[var_count].offset = vars_size;
  for (int i = 0; i < EX_THREADS; i++) memcpy(fibers[i].vars + vars_size, p, size);
  var_count++;
  vars_size += size;
  ex_model_add_private(p, size);
}

// ---- runs ----------------------------------------------------------------------------------------

static void run_once(void) {
  ex_model_start_run();
  depth = 0;
  steps = 0;
  memset(ex_writes, 0, sizeof(ex_writes));
  preemptions_left = random_state != 0 ? RANDOM_PREEMPTIONS : scenario->preemptions;
  ex_stale_left = scenario->stale;
  for (int i = 0; i < EX_THREADS; i++) {
    memcpy(fibers[i].vars, first_vars[i], sizeof(first_vars[i]));
    fibers[i].identity = first_identity[i];
    ex_fresh[i] = 0;
    fibers[i].spins_since = 0;
    ex_was_stale[i] = false;
    if (i > 0) prepare_fiber(i, scenario->threads[i - 1]);
  }
  running = true;
  if (_setjmp(engine_state) == 0) {
    ex_current = 1;
    enter(pick(false));
  }
  ex_current = 0;
  ex_model_join_all(0);
  run_alone(scenario->check);
  running = false;
  ex_model_end_run();
}

static void set_up(void) {
  for (int i = 0; i < EX_THREADS; i++) fibers[i].identity = (uintptr_t)(i + 1) << 12;
  ex_current = 0;
  ex_model_start_run();
  run_alone(scenario->setup);
  for (int i = 0; i < EX_THREADS; i++) {
    memcpy(first_vars[i], fibers[i].vars, sizeof(first_vars[i]));
    first_identity[i] = fibers[i].identity;
  }
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Explores all runs, or until the time is over; answers their number, negative when cut short.
static long explore(double limit) {
  ex_model_start_scenario();
  set_up();
  const double begin = seconds();
  long runs = 0;
  known_depth = 0;
  for (;;) {
    ex_must_restart = false;
    run_once();
    if (ex_must_restart) {  // from the beginning, with one more word to switch at
      known_depth = 0;
      runs = 0;
      continue;
    }
    runs++;
    if (!next_run()) break;
    if (limit > 0 && (runs & 255) == 0 && seconds() - begin > limit) return -runs;
  }
  return runs;
}

// Runs with random choices, beyond the bound on preemptions. The n-th one is always the same.
static long explore_at_random(double limit) {
  const double begin = seconds();
  long runs = 0;
  while ((runs & 63) != 0 || seconds() - begin < limit) {
    random_state = (uint64_t)++runs * 0x9e3779b97f4a7c15u;
    run_once();
  }
  random_state = 0;
  return runs;
}

// ---- mutants -------------------------------------------------------------------------------------

static const char* const mutation_names[] = {"none", "order weakened to relaxed", "left out",
                                             "done without the check"};

static bool applies(const ex_mutant_t* site, ex_mutation_t mutation) {
  const ex_op_t op = site->op;
  const bool is_cas = (op == EX_CAS || op == EX_CAS_WEAK);
  if (mutation == EX_WEAKEN) return site->order != EX_RELAXED && op != EX_FENCE;
  if (mutation == EX_SKIP) return op != EX_LOAD && op != EX_PEEK;
  return is_cas;
}

// What a process that explored leaves for the one that started it.
typedef struct found_s {
  int count;
  ex_mutant_t sites[EX_SITES_MAX];
} found_t;
static found_t* found;

static void leave_sites(void) {
  found->count = ex_site_count;
  for (int i = 0; i < ex_site_count; i++) {
    ex_mutant_t* m = &found->sites[i];
    snprintf(m->function, sizeof(m->function), "%s", ex_sites[i]->function);
    m->line = ex_sites[i]->line;
    m->op = (ex_op_t)ex_sites[i]->op;
    m->order = (ex_order_t)ex_sites[i]->order;
  }
}

// Explores a mutant in a process of its own: whatever goes wrong there is a catch.
static bool is_caught(const ex_mutant_t* mutant, double limit) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    is_quiet_run = true;
    ex_mutant = *mutant;
    alarm((unsigned)limit + 10);
    explore(limit / 2);
    explore_at_random(limit / 2);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const char* only_in;  // mutants in this function alone

static int try_mutants(double limit, bool lists) {
  int caught = 0;
  const int enough = lists ? INT_MAX : 3;
  for (int i = 0; i < found->count && caught < enough; i++) {
    if (only_in != NULL && strcmp(found->sites[i].function, only_in) != 0) continue;
    for (int m = EX_WEAKEN; m < EX_MUTATIONS && caught < enough; m++) {
      ex_mutant_t mutant = found->sites[i];
      if (!applies(&mutant, (ex_mutation_t)m)) continue;
      mutant.mutation = (ex_mutation_t)m;
      const bool ok = is_caught(&mutant, limit);
      caught += ok;
      if (!lists) continue;
      printf("mutant %s %s %s:%d %s %s: %s\n", ok ? "caught" : "lives", scenario->name,
             mutant.function, mutant.line, ex_op_names[mutant.op], ex_order_names[mutant.order],
             mutation_names[m]);
    }
  }
  return caught;
}

// ---- the program ---------------------------------------------------------------------------------

// In a process of its own, so that every exploration begins with the library as it is linked.
static int run_plainly(double limit, double random_limit) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const double begin = seconds();
    const long runs = explore(limit);
    const long random_runs = explore_at_random(random_limit);
    printf("%-18s %9ld runs%s with %d preemptions and %d old values, %ld at random, %.1f s\n",
           scenario->name, labs(runs), runs < 0 ? " (cut short)" : "", scenario->preemptions,
           scenario->stale, random_runs, seconds() - begin);
    fflush(stdout);
    leave_sites();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) printf("%s: FAILED: signal %d\n", scenario->name, WTERMSIG(status));
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int run_scenario(const ex_scenario_t* s, double limit, double random_limit,
                        double mutant_limit, bool lists) {
  scenario = s;
  if (run_plainly(limit, random_limit) != 0) return 1;
  if (mutant_limit <= 0) return 0;
  const int caught = try_mutants(mutant_limit, lists);
  printf("%-18s %9d mutants caught\n", s->name, caught);
  return caught == 0;
}

static void usage(void) {
  printf("usage: explore [--limit SECONDS] [--random SECONDS] [--mutants SECONDS] [--list]\n"
         "               [--in FUNCTION] [SCENARIO...]\n"
         "--limit: time for each scenario, 0 for all runs; --random: more runs, with choices at\n"
         "random and more preemptions; --mutants: also changes atomic operations in turn, until\n"
         "three mutants were caught, each within that time; --list: all of them, by name; --in: only\n"
         "those in one function\n");
}

int main(int argc, char** argv) {
  double limit = 0, random_limit = 0, mutant_limit = 0;
  bool lists = false;
  int first = 1;
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (strcmp(argv[first], "--list") == 0) lists = true;
    else if (strcmp(argv[first], "--in") == 0 && first + 1 < argc) only_in = argv[++first];
    else if (strcmp(argv[first], "--limit") == 0 && first + 1 < argc) limit = atof(argv[++first]);
    else if (strcmp(argv[first], "--random") == 0 && first + 1 < argc) {
      random_limit = atof(argv[++first]);
    } else if (strcmp(argv[first], "--mutants") == 0 && first + 1 < argc) {
      mutant_limit = atof(argv[++first]);
    } else {
      usage();
      return 2;
    }
  }
  found = (found_t*)mmap(NULL, sizeof(found_t), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == (found_t*)MAP_FAILED) return 2;
  int failed = 0, count = 0;
  const ex_scenario_t* const tables[] = {ex_scenarios, ex_heap_scenarios, ex_holes_scenarios,
                                         ex_calls_scenarios};
  for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
    for (const ex_scenario_t* s = tables[t]; s->name != NULL; s++) {
      bool wanted = (first == argc);
      for (int i = first; i < argc; i++) wanted = wanted || strcmp(argv[i], s->name) == 0;
      if (!wanted) continue;
      count++;
      failed += run_scenario(s, limit, random_limit, mutant_limit, lists);
    }
  }
  printf("%d scenarios, %d failed\n", count, failed);
  return failed == 0 && count > 0 ? 0 : 1;
}
