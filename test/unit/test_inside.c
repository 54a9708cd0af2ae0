// SPDX-License-Identifier: MIT
// Large blocks that another thread freed, and whose owner does not come to collect them, give back
// their inside to whoever looks for holes; and are blocks like others when they are used again,
// also while somebody looks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../include/mimalloc.h"
#include "../../src/base/facts.h"
#include "../../src/heap/subproc.h"
#include "../../src/heap/transfer.h"
#include "../../src/heap/trim.h"
#include "../../src/page/holes.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define COUNT 300
#define SIZE ((size_t)200 * 1000)

static unsigned char* blocks[COUNT];
static mx_atomic(bool) is_over;

static void make_all(int turn) {
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = (unsigned char*)mi_malloc(SIZE);
    memset(blocks[i], i + turn, SIZE);
  }
}

static bool is_whole(int turn) {
  for (int i = 0; i < COUNT; i++) {
    for (size_t n = 0; n < SIZE; n += 509) {
      if (blocks[i][n] != (unsigned char)(i + turn)) return false;
    }
  }
  return true;
}

static size_t present(void) {
  unsigned char in[1024];
  const size_t unit = mx_facts.os_page;
  size_t count = 0;
  for (int i = 0; i < COUNT; i++) {
    uint8_t* const start = (uint8_t*)mx_align_down((uintptr_t)blocks[i], unit);
    const size_t pages = mx_align_up(SIZE, unit) / unit;
    if (pages > sizeof(in) || mincore(start, pages * unit, (void*)in) != 0) abort();
    for (size_t n = 0; n < pages; n++) count += in[n] & 1;
  }
  return count * unit;
}

static void make_holes(void) {
  bool has_changed = false;
  mx_subproc_make_holes(&mx_subproc_main, false, &has_changed);
}

static void* free_all(void* argument) {
  for (int i = 0; i < COUNT; i++) mi_free(blocks[i]);
  if (argument != NULL) make_holes();
  return NULL;
}

static void by_another(void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_all, argument) != 0) abort();
  pthread_join(thread, NULL);
}

// The page that the owner allocates from, and full ones that it keeps, are left alone.
static void test_goes(void) {
  make_all(1);
  const size_t all = present();
  by_another(&is_over);
  const size_t left = present();
  printf("%zu KiB of %zu are left\n", left / 1024, all / 1024);
  EXPECT(all >= COUNT * SIZE && left < all / 4);
  make_holes();
  EXPECT(present() <= left);
  make_all(2);
  EXPECT(is_whole(2) && present() >= COUNT * SIZE);
  by_another(NULL);
}

static void* look(void* argument) {
  while (!mx_load_relaxed(&is_over)) make_holes();
  return argument;
}

static void test_beside(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, look, NULL) != 0) abort();
  int good = 0;
  for (int turn = 0; turn < 30; turn++) {
    make_all(turn);
    good += is_whole(turn);
    if (turn % 3 == 2) free_all(NULL);
    else by_another(NULL);
  }
  EXPECT(good == 30);
  mx_store_relaxed(&is_over, true);
  pthread_join(thread, NULL);
}

int main(void) {
  if (!MX_HOLES) {
    printf("no holes in this build\n");
    return 77;
  }
  mi_option_set(mi_option_purge_delay, 100000);  // nothing else shall give back
  mx_transfer_most = 0;
  test_goes();
  test_beside();
  printf("inside: %d failures\n", failures);
  return failures != 0;
}
