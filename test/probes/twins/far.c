// SPDX-License-Identifier: MIT
// Writes that miss their block by far: a single byte at a distance, and runs without an end. Nothing
// but memory that is not accessible can stop the first kind.
#include "twin.h"

static unsigned char* blocks[64];

static unsigned char* populate(size_t size) {
  const size_t many = twin_many(size);
  for (size_t i = 0; i < many; i++) {
    blocks[i] = twin_malloc(size);
    twin_fill(blocks[i], size < 4 * KIB ? size : 4 * KIB, 0x41);
  }
  return blocks[many / 2];
}

static void leave(size_t size) {
  twin_done();
  for (size_t i = 0; i < twin_many(size); i++) free(blocks[i]);
  twin_after("free");
}

static void behind(size_t size, bool wrong, size_t distance) {
  unsigned char* p = populate(size);
  twin_ready();
  twin_fill(p + (wrong ? size + distance : size - 1), 1, 0x42);
  leave(size);
}

static void before(size_t size, bool wrong, size_t distance) {
  unsigned char* p = populate(size);
  twin_ready();
  twin_fill(wrong ? p - distance : p, 1, 0x42);
  leave(size);
}

static void behind_64k(size_t size, bool wrong) { behind(size, wrong, 64 * KIB); }
static void behind_1m(size_t size, bool wrong) { behind(size, wrong, MIB); }
static void behind_16m(size_t size, bool wrong) { behind(size, wrong, 16 * MIB); }
static void before_64k(size_t size, bool wrong) { before(size, wrong, 64 * KIB); }
static void before_1m(size_t size, bool wrong) { before(size, wrong, MIB); }
static void before_16m(size_t size, bool wrong) { before(size, wrong, 16 * MIB); }

static void run_on(size_t size, bool wrong) {
  unsigned char* p = populate(size);
  twin_ready();
  twin_fill(p, wrong ? size + MIB : size, 0x42);
  leave(size);
}

static void run_back(size_t size, bool wrong) {
  unsigned char* p = populate(size);
  twin_ready();
  for (size_t i = 0; i < (wrong ? MIB : 0); i++) twin_fill(p - 1 - i, 1, 0x42);
  leave(size);
}

#define SINGLE "a single write far from its block"
#define RUN "writes on and on for 1 MiB"

static const twin_case_t cases[] = {
  {"behind-64k", SINGLE, "one byte 64 KiB behind the end", behind_64k, NULL},
  {"behind-1m", SINGLE, "one byte 1 MiB behind the end", behind_1m, NULL},
  {"behind-16m", SINGLE, "one byte 16 MiB behind the end", behind_16m, NULL},
  {"before-64k", SINGLE, "one byte 64 KiB before the start", before_64k, NULL},
  {"before-1m", SINGLE, "one byte 1 MiB before the start", before_1m, NULL},
  {"before-16m", SINGLE, "one byte 16 MiB before the start", before_16m, NULL},
  {"run-on", RUN, "from the start of a block to 1 MiB behind it", run_on, NULL},
  {"run-back", RUN, "from the start of a block downwards", run_back, NULL},
};

TWINS(cases)
