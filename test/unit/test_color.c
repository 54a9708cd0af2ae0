// SPDX-License-Identifier: MIT
// Pages begin in all places that their blocks allow, whichever slices they get; those of large
// blocks begin with it.
#include <stdio.h>
#include <string.h>

#include "../../src/page/color.h"

#define SETS_SPAN ((size_t)4096)  // of addresses, which name a set of a cache
#define PLACES (SETS_SPAN / 16)

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static size_t align_of(size_t size) { return size & (0 - size); }

// How many different places so many pages have that lie `stride` slices apart, and how many of them
// the commonest one has.
static size_t places_of(size_t size, size_t stride, size_t pages, size_t* most) {
  static size_t count[PLACES];
  size_t places = 0;
  memset(count, 0, sizeof(count));
  *most = 0;
  for (size_t i = 0; i < pages; i++) {
    const size_t front = mx_page_front(size, i * stride);
    EXPECT(front <= mx_page_fence(size));
    EXPECT(front < SETS_SPAN && front % MX_ALIGN == 0);
    if (count[front / MX_ALIGN]++ == 0) places++;
    if (count[front / MX_ALIGN] > *most) *most = count[front / MX_ALIGN];
  }
  return places;
}

static void check_bin(size_t bin) {
  const size_t size = mx_bin_size(bin), align = align_of(size), step = mx_color_step();
  if (size >= MX_COLOR_SPAN) {
    EXPECT(mx_page_front(size, 12345) % align == 0 || align > MX_SHARED_ALIGN_MAX);
    return;
  }
  const size_t colors = (align > step ? align / step : 1);
  static const size_t strides[] = {1, 2, 3, 8, 16, 64};
  for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
    size_t most;
    EXPECT(places_of(size, strides[i], 8 * colors, &most) == colors);
    EXPECT(most <= 16);
  }
}

// Blocks of a page lie on the lines of their size; those of a few pages on all that a cache has.
static void test_lines(size_t size) {
  bool is_used[SETS_SPAN / 64] = {false};
  for (size_t page = 0; page < 64; page++) {
    const size_t front = mx_page_front(size, page);
    for (size_t i = 0; i < 8; i++) is_used[(front + i * size) % SETS_SPAN / 64] = true;
  }
  size_t lines = 0;
  for (size_t i = 0; i < sizeof(is_used); i++) lines += is_used[i];
  EXPECT(lines == SETS_SPAN / mx_color_step());
}

int main(void) {
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) check_bin(bin);
  test_lines(512);
  test_lines(1024);
  EXPECT(mx_color_step() == MX_COLOR_STEP_MIN);
  mx_color_raise(512);
  mx_color_raise(256);
  EXPECT(mx_color_step() == 512);
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    check_bin(bin);
    const size_t align = align_of(mx_bin_size(bin));
    if (align < MX_COLOR_SPAN) EXPECT(mx_page_front(mx_bin_size(bin), bin) % (align < 512 ? align : 512) == 0);
  }
  return failures != 0;
}
