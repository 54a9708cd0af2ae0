// SPDX-License-Identifier: MIT
// Memory grows while most of it lies in pages that are nearly free: each thread fills pages of one
// size, frees all but a few blocks of them, and goes on with another size. So the walk that makes
// holes when memory grows meets pages of threads that free into them, that allocate from them again,
// and that end. Survivors are handed to other threads and are freed by those. Now and then a child
// is forked in the middle of it, which checks and frees what it finds and grows itself.
#include "stress.h"

#include <errno.h>
#include <sys/wait.h>

#define PLACES 4096
#define ROUND_BYTES ((size_t)6 << 20)
#define SURVIVORS 64  // one block of so many stays
#define FORKS_MAX 40

static _Atomic(block_t*) places[PLACES];
static atomic_size_t rounds, forks;

static const size_t sizes[] = {32, 80, 256, 640, 1024, 2048, 4096, 8192, 20000};

static void leave(random_t* r, block_t* survivor) {
  block_free(atomic_exchange(&places[random_below(r, PLACES)], survivor));
}

static void grow(random_t* r, size_t bytes) {
  const size_t size = sizes[random_below(r, sizeof(sizes) / sizeof(sizes[0]))];
  const size_t count = bytes / size;
  block_t** blocks = (block_t**)malloc(count * sizeof(block_t*));
  check(blocks != NULL);
  for (size_t i = 0; i < count; i++) blocks[i] = block_new(size, random_next(r));
  const size_t stays = random_below(r, SURVIVORS);
  for (size_t i = 0; i < count; i++) {
    if (i % SURVIVORS == stays) leave(r, blocks[i]);
    else block_free(blocks[i]);
  }
  free(blocks);
  atomic_fetch_add(&rounds, 1);
}

static void be_child(random_t* r) {
  alarm(60);
  for (size_t i = 0; i < PLACES; i++) {
    if (random_below(r, 2) == 0) block_free(atomic_exchange(&places[i], (block_t*)NULL));
  }
  grow(r, ROUND_BYTES);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_exchange(&places[i], (block_t*)NULL));
  _exit(0);
}

static void fork_once(random_t* r) {
  const pid_t child = fork();
  if (child == 0) be_child(r);
  if (child < 0) return;  // too many processes: not our matter
  int status = 0;
  while (waitpid(child, &status, 0) < 0) check(errno == EINTR);
  if (status != 0) fail("a child ended with %x", (unsigned)status);
}

static void* body(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  const size_t steps = 1 + random_below(&r, 20);
  for (size_t i = 0; i < steps && !stress_is_over(); i++) {
    grow(&r, ROUND_BYTES / (1 + random_below(&r, 8)));
    if (STRESS_TSAN || random_below(&r, 20) != 0) continue;
    if (atomic_fetch_add(&forks, 1) < FORKS_MAX * (size_t)(stress_seconds + 1)) fork_once(&r);
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  const size_t number = relay(body, 16);
  for (size_t i = 0; i < PLACES; i++) block_free(atomic_load(&places[i]));
  const size_t most = resident();
  printf("%zu rounds by %zu threads, %zu forks, resident %zu KiB\n", (size_t)rounds, number,
         (size_t)forks, most / 1024);
  return rounds == 0;
}
