// SPDX-License-Identifier: MIT
// The lives of blocks that docs/architecture.md tells, for a trace: built as one with
// src/static.c and -finstrument-functions, it prints the address of each function that is entered,
// in order, and how many are active around it, below the name of the life. check_lives.py gives them
// names.
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <mimalloc.h>

#define UNTRACED __attribute__((no_instrument_function))
#define ENTRIES_MAX 20000

// Of the one thread that is traced; another's calls are of no interest.
static __thread bool is_traced;
static struct { void* function; size_t depth; } entered[ENTRIES_MAX];
static size_t entered_count, depth;

void __cyg_profile_func_enter(void* function, void* caller) UNTRACED;
void __cyg_profile_func_exit(void* function, void* caller) UNTRACED;

void __cyg_profile_func_enter(void* function, void* caller) {
  (void)caller;
  if (!is_traced) return;
  if (entered_count < ENTRIES_MAX) {
    entered[entered_count].function = function;
    entered[entered_count++].depth = depth;
  }
  depth++;
}

void __cyg_profile_func_exit(void* function, void* caller) {
  (void)function, (void)caller;
  if (is_traced) depth--;
}

UNTRACED static void begin(void) {
  entered_count = depth = 0;
  is_traced = true;
}

UNTRACED static void tell(const char* life) {
  is_traced = false;
  if (entered_count == ENTRIES_MAX) abort();
  printf("life %s\n", life);
  for (size_t i = 0; i < entered_count; i++) {
    printf("%zx %zu\n", (size_t)(uintptr_t)entered[i].function, entered[i].depth);
  }
}

UNTRACED static void small_blocks(void) {
  begin();
  void* const first = mi_malloc(48);
  tell("malloc-first");
  begin();
  void* const second = mi_malloc(48);
  tell("malloc");
  begin();
  mi_free(second);
  tell("free");
  mi_free(first);
}

// The page is this thread's: it has the last block, too.
UNTRACED static void* free_another(void* block) {
  begin();
  mi_free(block);
  tell("free-remote");
  return NULL;
}

UNTRACED static void on_another_thread(void* (*run)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0) abort();
  pthread_join(thread, NULL);
}

UNTRACED static void huge_block(void) {
  begin();
  void* const p = mi_malloc((size_t)10 << 20);
  tell("huge");
  begin();
  mi_free(p);
  tell("huge-free");
}

// Leaves a block behind, so that its page waits, or is abandoned.
UNTRACED static void* end_with_a_block(void* place) {
  *(void**)place = mi_malloc(48);
  begin();
  mi_thread_done();
  tell(mi_option_get(mi_option_theap_retain) > 0 ? "thread-end" : "thread-end-alone");
  return NULL;
}

UNTRACED static void* begin_with_a_theap(void* place) {
  begin();
  *(void**)place = mi_malloc(48);
  tell("thread-next");
  return NULL;
}

UNTRACED int main(void) {
  small_blocks();
  void* const block = mi_malloc(48);
  on_another_thread(&free_another, block);
  huge_block();
  void *left = NULL, *other = NULL;
  on_another_thread(&end_with_a_block, &left);
  on_another_thread(&begin_with_a_theap, &other);
  mi_free(left);
  mi_free(other);
  mi_collect(true);
  mi_option_set(mi_option_theap_retain, 0);
  on_another_thread(&end_with_a_block, &left);
  begin();
  mi_free(left);
  tell("free-abandoned");
  return 0;
}
