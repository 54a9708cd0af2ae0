// SPDX-License-Identifier: MIT
// mstress: threads that come and go while their objects live on.
//
// After the description in mimalloc's documents: many allocations and reallocations, objects that
// migrate between threads, and worker threads that are created and destroyed a few times, some
// objects staying alive beyond the life of the thread that allocated them. Each worker keeps a
// table that it grows by realloc, replaces, resizes and frees entries, and swaps entries with a
// table that all share. At its end it frees most of what it has and leaves the rest, in the
// shared table, to the threads of the next round.
//
// Arguments: threads, steps per thread and round, rounds, shared places.
#include <stdatomic.h>

#include "common.h"

enum { LARGEST_SHARED = 1 << 16 };

typedef struct object {
  size_t size;
  uint64_t key;
} object_t;

typedef struct options {
  size_t steps, shared_count;
  atomic_size_t balance;  // objects allocated and not yet freed
  _Atomic(object_t*) shared[LARGEST_SHARED];
} options_t;

typedef struct table {
  object_t** entries;
  size_t count, capacity;
  size_t made, gone;
} table_t;

// Mostly small: each further factor of ten in size is ten times as rare.
static size_t draw(bench_rng_t* rng) {
  size_t size = 1 + bench_below(rng, 80);
  while (size < 100000 && bench_below(rng, 10) == 0) size *= 10;
  return sizeof(object_t) + size;
}

static uint8_t* payload(object_t* object) { return (uint8_t*)(object + 1); }

static void stamp(object_t* object, size_t size, uint64_t key) {
  object->size = size;
  object->key = key;
  bench_stamp(payload(object), size - sizeof *object, key);
}

static void check(object_t* object) {
  bench_check(payload(object), object->size - sizeof *object, object->key);
}

static object_t* make(table_t* table, bench_rng_t* rng) {
  size_t size = draw(rng);
  object_t* object = (object_t*)bench_need(
      bench_below(rng, 8) == 0 ? calloc(1, size) : malloc(size), size);
  stamp(object, size, bench_next(rng));
  table->made++;
  return object;
}

static void drop(table_t* table, object_t* object) {
  if (object == NULL) return;
  check(object);
  free(object);
  table->gone++;
}

static object_t* resize(object_t* object, bench_rng_t* rng) {
  size_t old_size = object->size, size = draw(rng);
  uint64_t key = object->key;
  check(object);
  uint8_t first = payload(object)[0];
  object = (object_t*)bench_need(realloc(object, size), size);
  // Only the first byte is sure to lie in both, and to be the stamp's.
  if (object->size != old_size || payload(object)[0] != first) bench_fail("realloc lost bytes");
  stamp(object, size, key);
  return object;
}

static void append(table_t* table, object_t* object) {
  if (table->count == table->capacity) {
    table->capacity = table->capacity == 0 ? 8 : table->capacity + table->capacity / 2;
    size_t bytes = table->capacity * sizeof *table->entries;
    table->entries = (object_t**)bench_need(realloc(table->entries, bytes), bytes);
  }
  table->entries[table->count++] = object;
}

// One step in eight each resizes and migrates; the table grows to a few thousand and stays there.
static void step(options_t* o, table_t* table, bench_rng_t* rng) {
  size_t what = bench_below(rng, 8);
  if (table->count == 0 || (what < 3 && table->count < 4000)) {
    append(table, make(table, rng));
    return;
  }
  size_t i = bench_below(rng, table->count);
  if (what == 6) {
    table->entries[i] = resize(table->entries[i], rng);
  } else if (what == 7) {
    size_t place = bench_below(rng, o->shared_count);
    object_t* other = atomic_exchange(&o->shared[place], table->entries[i]);
    table->entries[i] = other != NULL ? other : make(table, rng);
    check(table->entries[i]);
  } else if (what < 3) {
    drop(table, table->entries[i]);
    table->entries[i] = make(table, rng);
  } else {
    drop(table, table->entries[i]);
    table->entries[i] = table->entries[--table->count];
  }
}

typedef struct round {
  options_t* options;
  size_t number;
} round_t;

static void work(size_t index, void* context) {
  const round_t* round = (const round_t*)context;
  options_t* o = round->options;
  bench_rng_t rng = bench_rng(round->number * 1000 + index);
  table_t table = {NULL, 0, 0, 0, 0};
  for (size_t n = 0; n < 4000; n++) append(&table, make(&table, &rng));
  for (size_t n = 0; n < o->steps; n++) step(o, &table, &rng);
  for (size_t i = 0; i < table.count; i++) {
    object_t* object = table.entries[i];
    if (i % 4 == 0) {
      object = atomic_exchange(&o->shared[bench_below(&rng, o->shared_count)], object);
    }
    drop(&table, object);
  }
  free(table.entries);
  atomic_fetch_add(&o->balance, table.made - table.gone);
}

int main(int argc, char** argv) {
  static options_t o;
  size_t threads = bench_arg(argc, argv, 1, 2);
  o.steps = bench_arg(argc, argv, 2, 500000);
  size_t rounds = bench_arg(argc, argv, 3, 16);
  o.shared_count = bench_arg(argc, argv, 4, 10000);
  if (o.shared_count == 0 || o.shared_count > LARGEST_SHARED) bench_fail("arguments out of range");
  for (size_t r = 0; r < rounds; r++) {
    round_t round = {&o, r};
    bench_threads(threads, work, &round);
  }
  table_t rest = {NULL, 0, 0, 0, 0};
  for (size_t i = 0; i < o.shared_count; i++) drop(&rest, atomic_exchange(&o.shared[i], NULL));
  if (rest.gone != o.balance) bench_fail("%zu objects left, not %zu", rest.gone, o.balance);
  printf("mstress: %zu threads, %zu rounds of %zu steps\n", threads, rounds, o.steps);
  return 0;
}
