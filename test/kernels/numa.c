// SPDX-License-Identifier: MIT
// Memory near the processors that use it, on a machine with two NUMA nodes, which the library
// otherwise only pretends: heaps with mi_heap_set_numa_affinity get theirs on that node, and with
// `arena_is_numa_local` each thread gets its own.
#include "guest.h"

#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <sched.h>

#define BLOCKS 60

static void stay_on(int node) {
  char path[64];
  snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
  const long cpu = file_number(path);  // the first of the list
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cpu, &set);
  CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

// How many of some blocks, small and huge ones, are on the node when they are touched from here.
static int count_on(int node, void* (*get)(size_t, void*), void* arg) {
  static const size_t sizes[] = {200, 30000, 300 * KIB, 5 * MIB};
  int count = 0;
  for (int i = 0; i < BLOCKS; i++) {
    const size_t size = sizes[i % 4];
    unsigned char* const p = (unsigned char*)get(size, arg);
    CHECK_ROW(p != NULL, i);
    memset(p, 1, size);
    count += node_of(p + size / 2) == node;
  }
  return count;
}

static void* of_heap(size_t size, void* heap) { return mi_heap_malloc((mi_heap_t*)heap, size); }

static void* of_thread(size_t size, void* unused) {
  (void)unused;
  return mi_malloc(size);
}

// A heap's blocks are on its node, though the thread is on the other one.
static void test_affinity(void) {
  for (int node = 0; node < 2; node++) {
    stay_on(1 - node);
    mi_heap_t* const heap = mi_heap_new();
    mi_heap_set_numa_affinity(heap, node);
    const int found = count_on(node, of_heap, heap);
    printf("affinity to node %d: %d of %d blocks\n", node, found, BLOCKS);
    CHECK_ROW(found == BLOCKS, node);
    mi_heap_destroy(heap);
  }
}

// Both stay until both are done: what a thread leaves when it ends may serve any other.
static pthread_barrier_t done;

static void* on_own_node(void* arg) {
  const int node = (int)(intptr_t)arg;
  stay_on(node);
  const int found = count_on(node, of_thread, NULL);
  printf("thread on node %d: %d of %d blocks\n", node, found, BLOCKS);
  pthread_barrier_wait(&done);
  CHECK_ROW(found == BLOCKS, node);
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[2];
  mi_option_set(mi_option_arena_is_numa_local, 1);
  pthread_barrier_init(&done, NULL, 2);
  for (intptr_t node = 0; node < 2; node++) {
    CHECK(pthread_create(&threads[node], NULL, on_own_node, (void*)node) == 0);
  }
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  CHECK(access("/sys/devices/system/node/node1", F_OK) == 0);
  test_affinity();
  test_threads();
  return 0;
}
