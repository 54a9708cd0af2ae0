// SPDX-License-Identifier: MIT
// Where in its first slice a page's blocks begin.
//
// A cache looks for a line in a few places, which bits of its address name: the nearest one, and
// each share of a larger one, by those from 64 to 4,096. Blocks of 1 KiB that begin with a slice
// begin in four of these 64 sets, all of them, and a program that uses what stands in front of each
// has a sixteenth of its caches. So pages of blocks whose size is a multiple of a large power of
// two begin in different places, their colors, as slabs do (Bonwick, "The Slab Allocator", 1994;
// for blocks of powers of two Afek, Dice and Morrison, "Cache Index-Aware Memory Allocation",
// 2011). That costs a page of a power of two one block, others only what is left over in them.
//
// Such a block is aligned as its size is, to mx_color_step() at most. Whoever asks for an alignment
// that a page does not have gets a larger block, and raises the step for pages that are made from
// then on (see mx_alloc_aligned). Blocks of 2 KiB and more have no color: one that lies across more
// OS pages than it must keeps more of them from being given back.
#ifndef MX_PAGE_COLOR_H
#define MX_PAGE_COLOR_H

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../base/check.h"
#include "../base/sizeclass.h"

#define MX_COLOR_STEP_MIN ((uint32_t)128)  // two cache lines, which programs often align to
#define MX_COLOR_SPAN ((size_t)2048)       // the least size of blocks without colors

// The largest alignment of blocks that share a page. With canaries a page's first block lies so
// many bytes behind the start of a slice at most.
#define MX_SHARED_ALIGN_MAX (MX_PADDING ? MX_SLICE_SIZE / 2 : MX_SLICE_SIZE)

MX_BEGIN_DECLS
extern mx_hidden mx_atomic(uint32_t) mx_color_least;
MX_END_DECLS

// What the blocks of pages that are made now are aligned to, if their size is.
mx_inline size_t mx_color_step(void) { return mx_load_relaxed(&mx_color_least); }

// Two threads that raise it at once may leave the smaller one: the other asks again.
mx_inline void mx_color_raise(size_t align) {
  mx_check((align & (align - 1)) == 0 && align <= MX_SHARED_ALIGN_MAX);
  if (align > mx_color_step()) mx_store_relaxed(&mx_color_least, (uint32_t)align);
}

// The largest power of two that a block size is a multiple of.
mx_inline size_t mx_block_align(size_t block_size) { return block_size & (0 - block_size); }

// Whether pages of such blocks have colors.
mx_inline bool mx_has_colors(size_t block_size, size_t step) {
  return block_size < MX_COLOR_SPAN && mx_block_align(block_size) > step;
}

// The most that lies in front of a page's first block: with canaries as much as blocks are aligned
// to, so that they stay so.
mx_inline size_t mx_page_fence(size_t block_size) {
  const size_t align = mx_block_align(block_size);
  if (MX_PADDING) return mx_min(align, MX_SHARED_ALIGN_MAX);
  return mx_has_colors(block_size, MX_COLOR_STEP_MIN) ? align : 0;
}

// What lies in front of the first block of a page that begins with this slice. Pages one behind the
// other take all places in turn, and so do those of which each 8th or 64th slice is one.
mx_inline size_t mx_page_front(size_t block_size, size_t slice) {
  const size_t step = mx_color_step();
  if (!mx_has_colors(block_size, step)) return MX_PADDING ? mx_page_fence(block_size) : 0;
  const size_t turn = slice + slice / 8 + slice / 64;
  mx_check((step & (step - 1)) == 0);
  return (turn * step & (mx_block_align(block_size) - step)) + (MX_PADDING ? step : 0);
}

#endif
