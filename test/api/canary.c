// SPDX-License-Identifier: MIT
// In builds with canaries: free tells of a write to any byte of the canary behind a block without
// slack, whatever has become of the block that the canary belongs to. A program that goes on after
// that, or that a collection tells or what is done to the block behind, hears no more of it where at
// most three bytes were written over: that block serves as before.
#include <pthread.h>

#include "base/mitigations.h"
#include "../child.h"
#include "expect.h"

typedef struct crime_s {
  size_t size;
  size_t at;            // which byte behind the end
  unsigned char flips;  // which of its bits
  int state;            // of the next block
  bool goes_on;
  int first;            // what is done first
} crime_t;

enum { FREE, COLLECT, FREE_NEXT, FREE_NEXT_FROM_AFAR, REALLOC_NEXT, FIRSTS };

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

static int errors;

static void count_error(int code, void* arg) {
  (void)code, (void)arg;
  errors++;
}

// Allocates and frees more and more until that block comes back: freed ones may wait long.
static bool comes_back(const unsigned char* block, size_t size) {
  enum { MOST = 1 << 14 };
  static void* blocks[MOST];
  for (int count = 1; count <= MOST; count *= 2) {
    bool seen = false;
    for (int i = 0; i < count; i++) {
      blocks[i] = hidden(mi_malloc(size));
      memset(blocks[i], 0x77, size);
      seen = seen || (blocks[i] == (const void*)block);
    }
    for (int i = 0; i < count; i++) mi_free(blocks[i]);
    if (seen) return true;
  }
  return false;
}

static void free_from_afar(void* p) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_it, p) != 0) exit(1);
  pthread_join(thread, NULL);
}

// What tells of the damage before the free of the block in front; of a live block also its end. A
// block that is free already is freed a second time, which is an error more.
static void begin_with(crime_t* crime, unsigned char* next) {
  switch (crime->first) {
    case COLLECT: mi_collect(true); return;
    case FREE_NEXT: mi_free(hidden(next)); break;
    case FREE_NEXT_FROM_AFAR: free_from_afar(hidden(next)); break;
    case REALLOC_NEXT: {
      memset(next, 0x33, crime->size);
      unsigned char* const p = (unsigned char*)hidden(mi_realloc(next, 5 * crime->size));
      for (size_t i = 0; i < crime->size; i++) {
        if (p[i] != 0x33) fprintf(stderr, "other contents\n");
      }
      break;
    }
    default: return;
  }
  if (crime->state == NEXT_IS_LIVE) crime->state = NEXT_IS_FREE;
  else errors--;
}

static void live_on(const crime_t* crime, unsigned char* next) {
  if (crime->state == NEXT_IS_LIVE) {
    if (mi_usable_size(next) != crime->size) fprintf(stderr, "another size\n");
    mi_free(next);
  } else if (!comes_back(next, crime->size)) {
    fprintf(stderr, "does not come back\n");
  }
  mi_collect(true);
  fprintf(stderr, "%d errors\n", errors);
}

static void commit(const void* argument) {
  crime_t own = *(const crime_t*)argument;
  crime_t* const crime = &own;
  unsigned char* next;
  unsigned char* const p = with_neighbour(crime->size, &next);
  // Their page stays where it is: others of it are in use.
  for (int i = 0; i < 4; i++) hidden(mi_malloc(crime->size));
  if (crime->state == NEXT_IS_FREE) mi_free(next);
  if (crime->state == NEXT_WAITS_FOR_ITS_OWNER) free_from_afar(next);
  if (crime->goes_on) {
    mi_register_error(count_error, NULL);
    mi_option_set(mi_option_show_errors, 0);
  }
  for (size_t i = (crime->goes_on ? 0 : crime->at); i <= crime->at; i++) {
    p[crime->size + i] ^= crime->flips;
  }
  begin_with(crime, next);
  mi_free(hidden(p));
  if (crime->goes_on) live_on(crime, next);
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
      crime_t crime = {sizes[s], 0, 0, state, false, FREE};
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
      crime.goes_on = true;
      for (int n = 0; n < 3 * FIRSTS; n++) {
        crime.at = (size_t)n / FIRSTS;
        crime.first = n % FIRSTS;
        if (crime.first == REALLOC_NEXT && state != NEXT_IS_LIVE) continue;
        run_child(commit, &crime);
        const bool once = (strcmp(said, "1 errors\nwent on\n") == 0);
        if (!once) {
          fprintf(stderr, "size %zu, %zu bytes, next block %d, first %d: %s\n", crime.size,
                  crime.at + 1, state, crime.first, said);
        }
        EXPECT(once && status == 0);
      }
    }
  }
  printf("%d writes\n", seen);
  return expect_end("canary");
}
