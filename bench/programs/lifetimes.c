// SPDX-License-Identifier: MIT
// lifetimes: hours of a server's life, simulated by a virtual clock.
//
// Objects are born at a rate that swings with the hour (two busy times a day, quiet nights) and
// die at a time drawn at birth: most within milliseconds, some after minutes, few after many
// hours. Size goes with the kind of object: requests, sessions, cache entries, logs. Long-lived
// objects are thus strewn among short-lived ones, and the peak of the day is followed by a night
// in which most of the memory should be free: this is where fragmentation grows. Peak and
// night-time resident memory over what is alive are printed as figures of the run.
//
// Arguments: threads, simulated hours, births per simulated second (mean).
#include <math.h>

#include "common.h"

enum { TICKS_PER_SECOND = 20, WHEEL = 1 << 16, KINDS = 5 };

// A kind's share of births, size range, and mean lifetime in seconds (exponential).
static const struct kind {
  unsigned percent;
  size_t smallest, largest;
  double lifetime;
} kinds[KINDS] = {
    {70, 16, 256, 0.03},      // temporaries of a request
    {19, 64, 2048, 2.0},      // requests
    {8, 200, 6000, 60.0},     // sessions
    {2, 500, 40000, 1800.0},  // cache entries
    {1, 32, 400, 14400.0},    // index nodes
};

typedef struct object {
  struct object* next;
  uint32_t size, turns;  // turns of the wheel still to wait
} object_t;

typedef struct world {
  object_t** wheel;
  bench_rng_t rng;
  size_t live_bytes, live_peak, born, died;
} world_t;

static void release(world_t* world, object_t* object) {
  bench_check(object + 1, object->size - sizeof *object, object->size);
  world->live_bytes -= object->size;
  world->died++;
  free(object);
}

static void birth(world_t* world, size_t tick) {
  size_t draw = bench_below(&world->rng, 100), k = 0;
  while (draw >= kinds[k].percent) draw -= kinds[k++].percent;
  double u = (double)(bench_next(&world->rng) >> 11) * 0x1p-53;
  size_t ticks = 1 + (size_t)(-log(1 - u) * kinds[k].lifetime * TICKS_PER_SECOND);
  size_t size = sizeof(object_t) + bench_between(&world->rng, kinds[k].smallest, kinds[k].largest);
  object_t* object = (object_t*)bench_need(malloc(size), size);
  object_t** place = &world->wheel[(tick + ticks) % WHEEL];
  object->size = (uint32_t)size;
  object->turns = (uint32_t)(ticks / WHEEL);
  object->next = *place;
  *place = object;
  memset(object + 1, (int)tick, size - sizeof *object);
  bench_stamp(object + 1, size - sizeof *object, size);
  world->live_bytes += size;
  if (world->live_bytes > world->live_peak) world->live_peak = world->live_bytes;
  world->born++;
}

static void deaths(world_t* world, size_t tick) {
  object_t** place = &world->wheel[tick % WHEEL];
  while (*place != NULL) {
    object_t* object = *place;
    if (object->turns > 0) {
      object->turns--;
      place = &object->next;
    } else {
      *place = object->next;
      release(world, object);
    }
  }
}

// 0.1 in the small hours, 1.9 at the busy ones; about 1 over the day.
static double load(double hour) {
  double phase = fmod(hour, 24) / 24 * 2 * 3.14159265358979;
  double value = 1 - 0.7 * cos(phase) - 0.3 * cos(2 * phase);
  return value < 0.1 ? 0.1 : value;
}

static size_t resident_bytes(void) {
  size_t pages = 0, unused;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%zu %zu", &unused, &pages) != 2) pages = 0;
  fclose(file);
  return pages * 4096;
}

typedef struct options {
  size_t hours, rate;
  size_t night_resident, night_live[64];
} options_t;

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  world_t world = {NULL, bench_rng(index), 0, 0, 0, 0};
  world.wheel = (object_t**)bench_need(calloc(WHEEL, sizeof(object_t*)), WHEEL);
  size_t ticks = o->hours * 3600 * TICKS_PER_SECOND, night = ticks - 1;
  double owed = 0;
  for (size_t tick = 0; tick < ticks; tick++) {
    if (tick % TICKS_PER_SECOND == 0) {
      owed += (double)o->rate * load((double)tick / TICKS_PER_SECOND / 3600);
    }
    deaths(&world, tick);
    // A second's births spread over its ticks.
    size_t now = (size_t)(owed / (double)(TICKS_PER_SECOND - tick % TICKS_PER_SECOND));
    for (size_t n = 0; n < now; n++) birth(&world, tick);
    owed -= (double)now;
    if (tick == night) o->night_live[index] = world.live_bytes;
  }
  if (index == 0) o->night_resident = resident_bytes();
  for (size_t place = 0; place < WHEEL; place++) {
    while (world.wheel[place] != NULL) {
      object_t* object = world.wheel[place];
      world.wheel[place] = object->next;
      release(&world, object);
    }
  }
  free(world.wheel);
  if (world.born != world.died || world.live_bytes != 0) bench_fail("objects were lost");
}

int main(int argc, char** argv) {
  static options_t o;
  size_t threads = bench_arg(argc, argv, 1, 1);
  o.hours = bench_arg(argc, argv, 2, 24);
  o.rate = bench_arg(argc, argv, 3, 150);
  if (threads > 64) bench_fail("at most 64 threads");
  bench_threads(threads, work, &o);
  size_t live = 0;
  for (size_t i = 0; i < threads; i++) live += o.night_live[i];
  printf("lifetimes: %zu threads, %zu hours, %zu births a second\n", threads, o.hours, o.rate);
  printf("figure night-live %.1f MiB\n", (double)live / 1048576);
  printf("figure night-resident %.1f MiB\n", (double)o.night_resident / 1048576);
  return 0;
}
