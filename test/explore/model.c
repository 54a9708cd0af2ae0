// SPDX-License-Identifier: MIT
// The memory model of the explorer: C11 atomics as histories of messages and views.
//
// A word has a history of the values that were stored, in modification order. A thread has a view:
// for every word the oldest value that it may still see, and for every thread how much of what that
// one did happened before (a vector clock). A release store attaches the thread's view to its
// message, an acquire load of that message joins it; a read-modify-write reads the newest message
// and hands on the view of the one it replaces (a release sequence). A relaxed load may see any
// message that its view allows: the choice is explored. So everything of C11 is covered except
// loads that see a store that their own thread's later store leads to, which no compiler or
// processor does to code with these dependencies, and orders of modification that differ from the
// order of execution.
//
// A plain access races when an access to the same byte by another thread, one of both a write, is
// not in the thread's clock. That needs no unlucky timing: any run that gets to both finds it.
//
// Where the source looks at plain words of another thread (mx_peek) it says in which order that one
// writes them, by fences for the compiler. At such a fence another thread may step, and the write
// before it may be late: a processor delays it until the thread's next step at a shared word, or
// until somebody calls for a barrier in all threads; the compiler, where a mutant left the fence out,
// moves it behind the next one, and no barrier helps.
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

#define WORDS_MAX 224     // atomic words of one run
#define HISTORY 24        // messages kept of each word
#define CELLS (1u << 15)  // of 8 bytes, in the table of plain accesses
#define UNDO_MAX (1u << 16)
#define TRACE_MAX 4096
#define KNOWN_MAX (1u << 12)

typedef struct view_s {
  uint16_t clock[EX_THREADS];
  uint16_t seen[WORDS_MAX];  // sequence number of the oldest visible message
} view_t;

typedef struct message_s {
  uint64_t value;
  view_t view;
} message_t;

typedef struct word_s {
  uintptr_t address;
  unsigned first;  // sequence number of messages[0]
  unsigned count;
  message_t messages[HISTORY];
} word_t;

typedef struct cell_s {
  uintptr_t address;
  unsigned run;
  uint16_t written[EX_THREADS][8];  // clock of each thread's last access to each byte
  uint16_t read[EX_THREADS][8];
} cell_t;

// What all runs of a scenario have shown of a word, so that words of one thread need no scheduling.
typedef struct known_s {
  uintptr_t address;
  uint8_t readers, writers;
  bool is_shared;
} known_t;

typedef struct step_s {
  const ex_site_t* site;
  uintptr_t address;
  uint64_t value, result;
  int thread, behind;
} step_t;

static word_t words[WORDS_MAX];
static int word_count;
static int word_index[1024];
static cell_t* cells;
static known_t known[KNOWN_MAX];
static struct { uintptr_t address; uint64_t old; unsigned size; } undo[UNDO_MAX];
static unsigned undo_count;
static step_t trace[TRACE_MAX];
static unsigned trace_count;
static unsigned run_number;
static struct { uintptr_t from, to; } quiet[32];
static int quiet_count;
static struct { uintptr_t from, to; } private_vars[8];
static int private_count;

static struct thread_s {
  view_t now;      // what happened before, and is visible
  view_t pending;  // of relaxed loads: a fence makes it count
  view_t fenced;   // what relaxed stores carry: the view at the last fence
} threads[EX_THREADS];
static view_t fence_view;  // of sequentially consistent fences

static bool peeks;         // this scenario looks at plain words of other threads

// The last plain write of a thread, and one that is late: the others still see what was there.
static struct { uintptr_t address; uint64_t before; unsigned size; } last_write[EX_THREADS];
static struct {
  uintptr_t address;
  uint64_t value;
  unsigned size;
  bool is_late, by_compiler;
} late[EX_THREADS];

const ex_site_t* ex_sites[EX_SITES_MAX];
int ex_site_count;
ex_mutant_t ex_mutant;
const char* const ex_op_names[] = {"load", "store", "exchange", "add", "or", "and", "cas", "cas_weak",
                                   "fence", "compiler fence", "barrier in all", "peek"};
const char* const ex_order_names[] = {"relaxed", "acquire", "release", "acq_rel"};

// ---- views ---------------------------------------------------------------------------------------

static void join(view_t* to, const view_t* from) {
  for (int i = 0; i < EX_THREADS; i++) {
    if (from->clock[i] > to->clock[i]) to->clock[i] = from->clock[i];
  }
  for (int i = 0; i < word_count; i++) {
    if (from->seen[i] > to->seen[i]) to->seen[i] = from->seen[i];
  }
}

