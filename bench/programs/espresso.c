// SPDX-License-Identifier: MIT
// espresso: heuristic two-level logic minimisation (Brayton et al., "Logic minimization algorithms
// for VLSI synthesis", 1984; used as an allocation benchmark by Grunwald, Zorn and Henderson,
// PLDI 1993).
//
// Functions come as lists of points: bits of sums, products and squares, symmetric functions, and
// random sums of products with points that do not matter. Each is minimised by the classic loop:
// complement, then expand every cube as far as the off-set allows, drop redundant cubes, reduce
// the rest to their essential part, and again while the cost falls. The result is compared with
// the function on every point.
//
// Arguments: threads, functions per thread, input variables (6 to 16).
#include "common.h"
#include "cover.h"

typedef struct function {
  uint32_t variables;
  uint8_t* points;  // 0 off, 1 on, 2 does not matter
} function_t;

// Bit `bit` of an arithmetic function of the two halves of the input.
static uint32_t arithmetic(size_t kind, uint32_t point, uint32_t variables, uint32_t bit) {
  uint32_t half = variables / 2, a = point & ((1u << half) - 1), b = point >> half;
  switch (kind) {
    case 0: return (a + b) >> bit & 1;
    case 1: return (a * b) >> bit & 1;
    case 2: return (a * a + b) >> bit & 1;
    default: return (uint32_t)__builtin_popcount(point) % (bit + 3) == 0;
  }
}

static void random_sum(function_t* f, bench_rng_t* rng) {
  uint32_t everything = 1u << f->variables;
  for (size_t n = 0; n < (size_t)f->variables * 4; n++) {
    uint32_t care = (uint32_t)(bench_next(rng) & bench_next(rng)) | (uint32_t)bench_next(rng) % 64;
    uint32_t value = (uint32_t)bench_next(rng) & care;
    uint8_t mark = n % 5 == 4 ? 2 : 1;
    for (uint32_t point = 0; point < everything; point++) {
      if ((point & care) == (value & (everything - 1)) && f->points[point] == 0) {
        f->points[point] = mark;
      }
    }
  }
}

static function_t make_function(size_t number, uint32_t variables, bench_rng_t* rng) {
  uint32_t everything = 1u << variables;
  function_t f = {variables, (uint8_t*)bench_need(calloc(everything, 1), everything)};
  size_t kind = number % 6;
  if (kind >= 4) {
    random_sum(&f, rng);
    return f;
  }
  uint32_t bit = 1 + (uint32_t)bench_below(rng, variables / 2);
  for (uint32_t point = 0; point < everything; point++) {
    f.points[point] = (uint8_t)arithmetic(kind, point, variables, bit);
  }
  return f;
}

static cover_t* points_cover(const function_t* f, uint8_t mark) {
  cover_t* cover = cover_new(f->variables);
  for (uint32_t point = 0; point < 1u << f->variables; point++) {
    if (f->points[point] != mark) continue;
    cube_t* cube = cube_full(f->variables);
    for (uint32_t v = 0; v < f->variables; v++) cube_set(cube, v, point >> v & 1 ? ONE : ZERO);
    cover_add(cover, cube);
  }
  return cover;
}

static void add_all(cover_t* into, const cover_t* from) {
  for (uint32_t i = 0; i < from->count; i++) cover_add(into, cube_copy(from->cubes[i]));
}

static int meets(const cover_t* cover, const cube_t* cube) {
  for (uint32_t i = 0; i < cover->count; i++) {
    if (!cube_disjoint(cover->cubes[i], cube)) return 1;
  }
  return 0;
}

// Raises literals one by one while the cube stays clear of the off-set; the order starts at
// another variable for each cube, so that not all grow in one direction.
static void expand(cover_t* cover, const cover_t* off) {
  for (uint32_t i = 0; i < cover->count; i++) {
    for (uint32_t n = 0; n < cover->variables; n++) {
      uint32_t v = (n + i) % cover->variables;
      unsigned sense = cube_get(cover->cubes[i], v);
      if (sense == EITHER) continue;
      cube_t* raised = cube_copy(cover->cubes[i]);
      cube_set(raised, v, EITHER);
      if (meets(off, raised)) {
        free(raised);
      } else {
        free(cover->cubes[i]);
        cover->cubes[i] = raised;
      }
    }
    for (uint32_t j = cover->count; j-- > 0;) {
      if (j != i && cube_contains(cover->cubes[i], cover->cubes[j])) {
        cover_remove(cover, j);
        if (j < i) i--;
      }
    }
  }
}

