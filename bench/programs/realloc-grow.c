// SPDX-License-Identifier: MIT
// realloc-grow: buffers that grow while others do.
//
// Strings, vectors and read buffers grow by realloc: some by a fixed piece, some by half of their
// size, some by doubling. Each line grows several buffers in turn from 16 bytes to a limit that
// differs by buffer (most end at some KiB, a few at tens of MiB), and the contents are compared
// after every move.
//
// Arguments: threads, buffers per thread.
#include "common.h"

enum { TOGETHER = 8 };

typedef struct buffer {
  uint32_t* words;
  size_t count, capacity, limit, growth;
} buffer_t;

static uint32_t value(size_t i) { return (uint32_t)(i * 2654435761u); }

static void start(buffer_t* buffer, bench_rng_t* rng, size_t number) {
  buffer->words = NULL;
  buffer->count = buffer->capacity = 0;
  buffer->growth = bench_below(rng, 3);
  // 1 KiB to 64 KiB as a rule, up to 16 MiB for one buffer in 200.
  buffer->limit = number % 200 == 199 ? (size_t)4 << 20 : (size_t)256 << bench_below(rng, 7);
  if (buffer->growth == 0 && buffer->limit > 65536) buffer->growth = 1;
}

static size_t next_capacity(const buffer_t* buffer) {
  if (buffer->capacity == 0) return 4;
  if (buffer->growth == 0) return buffer->capacity + 64;
  if (buffer->growth == 1) return buffer->capacity + buffer->capacity / 2;
  return buffer->capacity * 2;
}

// Compares the ends and a few words between: moving is what is measured, not comparing.
static void check(const buffer_t* buffer) {
  size_t stride = buffer->count / 8 + 1;
  for (size_t i = 0; i < buffer->count; i += stride) {
    if (buffer->words[i] != value(i)) bench_fail("realloc lost word %zu", i);
  }
  if (buffer->count > 0 && buffer->words[buffer->count - 1] != value(buffer->count - 1)) {
    bench_fail("realloc lost the last word");
  }
}

// Appends until the buffer had to grow once; 0 when it is complete.
static int grow(buffer_t* buffer) {
  if (buffer->count >= buffer->limit) return 0;
  buffer->capacity = next_capacity(buffer);
  size_t bytes = buffer->capacity * sizeof *buffer->words;
  buffer->words = (uint32_t*)bench_need(realloc(buffer->words, bytes), bytes);
  check(buffer);
  while (buffer->count < buffer->capacity) {
    buffer->words[buffer->count] = value(buffer->count);
    buffer->count++;
  }
  return 1;
}

static void work(size_t index, void* context) {
  size_t total = *(const size_t*)context, started = 0, finished = 0;
  bench_rng_t rng = bench_rng(index);
  buffer_t buffers[TOGETHER];
  memset(buffers, 0, sizeof buffers);
  while (finished < total) {
    for (size_t b = 0; b < TOGETHER; b++) {
      if (buffers[b].words == NULL) {
        if (started == total) continue;
        start(&buffers[b], &rng, started++);
      }
      if (grow(&buffers[b])) continue;
      check(&buffers[b]);
      // Shrunk to fit, read once more, and dropped.
      size_t bytes = buffers[b].count * sizeof *buffers[b].words;
      buffers[b].words = (uint32_t*)bench_need(realloc(buffers[b].words, bytes), bytes);
      check(&buffers[b]);
      free(buffers[b].words);
      buffers[b].words = NULL;
      finished++;
    }
  }
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1), total = bench_arg(argc, argv, 2, 20000);
  bench_threads(threads, work, &total);
  printf("realloc-grow: %zu threads, %zu buffers each\n", threads, total);
  return 0;
}
