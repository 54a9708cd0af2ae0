// SPDX-License-Identifier: MIT
// Counts what would hurt on a machine with many processors: atomic read-modify-writes, stores to
// shared words, and the times that a line of 64 bytes moves from one thread to another.
//
// Lines are followed as caches keep them: a thread has a copy once it has read or written the line,
// until another one writes it. A thread without a copy that touches a line which another thread has
// written or has a copy of moves it; one that writes a line of which others have copies, too, takes
// those away from them (counted apart). The state of each line lies in a table as long as all
// addresses, of which only what is touched is present. It knows only what the library does: what
// the program does to its blocks stays out.
//
// At the end of the process $MIMALLOC_COUNT_FILE.PID gets a line for each place of the code that
// was counted, by the place it was called from and the function of the interface that it was in;
// bench/shared.py reads it. Lost updates between threads are possible in the state of a line, and
// then one move is missing or too many; all other numbers are exact.
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic_count.h"

enum {
  ADDRESS_BITS = 47,
  LINE_SHIFT = 6,
  COPIES = 48,  // threads that are told from each other as readers
  PLACES = 1 << 15,
  DEEPEST = 128
};

// Where in the code, called from where, in which function of the interface.
typedef struct place_s {
  _Atomic(uint64_t) key;  // 0: free
  uintptr_t pc, caller, outer;
  const char* name;
  _Atomic(uint64_t) calls, rmws, stores, block_moves, record_moves, taken;
} place_t;

typedef struct thread_s {
  uint64_t number;  // 0: none yet
  int depth;
  bool is_off;
  uintptr_t outer;
  uintptr_t callers[DEEPEST];
} thread_t;

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static _Atomic(uint64_t) thread_count;
static _Atomic(_Atomic(uint64_t)*) lines;
static place_t places[PLACES];
static _Atomic(uint64_t) lost;
static __thread thread_t me __attribute__((tls_model("initial-exec")));

#define FROM ((uintptr_t)__builtin_return_address(0))

static _Atomic(uint64_t)* line_of(uintptr_t address) {
  _Atomic(uint64_t)* table = atomic_load_explicit(&lines, memory_order_relaxed);
  if (table == NULL) {
    void* const fresh = mmap(NULL, sizeof(uint64_t) << (ADDRESS_BITS - LINE_SHIFT),
                             PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) abort();
    if (atomic_compare_exchange_strong(&lines, &table, (_Atomic(uint64_t)*)fresh)) {
      table = (_Atomic(uint64_t)*)fresh;
    } else {
      munmap(fresh, sizeof(uint64_t) << (ADDRESS_BITS - LINE_SHIFT));
    }
  }
  return &table[(address >> LINE_SHIFT) & (((uintptr_t)1 << (ADDRESS_BITS - LINE_SHIFT)) - 1)];
}

static uint64_t my_number(void) {
  if (me.number == 0) me.number = atomic_fetch_add(&thread_count, 1) + 1;
  return me.number;
}

typedef enum change_e { STAYS, MOVES, TAKES } change_t;

// The state of a line: which thread wrote it last (16 bits), which have a copy (48 bits).
static change_t change_of(uintptr_t address, bool is_write) {
  _Atomic(uint64_t)* const line = line_of(address);
  const uint64_t number = my_number(), writer = (number & 0xFFFF) << COPIES;
  const uint64_t copy = (uint64_t)1 << (number % COPIES);
  const uint64_t old = atomic_load_explicit(line, memory_order_relaxed);
  const uint64_t others = old & ((((uint64_t)1 << COPIES) - 1) & ~copy);
  const uint64_t now = is_write ? writer | copy : old | copy;
  if (now != old) atomic_store_explicit(line, now, memory_order_relaxed);
  if ((old & copy) != 0) return is_write && others != 0 ? TAKES : STAYS;
  return is_write ? (others != 0 ? MOVES : STAYS) : (old >> COPIES != 0 ? MOVES : STAYS);
}

