// SPDX-License-Identifier: MIT
// Two threads free the same block at the same moment.
//
// A catch: one of the two frees stops the program.
// probe: set=more size=8,4096,262144
#include "../probe.h"

static pthread_barrier_t start;

static void* free_at_start(void* p) {
  pthread_barrier_wait(&start);
  free(p);
  return NULL;
}

int main(int argc, char** argv) {
  probe_begin(argc, argv);
  void* p = probe_malloc(probe_size);
  void* q = probe_guilty ? probe_hide(p) : NULL;
  pthread_t a;
  pthread_t b;
  if (pthread_barrier_init(&start, NULL, 2) != 0) probe_setup_failed();
  if (pthread_create(&a, NULL, free_at_start, p) != 0) probe_setup_failed();
  if (pthread_create(&b, NULL, free_at_start, q) != 0) probe_setup_failed();
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  return probe_end();
}
