// SPDX-License-Identifier: MIT
// Allocates while its call stack is damaged: what lies above a function's frame, return addresses
// and saved frame pointers, is overwritten in several ways, and put back before the function
// returns. Before that it allocates with the stack as it should be, so that walks have learned what
// there is to know.
//
// The argument is how many blocks of 1,000 bytes it keeps in the end.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 40     // of the stack that are damaged
#define DEPTH 20     // calls above
#define ROUNDS 2000  // allocations in each way

static void* volatile keep;
static uintptr_t saved[WORDS];
static int way;

static uintptr_t damaged(uintptr_t* at) {
  switch (way) {
    case 1: return 0;
    case 2: return (uintptr_t)0x4141414141414141;
    case 3: return UINTPTR_MAX;
    case 4: return (uintptr_t)at;                 // leads to itself
    case 5: return (uintptr_t)(at - 8);           // leads back
    case 6: return (uintptr_t)at + (1 << 19);     // beyond the stack, perhaps
    case 7: return (uintptr_t)at + 3;
    case 8: return 4096;
    default: return *at;
  }
}

// Only what may be a saved frame pointer: an address of the stack.
static int is_of_stack(const uintptr_t* at) {
  const uintptr_t here = (uintptr_t)at;
  return *at > here - 4096 && *at < here + 4096;
}

__attribute__((noinline)) static void allocate(int only_pointers) {
  uintptr_t* const frame = (uintptr_t*)__builtin_frame_address(0);
  for (int i = 0; i < WORDS; i++) {
    saved[i] = frame[i];
    if (only_pointers && !is_of_stack(&frame[i])) continue;
    *(volatile uintptr_t*)&frame[i] = damaged(&frame[i]);
  }
  for (int i = 0; i < ROUNDS; i++) {
    keep = malloc(1000);
    free(keep);
  }
  for (int i = 0; i < WORDS; i++) *(volatile uintptr_t*)&frame[i] = saved[i];
}

__attribute__((noinline)) static int descend(int depth, int only_pointers) {
  if (depth == 0) allocate(only_pointers);
  else depth += descend(depth - 1, only_pointers);
  __asm__ volatile("" ::: "memory");
  return depth;
}

static void* damage_all(void* arg) {
  for (way = 0; way <= 8; way++) {
    descend(DEPTH, 1);
    descend(DEPTH, 0);
  }
  return arg;
}

int main(int argc, char** argv) {
  const int count = (argc > 1 ? atoi(argv[1]) : 0);
  pthread_t thread;
  damage_all(NULL);
  if (pthread_create(&thread, NULL, &damage_all, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  way = 0;
  for (int i = 0; i < count; i++) {
    void** const p = (void**)malloc(1000);
    *p = keep;
    keep = p;
  }
  return 0;
}