static place_t* place_of(uintptr_t pc, const char* name) {
  const uintptr_t caller = me.depth > 0 && me.depth <= DEEPEST ? me.callers[me.depth - 1] : 0;
  uint64_t key = pc * 0x9E3779B97F4A7C15u;
  key ^= (caller * 0xC2B2AE3D27D4EB4Fu) ^ (me.outer * 0x165667B19E3779F9u);
  key |= 1;
  for (size_t n = 0, i = (size_t)(key >> 32); n < PLACES; n++, i++) {
    place_t* const place = &places[i % PLACES];
    uint64_t was = atomic_load_explicit(&place->key, memory_order_acquire);
    if (was == 0 && atomic_compare_exchange_strong(&place->key, &was, key)) {
      place->pc = pc;
      place->caller = caller;
      place->outer = me.outer;
      place->name = name;
      return place;
    }
    if (was == key) return place;
  }
  atomic_fetch_add(&lost, 1);
  return NULL;
}

#define COUNT(place, what)                                                             \
  ((place) != NULL                                                                     \
       ? (void)atomic_fetch_add_explicit(&(place)->what, 1, memory_order_relaxed)      \
       : (void)0)

static void note_change(uintptr_t address, change_t change, uintptr_t pc, const char* name) {
  place_t* const place = place_of(pc, name);
  if (change == TAKES) {
    COUNT(place, taken);
    return;
  }
  me.is_off = true;
  const bool is_block = mc_is_block((const void*)address);
  me.is_off = false;
  if (is_block) {
    COUNT(place, block_moves);
  } else {
    COUNT(place, record_moves);
  }
}

static void touch(uintptr_t address, size_t size, bool is_write, uintptr_t pc, const char* name) {
  if (me.is_off || size == 0) return;
  const uintptr_t last = (address + size - 1) >> LINE_SHIFT;
  for (uintptr_t line = address >> LINE_SHIFT; line <= last; line++) {
    const uintptr_t at = line << LINE_SHIFT;
    const change_t change = change_of(at, is_write);
    if (change != STAYS) note_change(at < address ? address : at, change, pc, name);
  }
}

// ---- the verbs --------------------------------------------------------------------------------

#define BY_SIZE(p, size, what)                                  \
  ((size) == 8 ? (uint64_t)what((volatile uint64_t*)(p), uint64_t) \
   : (size) == 4 ? (uint64_t)what((volatile uint32_t*)(p), uint32_t) \
   : (size) == 2 ? (uint64_t)what((volatile uint16_t*)(p), uint16_t) \
                 : (uint64_t)what((volatile uint8_t*)(p), uint8_t))

uint64_t mc_load(const volatile void* p, unsigned size) {
  touch((uintptr_t)p, size, false, FROM, NULL);
#define LOAD(q, T) __atomic_load_n((q), __ATOMIC_SEQ_CST)
  return BY_SIZE(p, size, LOAD);
}

void mc_store(volatile void* p, unsigned size, uint64_t value, const char* name) {
  touch((uintptr_t)p, size, true, FROM, name);
  if (!me.is_off) {
    place_t* const place = place_of(FROM, name);
    COUNT(place, stores);
  }
#define STORE(q, T) (__atomic_store_n((q), (T)value, __ATOMIC_SEQ_CST), 0)
  (void)BY_SIZE(p, size, STORE);
}

void mc_fence(void) { atomic_thread_fence(memory_order_seq_cst); }

static void count_rmw(volatile void* p, unsigned size, uintptr_t pc, const char* name) {
  touch((uintptr_t)p, size, true, pc, name);
  if (me.is_off) return;
  place_t* const place = place_of(pc, name);
  COUNT(place, rmws);
}

uint64_t mc_rmw(volatile void* p, unsigned size, uint64_t value, mc_op_t op, const char* name) {
  count_rmw(p, size, FROM, name);
#define SET(q, T) __atomic_exchange_n((q), (T)value, __ATOMIC_SEQ_CST)
#define ADD(q, T) __atomic_fetch_add((q), (T)value, __ATOMIC_SEQ_CST)
#define OR(q, T) __atomic_fetch_or((q), (T)value, __ATOMIC_SEQ_CST)
#define AND(q, T) __atomic_fetch_and((q), (T)value, __ATOMIC_SEQ_CST)
  switch (op) {
    case MC_SET: return BY_SIZE(p, size, SET);
    case MC_ADD: return BY_SIZE(p, size, ADD);
    case MC_OR: return BY_SIZE(p, size, OR);
    default: return BY_SIZE(p, size, AND);
  }
}

