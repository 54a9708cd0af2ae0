// SPDX-License-Identifier: MIT
// What the scenarios of the heap share: a small library made new, blocks with an owner's
// mark, and the audit that finds whatever was lost.
#ifndef EXPLORE_WORLD_H
#define EXPLORE_WORLD_H

#include "../../src/alloc/fast.h"
#include "../../src/base/hooks.h"
#include "../../src/heap/huge_cache.h"
#include "../../src/heap/parked.h"
#include "../../src/mem/vmem.h"
#include "explore.h"

// 8 of these fill a page of one slice.
#define WORLD_BLOCK ((size_t)8192)
#define WORLD_PAGE_BLOCKS 8
#define WORLD_SLICES 8

extern uint64_t world_clock;
// Memory for arenas, which explored threads do not get from the OS.
#define WORLD_MEMORY (8 * MX_MIB)
extern uint8_t* world_memory;
extern bool world_may_map;  // explored threads may get memory from the OS
extern mx_atomic(uint64_t) world_mapped;  // see explore_os.c

// Starts the library with one arena of `slices` slices, which is all the memory there is.
void world_start(size_t slices);
mx_arena_t* world_arena(void);
// Allocates, and marks the block as the running thread's. NULL is a failure.
void* world_alloc(size_t size);
// Checks the mark that `thread` left, and frees.
void world_free(void* p, int thread);
// Ends the theaps of all threads, frees the given live blocks (NULL ones are passed over), and
// checks that every slice came back and every count is right.
void world_audit(void* const* blocks, const int* owners, size_t count);
// No free takes a page over; each may, unless a scenario says so.
void world_refuse_pages(bool refuse);
// So many theaps of threads that end may be parked; none unless a scenario says so.
void world_park(long most);
// No block above MX_SMALL_MAX goes from thread to thread by the transfer cache unless a scenario
// sets mx_transfer_most.
// Has a thread end, as the end of its pthread would.
void world_end_thread(void);

#endif
