// SPDX-License-Identifier: MIT
// How likely a stray access faults that goes a distance before or behind a block, over many starts
// of a small program.
//
//   stray STARTS [LEAST...]   a line for each distance: of how many accesses out of a hundred are
//                             stopped, for blocks of 24, 4,000 and 200,000 bytes; with LEAST, a
//                             list of SIZE:DISTANCE:PERCENT, status 1 where it is less
//
// Each start is a process of its own with 2,000 blocks of 16 to 4,096 bytes, a few of them large,
// every third one freed again: about 2 MiB. The kernel is asked whether a byte can be read, since
// it answers what a processor would, without a fault.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 2000
#define SIZES 3
#define DISTANCES 7

static const size_t sizes[SIZES] = {24, 4000, 200000};
static const size_t distances[DISTANCES] = {
    32, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, (size_t)1 << 30};

static int ends[2];

static int is_stopped(uintptr_t at) {
  if (write(ends[1], (const void*)at, 1) != 1) return 1;
  char byte;
  return read(ends[0], &byte, 1) != 1;
}

static unsigned random_state;

static unsigned next_random(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

// One start: for each size and distance how many of two accesses were stopped, as characters.
static int run_once(unsigned seed) {
  static void* blocks[BLOCKS];
  char answer[SIZES * DISTANCES];
  random_state = seed;
  for (int i = 0; i < BLOCKS; i++) {
    const size_t size = (i % 100 == 0 ? 200000 : 16 + next_random() % (i % 4 == 0 ? 4081 : 241));
    blocks[i] = malloc(size);
    if (blocks[i] == NULL) return 2;
    memset(blocks[i], 1, size < 64 ? size : 64);
  }
  for (int i = 0; i < BLOCKS; i += 3) free(blocks[i]);
  if (pipe(ends) != 0) return 2;
  for (int s = 0; s < SIZES; s++) {
    for (int warm = 0; warm < 20; warm++) free(malloc(sizes[s]));
    char* const block = (char*)malloc(sizes[s]);
    if (block == NULL) return 2;
    block[0] = block[sizes[s] - 1] = 1;
    for (int d = 0; d < DISTANCES; d++) {
      const int stopped = is_stopped((uintptr_t)block - distances[d]) +
                          is_stopped((uintptr_t)block + sizes[s] - 1 + distances[d]);
      answer[s * DISTANCES + d] = (char)('0' + stopped);
    }
  }
  return write(1, answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 2;
}

static int start_once(const char* self, unsigned seed, int out[SIZES][DISTANCES]) {
  int answers[2];
  char text[16], answer[SIZES * DISTANCES];
  snprintf(text, sizeof(text), "%u", seed);
  if (pipe(answers) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    dup2(answers[1], 1);
    close(answers[0]);
    close(answers[1]);
    execl(self, self, "once", text, (char*)NULL);
    _exit(3);
  }
  close(answers[1]);
  const ssize_t n = read(answers[0], answer, sizeof(answer));
  close(answers[0]);
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child) return 0;
  if (n != (ssize_t)sizeof(answer) || status != 0) return 0;
  for (int s = 0; s < SIZES; s++) {
    for (int d = 0; d < DISTANCES; d++) out[s][d] += answer[s * DISTANCES + d] - '0';
  }
  return 1;
}

static int check(const char* least, int counts[SIZES][DISTANCES], int starts) {
  unsigned long size, distance;
  unsigned percent;
  if (sscanf(least, "%lu:%lu:%u", &size, &distance, &percent) != 3) return 2;
  for (int s = 0; s < SIZES; s++) {
    for (int d = 0; d < DISTANCES; d++) {
      if (sizes[s] != size || distances[d] != distance) continue;
      if (50.0 * counts[s][d] / starts >= percent) return 0;
      printf("less than %s\n", least);
      return 1;
    }
  }
  return 2;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "once") == 0) return run_once((unsigned)atoi(argv[2]));
  const int starts = (argc < 2 ? 0 : atoi(argv[1]));
  static int counts[SIZES][DISTANCES];
  if (starts < 1) return 2;
  for (int i = 0; i < starts; i++) {
    if (!start_once(argv[0], (unsigned)i, counts)) {
      printf("start %d failed\n", i);
      return 2;
    }
  }
  printf("%12s", "distance");
  for (int s = 0; s < SIZES; s++) printf("%10zu", sizes[s]);
  for (int d = 0; d < DISTANCES; d++) {
    printf("\n%12zu", distances[d]);
    for (int s = 0; s < SIZES; s++) printf("%9.2f%%", 50.0 * counts[s][d] / starts);
  }
  printf("\n");
  int status = 0;
  for (int i = 2; i < argc; i++) {
    const int one = check(argv[i], counts, starts);
    if (one > status) status = one;
  }
  return status;
}
