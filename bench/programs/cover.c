// SPDX-License-Identifier: MIT
// Cubes and covers (see cover.h). Tautology and complement recurse on the variable that occurs in
// most cubes in both senses, as in Brayton, Hachtel, McMullen and Sangiovanni-Vincentelli, "Logic
// minimization algorithms for VLSI synthesis", Kluwer 1984. Invariant: bits above the last
// variable are set in every cube, so that words compare as wholes, and `literals` is up to date.
#include "cover.h"

#include "common.h"

static const uint64_t LOWER_BITS = 0x5555555555555555ull;

static size_t words_for(uint32_t variables) { return (variables + 31) / 32; }

static cube_t* cube_new(uint32_t variables) {
  size_t bytes = sizeof(cube_t) + words_for(variables) * sizeof(uint64_t);
  cube_t* cube = (cube_t*)bench_need(malloc(bytes), bytes);
  cube->variables = variables;
  return cube;
}

static void count_literals(cube_t* cube) {
  uint32_t literals = 0;
  for (size_t w = 0; w < words_for(cube->variables); w++) {
    uint64_t word = cube->words[w];
    literals += (uint32_t)__builtin_popcountll(~(word & word >> 1) & LOWER_BITS);
  }
  cube->literals = literals;
}

cube_t* cube_full(uint32_t variables) {
  cube_t* cube = cube_new(variables);
  memset(cube->words, 0xff, words_for(variables) * sizeof(uint64_t));
  cube->literals = 0;
  return cube;
}

cube_t* cube_copy(const cube_t* cube) {
  cube_t* copy = cube_new(cube->variables);
  memcpy(copy->words, cube->words, words_for(cube->variables) * sizeof(uint64_t));
  copy->literals = cube->literals;
  return copy;
}

unsigned cube_get(const cube_t* cube, uint32_t variable) {
  return (unsigned)(cube->words[variable / 32] >> (variable % 32 * 2)) & EITHER;
}

void cube_set(cube_t* cube, uint32_t variable, unsigned bits) {
  uint64_t* word = &cube->words[variable / 32];
  unsigned shift = variable % 32 * 2;
  *word = (*word & ~((uint64_t)EITHER << shift)) | (uint64_t)bits << shift;
  count_literals(cube);
}

int cube_contains(const cube_t* outer, const cube_t* inner) {
  for (size_t w = 0; w < words_for(outer->variables); w++) {
    if ((inner->words[w] & ~outer->words[w]) != 0) return 0;
  }
  return 1;
}

int cube_disjoint(const cube_t* a, const cube_t* b) {
  for (size_t w = 0; w < words_for(a->variables); w++) {
    uint64_t both = a->words[w] & b->words[w];
    if ((~(both | both >> 1) & LOWER_BITS) != 0) return 1;
  }
  return 0;
}

cube_t* cube_intersection(const cube_t* a, const cube_t* b) {
  if (cube_disjoint(a, b)) return NULL;
  cube_t* cube = cube_new(a->variables);
  for (size_t w = 0; w < words_for(a->variables); w++) cube->words[w] = a->words[w] & b->words[w];
  count_literals(cube);
  return cube;
}

cube_t* cube_supercube(const cube_t* a, const cube_t* b) {
  cube_t* cube = cube_new(a->variables);
  for (size_t w = 0; w < words_for(a->variables); w++) cube->words[w] = a->words[w] | b->words[w];
  count_literals(cube);
  return cube;
}

int cube_holds(const cube_t* cube, uint32_t point) {
  for (uint32_t v = 0; v < cube->variables; v++) {
    if ((cube_get(cube, v) & ((point >> v & 1) ? ONE : ZERO)) == 0) return 0;
  }
  return 1;
}

cover_t* cover_new(uint32_t variables) {
  cover_t* cover = (cover_t*)bench_need(calloc(1, sizeof *cover), sizeof *cover);
  cover->variables = variables;
  return cover;
}

void cover_free(cover_t* cover) {
  for (uint32_t i = 0; i < cover->count; i++) free(cover->cubes[i]);
  free(cover->cubes);
  free(cover);
}

void cover_add(cover_t* cover, cube_t* cube) {
  if (cover->count == cover->capacity) {
    cover->capacity = cover->capacity == 0 ? 4 : cover->capacity * 2;
    size_t bytes = cover->capacity * sizeof *cover->cubes;
    cover->cubes = (cube_t**)bench_need(realloc(cover->cubes, bytes), bytes);
  }
  cover->cubes[cover->count++] = cube;
}

void cover_remove(cover_t* cover, uint32_t i) {
  free(cover->cubes[i]);
  cover->count--;
  memmove(cover->cubes + i, cover->cubes + i + 1, (cover->count - i) * sizeof *cover->cubes);
}

cover_t* cover_copy(const cover_t* cover) {
  cover_t* copy = cover_new(cover->variables);
  for (uint32_t i = 0; i < cover->count; i++) cover_add(copy, cube_copy(cover->cubes[i]));
  return copy;
}

