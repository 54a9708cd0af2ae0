// SPDX-License-Identifier: MIT
// Proves of the size classes: each size finds the least bin that holds it, and little is lost.
#include "base/sizeclass.c"

// prove: a request's bin holds it, and is the least one that does
// bound: all sizes of shared blocks
// mutant: base/sizeclass.h: const size_t top = size - 1; => const size_t top = size;
void prove_bin_is_least(void) {
  const size_t size = any_size(1, MX_BIN_MAX_SIZE);
  const size_t bin = mx_bin_of(size);
  claim(bin >= 1 && bin < MX_BIN_HUGE);
  claim(mx_bin_size(bin) >= size);
  claim(mx_bin_size(bin - 1) < size);
}

// prove: bins grow with sizes, and block sizes with bins
// bound: all sizes of shared blocks
// mutant: base/sizeclass.h: (9 + (k & 7)) << (7 + (k >> 3)) => (8 + (k & 7)) << (7 + (k >> 3))
void prove_bins_are_monotone(void) {
  const size_t less = any_size(1, MX_BIN_MAX_SIZE), more = any_size(1, MX_BIN_MAX_SIZE);
  assume(less <= more);
  claim(mx_bin_of(less) <= mx_bin_of(more));
  const size_t bin = any_size(1, MX_BIN_HUGE - 1);
  claim(mx_bin_size(bin - 1) < mx_bin_size(bin));
  claim(mx_bin_size(bin) <= MX_BIN_MAX_SIZE && mx_bin_size(bin) % MX_ALIGN == 0);
  claim(mx_bin_of(mx_bin_size(bin)) == bin);
}

// prove: no request above 128 bytes loses more than 12.5 %
// bound: all sizes of shared blocks
// mutant: base/sizeclass.h: ((top >> (e - 3)) & 7) => ((top >> (e - 3)) & 6) + 1
void prove_waste_is_bounded(void) {
  const size_t size = any_size(129, MX_BIN_MAX_SIZE);
  claim((mx_bin_size(mx_bin_of(size)) - size) * 8 <= size);
}

// prove: the table of medium bins agrees with the formula
// bound: all sizes that the table serves
// mutant: base/sizeclass.c: DOUBLING(R4, FIRST + 16) => DOUBLING(R4, FIRST + 17)
void prove_table_agrees(void) {
  const size_t size = any_size(MX_SMALL_MAX + 1, MX_BIN_TABLE_MAX);
  claim(mx_bin_of_medium(size) == mx_bin_of(size));
}

// prove: mx_good_size is at least the request, and at most an eighth more where it says so
// bound: all requests to PTRDIFF_MAX, OS pages of 4 KiB to 64 KiB
// mutant: base/sizeclass.h: mx_align_up(size, os_page) => mx_align_down(size, os_page)
void prove_good_size(void) {
  const size_t size = any_size(1, MX_MAX_ALLOC);
  const size_t os_page = (size_t)1 << any_size(12, 16);
  const size_t good = mx_good_size(size, os_page);
  claim(good >= size && good > 0);
  claim(size <= MX_BIN_MAX_SIZE || good - size < os_page);
}

// prove: blocks of sizes that are multiples of an alignment are multiples of it
// bound: all sizes of shared blocks, all alignments to 64 KiB
// mutant: base/sizeclass.h: const size_t top = size - 1; => const size_t top = size + 15;
void prove_bins_keep_alignment(void) {
  const size_t align = (size_t)1 << any_size(4, MX_SLICE_SHIFT);
  const size_t size = any_size(1, MX_BIN_MAX_SIZE - align);
  const size_t rounded = mx_align_up(size, align);
  claim(rounded >= size && rounded - size < align && rounded % align == 0);
  claim(mx_bin_size(mx_bin_of(rounded)) % align == 0);
}

// prove: pages of a size have room for a block and its fence
// bound: all bins
// mutant: base/config.h: MX_SMALL_PAGE_MAX ((size_t)4 => MX_SMALL_PAGE_MAX ((size_t)128
void prove_pages_hold_a_block(void) {
  const size_t size = mx_bin_size(any_size(1, MX_BIN_HUGE - 1));
  const size_t bytes = mx_page_slices_for(size) * MX_SLICE_SIZE;
  claim(bytes >= size + MX_SLICE_SIZE / 2);
  claim(bytes / size >= 2);
}
