// SPDX-License-Identifier: MIT
// What becomes of a freed block: writes to it, its old contents, and its address.
#include "twin.h"

#define SECRET UINT64_C(0x7e57ab1ec0ffee42)

static unsigned char* fresh(size_t size) {
  const size_t many = twin_many(size);
  unsigned char* p = NULL;
  for (size_t i = 0; i < many; i++) {
    unsigned char* q = twin_malloc(size);
    twin_fill(q, 8, 0x41);
    if (i == many / 2) p = q;
  }
  return p;
}

// ---- writes ------------------------------------------------------------------------------------

// The wrong one writes after the free, the right one before.
static void write_at(size_t size, size_t at, size_t n, bool wrong) {
  unsigned char* p = fresh(size);
  if (wrong) free(p);
  twin_ready();
  twin_fill(p + at, n, 0x43);
  twin_done();
  if (!wrong) free(p);
  twin_cycle(size);
  twin_after("reuse");
}

static void write_first(size_t size, bool wrong) { write_at(size, 0, 8, wrong); }
static void write_middle(size_t size, bool wrong) { write_at(size, size / 16 * 8, 8, wrong); }
static void write_last(size_t size, bool wrong) { write_at(size, size - 8, 8, wrong); }
static void write_byte(size_t size, bool wrong) { write_at(size, size * 3 / 4, 1, wrong); }
static void write_all(size_t size, bool wrong) { write_at(size, 0, size, wrong); }

// ---- contents ----------------------------------------------------------------------------------

static void fill_secret(unsigned char* p, size_t size) {
  volatile uint64_t* w = (volatile uint64_t*)(void*)p;
  for (size_t i = 0; i < size / 8; i++) w[i] = SECRET;
}

static bool has_secret(const unsigned char* p, size_t size) {
  const volatile uint64_t* w = (const volatile uint64_t*)(const void*)p;
  for (size_t i = 0; i < size / 8; i++) {
    if (w[i] == SECRET) return true;
  }
  return false;
}

// A block with a secret; the right one wipes it before it is freed.
static unsigned char* secret_block(size_t size, bool wrong) {
  unsigned char* p = fresh(size);
  fill_secret(p, size);
  if (!wrong) twin_fill(p, size, 0);
  return p;
}

static void look_again(size_t size, bool wrong) {
  unsigned char* p = secret_block(size, wrong);
  if (wrong) free(p);
  twin_ready();
  if (!has_secret(p, size) && wrong) twin_gone("the contents are gone");
  twin_done();
  if (!wrong) free(p);
}

static void look_in_new(size_t size, size_t asked, bool wrong) {
  free(secret_block(size, wrong));
  twin_ready();
  for (size_t i = 0; i < (size >= MIB ? 4 : 16) * twin_many(size); i++) {
    unsigned char* q = twin_malloc(asked);
    if (has_secret(q, asked)) {
      twin_done();
      return;
    }
    if (size >= MIB) free(q);  // each touched as a whole
  }
  if (wrong) twin_gone("no new block has the contents");
}

static void look_in_same(size_t size, bool wrong) { look_in_new(size, size, wrong); }
static void look_in_smaller(size_t size, bool wrong) { look_in_new(size, size - size / 4, wrong); }

static void look_after_realloc(size_t size, bool wrong) {
  unsigned char* p = secret_block(size, wrong);
  unsigned char* q = twin_must(realloc(p, 4 * size));
  twin_ready();
  if (!wrong) {
    twin_sink ^= q[0];
  } else if (q == p) {
    twin_gone("the block grew in place");
  } else if (!has_secret(p, size)) {
    twin_gone("the contents are gone");
  }
  twin_done();
  free(q);
}

// ---- addresses ---------------------------------------------------------------------------------

// Whether one of the next blocks is the one just freed; the right one keeps it.
static void reuse_within(size_t size, size_t next, bool wrong) {
  unsigned char* p = fresh(size);
  if (wrong) free(p);
  twin_ready();
  for (size_t i = 0; i < next; i++) {
    if (twin_malloc(size) == p) {
      twin_done();
      if (!wrong) twin_broken();
      return;
    }
  }
  if (wrong) twin_gone("the address was not used again");
}

static void reuse_1(size_t size, bool wrong) { reuse_within(size, 1, wrong); }
static void reuse_8(size_t size, bool wrong) { reuse_within(size, 8, wrong); }

static void reuse_pair(size_t size, bool wrong) {
  unsigned char* p = fresh(size);
  if (wrong) free(p);
  twin_ready();
  for (int i = 0; i < 8; i++) {
    unsigned char* q = twin_malloc(size);
    if (q == p) {
      twin_done();
      return;
    }
    free(q);
  }
  if (wrong) twin_gone("the address was not used again");
}

#define WRITES "a write into a freed block"
#define CONTENTS "a freed block's contents read"
#define ADDRESS "the block freed last comes back at once"

static const twin_case_t cases[] = {
  {"write-first", WRITES, "the first 8 bytes", write_first, NULL},
  {"write-middle", WRITES, "8 bytes in the middle", write_middle, NULL},
  {"write-last", WRITES, "the last 8 bytes", write_last, NULL},
  {"write-byte", WRITES, "one byte three quarters in", write_byte, NULL},
  {"write-all", WRITES, "all of it", write_all, NULL},
  {"look-again", CONTENTS, "through the old pointer", look_again, NULL},
  {"look-in-same", CONTENTS, "found in a new block of the same size", look_in_same, NULL},
  {"look-in-smaller", CONTENTS, "found in a new block of three quarters of the size",
   look_in_smaller, NULL},
  {"look-after-realloc", CONTENTS, "through the old pointer of a block that grew",
   look_after_realloc, NULL},
  {"reuse-1", ADDRESS, "the next block has its address", reuse_1, NULL},
  {"reuse-8", ADDRESS, "one of the next eight has", reuse_8, NULL},
  {"reuse-pair", ADDRESS, "one of eight that are allocated and freed in turn has", reuse_pair, NULL},
};

TWINS(cases)
