// SPDX-License-Identifier: MIT
// In builds with canaries: free tells of a write to any byte of the canary behind a block without
// slack, whatever has become of the block that the canary belongs to.
#include <pthread.h>

#include "base/mitigations.h"
#include "../child.h"
#include "expect.h"

typedef struct crime_s {
  size_t size;
  size_t at;            // which byte behind the end
  unsigned char flips;  // which of its bits
  int state;            // of the next block
} crime_t;

enum { NEXT_IS_LIVE, NEXT_IS_FREE, NEXT_WAITS_FOR_ITS_OWNER, NEXT_STATES };

// Unknown to the compiler, which must not think that it knows what free does.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

// A block whose neighbour behind is a block as well; both are live. Where OS pages are large, so many
// blocks are scattered over one that the neighbour of a block may be the thousandth after it.
static unsigned char* with_neighbour(size_t size, unsigned char** next) {
  enum { COUNT = 8192 };
  static unsigned char* blocks[COUNT];
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = (unsigned char*)hidden(mi_malloc(size));
    for (int k = 0; k < i; k++) {
      const bool is_first = (blocks[i] + size + 8 == blocks[k]);
      if (!is_first && blocks[k] + size + 8 != blocks[i]) continue;
      *next = blocks[is_first ? k : i];
      return blocks[is_first ? i : k];
    }
  }
  fprintf(stderr, "no neighbours\n");
  exit(1);
}

static void commit(const void* argument) {
  const crime_t* const crime = (const crime_t*)argument;
  unsigned char* next;
  unsigned char* const p = with_neighbour(crime->size, &next);
  if (crime->state == NEXT_IS_FREE) mi_free(next);
  if (crime->state == NEXT_WAITS_FOR_ITS_OWNER) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_it, next) != 0) exit(1);
    pthread_join(thread, NULL);
  }
  p[crime->size + crime->at] ^= crime->flips;
  mi_free(hidden(p));
  fprintf(stderr, "went on\n");
  _exit(0);
}

// The same without the crime.
static void be_innocent(const void* argument) {
  crime_t crime = *(const crime_t*)argument;
  crime.flips = 0;
  commit(&crime);
}

int main(void) {
  static const size_t sizes[] = {8, 24, 72, 1016, 1032};
  static const unsigned char flips[] = {0x01, 0x10, 0x80, 0x5A, 0xFF};
  if (!MX_PADDING || !MX_CHECK_END) {
    printf("no canaries in this build\n");
    return 77;
  }
  int seen = 0;
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (int state = 0; state < NEXT_STATES; state++) {
      crime_t crime = {sizes[s], 0, 0, state};
      run_child(be_innocent, &crime);
      EXPECT_AT(sizes[s], status == 0 && strcmp(said, "went on\n") == 0);
      for (crime.at = 0; crime.at < 8; crime.at++) {
        for (size_t f = 0; f < sizeof(flips); f++) {
          crime.flips = flips[f];
          run_child(commit, &crime);
          const bool told = (strstr(said, "buffer overflow in heap block") != NULL);
          if (!told || strstr(said, "went on") != NULL) {
            fprintf(stderr, "size %zu, byte %zu, bits %#x, next block %d: %s\n", crime.size,
                    crime.at, crime.flips, state, said);
          }
          EXPECT(told && WIFSIGNALED(status));
          seen++;
        }
      }
    }
  }
  printf("%d writes\n", seen);
  return expect_end("canary");
}