bool mc_cas(volatile void* p, unsigned size, uint64_t* expected, uint64_t value, const char* name) {
  count_rmw(p, size, FROM, name);
  bool done = false;
#define CAS(q, T)                                                                         \
  __extension__({                                                                         \
    T mc_old = (T)*expected;                                                              \
    done = __atomic_compare_exchange_n((q), &mc_old, (T)value, false, __ATOMIC_SEQ_CST,   \
                                       __ATOMIC_SEQ_CST);                                 \
    mc_old;                                                                               \
  })
  const uint64_t old = BY_SIZE(p, size, CAS);
  if (!done) *expected = old;
  return done;
}

// ---- what the compiler's instrumentation calls ------------------------------------------------

#define HOOKS(n)                                                                               \
  void __tsan_read##n(void* p) { touch((uintptr_t)p, n, false, FROM, NULL); }                   \
  void __tsan_write##n(void* p) { touch((uintptr_t)p, n, true, FROM, NULL); }                   \
  void __tsan_read_write##n(void* p) { touch((uintptr_t)p, n, true, FROM, NULL); }              \
  void __tsan_unaligned_read##n(void* p) { touch((uintptr_t)p, n, false, FROM, NULL); }         \
  void __tsan_unaligned_write##n(void* p) { touch((uintptr_t)p, n, true, FROM, NULL); }         \
  void __tsan_unaligned_read_write##n(void* p) { touch((uintptr_t)p, n, true, FROM, NULL); }    \
  void __tsan_volatile_read##n(void* p) { touch((uintptr_t)p, n, false, FROM, NULL); }          \
  void __tsan_volatile_write##n(void* p) { touch((uintptr_t)p, n, true, FROM, NULL); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void* p, size_t n) { touch((uintptr_t)p, n, false, FROM, NULL); }
void __tsan_write_range(void* p, size_t n) { touch((uintptr_t)p, n, true, FROM, NULL); }
void __tsan_init(void) {}
// What src tells the sanitizer is no access. gcc before 14 does not say that it has one.
void __tsan_acquire(void* p) { (void)p; }
void __tsan_release(void* p) { (void)p; }

// The outermost function of the library is what the program called.
void __tsan_func_entry(void* caller) {
  if (me.is_off) return;
  if (me.depth == 0) {
    me.outer = FROM;
    place_t* const place = place_of(FROM, NULL);
    COUNT(place, calls);
  }
  if (me.depth < DEEPEST) me.callers[me.depth] = (uintptr_t)caller;
  me.depth++;
}
void __tsan_func_exit(void) {
  if (!me.is_off) me.depth--;
}

// ---- the account ------------------------------------------------------------------------------

static void write_places(int file) {
  char line[512];
  const uintptr_t base = (uintptr_t)__ehdr_start;
  for (size_t i = 0; i < PLACES; i++) {
    const place_t* const p = &places[i];
    if (atomic_load(&p->key) == 0) continue;
    const uint64_t caller = p->caller >= base ? p->caller - base : 0;
    const int n = snprintf(line, sizeof line, "%lx %lx %lx %lu %lu %lu %lu %lu %lu %s\n",
                           (unsigned long)(p->pc - base), (unsigned long)caller,
                           (unsigned long)(p->outer >= base ? p->outer - base : 0),
                           (unsigned long)p->calls, (unsigned long)p->rmws,
                           (unsigned long)p->stores,
                           (unsigned long)p->block_moves, (unsigned long)p->record_moves,
                           (unsigned long)p->taken, p->name != NULL ? p->name : "");
    if (n < 0 || write(file, line, (size_t)n) != n) return;
  }
  const int n = snprintf(line, sizeof line, "end %lu\n", (unsigned long)atomic_load(&lost));
  if (write(file, line, (size_t)n) != n) return;
}

static void account(void) {
  const char* const to = getenv("MIMALLOC_COUNT_FILE");
  if (to == NULL) return;
  me.is_off = true;
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", to, (int)getpid());
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file >= 0) {
    write_places(file);
    close(file);
  }
  me.is_off = false;
}

__attribute__((destructor)) static void at_exit(void) { account(); }

// For programs that end without destructors.
__attribute__((visibility("default"), noreturn)) void _exit(int status) {
  account();
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}
