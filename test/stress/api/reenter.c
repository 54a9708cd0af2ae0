// SPDX-License-Identifier: MIT
// Callbacks that allocate and free themselves: messages, errors, deferred frees. They run in the
// middle of an allocation of the same size class, in several threads at once.
#include "../stress.h"

#include "mimalloc.h"

static volatile size_t too_much = SIZE_MAX / 2 + 1;
static atomic_size_t outputs, errors, deferred;
static _Thread_local int depth;
static _Thread_local void* kept[8];

static void work(size_t n) {
  for (size_t i = 0; i < n; i++) {
    void** const place = &kept[i % 8];
    void* const former = *place;
    *place = NULL;
    mi_free(former);
    void* const fresh = mi_malloc(16 + 16 * (i % 8));
    check(fresh != NULL);
    memset(fresh, 0x5a, 16);
    void* const other = *place;  // of a callback in the middle of that allocation
    *place = fresh;
    mi_free(other);
  }
}

static void on_output(const char* text, void* arg) {
  (void)arg;
  atomic_fetch_add(&outputs, strlen(text) > 0);
  if (depth++ < 2) work(20);
  depth--;
}

static void on_error(int code, void* arg) {
  (void)code, (void)arg;
  atomic_fetch_add(&errors, 1);
  if (depth++ < 2) work(20);
  depth--;
}

static void on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  (void)force, (void)heartbeat, (void)arg;
  atomic_fetch_add(&deferred, 1);
  if (depth++ < 2) work(300);
  depth--;
}

// Many at once: malloc has to look for pages, which is when deferred frees run.
static void burst(void) {
  enum { M = 4000 };
  static _Thread_local void* blocks[M];
  for (size_t i = 0; i < M; i++) check((blocks[i] = mi_malloc(1000)) != NULL);
  for (size_t i = 0; i < M; i++) mi_free(blocks[i]);
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  enum { N = 2000 };
  block_t** mine = (block_t**)mi_zalloc(N * sizeof(block_t*));
  while (!stress_is_over()) {
    for (size_t i = 0; i < N; i++) {
      const size_t k = random_below(&r, N);
      if (mine[k] != NULL) {
        block_check(mine[k]);
        mi_free(mine[k]);
        mine[k] = NULL;
      } else {
        const size_t size = 32 + 16 * random_below(&r, 10);
        mine[k] = (block_t*)mi_malloc(size);
        check(mine[k] != NULL);
        block_sign(mine[k], size, i);
      }
    }
    check(mi_malloc(too_much) == NULL);  // an error, with a message
    burst();
    mi_stats_print_out(on_output, NULL);
  }
  for (size_t i = 0; i < N; i++) mi_free(mine[i]);
  mi_free(mine);
  for (size_t i = 0; i < 8; i++) {
    mi_free(kept[i]);
    kept[i] = NULL;
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  setvbuf(stdout, NULL, _IONBF, 0);
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_max_errors, 1000000);
  mi_register_output(on_output, NULL);
  mi_register_error(on_error, NULL);
  mi_register_deferred_free(on_deferred, NULL);
  pthread_t threads[64];
  const int n = stress_threads < 64 ? stress_threads : 64;
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)(uintptr_t)(i + 1));
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  printf("%zu outputs, %zu errors, %zu deferred frees\n", (size_t)outputs, (size_t)errors,
         (size_t)deferred);
  check(outputs > 0 && errors > 0 && deferred > 0);
  return 0;
}
