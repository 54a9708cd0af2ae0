// SPDX-License-Identifier: MIT
// barnes: gravity among many bodies by the hierarchical method of Barnes and Hut ("A hierarchical
// O(N log N) force-calculation algorithm", Nature 324, 1986).
//
// Every step builds an octree, one block for each cell and one for each body, sums the masses
// upwards, walks it for each body, moves the bodies, and drops the tree. Few allocations beside
// much arithmetic: what an allocator can still win or lose here is locality. The forces on some
// bodies are compared with the direct sum over all others.
//
// Arguments: bodies, steps.
#include <math.h>

#include "common.h"

enum { CHILDREN = 8, DEEPEST = 60 };
static const double THETA = 0.9, SOFTENING = 1e-4, TIME_STEP = 0.01;

typedef struct vec {
  double x, y, z;
} vec_t;

// Bodies are leaves; a cell differs by its side, which is zero for a body.
typedef struct node {
  double side, mass;
  vec_t centre;  // of mass
} node_t;

typedef struct body {
  node_t node;
  vec_t speed, force;
} body_t;

typedef struct cell {
  node_t node;
  vec_t corner;
  node_t* children[CHILDREN];
} cell_t;

static vec_t add_scaled(vec_t a, vec_t b, double f) {
  vec_t sum = {a.x + f * b.x, a.y + f * b.y, a.z + f * b.z};
  return sum;
}

static double uniform(bench_rng_t* rng) { return (double)(bench_next(rng) >> 11) * 0x1p-53; }

// A point in the unit ball, by rejection.
static vec_t in_ball(bench_rng_t* rng) {
  for (;;) {
    vec_t v = {2 * uniform(rng) - 1, 2 * uniform(rng) - 1, 2 * uniform(rng) - 1};
    if (v.x * v.x + v.y * v.y + v.z * v.z <= 1) return v;
  }
}

// Dense in the middle and thin outside, so that the tree has both shallow and deep parts.
static body_t* make_body(bench_rng_t* rng, size_t count) {
  body_t* body = (body_t*)bench_need(calloc(1, sizeof(body_t)), sizeof(body_t));
  vec_t nothing = {0, 0, 0};
  double u = uniform(rng);
  body->node.mass = 1.0 / (double)count;
  body->node.centre = add_scaled(nothing, in_ball(rng), 4 * u * u + 0.01);
  body->speed = add_scaled(nothing, in_ball(rng), 0.3);
  return body;
}

static cell_t* make_cell(vec_t corner, double side) {
  cell_t* cell = (cell_t*)bench_need(calloc(1, sizeof(cell_t)), sizeof(cell_t));
  cell->node.side = side;
  cell->corner = corner;
  return cell;
}

static size_t octant(const cell_t* cell, vec_t p, vec_t* corner) {
  double half = cell->node.side / 2;
  size_t x = p.x >= cell->corner.x + half, y = p.y >= cell->corner.y + half,
         z = p.z >= cell->corner.z + half;
  corner->x = cell->corner.x + (double)x * half;
  corner->y = cell->corner.y + (double)y * half;
  corner->z = cell->corner.z + (double)z * half;
  return x | y << 1 | z << 2;
}

static void insert(cell_t* root, body_t* body) {
  cell_t* cell = root;
  for (int depth = 0; depth < DEEPEST; depth++) {
    vec_t corner;
    node_t** place = &cell->children[octant(cell, body->node.centre, &corner)];
    if (*place == NULL) {
      *place = &body->node;
      return;
    }
    if ((*place)->side == 0) {
      // A body lives here: put a cell between, and sink both.
      body_t* other = (body_t*)*place;
      cell_t* inner = make_cell(corner, cell->node.side / 2);
      vec_t unused;
      inner->children[octant(inner, other->node.centre, &unused)] = &other->node;
      *place = &inner->node;
    }
    cell = (cell_t*)*place;
  }
  bench_fail("two bodies in one place");
}