// Everything but cube i, with the points that do not matter, seen from inside cube i.
static cover_t* others_within(const cover_t* cover, const cover_t* free_points, uint32_t i) {
  cover_t* others = cover_new(cover->variables);
  for (uint32_t j = 0; j < cover->count; j++) {
    if (j != i) cover_add(others, cube_copy(cover->cubes[j]));
  }
  add_all(others, free_points);
  cover_t* within = cover_cofactor(others, cover->cubes[i]);
  cover_free(others);
  return within;
}

static void drop_redundant(cover_t* cover, const cover_t* free_points) {
  for (uint32_t i = cover->count; i-- > 0;) {
    cover_t* within = others_within(cover, free_points, i);
    if (cover_is_tautology(within)) cover_remove(cover, i);
    cover_free(within);
  }
}

// Shrinks each cube to the smallest one that holds what only it covers.
static void reduce(cover_t* cover, const cover_t* free_points) {
  for (uint32_t i = 0; i < cover->count; i++) {
    cover_t* within = others_within(cover, free_points, i);
    cover_t* own = cover_complement(within);
    cover_free(within);
    if (own->count > 0) {
      cube_t* hull = cube_copy(own->cubes[0]);
      for (uint32_t j = 1; j < own->count; j++) {
        cube_t* wider = cube_supercube(hull, own->cubes[j]);
        free(hull);
        hull = wider;
      }
      cube_t* reduced = cube_intersection(cover->cubes[i], hull);
      if (reduced == NULL) bench_fail("a cube vanished");
      free(cover->cubes[i]);
      cover->cubes[i] = reduced;
      free(hull);
    }
    cover_free(own);
  }
}

static size_t cost(const cover_t* cover) {
  size_t sum = 0;
  for (uint32_t i = 0; i < cover->count; i++) sum += 100 + cover->cubes[i]->literals;
  return sum;
}

static cover_t* minimise(const function_t* f) {
  cover_t* cover = points_cover(f, 1);
  cover_t* free_points = points_cover(f, 2);
  cover_t* known = cover_copy(cover);
  add_all(known, free_points);
  cover_t* off = cover_complement(known);
  cover_free(known);
  size_t least = SIZE_MAX;
  expand(cover, off);
  drop_redundant(cover, free_points);
  while (cost(cover) < least) {
    least = cost(cover);
    reduce(cover, free_points);
    expand(cover, off);
    drop_redundant(cover, free_points);
  }
  cover_free(off);
  cover_free(free_points);
  return cover;
}

typedef struct options {
  size_t functions, variables;
  pthread_mutex_t lock;
  size_t cubes, literals;
} options_t;

static void work(size_t index, void* context) {
  options_t* o = (options_t*)context;
  bench_rng_t rng = bench_rng(index);
  size_t cubes = 0, literals = 0;
  for (size_t n = 0; n < o->functions; n++) {
    function_t f = make_function(n, (uint32_t)o->variables, &rng);
    cover_t* cover = minimise(&f);
    for (uint32_t point = 0; point < 1u << f.variables; point++) {
      if (f.points[point] != 2 && cover_holds(cover, point) != f.points[point]) {
        bench_fail("function %zu is wrong at point %u", n, (unsigned)point);
      }
    }
    cubes += cover->count;
    for (uint32_t i = 0; i < cover->count; i++) literals += cover->cubes[i]->literals;
    cover_free(cover);
    free(f.points);
  }
  pthread_mutex_lock(&o->lock);
  o->cubes += cubes;
  o->literals += literals;
  pthread_mutex_unlock(&o->lock);
}

int main(int argc, char** argv) {
  static options_t o;
  size_t threads = bench_arg(argc, argv, 1, 1);
  o.functions = bench_arg(argc, argv, 2, 24);
  o.variables = bench_arg(argc, argv, 3, 10);
  if (o.variables < 6 || o.variables > 16) bench_fail("6 to 16 variables");
  pthread_mutex_init(&o.lock, NULL);
  bench_threads(threads, work, &o);
  printf("espresso: %zu threads, %zu functions of %zu variables each: %zu cubes, %zu literals\n",
         threads, o.functions, o.variables, o.cubes, o.literals);
  return 0;
}
