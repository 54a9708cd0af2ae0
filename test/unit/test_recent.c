// SPDX-License-Identifier: MIT
// A thread gets the slices back that it freed itself, though another one freed lower ones: what they
// held is in its processor's cache.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "../../include/mimalloc.h"
#include "../../src/heap/subproc.h"

#define SLICES ((size_t)40)
#define THREADS 8

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

typedef struct owner_s {
  mx_slices_t had[SLICES];
  size_t again;  // how many came back
} owner_t;

static mx_arenas_t* arenas(void) { return &mx_subproc_main.arenas; }

static const mx_slices_request_t one = {1, 1, 1, NULL, -1, false, false};

static void give_back(owner_t* owner) {
  for (size_t i = 0; i < SLICES; i++) {
    mx_slices_t* const s = &owner->had[i];
    mx_arena_touch(s->arena, s->start, s->count * MX_SLICE_SIZE);
    mx_slices_free(arenas(), s->arena, s->index, s->count);
  }
}

static void take_again(owner_t* owner) {
  mx_slices_t got[SLICES];
  for (size_t i = 0; i < SLICES; i++) {
    if (!mx_slices_alloc(arenas(), &one, &got[i])) return;
    for (size_t j = 0; j < SLICES; j++) owner->again += (owner->had[j].start == got[i].start);
  }
  for (size_t i = 0; i < SLICES; i++) {
    mx_slices_free(arenas(), got[i].arena, got[i].index, got[i].count);
  }
}

static pthread_barrier_t all_gave_back;

static void* run(void* arg) {
  owner_t* const owner = (owner_t*)arg;
  give_back(owner);
  pthread_barrier_wait(&all_gave_back);
  return NULL;
}

static owner_t mine, others;

// Which ring a thread has is not known before it gave something back.
static size_t used_rings(void) {
  size_t n = 0;
  for (size_t i = 0; i < MX_RECENT_RINGS; i++) {
    n += (mx_load_relaxed(&arenas()->recent[i].next) != 0);
  }
  return n;
}

int main(void) {
  if (MX_SCATTER) return 77;  // there nothing is to be foreseen
  mi_option_set(mi_option_purge_delay, -1);
  mi_free(mi_malloc(1));
  for (unsigned tries = 0; tries < THREADS; tries++) {
    // In turn, so that either's are everywhere.
    for (size_t i = 0; i < SLICES; i++) {
      if (!mx_slices_alloc(arenas(), &one, &others.had[i])) return 77;
      if (!mx_slices_alloc(arenas(), &one, &mine.had[i])) return 77;
    }
    give_back(&mine);
    const size_t rings = used_rings();
    pthread_t thread;
    pthread_barrier_init(&all_gave_back, NULL, 2);
    if (pthread_create(&thread, NULL, run, &others) != 0) return 77;
    pthread_barrier_wait(&all_gave_back);
    const bool is_apart = (used_rings() > rings);
    mine.again = 0;
    take_again(&mine);
    pthread_join(thread, NULL);
    if (!is_apart) continue;  // both have the same ring
    EXPECT(mine.again == SLICES);
    printf("%zu of %zu came back: %d failures\n", mine.again, SLICES, failures);
    return failures != 0;
  }
  printf("no two threads with rings of their own\n");
  return 77;
}
