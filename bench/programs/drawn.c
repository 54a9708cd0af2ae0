// SPDX-License-Identifier: MIT
// drawn: a load of which everything is drawn at random, by a seed.
//
// The other programs are loads that somebody thought of, and an allocator can come to know them.
// Here a number says how many threads there are, which sizes blocks have and how often each, how
// much of them is used, how many are live, in what order they go, how many another thread frees,
// whether they are resized, and whether the program has phases. A hundred numbers are a hundred
// programs that nobody has tuned anything for; what they are `drawn SEED 0` tells.
//
// Arguments: seed, amount of work (100: a tenth of a second or so with a fast allocator).
#include <math.h>
#include <stdbool.h>

#include "common.h"

#define BOX_PLACES 256
#define BOX_EVERY 64  // steps between two looks into a thread's box
#define THREADS_MAX 4
#define LIVE_MAX 300000

typedef enum spread { UNIFORM, DOUBLINGS, POWERS, MOSTLY_SMALL, TWO_SIZES, SPREADS } spread_t;
typedef enum order { ANY, OLDEST, MIDDLE, ORDERS } order_t;
typedef enum use { ALL, FIRST_BYTES, OS_PAGES } use_t;

static const char* const spreads[] = {"uniform", "each doubling", "powers of two", "mostly small",
                                      "two sizes"};
static const char* const orders[] = {"any", "the oldest", "mostly the middle"};
static const char* const uses[] = {"all", "the first bytes", "a byte of each OS page"};

typedef struct load {
  size_t threads, smallest, largest, live, steps, phases;
  size_t passes;   // one in so many blocks is freed by another thread; 0: none
  size_t resizes;  // one in so many steps resizes a block; 0: none
  spread_t spread;
  order_t order;
  use_t use;
} load_t;

// Blocks that others leave for a thread to free.
typedef struct box {
  pthread_mutex_t lock;
  size_t count;
  void* blocks[BOX_PLACES];
} box_t;

typedef struct slot {
  unsigned char* block;
  size_t size;
} slot_t;

static box_t boxes[THREADS_MAX];

// ---- the load ----------------------------------------------------------------------------------

static double fraction(bench_rng_t* rng) { return (double)(bench_next(rng) >> 11) * 0x1p-53; }

static double between_doublings(bench_rng_t* rng, double low, double high) {
  return exp(log(low) + fraction(rng) * (log(high) - log(low)));
}

static size_t draw_size(bench_rng_t* rng, const load_t* load) {
  const double low = (double)load->smallest, high = (double)load->largest;
  size_t size = 16;
  switch (load->spread) {
    case DOUBLINGS: return (size_t)between_doublings(rng, low, high);
    case POWERS:
      for (size_t least = (size_t)between_doublings(rng, low, high); size < least;) size *= 2;
      return size;
    case MOSTLY_SMALL:
      if (bench_below(rng, 20) == 0) return (size_t)between_doublings(rng, low, high);
      return bench_between(rng, load->smallest, 3 * load->smallest);
    case TWO_SIZES: return bench_below(rng, 2) == 0 ? load->smallest : load->largest;
    default: return bench_between(rng, load->smallest, load->largest);
  }
}

static size_t one_of(bench_rng_t* rng, const size_t* choices, size_t count) {
  return choices[bench_below(rng, count)];
}

#define ONE_OF(rng, ...) \
  one_of(rng, (const size_t[]){__VA_ARGS__}, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t))

// So many steps as take about a tenth of a second, by what a step and the use of a block cost.
static size_t steps_for(const load_t* load, double mean) {
  const double use = (load->use == ALL ? mean / 8e9 : 2e-9 + mean / 4096 * 1e-9);
  const double all = mean * (double)load->live * (double)load->threads;
  const double step = 20e-9 + use + (all > 4e6 ? 60e-9 : 0);
  const size_t steps = (size_t)(0.1 / step / (double)load->threads);
  return steps < 2 * load->live ? 2 * load->live : steps;
}

static load_t draw_load(size_t seed) {
  bench_rng_t rng = bench_rng(seed);
  for (int i = 0; i < 20; i++) bench_next(&rng);
  load_t load;
  load.threads = ONE_OF(&rng, 1, 1, 1, 2, THREADS_MAX);
  load.spread = (spread_t)bench_below(&rng, SPREADS);
  load.order = (order_t)bench_below(&rng, ORDERS);
  load.use = (use_t)ONE_OF(&rng, ALL, ALL, FIRST_BYTES, OS_PAGES);
  load.passes = (load.threads > 1 ? ONE_OF(&rng, 0, 0, 2, 10) : 0);
  load.resizes = ONE_OF(&rng, 0, 0, 0, 4);
  load.phases = ONE_OF(&rng, 1, 1, 5, 20);
  do {
    load.smallest = ONE_OF(&rng, 8, 16, 16, 24, 48, 64, 200, 1000, 5000);
    load.largest = ONE_OF(&rng, 64, 128, 256, 600, 1024, 2000, 8000, 40000, 200000, 1000000);
  } while (load.largest <= load.smallest);
  double mean = 0;
  for (int i = 0; i < 2000; i++) mean += (double)draw_size(&rng, &load) / 2000;
  const double bytes = between_doublings(&rng, 2e5, 6e7);
  load.live = (size_t)(bytes / mean / (double)load.threads);
  if (load.live < 50) load.live = 50;
  if (load.live > LIVE_MAX) load.live = LIVE_MAX;
  load.steps = steps_for(&load, mean);
  return load;
}

