// SPDX-License-Identifier: MIT
// larson: a server whose objects outlive the threads that made them (Larson and Krishnan,
// "Memory allocation for long-running server applications", ISMM 1998).
//
// Each of N lines of work owns a table of blocks. A thread takes the table over, replaces blocks
// at random places a fixed number of times, then hands the table to a new thread and ends, so
// most blocks are freed by another thread than the one that allocated them, and usually after
// that one is gone ("bleeding" in the paper). Compiled a second time with LARSON_SIZED, every
// delete tells the size, which C++14 allocators may use to skip a lookup.
//
// Arguments: lines of work, generations, replacements per generation, blocks per table, smallest
// size, largest size.
#include <new>

#include "common.h"

namespace {

struct Options {
  size_t generations, replacements, blocks, smallest, largest;
};

struct Slot {
  char* block;
  size_t size;
};

// On cache lines of its own: its thread writes `rng` with each call, and where two lines of work would
// share one depends on the allocator that was asked for them.
struct alignas(128) Line {
  const Options* options;
  Slot* slots;
  bench_rng_t rng;
  size_t generation;
  pthread_t thread;
};

void release(const Slot& slot) {
#if defined(LARSON_SIZED)
  ::operator delete(static_cast<void*>(slot.block), slot.size);
#else
  ::operator delete(static_cast<void*>(slot.block));
#endif
}

void fill(Line& line, size_t i) {
  const Options& o = *line.options;
  Slot& slot = line.slots[i];
  slot.size = bench_between(&line.rng, o.smallest, o.largest);
  slot.block = static_cast<char*>(::operator new(slot.size));
  bench_stamp(slot.block, slot.size, i);
}

// One generation: the thread works on the table that it inherited and leaves it behind.
void* generation(void* arg) {
  Line& line = *static_cast<Line*>(arg);
  for (size_t n = 0; n < line.options->replacements; n++) {
    size_t i = bench_below(&line.rng, line.options->blocks);
    bench_check(line.slots[i].block, line.slots[i].size, i);
    release(line.slots[i]);
    fill(line, i);
  }
  return nullptr;
}

void start(Line& line) {
  if (pthread_create(&line.thread, nullptr, generation, &line) != 0) {
    bench_fail("cannot start a thread");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = bench_arg(argc, argv, 1, 2);
  Options o;
  o.generations = bench_arg(argc, argv, 2, 100);
  o.replacements = bench_arg(argc, argv, 3, 150000);
  o.blocks = bench_arg(argc, argv, 4, 5000);
  o.smallest = bench_arg(argc, argv, 5, 8);
  o.largest = bench_arg(argc, argv, 6, 1000);
  if (count == 0 || o.blocks == 0 || o.smallest == 0 || o.largest < o.smallest) {
    bench_fail("arguments out of range");
  }
  Line* lines = new Line[count];
  for (size_t k = 0; k < count; k++) {
    lines[k].options = &o;
    lines[k].slots = new Slot[o.blocks];
    lines[k].rng = bench_rng(k);
    for (size_t i = 0; i < o.blocks; i++) fill(lines[k], i);
  }
  // All lines change threads at the same moment; the main thread only waits in between.
  for (size_t g = 0; g < o.generations; g++) {
    for (size_t k = 0; k < count; k++) start(lines[k]);
    for (size_t k = 0; k < count; k++) pthread_join(lines[k].thread, nullptr);
  }
  for (size_t k = 0; k < count; k++) {
    for (size_t i = 0; i < o.blocks; i++) {
      bench_check(lines[k].slots[i].block, lines[k].slots[i].size, i);
      release(lines[k].slots[i]);
    }
    delete[] lines[k].slots;
  }
  delete[] lines;
  printf("larson: %zu lines, %zu generations of %zu replacements, %zu blocks each\n", count,
         o.generations, o.replacements, o.blocks);
  return 0;
}