static bool acquires(ex_order_t order) { return order == EX_ACQUIRE || order == EX_ACQ_REL; }
static bool releases(ex_order_t order) { return order == EX_RELEASE || order == EX_ACQ_REL; }

// ---- words ---------------------------------------------------------------------------------------

static uint64_t memory_get(uintptr_t p, unsigned size) {
  uint64_t value = 0;
  memcpy(&value, (const void*)p, size);
  return value;
}

static void log_write(uintptr_t p, unsigned size) {
  if (!ex_is_running()) return;
  if (undo_count == UNDO_MAX) ex_fail("a run wrote too much");
  undo[undo_count].address = p;
  undo[undo_count].size = size;
  undo[undo_count++].old = memory_get(p, size);
}

static void memory_set(uintptr_t p, unsigned size, uint64_t value) {
  log_write(p, size);
  memcpy((void*)p, &value, size);
}

// The word's number; its history begins with what memory holds.
static int word_of(uintptr_t p, unsigned size) {
  unsigned h = (unsigned)((p >> 2) * 2654435761u) % 1024;
  while (word_index[h] >= 0) {
    if (words[word_index[h]].address == p) return word_index[h];
    h = (h + 1) % 1024;
  }
  if (word_count == WORDS_MAX) ex_fail("a run has too many atomic words");
  word_index[h] = word_count;
  word_t* w = &words[word_count];
  w->address = p;
  w->first = 1;
  w->count = 1;
  memset(&w->messages[0].view, 0, sizeof(view_t));
  w->messages[0].value = memory_get(p, size);
  w->messages[0].view.seen[word_count] = 1;
  return word_count++;
}

static void store_message(int number, uint64_t value, const view_t* view) {
  word_t* w = &words[number];
  if (w->count == HISTORY) {
    memmove(w->messages, w->messages + 1, (HISTORY - 1) * sizeof(message_t));
    w->first++;
    w->count--;
  }
  message_t* m = &w->messages[w->count++];
  m->value = value;
  m->view = *view;
  m->view.seen[number] = (uint16_t)(w->first + w->count - 1);
  threads[ex_current].now.seen[number] = m->view.seen[number];
  ex_writes[ex_current]++;
}

// ---- which words are shared ----------------------------------------------------------------------

// Thread 0 works alone, before or after the others; statistics steer nothing.
static bool is_unscheduled(uintptr_t p) {
  if (ex_current == 0) return true;
  for (int i = 0; i < quiet_count; i++) {
    if (p >= quiet[i].from && p < quiet[i].to) return true;
  }
  return false;
}

// Once a run peeks, fences for the compiler matter.
static void note_peek(void) {
  if (!peeks) ex_must_restart = true;
  peeks = true;
}

static bool is_private(uintptr_t p) {
  for (int i = 0; i < private_count; i++) {
    if (p >= private_vars[i].from && p < private_vars[i].to) return true;
  }
  return ex_on_stack(p);
}

// Whether another thread may step before an access: a word that one thread alone uses, or that is
// never written, has no order to explore.
static bool is_shared(uintptr_t p, bool writes) {
  unsigned h = (unsigned)((p >> 2) * 2654435761u) % KNOWN_MAX;
  while (known[h].address != 0 && known[h].address != p) h = (h + 1) % KNOWN_MAX;
  known_t* k = &known[h];
  k->address = p;
  const uint8_t bit = (uint8_t)(1u << ex_current);
  if (writes) k->writers |= bit;
  else k->readers |= bit;
  const unsigned all = (unsigned)(k->readers | k->writers);
  if (!k->is_shared && k->writers != 0 && (all & (all - 1)) != 0) {
    k->is_shared = true;
    ex_must_restart = true;
  }
  return k->is_shared;
}

// ---- sites and mutants ---------------------------------------------------------------------------

static void note_site(const ex_site_t* site) {
  for (int i = 0; i < ex_site_count; i++) {
    if (ex_sites[i] == site) return;
    if (ex_sites[i]->line == site->line && ex_sites[i]->op == site->op &&
        strcmp(ex_sites[i]->function, site->function) == 0) {
      return;
    }
  }
  if (ex_site_count < EX_SITES_MAX) ex_sites[ex_site_count++] = site;
}

// Mutants live in the explored threads only: what prepares and checks stays right.
static ex_mutation_t mutation_at(const ex_site_t* site) {
  if (ex_mutant.mutation == EX_NONE) return EX_NONE;
  if (ex_mutant.line != site->line || ex_mutant.op != (ex_op_t)site->op) return EX_NONE;
  return strcmp(ex_mutant.function, site->function) == 0 ? ex_mutant.mutation : EX_NONE;
}

