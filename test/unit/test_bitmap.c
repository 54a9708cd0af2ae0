// SPDX-License-Identifier: MIT
// Tests mem/bitmap next to arrays of bools: every operation on every run of a few words whose bits
// come in runs, in singles, or are all the same; and claims of threads at the same words. And that the
// small generator draws every one of a few places about as often.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#ifndef _WIN32
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "../../src/mem/bitmap.h"
#include "../../src/mem/random.h"

#define WORDS 3
#define BITS (WORDS * MX_WORD_BITS)

static mx_bits_t bits[WORDS + 1], other[WORDS];
static bool model[BITS], second[BITS];
static uint64_t seed = 1;
static int failures;

#define EXPECT(cond, first, n)                                                             \
  ((cond) ? (void)0                                                                        \
          : (void)(printf("FAIL line %d, run %zu+%zu: %s\n", __LINE__, (size_t)(first),    \
                          (size_t)(n), #cond),                                             \
                   failures++))

static unsigned chance(unsigned below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(seed >> 33) % below;
}

// Runs of up to `longest` bits that are set and clear in turn; 0: all the same.
static void fill(mx_bits_t* words, bool* to, unsigned longest, bool value) {
  memset(words, 0, WORDS * sizeof(*words));
  for (size_t i = 0, left = 1; i < BITS; i++) {
    if (longest > 0 && --left == 0) {
      value = !value;
      left = 1 + chance(longest);
    }
    to[i] = value;
    if (value) words[i / MX_WORD_BITS] |= (uint64_t)1 << (i % MX_WORD_BITS);
  }
}

static size_t count_set(size_t first, size_t n) {
  size_t count = 0;
  for (size_t i = first; i < first + n; i++) count += model[i];
  return count;
}

static void check_last(size_t below) {
  size_t last = below;
  while (last > 0 && !model[last - 1]) last--;
  EXPECT(mx_bits_find_last(bits, below) == (last > 0 ? last - 1 : SIZE_MAX), 0, below);
}

static void check_next_clear(size_t count, size_t from) {
  size_t next = from;
  while (next < count && model[next]) next++;
  EXPECT(mx_bits_next_clear(bits, count, from) == next, from, count);
}

static bool agree(const mx_bits_t* words, const bool* with) {
  for (size_t i = 0; i < BITS; i++) {
    if (mx_bits_test(words, i) != with[i]) return false;
  }
  return true;
}

static void check_changes(size_t first, size_t n) {
  mx_bits_t before[WORDS];
  bool model_before[BITS];
  memcpy(before, bits, sizeof(before));
  memcpy(model_before, model, sizeof(model));
  const size_t set = count_set(first, n);
  EXPECT(mx_bits_count(bits, first, n) == set, first, n);
  EXPECT(mx_bits_try_claim(bits, first, n) == (set == n), first, n);
  if (set == n) memset(&model[first], 0, n);
  EXPECT(agree(bits, model), first, n);

  memcpy(bits, before, sizeof(before));
  memset(&model[first], 1, n);
  EXPECT(mx_bits_set(bits, first, n) == n - set, first, n);
  EXPECT(agree(bits, model), first, n);

  memcpy(bits, before, sizeof(before));
  memset(&model[first], 0, n);
  EXPECT(mx_bits_clear(bits, first, n) == set, first, n);
  EXPECT(agree(bits, model), first, n);

  memcpy(bits, before, sizeof(before));
  memcpy(model, model_before, sizeof(model));
}

static size_t find(size_t end, size_t n, size_t from, size_t align, size_t offset, bool both) {
  size_t length = 0;
  for (size_t last = from; last < end; last++) {
    length = (model[last] && (!both || second[last]) ? length + 1 : 0);
    // The run that begins at `first` is the lowest one that ends here and may be it.
    for (size_t first = last + 1 - length; first + n <= last + 1; first++) {
      if ((first + offset) % align == 0) return first;
    }
  }
  return SIZE_MAX;
}

static void check_find(void) {
  static const size_t lengths[] = {1, 2, 3, 7, 31, 32, 63, 64, 65, 100, 128, 129, BITS};
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    const size_t n = lengths[i];
    for (size_t from = 0; from <= BITS; from += 1 + chance(5)) {
      const size_t end = (chance(4) == 0 ? BITS : chance(BITS + 1));
      const size_t align = (size_t)1 << (chance(2) == 0 ? 0 : chance(7));
      const size_t offset = (chance(2) == 0 ? 0 : chance(64));
      const bool both = (chance(2) == 0);
      const size_t wanted = find(end, n, from, align, offset, both);
      EXPECT(mx_bits_find_run(bits, both ? other : NULL, end, n, from, align, offset) == wanted,
             from, n);
    }
  }
}

