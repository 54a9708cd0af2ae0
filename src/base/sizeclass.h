// SPDX-License-Identifier: MIT
// The size classes (bins): which block size serves a request.
//
// Up to 1 KiB a bin for every multiple of 16 bytes (with canaries one more, 1040); above, 8 bins to
// a doubling:
//   1152 1280 1408 .. 2048, 2304 .. 4096, ... 512 KiB.
// Waste: a request n above 1 KiB lies in (2^e, 2^(e+1)] and is rounded up to a multiple of
// 2^(e-3), so less than 2^(e-3)/2^e = 12.5 % of the request is lost; above 128 bytes and below
// 1 KiB at most 15 bytes of 129, 11.7 %. (Above 8 KiB a free block of a larger bin may serve, less
// than twice as large: see alloc_larger in alloc/slow.c.) Every block size is a multiple of 16, and
// a request that is a multiple of a power of two a <= 2^(e-3) gets a block that is one too; such
// blocks are aligned to a without any extra room where their page begins so (page/color.h).
#ifndef MX_BASE_SIZECLASS_H
#define MX_BASE_SIZECLASS_H

#include "bits.h"

// One bin for each 16 bytes up to here; many programs ask for 1 KiB.
#define MX_SMALL_MAX ((size_t)1024 + (MX_PADDING ? MX_ALIGN : 0))
#define MX_SMALL_BINS (MX_SMALL_MAX / MX_ALIGN)
#define MX_BIN_MAX_SIZE ((size_t)512 * 1024)     // the largest block that shares its page
// The largest one that does so in this build: where large blocks lie apart, it is less.
#define MX_SHARED_MAX (MX_LARGE_APART ? (size_t)192 * 1024 : MX_BIN_MAX_SIZE)
#define MX_BIN_HUGE (MX_SMALL_BINS + 1 + 9 * 8)  // pseudo-bin of blocks alone in their page
#define MX_BIN_COUNT (MX_BIN_HUGE + 1)

#define MX_MEDIUM_PAGE_SLICES 8
#define MX_LARGE_PAGE_SLICES 64
#define MX_MEDIUM_PAGE_MAX ((size_t)16 * 1024)  // largest block in pages of 8 slices

mx_static_assert(MX_SMALL_BINS == (MX_PADDING ? 65 : 64), "the fast path indexes by size / 16");
mx_static_assert(MX_BIN_HUGE == (MX_PADDING ? 138 : 137), "9 doublings of 8 bins follow these");

// The bin of a request of `size` bytes, 1 <= size <= MX_BIN_MAX_SIZE.
mx_inline size_t mx_bin_of(size_t size) {
  if (mx_likely(size <= MX_SMALL_MAX)) return (size + MX_ALIGN - 1) / MX_ALIGN;
  const size_t top = size - 1;
  const unsigned e = mx_bit_high(top);
  return MX_SMALL_BINS + 1 + (e - 10) * 8 + ((top >> (e - 3)) & 7);
}

// Table of the bins of 1 KiB to 64 KiB, one entry for each 128 bytes: no request of one entry's
// range differs in its bin from the others, since the finest step there is 128 bytes.
#define MX_BIN_TABLE_MAX ((size_t)64 * 1024)
MX_BEGIN_DECLS
extern mx_hidden const uint8_t mx_bin_table[MX_BIN_TABLE_MAX / 128];
MX_END_DECLS

// As mx_bin_of for 1 KiB < size <= 64 KiB.
mx_inline size_t mx_bin_of_medium(size_t size) { return mx_bin_table[(size - 1) / 128]; }

// The block size of a bin, in bytes; bin 0 serves no request and has size 0.
mx_inline size_t mx_bin_size(size_t bin) {
  if (bin <= MX_SMALL_BINS) return bin * MX_ALIGN;
  const size_t k = bin - (MX_SMALL_BINS + 1);
  return (9 + (k & 7)) << (7 + (k >> 3));
}

// How many slices a page of blocks of this size takes.
mx_inline size_t mx_page_slices_for(size_t block_size) {
  if (block_size <= MX_SMALL_PAGE_MAX) return 1;
  return block_size <= MX_MEDIUM_PAGE_MAX ? MX_MEDIUM_PAGE_SLICES : MX_LARGE_PAGE_SLICES;
}

// What a request of `size` bytes, from 1 to MX_MAX_ALLOC, gets at the least: its bin's block size,
// or whole OS pages when huge.
mx_inline size_t mx_good_size(size_t size, size_t os_page) {
  return size <= MX_BIN_MAX_SIZE ? mx_bin_size(mx_bin_of(size)) : mx_align_up(size, os_page);
}

#endif
