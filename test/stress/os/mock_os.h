// SPDX-License-Identifier: MIT
// The controls of the ground floor that fails on demand: Linux, with a count of the calls that
// can fail, a clock that stands until it is moved, and random numbers from a seed.
//
// The environment variable MOCK_FAIL makes calls fail from the very start of the process: "5" the
// fifth one, "5+" that one and all after it, "5/" every fifth. MOCK_FAULT says how they fail: see
// mock_os.c. With MOCK_SCARCE addresses are scarce.
#ifndef MOCK_OS_H
#define MOCK_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How many calls that can fail there were.
long mock_calls(void);
// No call fails any more.
void mock_heal(void);
// The next call fails, or the one after so many others.
void mock_fail_next(void);
void mock_fail_after(long others);
// Every one of so many fails from now on.
void mock_fail_every(long number);
// All calls fail from now on.
void mock_fail_all(void);
// Nothing can be made inaccessible, whatever else succeeds.
void mock_protect_fails(bool fails);
// Memory is locked: no contents can be dropped, whatever else succeeds.
void mock_locked(bool is_locked);
// No guard goes away any more, but so many others (-1: all do).
void mock_guards_stay(long others);
// How they fail, as MOCK_FAULT has it.
void mock_fault(const char* name);
// What another thread does just before contents are dropped for the next time.
void mock_during_purge(void (*run)(void));
// Whether nobody wrote to what other threads are said to have mapped.
bool mock_others_are_whole(void);
// Moves the clock.
void mock_sleep(uint64_t msecs);
void mock_seed(uint64_t seed);
// Ordinary memory comes for that many large or huge pages, each after so long, where it was asked for
// or elsewhere; then none.
void mock_large(long pages, uint64_t msecs, bool elsewhere);
// Large OS pages that are to be filled are, or are not, and what is looked at is sparse, or is not; -1:
// as the system has it.
void mock_fill(int is_filled, bool is_sparse);
// What was to have large OS pages, to be filled, to have none, and looked at last, since this was asked.
typedef struct mock_told_s {
  const void *advised, *filled, *refused, *looked_at;
  size_t quarters;
} mock_told_t;
mock_told_t mock_told(void);
// The NUMA node of every thread.
void mock_node(unsigned number);
// There are no random numbers.
void mock_random_fails(bool fails);

// What was asked of the system, by kind.
#define MOCK_KINDS(X)                                                                          \
  X(map) X(map_large) X(unmap) X(move) X(commit) X(decommit) X(purge) X(reset) X(protect)      \
  X(guard) X(unguard) X(advise) X(fill) X(refuse) X(look)
#define MOCK_KIND(name) MOCK_##name,
typedef enum mock_kind_s { MOCK_KINDS(MOCK_KIND) MOCK_KIND_COUNT } mock_kind_t;
typedef struct mock_asked_s { unsigned long calls, bytes; } mock_asked_t;
mock_asked_t mock_asked(mock_kind_t kind);

#endif