cover_t* cover_cofactor(const cover_t* cover, const cube_t* cube) {
  cover_t* result = cover_new(cover->variables);
  for (uint32_t i = 0; i < cover->count; i++) {
    if (cube_disjoint(cover->cubes[i], cube)) continue;
    cube_t* rest = cube_new(cover->variables);
    for (size_t w = 0; w < words_for(cover->variables); w++) {
      rest->words[w] = cover->cubes[i]->words[w] | ~cube->words[w];
    }
    count_literals(rest);
    cover_add(result, rest);
  }
  return result;
}

int cover_holds(const cover_t* cover, uint32_t point) {
  for (uint32_t i = 0; i < cover->count; i++) {
    if (cube_holds(cover->cubes[i], point)) return 1;
  }
  return 0;
}

static int has_full_cube(const cover_t* cover) {
  for (uint32_t i = 0; i < cover->count; i++) {
    if (cover->cubes[i]->literals == 0) return 1;
  }
  return 0;
}

// The variable to split on: in most cubes, those first that occur in both senses (*binate).
static uint32_t splitting_variable(const cover_t* cover, int* binate) {
  uint32_t best = 0, best_count = 0;
  *binate = 0;
  for (uint32_t v = 0; v < cover->variables; v++) {
    uint32_t senses[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < cover->count; i++) senses[cube_get(cover->cubes[i], v)]++;
    int both = senses[ZERO] > 0 && senses[ONE] > 0;
    uint32_t count = senses[ZERO] + senses[ONE];
    if (both > *binate || (both == *binate && count > best_count)) {
      best = v;
      best_count = count;
      *binate = both;
    }
  }
  return best;
}

static cover_t* restricted(const cover_t* cover, uint32_t variable, unsigned sense) {
  cube_t* literal = cube_full(cover->variables);
  cube_set(literal, variable, sense);
  cover_t* result = cover_cofactor(cover, literal);
  free(literal);
  return result;
}

// A cube of k literals covers 1 / 2^k of all points; less than all in sum cannot be everything.
static int too_few_points(const cover_t* cover) {
  double sum = 0;
  for (uint32_t i = 0; i < cover->count; i++) {
    sum += 1.0 / (double)((uint64_t)1 << cover->cubes[i]->literals);
  }
  return sum < 1;
}

int cover_is_tautology(const cover_t* cover) {
  if (has_full_cube(cover)) return 1;
  if (too_few_points(cover)) return 0;
  int binate;
  uint32_t variable = splitting_variable(cover, &binate);
  // A cover in which every variable has one sense is a tautology only by a full cube.
  if (!binate) return 0;
  for (unsigned sense = ZERO; sense <= ONE; sense++) {
    cover_t* half = restricted(cover, variable, sense);
    int holds = cover_is_tautology(half);
    cover_free(half);
    if (!holds) return 0;
  }
  return 1;
}

// De Morgan on a single cube: one cube for each literal, made disjoint.
static cover_t* complement_of_cube(const cube_t* cube) {
  cover_t* result = cover_new(cube->variables);
  cube_t* prefix = cube_full(cube->variables);
  for (uint32_t v = 0; v < cube->variables; v++) {
    unsigned sense = cube_get(cube, v);
    if (sense == EITHER) continue;
    cube_t* part = cube_copy(prefix);
    cube_set(part, v, sense ^ EITHER);
    cover_add(result, part);
    cube_set(prefix, v, sense);
  }
  free(prefix);
  return result;
}

// Adds `half` under the literal; a cube that the other half has too keeps no literal.
static void merge_half(cover_t* result, cover_t* half, uint32_t variable, unsigned sense) {
  uint32_t before = result->count;
  for (uint32_t i = 0; i < half->count; i++) {
    cube_t* cube = half->cubes[i];
    cube_set(cube, variable, sense ^ EITHER);
    uint32_t twin = 0;
    while (twin < before && (!cube_contains(result->cubes[twin], cube) ||
                             !cube_contains(cube, result->cubes[twin]))) {
      twin++;
    }
    if (twin < before) {
      cube_set(result->cubes[twin], variable, EITHER);
      free(cube);
    } else {
      cube_set(cube, variable, sense);
      cover_add(result, cube);
    }
  }
  half->count = 0;
  cover_free(half);
}

cover_t* cover_complement(const cover_t* cover) {
  if (has_full_cube(cover)) return cover_new(cover->variables);
  if (cover->count == 1) return complement_of_cube(cover->cubes[0]);
  cover_t* result = cover_new(cover->variables);
  if (cover->count == 0) {
    cover_add(result, cube_full(cover->variables));
    return result;
  }
  int binate;
  uint32_t variable = splitting_variable(cover, &binate);
  for (unsigned sense = ZERO; sense <= ONE; sense++) {
    cover_t* half = restricted(cover, variable, sense);
    cover_t* inverse = cover_complement(half);
    cover_free(half);
    merge_half(result, inverse, variable, sense);
  }
  return result;
}
