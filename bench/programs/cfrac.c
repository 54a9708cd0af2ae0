// SPDX-License-Identifier: MIT
// cfrac: factors a number by the continued-fraction method (Morrison and Brillhart, "A method of
// factoring and the factorization of F7", Mathematics of Computation 29, 1975).
//
// The convergents A/B of the continued fraction of sqrt(kN) give A^2 = +-Q (mod N) with Q below
// 2 sqrt(kN). Each Q is divided by the primes of a factor base; those that fall apart completely
// are kept as relations, elimination over GF(2) finds products of relations that are squares on
// both sides, and a greatest common divisor then splits N. Nearly all allocations are big
// integers of 8 to 30 bytes that live for one step.
//
// Arguments: threads, numbers per thread, primes in the factor base. Every thread factors numbers
// of 30 digits from a fixed list, each thread starting at another place. The factors are checked
// by multiplying them.
#include "bigint.h"
#include "common.h"

// Products of two primes of 15 digits each, drawn at random once.
enum { NUMBERS = 16 };
static const char* const numbers[NUMBERS] = {
    "559033749932758307695018212989", "151629287631982035618230589623",
    "742644877946431522381637693009", "107150750210864177571317537663",
    "328098792695671697962390216771", "391911893109027646279806812107",
    "320111755509720208036239827077", "254211600329627163168109218217",
    "288528736962897992145671194403", "148139253910588719431790420167",
    "360861143409511808033104811917", "221318385853873627534239114733",
    "202448912207298257782304375993", "392198072224834121230289570803",
    "191378429893796981572927705591", "130933003392473948006731543861",
};

enum { MOST_PRIMES = 1023, ROW_WORDS = (MOST_PRIMES + 64) / 64 };

// A^2 = (-1)^exponents[0] * product of primes[i]^exponents[i] (mod N).
typedef struct relation {
  nat_t* a;
  uint8_t* exponents;
} relation_t;

typedef struct base {
  size_t count;  // entry 0 stands for the sign
  uint32_t primes[MOST_PRIMES + 1];
} base_t;

typedef struct state {
  const nat_t *n, *kn, *root;
  nat_t *p, *q, *term, *a, *a_before;
} state_t;

static uint32_t modulo(const nat_t* a, uint32_t m) {
  uint32_t rest;
  nat_free(nat_divide_small(a, m, &rest));
  return rest;
}

// Euler's criterion; 0 counts as a square, since p then divides kN and so some of the Q.
static int is_square_modulo(uint32_t a, uint32_t p) {
  uint64_t result = 1, power = a;
  if (a == 0 || p == 2) return 1;
  for (uint32_t e = (p - 1) / 2; e > 0; e >>= 1) {
    if (e & 1) result = result * power % p;
    power = power * power % p;
  }
  return result == 1;
}

static uint32_t next_prime(uint32_t p) {
  for (;;) {
    p++;
    uint32_t d = 2;
    while (d * d <= p && p % d != 0) d++;
    if (d * d > p) return p;
  }
}

static nat_t* times(const nat_t* a, uint32_t factor) {
  nat_t* b = nat_from(factor);
  nat_t* product = nat_multiply(a, b);
  nat_free(b);
  return product;
}

// The multiplier whose kN is a square modulo the most small primes, each worth about ln p / p.
static nat_t* choose_multiple(const nat_t* n) {
  static const uint32_t candidates[] = {1, 2, 3, 5, 6, 7, 10, 11, 13, 14, 15, 17, 19, 21, 23};
  uint64_t best_score = 0;
  nat_t* best = NULL;
  for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
    nat_t* kn = times(n, candidates[i]);
    uint64_t score = 0;
    for (uint32_t p = 3; p < 200; p = next_prime(p)) {
      uint64_t weight = (uint64_t)(64 - __builtin_clzll(p)) * 100000 / (p + 1);
      if (is_square_modulo(modulo(kn, p), p)) score += weight;
    }
    if (score > best_score) {
      best_score = score;
      nat_free(best);
      best = kn;
    } else {
      nat_free(kn);
    }
  }
  return best;
}

static void fill_base(base_t* base, const nat_t* kn, size_t primes) {
  base->count = 1;
  for (uint32_t p = 2; base->count <= primes; p = next_prime(p)) {
    if (is_square_modulo(modulo(kn, p), p)) base->primes[base->count++] = p;
  }
}