static void note_step(const ex_site_t* site, uintptr_t p, uint64_t value, uint64_t result,
                      int behind) {
  if (trace_count == TRACE_MAX) return;
  step_t* s = &trace[trace_count++];
  s->site = site;
  s->address = p;
  s->value = value;
  s->result = result;
  s->thread = ex_current;
  s->behind = behind;
}

void ex_model_print_trace(void) {
  for (unsigned i = 0; i < trace_count; i++) {
    const step_t* s = &trace[i];
    printf("  %*sthread %d: %s:%d %s %s [%lx] operand %lx -> %lx%s\n", (s->thread - 1) * 4, "",
           s->thread, s->site->function, s->site->line, ex_op_names[s->site->op],
           ex_order_names[s->site->order], (unsigned long)s->address & 0xffffff,
           (unsigned long)s->value, (unsigned long)s->result, s->behind > 0 ? " (late)" : "");
  }
}

// ---- late writes ---------------------------------------------------------------------------------

static void arrive(int thread) {
  late[thread].is_late = false;
  memory_set(late[thread].address, late[thread].size, late[thread].value);
}

// The running thread goes on: what it wrote is there from now on, but others may step before.
static void arrive_own(void) {
  if (!late[ex_current].is_late) return;
  ex_point();
  if (late[ex_current].is_late) arrive(ex_current);
}

void ex_model_end_thread(void) { arrive_own(); }

static void delay_last_write(bool by_compiler) {
  const int t = ex_current;
  if (last_write[t].size == 0) return;
  late[t].is_late = true;
  late[t].by_compiler = by_compiler;
  late[t].address = last_write[t].address;
  late[t].size = last_write[t].size;
  late[t].value = memory_get(late[t].address, late[t].size);
  memory_set(late[t].address, late[t].size, last_write[t].before);
}

static void note_plain_write(uintptr_t p, size_t size) {
  last_write[ex_current].size = (unsigned)(size <= 8 ? size : 0);
  last_write[ex_current].address = p;
  if (size <= 8) last_write[ex_current].before = memory_get(p, (unsigned)size);
}

// ---- the verbs -----------------------------------------------------------------------------------

static uint64_t read_word(int number, int behind, ex_order_t order) {
  struct thread_s* t = &threads[ex_current];
  const word_t* w = &words[number];
  const message_t* m = &w->messages[w->count - 1 - (unsigned)behind];
  const uint16_t sequence = (uint16_t)(w->first + w->count - 1 - (unsigned)behind);
  if (sequence > t->now.seen[number]) t->now.seen[number] = sequence;
  join(acquires(order) ? &t->now : &t->pending, &m->view);
  return m->value;
}

// How many messages behind the newest one the thread's view allows.
static int oldest_visible(int number) {
  const word_t* w = &words[number];
  const unsigned newest = w->first + w->count - 1;
  const unsigned least = threads[ex_current].now.seen[number];
  const unsigned most = w->count - 1;
  const unsigned behind = (least >= newest ? 0 : newest - least);
  return (int)(behind < most ? behind : most);
}

static int choose_behind(int number) {
  int most = oldest_visible(number);
  ex_was_stale[ex_current] = false;
  if (ex_stale_left == 0) return 0;
  if (ex_fresh[ex_current] > 0) {
    ex_fresh[ex_current]--;
    return 0;
  }
  const int behind = ex_choose(most + 1);
  if (behind > 0) {
    ex_stale_left--;
    ex_was_stale[ex_current] = true;
  }
  return behind;
}

uint64_t ex_load(const volatile void* p, unsigned size, const ex_site_t* site) {
  const uintptr_t address = (uintptr_t)p;
  if (is_unscheduled(address)) return memory_get(address, size);
  ex_step();
  note_site(site);
  if (is_shared(address, false)) ex_point();
  arrive_own();
  const int number = word_of(address, size);
  const int behind = choose_behind(number);
  const ex_order_t order =
      mutation_at(site) == EX_WEAKEN ? EX_RELAXED : (ex_order_t)site->order;
  const uint64_t value = read_word(number, behind, order);
  note_step(site, address, 0, value, behind);
  return value;
}

// Puts a value at the end of the word's history, and into memory.
static void write_word(int number, unsigned size, uint64_t value, ex_order_t order,
                       const view_t* replaced) {
  struct thread_s* t = &threads[ex_current];
  view_t view = releases(order) ? t->now : t->fenced;
  if (replaced != NULL) join(&view, replaced);
  store_message(number, value, &view);
  memory_set(words[number].address, size, value);
  if (releases(order)) t->now.clock[ex_current]++;
}

