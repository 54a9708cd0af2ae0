// SPDX-License-Identifier: MIT
// Blocks of which few stay: one or two in each OS page, by a function of their own. Writes what they
// pin to the file that is named.
#include <mimalloc-prof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 64
#define COUNT 1000000

static void* blocks[COUNT];

__attribute__((noinline)) static void* stays_alone(void) { return mi_malloc(SIZE); }
__attribute__((noinline)) static void* stays_paired(void) { return mi_malloc(SIZE); }
__attribute__((noinline)) static void* goes(void) { return mi_malloc(SIZE); }

// Which of its OS page a place in the order of allocation is: blocks are handed out by address.
static void fill(int from, int to, void* (*stay)(void), int each) {
  for (int i = from; i < to; i++) blocks[i] = (i % each == 0 ? stay() : goes());
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  mi_option_set(mi_option_purge_holes, 0);  // nothing is given back meanwhile
  mi_option_set(mi_option_prof_pins, 1);
  if (!mi_prof_start(1000)) return 3;
  const int per_page = (int)(sysconf(_SC_PAGESIZE) / SIZE);
  fill(0, COUNT / 2, stays_alone, per_page);
  fill(COUNT / 2, COUNT, stays_paired, per_page / 2);
  for (int i = 0; i < COUNT; i++) {
    if (i % (i < COUNT / 2 ? per_page : per_page / 2) != 0) mi_free(blocks[i]);
  }
  if (!mi_prof_write_file(MI_PROF_PINNED, argv[1])) return 4;
  // Afterwards all of it can go.
  for (int i = 0; i < COUNT; i++) {
    if (i % (i < COUNT / 2 ? per_page : per_page / 2) == 0) mi_free(blocks[i]);
  }
  mi_prof_stop();
  mi_collect(true);
  mi_prof_stats_t stats;
  mi_prof_stats_get(&stats);
  return stats.samples_live == 0 && !mi_prof_visit(MI_PROF_PINNED, NULL, NULL) ? 0 : 5;
}