static void replace(nat_t** place, nat_t* value) {
  nat_free(*place);
  *place = value;
}

// From term i to i + 1: P' = tQ - P, Q' = (kN - P'^2) / Q, t' = (root + P') / Q'.
static void step_quadratic(state_t* s) {
  nat_t* product = nat_multiply(s->term, s->q);
  replace(&s->p, nat_subtract(product, s->p));
  nat_free(product);
  nat_t* square = nat_multiply(s->p, s->p);
  nat_t* rest = nat_subtract(s->kn, square);
  nat_t* q;
  nat_divide(rest, s->q, &q, NULL);
  nat_free(square);
  nat_free(rest);
  replace(&s->q, q);
  nat_t* sum = nat_add(s->root, s->p);
  nat_t* term;
  nat_divide(sum, s->q, &term, NULL);
  nat_free(sum);
  replace(&s->term, term);
}

static void step_convergent(state_t* s) {
  nat_t* product = nat_multiply(s->term, s->a);
  nat_t* sum = nat_add(product, s->a_before);
  nat_t* next;
  nat_divide(sum, s->n, NULL, &next);
  nat_free(product);
  nat_free(sum);
  nat_free(s->a_before);
  s->a_before = s->a;
  s->a = next;
}

// Divides Q by every prime of the base; 1 if nothing but 1 is left.
static int is_smooth(const nat_t* q, const base_t* base, uint8_t* exponents) {
  nat_t* rest = nat_copy(q);
  memset(exponents, 0, base->count);
  for (size_t i = 1; i < base->count; i++) {
    for (;;) {
      uint32_t remainder;
      nat_t* quotient = nat_divide_small(rest, base->primes[i], &remainder);
      if (remainder != 0) {
        nat_free(quotient);
        break;
      }
      replace(&rest, quotient);
      exponents[i]++;
    }
    if (rest->length == 1 && rest->limbs[0] == 1) break;
  }
  int smooth = rest->length == 1 && rest->limbs[0] == 1;
  nat_free(rest);
  return smooth;
}

static void collect(const nat_t* n, const nat_t* kn, const base_t* base, relation_t* relations,
                    size_t wanted) {
  uint8_t* exponents = (uint8_t*)bench_need(malloc(base->count), base->count);
  nat_t* root = nat_square_root(kn);
  state_t s = {n, kn, root, nat_from(0), nat_from(1), nat_copy(root), NULL, nat_from(1)};
  nat_divide(root, n, NULL, &s.a);
  for (size_t found = 0, i = 1; found < wanted; i++) {
    step_quadratic(&s);
    if (nat_value(s.q) == 1 && s.q->length == 1) bench_fail("the continued fraction came round");
    if (is_smooth(s.q, base, exponents)) {
      exponents[0] = i & 1;
      relations[found].a = nat_copy(s.a);
      relations[found].exponents = exponents;
      found++;
      exponents = (uint8_t*)bench_need(malloc(base->count), base->count);
    }
    step_convergent(&s);
  }
  free(exponents);
  nat_free(root);
  nat_free(s.p);
  nat_free(s.q);
  nat_free(s.term);
  nat_free(s.a);
  nat_free(s.a_before);
}

// X = product of the A, Y = root of the product of the Q; NULL when gcd(X - Y, N) is trivial.
static nat_t* split(const nat_t* n, const base_t* base, const relation_t* relations,
                    const uint64_t* chosen, size_t count) {
  uint32_t* sums = (uint32_t*)bench_need(calloc(base->count, sizeof *sums), base->count);
  nat_t* x = nat_from(1);
  nat_t* y = nat_from(1);
  for (size_t r = 0; r < count; r++) {
    if ((chosen[r / 64] >> (r % 64) & 1) == 0) continue;
    replace(&x, nat_multiply_modulo(x, relations[r].a, n));
    for (size_t i = 0; i < base->count; i++) sums[i] += relations[r].exponents[i];
  }
  for (size_t i = 0; i < base->count; i++) {
    if (sums[i] % 2 != 0) bench_fail("a chosen product is not a square");
    nat_t* p = nat_from(base->primes[i]);
    for (uint32_t e = 0; i > 0 && e < sums[i] / 2; e++) replace(&y, nat_multiply_modulo(y, p, n));
    nat_free(p);
  }
  nat_t* difference = nat_compare(x, y) >= 0 ? nat_subtract(x, y) : nat_subtract(y, x);
  nat_t* factor = nat_gcd(difference, n);
  int trivial = nat_compare(factor, n) == 0 || (factor->length == 1 && factor->limbs[0] == 1);
  free(sums);
  nat_free(x);
  nat_free(y);
  nat_free(difference);
  if (!trivial) return factor;
  nat_free(factor);
  return NULL;
}

