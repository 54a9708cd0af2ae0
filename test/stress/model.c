// SPDX-License-Identifier: MIT
// Random calls against a model that knows every live block: where it lies, how large it is, what it
// is aligned to and what it holds. Sizes of 0 bytes to 64 MiB, alignments to 4 MiB, each thread with
// blocks of its own and some that change hands. The seed is printed; 0 chooses one by the clock.
//
// Contents are a function of the block's key and the position, so a block that two owners have, or
// that lost bytes when it was resized, shows up wherever it was damaged.
#include "stress.h"
#include <errno.h>
#include <malloc.h>

#define SLOTS 400
#define SHARED 64
#define MOST_SIZE ((size_t)64 << 20)
#define MOST_ALIGN ((size_t)4 << 20)
// What one thread may hold, so that the test fits small machines.
#define MOST_HELD ((size_t)160 << 20)

typedef struct known_s {
  unsigned char* start;
  size_t size;
  size_t align;
  uint64_t key;
} known_t;

typedef struct actor_s {
  random_t random;
  known_t slots[SLOTS];
  size_t held;
  size_t calls;
} actor_t;

static known_t shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_size_t all_calls;

// Every byte up to 4 KiB; of larger blocks both ends and one byte in each 1 KiB between, which is
// one in each OS page and more.
static size_t next_place(size_t at, size_t size) {
  if (at < 2048 || at + 2048 >= size) return at + 1;
  return at + 1024 < size - 2048 ? at + 1024 : size - 2048;
}

static unsigned char byte_at(uint64_t key, size_t at) {
  return (unsigned char)((key + at * 0x9e3779b97f4a7c15u) >> 56);
}

static void fill(const known_t* k) {
  for (size_t i = 0; i < k->size; i = next_place(i, k->size)) k->start[i] = byte_at(k->key, i);
}

static void expect(const known_t* k, size_t bytes) {
  for (size_t i = 0; i < bytes; i = next_place(i, k->size)) {
    if (k->start[i] != byte_at(k->key, i)) {
      fail("byte %zu of %zu at %p is %02x, not %02x", i, k->size, (void*)k->start, k->start[i],
           byte_at(k->key, i));
    }
  }
}

// Each doubling is as likely as the next, so that all bins and huge blocks are met; the largest are
// thinned out since they take the time of thousands.
static size_t some_size(random_t* r) {
  const size_t bits = random_below(r, random_below(r, 40) == 0 ? 27 : 18);
  if (bits == 0) return 0;
  const size_t top = (size_t)1 << (bits - 1);
  const size_t size = top + random_below(r, top + (random_below(r, 8) == 0));
  return size < MOST_SIZE ? size : MOST_SIZE;
}

static size_t some_align(random_t* r) {
  const size_t align = (size_t)16 << random_below(r, random_below(r, 20) == 0 ? 19 : 8);
  return align < MOST_ALIGN ? align : MOST_ALIGN;
}

static void look(const known_t* k) {
  if (((uintptr_t)k->start & (k->align - 1)) != 0) {
    fail("%p is not aligned to %zu", (void*)k->start, k->align);
  }
  if (malloc_usable_size(k->start) < k->size) fail("%p holds less than %zu", (void*)k->start, k->size);
}

static void make(actor_t* a, known_t* k) {
  k->size = some_size(&a->random);
  if (a->held + k->size > MOST_HELD) k->size %= 4096;
  k->align = 16;
  k->key = random_next(&a->random);
  void* p = NULL;
  switch (random_below(&a->random, 6)) {
    case 0:
      p = calloc(1, k->size);
      for (size_t i = 0; p != NULL && i < k->size; i = next_place(i, k->size)) {
        if (((unsigned char*)p)[i] != 0) fail("byte %zu of %zu from calloc is not 0", i, k->size);
      }
      break;
    case 1:
      k->align = some_align(&a->random);
      if (posix_memalign(&p, k->align, k->size) != 0) p = NULL;
      break;
    case 2:
      k->align = some_align(&a->random);
      p = aligned_alloc(k->align, k->size);
      break;
    default: p = malloc(k->size);
  }
  if (p == NULL) fail("no %zu bytes aligned to %zu: %s", k->size, k->align, strerror(errno));
  k->start = (unsigned char*)p;
  a->held += k->size;
  look(k);
  fill(k);
}

static void drop(actor_t* a, known_t* k) {
  expect(k, k->size);
  a->held -= k->size;
  free(k->start);
  k->start = NULL;
}

static void resize(actor_t* a, known_t* k) {
  size_t size = some_size(&a->random);
  if (random_below(&a->random, 2) == 0) size = k->size + random_below(&a->random, k->size / 4 + 8);
  if (size == 0 || size > MOST_SIZE || a->held + size > MOST_HELD) size = 1 + size % 4096;
  expect(k, k->size);
  unsigned char* const p = (unsigned char*)realloc(k->start, size);
  if (p == NULL) fail("no %zu bytes instead of %zu", size, k->size);
  // Which positions are looked at depends on the size: the old one decides for what was kept.
  const known_t old = {p, k->size, 16, k->key};
  for (size_t i = 0; i < k->size && i < size; i = next_place(i, k->size)) {
    if (p[i] != byte_at(old.key, i)) fail("byte %zu of %zu was lost by realloc to %zu", i, k->size, size);
  }
  a->held += size - k->size;
  *k = (known_t){p, size, 16, random_next(&a->random)};
  look(k);
  fill(k);
}

// Puts one's block where others find it, and takes what lies there.
static void hand_over(actor_t* a, known_t* k) {
  pthread_mutex_lock(&shared_lock);
  known_t* const place = &shared[random_below(&a->random, SHARED)];
  const known_t found = *place;
  *place = *k;
  pthread_mutex_unlock(&shared_lock);
  a->held -= k->size;
  *k = found;
  if (k->start != NULL) {
    a->held += k->size;
    expect(k, k->size);
  }
}

static void play(actor_t* a) {
  known_t* const k = &a->slots[random_below(&a->random, SLOTS)];
  a->calls++;
  if (k->start == NULL) {
    make(a, k);
    return;
  }
  switch (random_below(&a->random, 8)) {
    case 0:
    case 1: resize(a, k); break;
    case 2: hand_over(a, k); break;
    default: drop(a, k);
  }
}

static void* body(void* arg) {
  actor_t a;
  memset(&a, 0, sizeof(a));
  a.random = random_of((uint64_t)(uintptr_t)arg);
  while (!stress_is_over()) {
    for (int i = 0; i < 16; i++) play(&a);
  }
  for (size_t i = 0; i < SLOTS; i++) {
    if (a.slots[i].start != NULL) drop(&a, &a.slots[i]);
  }
  atomic_fetch_add(&all_calls, a.calls);
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (stress_seed == 0) stress_seed = (uint64_t)time(NULL);
  printf("seed %llu\n", (unsigned long long)stress_seed);
  fflush(stdout);
  pthread_t threads[16];
  const int n = stress_threads < 16 ? stress_threads : 16;
  for (int i = 0; i < n; i++) threads[i] = start(body, (void*)(uintptr_t)(i + 1));
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < SHARED; i++) {
    if (shared[i].start == NULL) continue;
    expect(&shared[i], shared[i].size);
    free(shared[i].start);
  }
  printf("%zu calls by %d threads\n", (size_t)all_calls, n);
  return all_calls == 0;
}