static void sum_masses(cell_t* cell) {
  vec_t weighted = {0, 0, 0};
  cell->node.mass = 0;
  for (size_t i = 0; i < CHILDREN; i++) {
    node_t* child = cell->children[i];
    if (child == NULL) continue;
    if (child->side != 0) sum_masses((cell_t*)child);
    cell->node.mass += child->mass;
    weighted = add_scaled(weighted, child->centre, child->mass);
  }
  vec_t nothing = {0, 0, 0};
  cell->node.centre = add_scaled(nothing, weighted, 1 / cell->node.mass);
}

static void free_cells(cell_t* cell) {
  for (size_t i = 0; i < CHILDREN; i++) {
    node_t* child = cell->children[i];
    if (child != NULL && child->side != 0) free_cells((cell_t*)child);
  }
  free(cell);
}

static cell_t* build(body_t** bodies, size_t count) {
  double low = 0, high = 0;
  for (size_t i = 0; i < count; i++) {
    vec_t p = bodies[i]->node.centre;
    low = fmin(low, fmin(p.x, fmin(p.y, p.z)));
    high = fmax(high, fmax(p.x, fmax(p.y, p.z)));
  }
  vec_t corner = {low, low, low};
  cell_t* root = make_cell(corner, (high - low) * 1.001 + 1e-9);
  for (size_t i = 0; i < count; i++) insert(root, bodies[i]);
  sum_masses(root);
  return root;
}

static void attract(body_t* body, const node_t* node) {
  if (node == &body->node) return;
  vec_t d = add_scaled(node->centre, body->node.centre, -1);
  double square = d.x * d.x + d.y * d.y + d.z * d.z + SOFTENING;
  if (node->side * node->side < THETA * THETA * square) {
    body->force = add_scaled(body->force, d, node->mass / (square * sqrt(square)));
    return;
  }
  const cell_t* cell = (const cell_t*)node;
  for (size_t i = 0; i < CHILDREN; i++) {
    if (cell->children[i] != NULL) attract(body, cell->children[i]);
  }
}

// The mean error of the tree's forces on a sample; the opening angle promises a few percent.
static void check_forces(body_t** bodies, size_t count) {
  double error = 0, size = 0;
  for (size_t k = 0; k < 16; k++) {
    const body_t* body = bodies[k * (count / 16)];
    vec_t exact = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
      if (bodies[i] == body) continue;
      vec_t d = add_scaled(bodies[i]->node.centre, body->node.centre, -1);
      double square = d.x * d.x + d.y * d.y + d.z * d.z + SOFTENING;
      exact = add_scaled(exact, d, bodies[i]->node.mass / (square * sqrt(square)));
    }
    vec_t off = add_scaled(exact, body->force, -1);
    error += sqrt(off.x * off.x + off.y * off.y + off.z * off.z);
    size += sqrt(exact.x * exact.x + exact.y * exact.y + exact.z * exact.z);
  }
  if (!(error < 0.05 * size)) bench_fail("forces are off by %g of %g", error, size);
}

int main(int argc, char** argv) {
  size_t count = bench_arg(argc, argv, 1, 163840), steps = bench_arg(argc, argv, 2, 3);
  if (count < 16) bench_fail("at least 16 bodies");
  bench_rng_t rng = bench_rng(3);
  body_t** bodies = (body_t**)bench_need(malloc(count * sizeof *bodies), count);
  for (size_t i = 0; i < count; i++) bodies[i] = make_body(&rng, count);
  for (size_t step = 0; step < steps; step++) {
    cell_t* root = build(bodies, count);
    if (fabs(root->node.mass - 1) > 1e-6) bench_fail("mass was lost in the tree");
    vec_t nothing = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
      bodies[i]->force = nothing;
      attract(bodies[i], &root->node);
    }
    if (step == 0) check_forces(bodies, count);
    for (size_t i = 0; i < count; i++) {
      bodies[i]->speed = add_scaled(bodies[i]->speed, bodies[i]->force, TIME_STEP);
      bodies[i]->node.centre =
          add_scaled(bodies[i]->node.centre, bodies[i]->speed, TIME_STEP);
    }
    free_cells(root);
  }
  for (size_t i = 0; i < count; i++) free(bodies[i]);
  free(bodies);
  printf("barnes: %zu bodies, %zu steps\n", count, steps);
  return 0;
}
