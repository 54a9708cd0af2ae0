// SPDX-License-Identifier: MIT
// The ground floor that fails on demand: see mock_os.h. It takes the place of Linux's and
// the libc's, whose functions it includes under other names and calls.
#define mx_os_map real_map
#define mx_os_map_large real_map_large
#define mx_os_unmap real_unmap
#define mx_os_move real_move
#define mx_os_commit real_commit
#define mx_os_decommit real_decommit
#define mx_os_purge real_purge
#define mx_os_reset real_reset
#define mx_os_protect real_protect
#define mx_os_guard real_guard
#define mx_os_advise_large real_advise_large
#define mx_os_fill_large real_fill_large
#define mx_os_refuse_large real_refuse_large
#define mx_os_is_sparse real_is_sparse
#define mx_os_clock_msecs real_clock
#define mx_os_random real_random
#define mx_os_numa_node real_numa_node
#include "../../../src/os/libc.c"
#include "../../../src/os/linux.c"
#undef mx_os_map
#undef mx_os_map_large
#undef mx_os_unmap
#undef mx_os_move
#undef mx_os_commit
#undef mx_os_decommit
#undef mx_os_purge
#undef mx_os_reset
#undef mx_os_protect
#undef mx_os_guard
#undef mx_os_advise_large
#undef mx_os_fill_large
#undef mx_os_refuse_large
#undef mx_os_is_sparse
#undef mx_os_clock_msecs
#undef mx_os_random
#undef mx_os_numa_node

#include "mock_os.h"

#include <string.h>

// How a call that fails misbehaves, beyond doing nothing: each as some kernel does.
typedef enum fault_s {
  PLAIN,   // nothing is done
  TORN,    // a move has unmapped its target (Linux before 6.17)
  TAKEN,   // and another thread mapped something there at once; nor are addresses given as asked
  UNCUT,   // memory cannot be unmapped for want of mappings, its contents go (vm.max_map_count)
  HALF,    // contents were dropped before the rest failed
} fault_t;

static fault_t fault;
static atomic_long calls;
static atomic_long fail_at;        // number of the call, 0: none
static atomic_int fails_after;     // all behind it, too
static atomic_int fails_multiples;
static atomic_int is_read;
static atomic_ullong now = 1000;
static atomic_ullong random_state = 1;
static atomic_long large_left = -1;  // of large pages, -1: as many as the system has
static atomic_ullong large_msecs;    // that each takes
static atomic_int large_lies_elsewhere;
static atomic_int fills = -1;
static atomic_int looks_sparse;
static mock_told_t told;
static atomic_uint node;
static atomic_int random_fails;
static atomic_int protect_fails, locked;
static atomic_long guards_to_go = -1;

void mock_fault(const char* name) {
  static const char* const names[] = {"plain", "torn", "taken", "uncut", "half"};
  for (int i = 0; name != NULL && i < 5; i++) {
    if (strcmp(name, names[i]) == 0) fault = (fault_t)i;
  }
}

static void read_environment(void) {
  const char* text = getenv("MOCK_FAIL");
  mock_fault(getenv("MOCK_FAULT"));
  if (getenv("MOCK_SCARCE") != NULL) mx_store_relaxed(&mx_os_scarce, true);
  if (text == NULL) return;
  char* end;
  fail_at = strtol(text, &end, 10);
  fails_after = (*end == '+');
  fails_multiples = (*end == '/');
}

static struct { atomic_ulong calls, bytes; } asked[MOCK_KIND_COUNT];

static void count_asked(mock_kind_t kind, size_t size) {
  asked[kind].calls++;
  asked[kind].bytes += size;
}

mock_asked_t mock_asked(mock_kind_t kind) {
  const mock_asked_t answer = {asked[kind].calls, asked[kind].bytes};
  return answer;
}

static int fails(void) {
  if (atomic_exchange(&is_read, 1) == 0) read_environment();
  const long n = atomic_fetch_add(&calls, 1) + 1;
  const long at = fail_at;
  if (at == 0) return 0;
  if (fails_multiples) return n % at == 0;
  return n == at || (fails_after && n > at);
}

long mock_calls(void) { return calls; }
void mock_heal(void) { fail_at = 0; }
void mock_fail_after(long others) {
  fails_after = fails_multiples = 0;
  fail_at = calls + 1 + others;
}
void mock_fail_next(void) { mock_fail_after(0); }
void mock_fail_every(long number) {
  calls = 0;
  fails_after = 0;
  fails_multiples = 1;
  fail_at = number;
}
void mock_fail_all(void) {
  mock_fail_next();
  fails_after = 1;
}
void mock_sleep(uint64_t msecs) { now += msecs; }
void mock_seed(uint64_t seed) { random_state = seed; }
void mock_large(long pages, uint64_t msecs, bool elsewhere) {
  large_left = pages;
  large_msecs = msecs;
  large_lies_elsewhere = elsewhere;
}
void mock_fill(int is_filled, bool is_sparse) {
  fills = is_filled;
  looks_sparse = is_sparse;
}
mock_told_t mock_told(void) {
  const mock_told_t answer = told;
  memset(&told, 0, sizeof(told));
  return answer;
}
void mock_node(unsigned number) { node = number; }
void mock_random_fails(bool fails) { random_fails = fails; }
void mock_protect_fails(bool fails) { protect_fails = fails; }
void mock_locked(bool is_locked) { locked = is_locked; }
void mock_guards_stay(long others) { guards_to_go = others; }