void ex_store(volatile void* p, unsigned size, uint64_t value, const ex_site_t* site) {
  const uintptr_t address = (uintptr_t)p;
  if (is_unscheduled(address)) {
    memory_set(address, size, value);
    return;
  }
  ex_step();
  note_site(site);
  if (is_shared(address, true)) ex_point();
  arrive_own();
  const ex_mutation_t mutation = mutation_at(site);
  const int number = word_of(address, size);
  note_step(site, address, value, value, 0);
  if (mutation == EX_SKIP) return;
  write_word(number, size, value, mutation == EX_WEAKEN ? EX_RELAXED : (ex_order_t)site->order,
             NULL);
}

static uint64_t apply(uint64_t old, uint64_t value, unsigned op, unsigned size) {
  uint64_t result = value;
  if (op == EX_ADD) result = old + value;
  if (op == EX_OR) result = old | value;
  if (op == EX_AND) result = old & value;
  return size == 8 ? result : result & (((uint64_t)1 << (8 * size)) - 1);
}

uint64_t ex_rmw(volatile void* p, unsigned size, uint64_t value, const ex_site_t* site) {
  const uintptr_t address = (uintptr_t)p;
  if (is_unscheduled(address)) {
    const uint64_t was = memory_get(address, size);
    memory_set(address, size, apply(was, value, site->op, size));
    return was;
  }
  ex_step();
  note_site(site);
  if (is_shared(address, true)) ex_point();
  arrive_own();
  const ex_mutation_t mutation = mutation_at(site);
  const ex_order_t order = mutation == EX_WEAKEN ? EX_RELAXED : (ex_order_t)site->order;
  const int number = word_of(address, size);
  const uint64_t old = read_word(number, 0, order);
  note_step(site, address, value, old, 0);
  if (mutation == EX_SKIP) return old;
  const view_t replaced = words[number].messages[words[number].count - 1].view;
  write_word(number, size, apply(old, value, site->op, size), order, &replaced);
  return old;
}

// The newest value decides success. A weak one may also fail for no reason, once in a run.
bool ex_cas(volatile void* p, unsigned size, uint64_t* expected, uint64_t value,
            const ex_site_t* site) {
  const uintptr_t address = (uintptr_t)p;
  const uint64_t wanted = apply(0, *expected, EX_XCHG, size);
  if (is_unscheduled(address)) {
    const uint64_t was = memory_get(address, size);
    if (was == wanted) memory_set(address, size, value);
    else *expected = was;
    return was == wanted;
  }
  ex_step();
  note_site(site);
  if (is_shared(address, true)) ex_point();
  arrive_own();
  const ex_mutation_t mutation = mutation_at(site);
  const ex_order_t order = mutation == EX_WEAKEN ? EX_RELAXED : (ex_order_t)site->order;
  const int number = word_of(address, size);
  const word_t* w = &words[number];
  const uint64_t newest = w->messages[w->count - 1].value;
  bool succeeds = (newest == wanted);
  if (succeeds && site->op == EX_CAS_WEAK && ex_stale_left > 0) {
    if (ex_choose(2) == 1) {
      ex_stale_left--;
      succeeds = false;
    }
  }
  if (mutation == EX_FORCE) succeeds = true;
  note_step(site, address, value, newest, 0);
  if (!succeeds) {
    read_word(number, 0, order == EX_RELAXED || site->op == EX_CAS_WEAK ? EX_RELAXED : EX_ACQUIRE);
    *expected = newest;
    return false;
  }
  read_word(number, 0, order);
  if (mutation == EX_SKIP) return true;
  const view_t replaced = w->messages[w->count - 1].view;
  write_word(number, size, apply(0, value, EX_XCHG, size), order, &replaced);
  return true;
}

void ex_fence(const ex_site_t* site) {
  struct thread_s* t = &threads[ex_current];
  if (ex_current == 0) return;
  ex_step();
  note_site(site);
  if (mutation_at(site) != EX_NONE) return;
  join(&t->now, &t->pending);
  join(&t->now, &fence_view);
  fence_view = t->now;
  t->fenced = t->now;
  t->now.clock[ex_current]++;
}

void ex_compiler_fence(const ex_site_t* site) {
  if (ex_current == 0 || !peeks) return;
  ex_step();
  note_site(site);
  ex_point();
  arrive_own();
  if (mutation_at(site) != EX_NONE) {
    delay_last_write(true);
  } else if (ex_stale_left > 0 && last_write[ex_current].size != 0 && ex_choose(2) == 1) {
    ex_stale_left--;
    delay_last_write(false);
  }
  last_write[ex_current].size = 0;
  note_step(site, late[ex_current].address, late[ex_current].value, 0, late[ex_current].is_late);
}