// Ones on both sides of words without any are no run, whether one bitmap is searched or two.
static void check_gaps(void) {
  enum { MANY = 9 };
  mx_bits_t words[MANY], all[MANY];
  for (size_t gap = 1; gap + 2 <= MANY; gap++) {
    memset(words, 0, sizeof(words));
    memset(all, 0xff, sizeof(all));
    mx_bits_set(words, MX_WORD_BITS - 20, 20);
    mx_bits_set(words, (gap + 1) * MX_WORD_BITS, 20);
    const size_t bits_of_all = (gap + 2) * MX_WORD_BITS;
    EXPECT(mx_bits_find_run(words, NULL, bits_of_all, 21, 0, 1, 0) == SIZE_MAX, gap, 0);
    EXPECT(mx_bits_find_run(words, all, bits_of_all, 21, 0, 1, 0) == SIZE_MAX, gap, 1);
    EXPECT(mx_bits_find_run(words, all, bits_of_all, 20, 64, 1, 0) == (gap + 1) * 64, gap, 2);
  }
}

#ifndef _WIN32
// A search ends with the words that have bits: what lies behind may be nobody's.
static void check_end(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t* const mapped =
      (uint8_t*)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped + page, page, PROT_NONE) != 0) return;
  for (size_t words = 1; words <= 3; words++) {
    mx_bits_t* const last = (mx_bits_t*)(void*)(mapped + page) - words;
    for (size_t bits_of_all = (words - 1) * 64 + 1; bits_of_all <= words * 64; bits_of_all += 21) {
      EXPECT(mx_bits_find_run(last, NULL, bits_of_all, 1, 0, 1, 0) == SIZE_MAX, words, 0);
      EXPECT(mx_bits_find_run(last, last, bits_of_all, 1, 0, 1, 0) == SIZE_MAX, words, 1);
    }
  }
  munmap(mapped, 2 * page);
}
#endif

// ---- threads -----------------------------------------------------------------------------------

#define THREADS 2
#define CLAIMS 3000000

static mx_bits_t contended[2];
static unsigned char owner[2 * MX_WORD_BITS];  // written by the bit's holder, and by nobody else
static mx_atomic(uint32_t) disputes;
static mx_atomic(uint32_t) ready;

static void* claim_often(void* arg) {
  const unsigned char me = *(const unsigned char*)arg;
  uint64_t random = me;
  mx_add_acq_rel(&ready, 1);
  while (mx_load_acquire(&ready) < THREADS) continue;
  for (int round = 0; round < CLAIMS; round++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t first = (size_t)(random >> 33) % (2 * MX_WORD_BITS - 3);
    const size_t n = 1 + (size_t)(random >> 50) % 3;
    if (!mx_bits_try_claim(contended, first, n)) continue;
    for (size_t i = first; i < first + n; i++) {
      if (owner[i] != 0) mx_add_relaxed(&disputes, 1);
      owner[i] = me;
    }
    for (size_t i = first; i < first + n; i++) {
      if (owner[i] != me) mx_add_relaxed(&disputes, 1);
      owner[i] = 0;
    }
    if (mx_bits_set(contended, first, n) != n) mx_add_relaxed(&disputes, 1);
  }
  return NULL;
}

static void check_threads(void) {
  static unsigned char names[THREADS];
  pthread_t threads[THREADS];
  mx_bits_set(contended, 0, 2 * MX_WORD_BITS);
  for (unsigned i = 0; i < THREADS; i++) {
    names[i] = (unsigned char)(i + 1);
    pthread_create(&threads[i], NULL, claim_often, &names[i]);
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  EXPECT(mx_load_relaxed(&disputes) == 0, 0, 0);
  EXPECT(mx_bits_count(contended, 0, 2 * MX_WORD_BITS) == 2 * MX_WORD_BITS, 0, 0);
}

static void check_draws(void) {
  unsigned count[16] = {0};
  uint64_t state = 1;
  for (int i = 0; i < 16000; i++) count[mx_random_step(&state) >> 60]++;
  for (size_t k = 0; k < 16; k++) EXPECT(count[k] > 800 && count[k] < 1200, k, count[k]);
}

int main(void) {
  static const unsigned longest[] = {0, 1, 3, 20, 64, 100, 150};
  // Behind the words lies one that a search of too many bits would find something in.
  bits[WORDS] = UINT64_MAX;
  for (size_t k = 0; k < 2 * sizeof(longest) / sizeof(longest[0]); k++) {
    fill(bits, model, longest[k / 2], k % 2 == 0);
    fill(other, second, chance(2) == 0 ? 150 : 0, true);
    for (size_t below = 0; below <= BITS; below++) check_last(below);
    for (size_t i = 0; i <= BITS; i++) {
      check_next_clear(BITS, i);
      check_next_clear(i, 0);
    }
    for (size_t first = 0; first < BITS; first++) {
      for (size_t n = 1; first + n <= BITS; n += 1 + chance(3)) check_changes(first, n);
    }
    for (int round = 0; round < 30; round++) {
      fill(bits, model, longest[k / 2], k % 2 == 0);
      fill(other, second, longest[chance(sizeof(longest) / sizeof(longest[0]))], true);
      check_find();
    }
  }
  EXPECT(bits[WORDS] == UINT64_MAX, 0, 0);
  check_gaps();
#ifndef _WIN32
  check_end();
#endif
  check_threads();
  check_draws();
  return failures != 0;
}