// Rows are parities followed by the set of relations that they are the sum of.
typedef struct row {
  uint64_t parity[ROW_WORDS];
  uint64_t members[ROW_WORDS + 1];
} row_t;

static nat_t* eliminate(const nat_t* n, const base_t* base, const relation_t* relations,
                        size_t count) {
  row_t* rows = (row_t*)bench_need(calloc(count, sizeof(row_t)), count * sizeof(row_t));
  for (size_t r = 0; r < count; r++) {
    for (size_t i = 0; i < base->count; i++) {
      rows[r].parity[i / 64] |= (uint64_t)(relations[r].exponents[i] & 1) << (i % 64);
    }
    rows[r].members[r / 64] = (uint64_t)1 << (r % 64);
  }
  size_t used = 0;
  for (size_t i = 0; i < base->count; i++) {
    size_t pivot = used;
    while (pivot < count && (rows[pivot].parity[i / 64] >> (i % 64) & 1) == 0) pivot++;
    if (pivot == count) continue;
    row_t other = rows[pivot];
    rows[pivot] = rows[used];
    rows[used] = other;
    for (size_t r = used + 1; r < count; r++) {
      if ((rows[r].parity[i / 64] >> (i % 64) & 1) == 0) continue;
      for (size_t w = 0; w < ROW_WORDS; w++) rows[r].parity[w] ^= other.parity[w];
      for (size_t w = 0; w <= ROW_WORDS; w++) rows[r].members[w] ^= other.members[w];
    }
    used++;
  }
  nat_t* factor = NULL;
  for (size_t r = used; r < count && factor == NULL; r++) {
    factor = split(n, base, relations, rows[r].members, count);
  }
  free(rows);
  return factor;
}

static void factor(const char* text, size_t primes) {
  nat_t* n = nat_parse(text);
  nat_t* kn = choose_multiple(n);
  base_t base;
  memset(&base, 0, sizeof base);
  fill_base(&base, kn, primes);
  // A few more relations than unknowns: each surplus one splits N with probability one half.
  size_t count = base.count + 20;
  relation_t* relations = (relation_t*)bench_need(calloc(count, sizeof *relations), count);
  collect(n, kn, &base, relations, count);
  nat_t* found = eliminate(n, &base, relations, count);
  if (found == NULL) bench_fail("no factor of %s was found", text);
  nat_t *other, *rest;
  nat_divide(n, found, &other, &rest);
  nat_t* product = nat_multiply(found, other);
  if (!nat_is_zero(rest) || nat_compare(product, n) != 0) bench_fail("wrong factor of %s", text);
  char* first = nat_text(found);
  char* second = nat_text(other);
  printf("%s = %s * %s\n", text, first, second);
  free(first);
  free(second);
  for (size_t r = 0; r < count; r++) {
    nat_free(relations[r].a);
    free(relations[r].exponents);
  }
  free(relations);
  nat_t* all[] = {n, kn, found, other, rest, product};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) nat_free(all[i]);
}

typedef struct options {
  size_t count, primes;
} options_t;

static void work(size_t index, void* context) {
  const options_t* o = (const options_t*)context;
  for (size_t i = 0; i < o->count; i++) factor(numbers[(index * 5 + i) % NUMBERS], o->primes);
}

int main(int argc, char** argv) {
  size_t threads = bench_arg(argc, argv, 1, 1);
  options_t o;
  o.count = bench_arg(argc, argv, 2, 8);
  o.primes = bench_arg(argc, argv, 3, 150);
  if (o.primes < 20 || o.primes + 21 > MOST_PRIMES) bench_fail("out of range");
  bench_threads(threads, work, &o);
  return 0;
}
