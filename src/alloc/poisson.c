// SPDX-License-Identifier: MIT
// Logarithm and exponential function as sampling needs them, without a library of mathematics.
#include "poisson.h"

#include <string.h>

#include "../base/check.h"
#include "../mem/random.h"

#define LN2 0.693147180559945309417
#define EXPONENT_BITS 0x7FFu
#define EXPONENT_BIAS 1023
#define FRACTION_BITS 52

// A number above 0, and at most 1.
static double uniform(void) {
  return ((double)(mx_random64() >> 11) + 1.0) * (1.0 / 9007199254740992.0);
}

// For x above 0, and no denormal one. With x = 2^n m and s = (m - 1) / (m + 1), ln m is
// 2 (s + s^3/3 + s^5/5 + ...), where s is below a third. What is left out is below 2e-11, and
// positive: of no x to 1 the answer is above 0.
static double natural_log(double x) {
  mx_check(x > 0.0);
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const int n = (int)(bits >> FRACTION_BITS & EXPONENT_BITS) - EXPONENT_BIAS;
  bits &= ((uint64_t)1 << FRACTION_BITS) - 1;
  bits |= (uint64_t)EXPONENT_BIAS << FRACTION_BITS;
  double m;
  memcpy(&m, &bits, sizeof(m));
  const double s = (m - 1.0) / (m + 1.0);
  double sum = 0.0;
  for (int k = 19; k >= 1; k -= 2) sum = sum * s * s + 1.0 / k;
  return n * LN2 + 2.0 * s * sum;
}

double mx_poisson_distance(double mean) { return -natural_log(uniform()) * mean; }

// 1 - exp(-x), to 12 digits, for small x too. With x = n ln 2 + r, exp(-x) is exp(-r) halved n
// times.
double mx_poisson_share(size_t size, double mean) {
  mx_check(mean > 0.0);
  const double x = (double)size / mean;
  if (x > 40.0) return 1.0;
  const int n = (int)(x / LN2);
  const double r = x - n * LN2;
  double rest = 0.0;  // 1 - exp(-r)
  for (int k = r < 0.05 ? 7 : 14; k >= 1; k--) rest = r / k * (1.0 - rest);
  for (int i = 0; i < n; i++) rest = 0.5 + 0.5 * rest;
  mx_check(rest >= 0.0 && rest <= 1.0);
  return rest;
}

bool mx_poisson_draw(double probability) { return uniform() <= probability; }
