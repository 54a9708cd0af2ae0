// SPDX-License-Identifier: MIT
// Allocates as a database's cache does: values of 64 bytes to 32 KiB under keys, found by a table,
// kept in the order of their use, the oldest thrown out when a budget of bytes is used up. Values
// are read, replaced, and grow; what sizes are asked for changes all the time, in a cycle of ten seconds.
#include "user.h"

#define PARTS 8
#define BUCKETS 4096
#define BUDGET ((size_t)12 << 20)  // of a part

typedef struct entry_s {
  struct entry_s *next, *newer, *older;
  uint64_t key;
  size_t size;
  unsigned char* value;
} entry_t;

typedef struct part_s {
  pthread_mutex_t lock;
  entry_t* buckets[BUCKETS];
  entry_t *newest, *oldest;
  size_t bytes;
} part_t;

static part_t parts[PARTS];

static void unlink_entry(part_t* p, entry_t* e) {
  *(e->newer != NULL ? &e->newer->older : &p->newest) = e->older;
  *(e->older != NULL ? &e->older->newer : &p->oldest) = e->newer;
}

static void link_entry(part_t* p, entry_t* e) {
  e->newer = NULL;
  e->older = p->newest;
  *(p->newest != NULL ? &p->newest->newer : &p->oldest) = e;
  p->newest = e;
}

static void throw_out(part_t* p) {
  entry_t* const e = p->oldest;
  entry_t** link = &p->buckets[e->key / PARTS % BUCKETS];
  while (*link != e) link = &(*link)->next;
  *link = e->next;
  unlink_entry(p, e);
  p->bytes -= e->size;
  check(e->value[0] == (unsigned char)e->key && e->value[e->size - 1] == (unsigned char)e->key);
  free(e->value);
  free(e);
}

static void set_size(part_t* p, entry_t* e, size_t size) {
  e->value = realloc(e->value, size);
  check(e->value != NULL);
  p->bytes += size - e->size;
  e->size = size;
  memset(e->value, (int)e->key, size);
}

static entry_t* find(part_t* p, uint64_t key) {
  entry_t* e = p->buckets[key / PARTS % BUCKETS];
  while (e != NULL && e->key != key) e = e->next;
  return e;
}

// Small values are common, and between them a band of sizes that wanders.
static size_t size_now(random_t* r) {
  const double phase = stress_time() / 10 - (double)(long)(stress_time() / 10);
  if (random_below(r, 4) == 0) return 2048 + (size_t)(phase * 28000) + random_below(r, 2048);
  return 64 + random_below(r, random_below(r, 10) == 0 ? 8000 : 900);
}

static void use_key(random_t* r) {
  // Squared, so that some keys are wanted more than others.
  const uint64_t pick = random_below(r, 1000);
  const uint64_t key = pick * pick / 4 + random_below(r, 250);
  part_t* const p = &parts[key % PARTS];
  pthread_mutex_lock(&p->lock);
  entry_t* e = find(p, key);
  if (e == NULL) {
    e = calloc(1, sizeof(*e));
    check(e != NULL);
    e->key = key;
    e->next = p->buckets[key / PARTS % BUCKETS];
    p->buckets[key / PARTS % BUCKETS] = e;
    set_size(p, e, size_now(r));
    link_entry(p, e);
  } else {
    check(e->value[e->size / 2] == (unsigned char)e->key);
    if (random_below(r, 8) == 0) set_size(p, e, size_now(r));
    unlink_entry(p, e);
    link_entry(p, e);
  }
  while (p->bytes > BUDGET) throw_out(p);
  pthread_mutex_unlock(&p->lock);
}

static void* serve(void* arg) {
  random_t r = random_of((uint64_t)(intptr_t)arg);
  while (!stress_is_over()) {
    for (int i = 0; i < 50; i++) {
      const uint64_t begin = user_now();
      use_key(&r);
      user_took(begin);
    }
    usleep(500);
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  for (int i = 0; i < PARTS; i++) pthread_mutex_init(&parts[i].lock, NULL);
  user_run(serve, stress_threads < 16 ? stress_threads : 16, argc, argv);
  for (int i = 0; i < PARTS; i++) {
    while (parts[i].oldest != NULL) throw_out(&parts[i]);
  }
  return 0;
}
