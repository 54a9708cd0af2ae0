// SPDX-License-Identifier: MIT
// xmalloc-test: pure allocators and pure freers (Lever and Boreham, "Malloc() performance in a
// multithreaded Linux environment", USENIX Freenix 2000, in its later asymmetric form).
//
// N threads only allocate and N threads only free; blocks travel in batches through one bounded
// queue. Every free is a remote one, and a thread cache on the freeing side can never use what it
// collects, so an allocator has to carry all memory back. The queue is bounded in batches, and the
// first one is taken when it is full: as much is live at most whichever side is the faster one, and
// memory can be compared (the published program allocates more the faster it runs).
//
// Arguments: threads of each kind, batches per allocator, blocks in a batch, largest size, queue
// length in batches.
#include <stdbool.h>

#include "common.h"

typedef struct batch {
  struct batch* next;
  size_t count;
  struct entry {
    void* block;
    size_t size;
  } entries[];
} batch_t;

typedef struct queue {
  pthread_mutex_t lock;
  pthread_cond_t not_empty, not_full;
  batch_t *first, *last;
  size_t length, limit, producers;
  bool was_full;
} queue_t;

typedef struct options {
  size_t threads, batches, count, largest;
  queue_t queue;
} options_t;

static void put(queue_t* queue, batch_t* batch) {
  batch->next = NULL;
  pthread_mutex_lock(&queue->lock);
  while (queue->length == queue->limit) pthread_cond_wait(&queue->not_full, &queue->lock);
  if (queue->last == NULL) {
    queue->first = batch;
  } else {
    queue->last->next = batch;
  }
  queue->last = batch;
  queue->length++;
  if (queue->length == queue->limit && !queue->was_full) {
    queue->was_full = true;
    pthread_cond_broadcast(&queue->not_empty);
  }
  pthread_cond_signal(&queue->not_empty);
  pthread_mutex_unlock(&queue->lock);
}

// NULL once the queue is empty and the last allocator has ended.
static batch_t* take(queue_t* queue) {
  pthread_mutex_lock(&queue->lock);
  while ((queue->first == NULL || !queue->was_full) && queue->producers > 0) {
    pthread_cond_wait(&queue->not_empty, &queue->lock);
  }
  batch_t* batch = queue->first;
  if (batch != NULL) {
    queue->first = batch->next;
    if (queue->first == NULL) queue->last = NULL;
    queue->length--;
    pthread_cond_signal(&queue->not_full);
  }
  pthread_mutex_unlock(&queue->lock);
  return batch;
}

static void allocator(size_t index, options_t* o) {
  bench_rng_t rng = bench_rng(index);
  for (size_t n = 0; n < o->batches; n++) {
    size_t bytes = sizeof(batch_t) + o->count * sizeof(struct entry);
    batch_t* batch = (batch_t*)bench_need(malloc(bytes), bytes);
    batch->count = o->count;
    for (size_t i = 0; i < o->count; i++) {
      // The square of a uniform number: small sizes are common and large ones rare.
      size_t u = bench_below(&rng, 1024);
      size_t size = 8 + u * u * o->largest / (1024 * 1024);
      batch->entries[i].size = size;
      batch->entries[i].block = bench_need(malloc(size), size);
      bench_stamp(batch->entries[i].block, size, i);
    }
    put(&o->queue, batch);
  }
  pthread_mutex_lock(&o->queue.lock);
  o->queue.producers--;
  pthread_cond_broadcast(&o->queue.not_empty);
  pthread_mutex_unlock(&o->queue.lock);
}

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  if (index < o->threads) {
    allocator(index, o);
    return;
  }
  for (batch_t* batch = take(&o->queue); batch != NULL; batch = take(&o->queue)) {
    for (size_t i = 0; i < batch->count; i++) {
      bench_check(batch->entries[i].block, batch->entries[i].size, i);
      free(batch->entries[i].block);
    }
    free(batch);
  }
}

int main(int argc, char** argv) {
  static options_t o;
  o.threads = bench_arg(argc, argv, 1, 1);
  o.batches = bench_arg(argc, argv, 2, 20000);
  o.count = bench_arg(argc, argv, 3, 1000);
  o.largest = bench_arg(argc, argv, 4, 1000);
  o.queue.limit = bench_arg(argc, argv, 5, 16);
  if (o.queue.limit == 0 || o.count == 0) bench_fail("arguments out of range");
  pthread_mutex_init(&o.queue.lock, NULL);
  pthread_cond_init(&o.queue.not_empty, NULL);
  pthread_cond_init(&o.queue.not_full, NULL);
  o.queue.producers = o.threads;
  bench_threads(2 * o.threads, work, &o);
  if (o.queue.length != 0) bench_fail("%zu batches were left over", o.queue.length);
  printf("xmalloc-test: %zu allocators and %zu freers, %zu blocks\n", o.threads, o.threads,
         o.threads * o.batches * o.count);
  return 0;
}