static void print_load(size_t seed, const load_t* load) {
  printf("drawn %zu: %zu threads, %zu blocks each of %zu to %zu bytes (%s), %zu steps in %zu phases; "
         "used: %s; freed: %s",
         seed, load->threads, load->live, load->smallest, load->largest, spreads[load->spread],
         load->steps, load->phases, uses[load->use], orders[load->order]);
  if (load->passes > 0) printf(", 1 in %zu by another thread", load->passes);
  if (load->resizes > 0) printf("; 1 step in %zu resizes", load->resizes);
  printf("\n");
}

// ---- a thread ----------------------------------------------------------------------------------

static void use_block(slot_t* slot, size_t from, size_t key, use_t use) {
  const size_t size = slot->size;
  if (use == ALL) memset(slot->block + from, 1, size - from);
  if (use == OS_PAGES) {
    for (size_t i = from; i < size; i += 4096) slot->block[i] = 1;
  }
  slot->block[0] = (unsigned char)key;
}

static void check_block(const slot_t* slot, size_t key) {
  if (slot->block[0] != (unsigned char)key) {
    bench_fail("block %p of %zu bytes was overwritten", (void*)slot->block, slot->size);
  }
}

static bool leave_block(bench_rng_t* rng, const load_t* load, void* block) {
  if (load->passes == 0 || bench_below(rng, load->passes) != 0) return false;
  box_t* const box = &boxes[bench_below(rng, load->threads)];
  pthread_mutex_lock(&box->lock);
  const bool has_room = (box->count < BOX_PLACES);
  if (has_room) box->blocks[box->count++] = block;
  pthread_mutex_unlock(&box->lock);
  return has_room;
}

static void empty_box(box_t* box) {
  void* blocks[BOX_PLACES];
  pthread_mutex_lock(&box->lock);
  size_t count = box->count;
  memcpy(blocks, box->blocks, count * sizeof(blocks[0]));
  box->count = 0;
  pthread_mutex_unlock(&box->lock);
  while (count > 0) free(blocks[--count]);
}

static void step(bench_rng_t* rng, const load_t* load, slot_t* slot, size_t key) {
  const size_t size = draw_size(rng, load);
  if (slot->block != NULL) check_block(slot, key);
  if (slot->block != NULL && load->resizes > 0 && bench_below(rng, load->resizes) == 0) {
    const size_t before = slot->size;
    slot->block = (unsigned char*)bench_need(realloc(slot->block, size), size);
    slot->size = size;
    check_block(slot, key);
    use_block(slot, before < size ? before : size, key, load->use);
    return;
  }
  if (slot->block != NULL && !leave_block(rng, load, slot->block)) free(slot->block);
  slot->block = (unsigned char*)bench_need(malloc(size), size);
  slot->size = size;
  use_block(slot, 0, key, load->use);
}

static size_t next_slot(bench_rng_t* rng, const load_t* load, size_t steps) {
  const size_t third = load->live / 3 + 1;
  if (load->order == OLDEST) return steps % load->live;
  if (load->order == ANY) return bench_below(rng, load->live);
  const size_t sum = bench_below(rng, third) + bench_below(rng, third) + bench_below(rng, third);
  return sum % load->live;
}

// At the end of a phase all go, in the order of the load: seven in eight of them but for the middle.
static void end_phase(bench_rng_t* rng, const load_t* load, slot_t* slots) {
  for (size_t i = 0; i < load->live; i++) {
    slot_t* const slot = &slots[load->order == MIDDLE ? load->live - 1 - i : i];
    if (load->order != MIDDLE && bench_below(rng, 8) == 0) continue;
    free(slot->block);
    slot->block = NULL;
  }
}

static void work(size_t index, void* context) {
  const load_t* const load = (const load_t*)context;
  bench_rng_t rng = bench_rng(index);
  slot_t* const slots = (slot_t*)bench_need(calloc(load->live, sizeof(slot_t)), load->live);
  size_t steps = 0;
  for (size_t phase = 1; phase <= load->phases; phase++) {
    for (; steps < load->steps / load->phases * phase; steps++) {
      const size_t i = next_slot(&rng, load, steps);
      step(&rng, load, &slots[i], i);
      if (load->passes > 0 && steps % BOX_EVERY == 0) empty_box(&boxes[index]);
    }
    if (load->phases > 1) end_phase(&rng, load, slots);
  }
  for (size_t i = 0; i < load->live; i++) free(slots[i].block);
  free(slots);
}

int main(int argc, char** argv) {
  const size_t seed = bench_arg(argc, argv, 1, 1), amount = bench_arg(argc, argv, 2, 100);
  load_t load = draw_load(seed);
  for (size_t i = 0; i < THREADS_MAX; i++) pthread_mutex_init(&boxes[i].lock, NULL);
  print_load(seed, &load);
  load.steps = load.steps * amount / 100;
  if (amount > 0) bench_threads(load.threads, work, &load);
  return 0;
}