// What all threads did before happens before what this one does next.
void ex_barrier_all(const ex_site_t* site) {
  if (ex_current == 0) return;
  ex_step();
  note_site(site);
  ex_point();
  arrive_own();
  note_step(site, 0, 0, 0, 0);
  if (mutation_at(site) != EX_NONE) return;
  for (int i = 1; i < EX_THREADS; i++) {
    if (late[i].is_late && !late[i].by_compiler) arrive(i);
    join(&threads[ex_current].now, &threads[i].now);
    threads[i].now.clock[i]++;
  }
}

uint64_t ex_peek(const void* p, unsigned size, const ex_site_t* site) {
  const uintptr_t address = (uintptr_t)p;
  if (ex_current == 0) return memory_get(address, size);
  ex_step();
  note_site(site);
  note_peek();
  ex_point();
  arrive_own();
  const uint64_t value = memory_get(address, size);
  note_step(site, address, 0, value, 0);
  return value;
}

// ---- plain accesses ------------------------------------------------------------------------------

static cell_t* cell_of(uintptr_t granule) {
  unsigned h = (unsigned)((granule >> 3) * 2654435761u) & (CELLS - 1);
  while (cells[h].run == run_number && cells[h].address != granule) h = (h + 1) & (CELLS - 1);
  cell_t* c = &cells[h];
  if (c->run != run_number) {
    memset(c, 0, sizeof(*c));
    c->run = run_number;
    c->address = granule;
  }
  return c;
}

static void access_byte(uintptr_t p, bool writes, const void* from) {
  cell_t* c = cell_of(p & ~(uintptr_t)7);
  const unsigned b = p & 7;
  const view_t* now = &threads[ex_current].now;
  for (int u = 0; u < EX_THREADS; u++) {
    if (u == ex_current) continue;
    if (c->written[u][b] > now->clock[u] || (writes && c->read[u][b] > now->clock[u])) {
      ex_fail("data race at %p: thread %d %s at code %p, thread %d before", (void*)p, ex_current,
              writes ? "writes" : "reads", from, u);
    }
  }
  if (writes) c->written[ex_current][b] = now->clock[ex_current];
  else c->read[ex_current][b] = now->clock[ex_current];
}

void ex_plain(uintptr_t p, size_t size, bool writes, const void* from) {
  if (!ex_is_running() || is_private(p)) return;
  ex_step();
  const uintptr_t late_at = late[ex_current].address;
  if (late[ex_current].is_late && p < late_at + late[ex_current].size && late_at < p + size) {
    arrive(ex_current);  // a thread sees its own writes
  }
  for (size_t i = 0; i < size && ex_current != 0; i++) access_byte(p + i, writes, from);
  if (!writes) return;
  note_plain_write(p, size);
  for (size_t i = 0; i < size; i += 8) log_write(p + i, size - i < 8 ? (unsigned)(size - i) : 8);
}

// ---- runs ----------------------------------------------------------------------------------------

void ex_quiet(const void* start, size_t size) {
  if (quiet_count == 32) ex_fail("too many quiet ranges");
  quiet[quiet_count].from = (uintptr_t)start;
  quiet[quiet_count++].to = (uintptr_t)start + size;
}

void ex_model_add_private(const void* start, size_t size) {
  private_vars[private_count].from = (uintptr_t)start;
  private_vars[private_count++].to = (uintptr_t)start + size;
}

void ex_model_start_scenario(void) {
  memset(known, 0, sizeof(known));
  peeks = false;
  if (cells == NULL) cells = (cell_t*)calloc(CELLS, sizeof(cell_t));
  ex_site_count = 0;
}

void ex_model_start_run(void) {
  run_number++;
  for (int i = 0; i < 1024; i++) word_index[i] = -1;
  word_count = 0;
  undo_count = 0;
  trace_count = 0;
  memset(threads, 0, sizeof(threads));
  memset(&fence_view, 0, sizeof(fence_view));
  memset(last_write, 0, sizeof(last_write));
  memset(late, 0, sizeof(late));
  for (int i = 0; i < EX_THREADS; i++) threads[i].now.clock[i] = 1;
}

void ex_model_end_run(void) {
  while (undo_count > 0) {
    undo_count--;
    memcpy((void*)undo[undo_count].address, &undo[undo_count].old, undo[undo_count].size);
  }
}

void ex_model_join_all(int thread) {
  for (int i = 0; i < EX_THREADS; i++) join(&threads[thread].now, &threads[i].now);
}
