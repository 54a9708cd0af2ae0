// SPDX-License-Identifier: MIT
// thread-churn: very many short threads.
//
// A thread per request: started, a few hundred blocks, most freed, one in twenty left to whoever
// joins it, ended. What counts is the price of a thread's first allocation and of its end, and
// whether memory stays bounded over thousands of threads.
//
// Arguments: threads alive at once, threads in all per line, blocks per thread.
#include "common.h"

typedef struct options {
  size_t total, blocks;
} options_t;

typedef struct gift {
  struct gift* next;
  size_t size;
} gift_t;

typedef struct request {
  size_t blocks;
  uint64_t seed;
  gift_t* left;
} request_t;

static void release(gift_t* gift) {
  bench_check(gift + 1, gift->size - sizeof *gift, gift->size);
  free(gift);
}

static void* serve(void* arg) {
  request_t* request = (request_t*)arg;
  bench_rng_t rng = bench_rng(request->seed);
  gift_t* mine = NULL;
  for (size_t i = 0; i < request->blocks; i++) {
    size_t size = sizeof(gift_t) + bench_between(&rng, 16, 500);
    gift_t* gift = (gift_t*)bench_need(malloc(size), size);
    gift->size = size;
    bench_stamp(gift + 1, size - sizeof *gift, size);
    gift_t** list = i % 20 == 0 ? &request->left : &mine;
    gift->next = *list;
    *list = gift;
  }
  while (mine != NULL) {
    gift_t* next = mine->next;
    release(mine);
    mine = next;
  }
  return NULL;
}

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  for (size_t n = 0; n < o->total; n++) {
    request_t request = {o->blocks, index * o->total + n, NULL};
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, &request) != 0) bench_fail("no thread started");
    pthread_join(thread, NULL);
    size_t count = 0;
    for (gift_t* gift = request.left; gift != NULL; count++) {
      gift_t* next = gift->next;
      release(gift);
      gift = next;
    }
    if (count != (o->blocks + 19) / 20) bench_fail("%zu blocks were left", count);
  }
}

int main(int argc, char** argv) {
  size_t lines = bench_arg(argc, argv, 1, 2);
  options_t o;
  o.total = bench_arg(argc, argv, 2, 20000);
  o.blocks = bench_arg(argc, argv, 3, 200);
  bench_threads(lines, work, &o);
  printf("thread-churn: %zu lines of %zu threads with %zu blocks each\n", lines, o.total,
         o.blocks);
  return 0;
}
