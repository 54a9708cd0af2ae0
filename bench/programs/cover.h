// SPDX-License-Identifier: MIT
// Cubes and covers of Boolean functions, for espresso.
//
// A cube is a product of literals in positional notation: two bits for each variable, the lower
// one set if 0 is allowed, the upper one if 1 is; both set means that the variable does not occur.
// The intersection of two cubes is the "and" of their words, and empty if some pair is 00. A cover
// is a list of cubes, the sum of those products. Each cube is a block of its own and each cover a
// growing array of pointers, and operations return fresh ones: this is what makes two-level
// minimisation an allocation-heavy program.
#ifndef BENCH_COVER_H
#define BENCH_COVER_H

#include <stddef.h>
#include <stdint.h>

typedef struct cube {
  uint32_t variables;
  uint32_t literals;  // pairs that are not 11
  uint64_t words[];
} cube_t;

typedef struct cover {
  uint32_t variables;
  uint32_t count, capacity;
  cube_t** cubes;
} cover_t;

enum { ZERO = 1, ONE = 2, EITHER = 3 };  // what a variable's pair of bits may say

cube_t* cube_full(uint32_t variables);
cube_t* cube_copy(const cube_t* cube);
unsigned cube_get(const cube_t* cube, uint32_t variable);
void cube_set(cube_t* cube, uint32_t variable, unsigned bits);
int cube_contains(const cube_t* outer, const cube_t* inner);
int cube_disjoint(const cube_t* a, const cube_t* b);
cube_t* cube_intersection(const cube_t* a, const cube_t* b);  // NULL when empty
cube_t* cube_supercube(const cube_t* a, const cube_t* b);
int cube_holds(const cube_t* cube, uint32_t point);  // bit v of `point` is variable v

cover_t* cover_new(uint32_t variables);
void cover_free(cover_t* cover);
void cover_add(cover_t* cover, cube_t* cube);  // takes the cube
void cover_remove(cover_t* cover, uint32_t i);
cover_t* cover_copy(const cover_t* cover);
// The function restricted to the cube: cubes that meet it, without the literals it fixes.
cover_t* cover_cofactor(const cover_t* cover, const cube_t* cube);
int cover_is_tautology(const cover_t* cover);
cover_t* cover_complement(const cover_t* cover);
int cover_holds(const cover_t* cover, uint32_t point);

#endif
