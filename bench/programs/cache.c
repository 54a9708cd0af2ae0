// SPDX-License-Identifier: MIT
// cache-scratch and cache-thrash: false sharing that an allocator causes (Berger et al., "Hoard:
// a scalable memory allocator for multithreaded applications", ASPLOS 2000).
//
// thrash (active): every thread allocates a small object, writes to it many times, frees it, and
// again. An allocator that gives parts of one cache line to several threads makes their writes
// collide. scratch (passive): the first objects are allocated by the main thread, close to each
// other, and handed to the threads, which free them before they go on as above; an allocator that
// lets them reuse that memory passes the sharing on.
//
// Arguments: mode (0 thrash, 1 scratch), threads, objects per thread, writes to each, size.
#include "common.h"

typedef struct options {
  size_t mode, objects, writes, size;
  void** gifts;
} options_t;

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  if (o->mode == 1) free(o->gifts[index]);
  for (size_t n = 0; n < o->objects; n++) {
    volatile uint8_t* object = (volatile uint8_t*)bench_need(malloc(o->size), o->size);
    for (size_t b = 0; b < o->size; b++) object[b] = (uint8_t)index;
    for (size_t w = 0; w < o->writes; w++) {
      for (size_t b = 0; b < o->size; b++) object[b] = (uint8_t)(object[b] + 1);
    }
    for (size_t b = 0; b < o->size; b++) {
      if (object[b] != (uint8_t)(index + o->writes)) bench_fail("a write was lost");
    }
    free((void*)(uintptr_t)object);
  }
}

int main(int argc, char** argv) {
  options_t o;
  o.mode = bench_arg(argc, argv, 1, 0);
  size_t threads = bench_arg(argc, argv, 2, 1);
  o.objects = bench_arg(argc, argv, 3, 1000);
  o.writes = bench_arg(argc, argv, 4, 100000);
  o.size = bench_arg(argc, argv, 5, 8);
  if (o.mode > 1 || o.size == 0) bench_fail("arguments out of range");
  o.gifts = (void**)bench_need(malloc(threads * sizeof *o.gifts), threads);
  for (size_t i = 0; o.mode == 1 && i < threads; i++) {
    o.gifts[i] = bench_need(malloc(o.size), o.size);
    bench_stamp(o.gifts[i], o.size, i);
  }
  bench_threads(threads, work, &o);
  free(o.gifts);
  printf("cache-%s: %zu threads, %zu objects of %zu bytes each\n",
         o.mode == 1 ? "scratch" : "thrash", threads, o.objects, o.size);
  return 0;
}
