// SPDX-License-Identifier: MIT
// What is read-only after the start in hardened builds: a write to any of it ends the process, the
// calls that change settings go on working, from threads, in handlers and children of forks, and
// the kernel unmaps and protects nothing anew of what is sealed. In other builds the calls alone.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../../include/mimalloc.h"
#include "../../src/base/facts.h"
#include "../../src/base/hooks.h"
#include "../../src/heap/subproc.h"
#include "../../src/mem/pagemap.h"
#include "../../src/mem/random.h"
#include "../../src/mem/settings.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../child.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// ---- writes ------------------------------------------------------------------------------------

static void write_to(const void* p) {
  volatile char* const c = (volatile char*)(uintptr_t)p;
  *c = (char)(*c + 1);
  _exit(0);
}

static bool faults(const void* p) {
  run_child(write_to, p);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_writes(void) {
  const void* const places[] = {
      (const void*)&mx_settings.key0, (const void*)&mx_settings.key1,
      (const void*)&mx_settings.error_fun, (const void*)&mx_settings.output_fun,
      (const void*)&mx_settings.deferred_fun,
      (const void*)&mx_option_values[mx_opt_purge_delay], &mx_facts, &mx_facts.os_page, &mx_hooks,
      (const char*)(&mx_hooks + 1) - 1, &mx_pagemap_root,
  };
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    EXPECT(faults(places[i]) == (MX_READ_ONLY != 0));
  }
}

// ---- settings ----------------------------------------------------------------------------------

static int called;
static void on_output(const char* text, void* arg) { called += (text != NULL && arg == &called); }
static void on_error(int code, void* arg) { called += (code == EINVAL && arg == &failures); }
static void on_deferred(bool force, unsigned long long beat, void* arg) {
  called += (force && beat > 0 && arg == &status);
}

static void test_calls(void) {
  mi_option_set(mi_option_purge_delay, 123);
  EXPECT(mi_option_get(mi_option_purge_delay) == 123);
  mi_option_set(mi_option_guarded_min, 5000);
  EXPECT(mi_option_get(mi_option_guarded_min) == 5000);
  mi_register_output(on_output, &called);
  called = 0;
  mi_options_print();
  EXPECT(called > 0);
  mi_register_error(on_error, &failures);
  called = 0;
  mx_error(EINVAL, "a test\n");
  EXPECT(called >= 1);
  mi_register_deferred_free(on_deferred, &status);
  called = 0;
  mi_collect(true);
  EXPECT(called == 1);
  mi_register_deferred_free(NULL, NULL);
  mi_register_error(NULL, NULL);
  mi_register_output(NULL, NULL);
}

// ---- threads and forks -------------------------------------------------------------------------

#define THREADS 4
#define ROUNDS 500

static const mi_option_t own_option[THREADS] = {mi_option_max_errors, mi_option_max_warnings,
                                                mi_option_os_tag, mi_option_visit_abandoned};
static atomic_bool is_over;

static void* set_often(void* arg) {
  const mi_option_t option = own_option[(size_t)(uintptr_t)arg];
  for (long i = 0; i < ROUNDS || !is_over; i++) {
    mi_option_set(option, i);
    if (mi_option_get(option) != i) atomic_fetch_add((atomic_int*)(void*)&failures, 1);
    mi_free(mi_malloc((size_t)(i % 2000)));
  }
  return NULL;
}

static void set_in_child(const void* arg) {
  (void)arg;
  mi_option_set(mi_option_retry_on_oom, 77);
  if (mi_option_get(mi_option_retry_on_oom) != 77) _exit(1);
  if (faults(&mx_settings.key0) != (MX_READ_ONLY != 0)) _exit(2);
  _exit(0);
}

static void test_threads(void) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, set_often, (void*)(uintptr_t)i);
  }
  for (int i = 0; i < 20; i++) {
    run_child(set_in_child, NULL);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  is_over = true;
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  EXPECT(faults(&mx_settings.key0) == (MX_READ_ONLY != 0));
}

static uint64_t parent_key;

static void has_other_key(const void* arg) {
  (void)arg;
  _exit(mx_load_relaxed(&mx_settings.key0) != parent_key ? 0 : 1);
}

// As a handler that forks does where a call has the settings open.
static void close_in_child(const void* outer) {
  if (mx_load_relaxed(&mx_settings.key0) == parent_key) _exit(1);
  mi_option_set(mi_option_retry_on_oom, 78);
  mx_store_relaxed(&mx_option_values[mx_opt_retry_on_oom], 79L);
  mx_settings_close(*(const bool*)outer);
  if (faults(&mx_settings.key0) != (MX_READ_ONLY != 0)) _exit(2);
  _exit(0);
}

static void test_forks(void) {
  mx_random64();
  parent_key = mx_load_relaxed(&mx_settings.key0);
  run_child(has_other_key, NULL);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const bool outer = mx_settings_open();
  run_child(close_in_child, &outer);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  mx_store_relaxed(&mx_option_values[mx_opt_retry_on_oom], 80L);
  mx_settings_close(outer);
}

// ---- seals -------------------------------------------------------------------------------------

static bool kernel_seals(void) {
  const size_t size = 65536;
  void* const p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mx_os_seal(p, size);
  return munmap(p, size) != 0;
}

// In a child, since a range that is not sealed is gone.
static void change(const void* p) {
  void* const start = (void*)(uintptr_t)p;
  const size_t size = mx_facts.os_page;
  int changes = 0;
  changes += (mprotect(start, size, PROT_NONE) == 0);
  changes += (mmap(start, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
              MAP_FAILED);
  changes += (munmap(start, size) == 0);
  _exit(changes);
}

static void test_seals(void) {
  const bool expected = (MX_READ_ONLY && kernel_seals());
  const mx_arena_t* const arena = mx_arena_at(&mx_subproc_main.arenas, 0);
  const mx_meta_chunk_t* chunk = mx_load_acquire(&mx_meta_chunks);
  while (chunk != NULL && chunk->next != NULL) chunk = chunk->next;  // the first
  const void* const places[] = {&mx_facts, &mx_hooks, &mx_pagemap_root, arena, chunk};
  if (!MX_READ_ONLY) return;
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    run_child(change, places[i]);
    EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == 0) == expected);
  }
}

static void leave(const void* arg) {
  (void)arg;
  mi_option_set(mi_option_destroy_on_exit, 2);
  for (int i = 0; i < 100; i++) mi_free(mi_malloc(1000));
}

static void test_exit(void) {
  run_child(leave, NULL);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  mi_free(mi_malloc(1));
  test_writes();
  test_calls();
  test_threads();
  test_forks();
  test_seals();
  test_exit();
  test_writes();
  if (failures == 0) puts("ok");
  return failures != 0;
}
