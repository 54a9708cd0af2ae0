// SPDX-License-Identifier: MIT
// Memory for the time of a dump. None of it is on the stack of the thread that dumps, which may be
// small; and one dump at a time is possible when the system has no more memory, if that is wanted.
#include <string.h>

#include "../os/thread.h"
#include "profile.h"

#define RESERVE_SIZE (4 * MX_MIB)

static uint8_t* reserve;
static mx_atomic(uintptr_t) reserve_user;  // the thread whose dump uses it
static size_t reserve_used, reserve_pieces;  // that thread's

void mx_prof_keep_reserve(void) {
  if (reserve == NULL) reserve = (uint8_t*)mx_os_map(NULL, RESERVE_SIZE, true);
}

static void* map_reserve(size_t size) {
  const uintptr_t self = mx_thread_id();
  uintptr_t user = 0;
  if (reserve == NULL || size > RESERVE_SIZE) return NULL;
  if (!mx_cas_strong_acq_rel(&reserve_user, &user, self) && user != self) return NULL;
  if (size > RESERVE_SIZE - reserve_used) return NULL;
  uint8_t* const p = reserve + reserve_used;
  reserve_used += size;
  reserve_pieces++;
  memset(p, 0, size);
  return p;
}

void* mx_prof_map(size_t size) {
  size = mx_align_up(size, mx_facts.os_page);
  void* const p = mx_os_map(NULL, size, true);
  return p != NULL ? p : map_reserve(size);
}

void mx_prof_unmap(void* p, size_t size) {
  if (reserve == NULL || (size_t)((uint8_t*)p - reserve) >= RESERVE_SIZE) {
    mx_os_unmap(p, mx_align_up(size, mx_facts.os_page));
  } else if (--reserve_pieces == 0) {
    reserve_used = 0;
    mx_store_release(&reserve_user, (uintptr_t)0);
  }
}

// Whoever used it is gone.
void mx_prof_scratch_after_fork(void) {
  reserve_used = reserve_pieces = 0;
  mx_store_relaxed(&reserve_user, (uintptr_t)0);
}