// ---- what others map ----------------------------------------------------------------------------

#define OTHERS_MAX 64
#define OTHERS_BYTE 0xA7

static struct {
  _Atomic(unsigned char*) start;
  size_t size;
} others[OTHERS_MAX];
static atomic_int other_count;

// Another thread's memory, at an address that somebody else counted on.
static void take_place(void* p, size_t size) {
  const int i = atomic_fetch_add(&other_count, 1);
  if (i >= OTHERS_MAX) return;
  size = size < 16384 ? size : 16384;
  unsigned char* const at = (unsigned char*)real_map(p, size, true);
  if (at == NULL) return;
  memset(at, OTHERS_BYTE, size);
  others[i].size = size;
  others[i].start = at;
}

bool mock_others_are_whole(void) {
  for (int i = 0; i < OTHERS_MAX && i < other_count; i++) {
    for (size_t at = 0; others[i].start != NULL && at < others[i].size; at++) {
      if (others[i].start[at] != OTHERS_BYTE) return false;
    }
  }
  return true;
}

// ---- the calls ----------------------------------------------------------------------------------

void* mx_os_map(void* hint, size_t size, bool commit) {
  count_asked(MOCK_map, size);
  if (!fails()) return real_map(hint, size, commit);
  if (fault != TAKEN || hint == NULL) return NULL;
  take_place(hint, size);
  return real_map(NULL, size, commit);
}
void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  count_asked(MOCK_map_large, size);
  if (fails()) return NULL;
  if (large_left < 0) return real_map_large(hint, size, page_size, numa_node);
  if (large_left == 0) return NULL;
  large_left--;
  now += large_msecs;
  return real_map(large_lies_elsewhere ? NULL : hint, size, true);
}
bool mx_os_unmap(void* p, size_t size) {
  count_asked(MOCK_unmap, size);
  if (fault != UNCUT || !fails()) return real_unmap(p, size);
  real_purge(p, size);
  return false;
}
mx_move_t mx_os_move(void* from, void* to, size_t size) {
  count_asked(MOCK_move, size);
  if (!fails()) return real_move(from, to, size);
  if (fault != TORN && fault != TAKEN) return MX_MOVE_REFUSED;
  real_unmap(to, size);
  if (fault == TAKEN) take_place(to, size);
  return MX_MOVE_TORN;
}
bool mx_os_commit(void* p, size_t size) {
  count_asked(MOCK_commit, size);
  return !fails() && real_commit(p, size);
}
bool mx_os_decommit(void* p, size_t size) {
  count_asked(MOCK_decommit, size);
  if (!fails()) return real_decommit(p, size);
  if (fault == HALF) real_purge(p, size);
  return false;
}
static void (*during_purge)(void);
void mock_during_purge(void (*run)(void)) { during_purge = run; }
bool mx_os_purge(void* p, size_t size) {
  count_asked(MOCK_purge, size);
  void (*const run)(void) = during_purge;
  during_purge = NULL;
  if (run != NULL) run();
  return !fails() && !locked && real_purge(p, size);
}
bool mx_os_reset(void* p, size_t size) {
  count_asked(MOCK_reset, size);
  return !fails() && real_reset(p, size);
}
bool mx_os_protect(void* p, size_t size, bool accessible) {
  count_asked(MOCK_protect, size);
  if (protect_fails && !accessible) return false;
  return !fails() && real_protect(p, size, accessible);
}
bool mx_os_guard(void* p, size_t size, bool install) {
  count_asked(install ? MOCK_guard : MOCK_unguard, size);
  // Like an unmapping, to take one away needs nothing of the system.
  if (!install && guards_to_go == 0) return false;
  if (!install && guards_to_go > 0) guards_to_go--;
  return !(install && fails()) && real_guard(p, size, install);
}
void mx_os_advise_large(void* p, size_t size, bool want) {
  count_asked(MOCK_advise, size);
  if (want) told.advised = p;
  real_advise_large(p, size, want);
}
bool mx_os_fill_large(void* p, size_t size) {
  count_asked(MOCK_fill, size);
  told.filled = p;
  return fills < 0 ? real_fill_large(p, size) : fills != 0;
}
void mx_os_refuse_large(void* p, size_t size) {
  count_asked(MOCK_refuse, size);
  told.refused = p;
  real_refuse_large(p, size);
}
bool mx_os_is_sparse(const void* p, size_t size, size_t quarters) {
  count_asked(MOCK_look, size);
  told.looked_at = p;
  told.quarters = quarters;
  return fills < 0 ? real_is_sparse(p, size, quarters) : looks_sparse != 0;
}
uint64_t mx_os_clock_msecs(void) { return now; }
unsigned mx_os_numa_node(void) { return node; }
bool mx_os_random(void* buf, size_t size) {
  if (random_fails) return false;
  unsigned char* p = (unsigned char*)buf;
  for (size_t i = 0; i < size; i++) {
    unsigned long long x = random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    random_state = x;
    p[i] = (unsigned char)(x >> 24);
  }
  return true;
}
