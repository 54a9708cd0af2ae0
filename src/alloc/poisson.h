// SPDX-License-Identifier: MIT
// The mathematics of sampling: distances between samples, and what a sample stands for.
//
// The samples are the points of a Poisson process over the bytes that are asked for. An allocation
// of S bytes holds a point with the probability 1 - exp(-S/R), R being the mean distance. What a
// sample stands for, S divided by that, then sums to the bytes that were allocated, whatever the
// sizes are.
#ifndef MX_ALLOC_POISSON_H
#define MX_ALLOC_POISSON_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// A random distance to the next point, above 0, exponentially distributed with this mean.
double mx_poisson_distance(double mean);
// The probability that `size` bytes hold a point.
double mx_poisson_share(size_t size, double mean);
// True so often.
bool mx_poisson_draw(double probability);
MX_END_DECLS

#endif
