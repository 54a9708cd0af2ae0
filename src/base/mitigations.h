// SPDX-License-Identifier: MIT
// The mitigations of the safe builds: each is a constant of its own, tested by ordinary `if`
// statements, so that all of them compile in every build. docs/hardening.md has the measured price
// of each and what it catches.
//
// -DMI_OMIT_MITIGATIONS=<mask> leaves single ones out, to measure them or to do without: the
// number in front of each is its bit.
#ifndef MX_BASE_MITIGATIONS_H
#define MX_BASE_MITIGATIONS_H

#define MX_MITIGATION(bit, wanted) ((wanted) && ((MX_OMIT_MITIGATIONS >> (bit)) & 1) == 0)

// 0: Guard pages before and behind the library's own metadata. A run of writes through memory
// stops there instead of in a page record.
#define MX_GUARD_METADATA MX_MITIGATION(0, MX_SECURE >= 1)

// 1: Arenas and metadata at random addresses, and pages from a random place in the arena on.
#define MX_RANDOM_ADDRESS MX_MITIGATION(1, MX_SECURE >= 1)

// 2: Blocks are carved in an order that cannot be foretold, and now and then carved although others
// are free.
// Price: in docs/hardening.md, as all.
#define MX_RANDOM_ORDER MX_MITIGATION(2, MX_SECURE >= 2)

// 3: Links of the free lists are stored encoded by page and place, and verified when read. Catches
// writes to freed blocks, and keeps them from steering malloc.
// Price: 19 instructions for a pair.
#define MX_ENCODE_LINKS MX_MITIGATION(3, MX_SECURE >= 3 || MX_DEBUG > 0)

// 4: A keyed canary in front of every block, which knows its state and size, verified by malloc,
// free and realloc (see padding.h). Catches double, interior and invalid frees, and writes before
// the start; makes the usable size exactly what was asked for.
#define MX_PADDING (MX_WANT_PADDING && ((MX_OMIT_MITIGATIONS >> 4) & 1) == 0)

// 5: free and realloc verify the canary behind the block, too. Catches writes past the end at once,
// which else the next block's free would find.
// Price: 17 instructions for a pair, 10 for blocks above 1 KiB.
#define MX_CHECK_END MX_MITIGATION(5, MX_PADDING)

// 6: Bitmaps away from the blocks say which addresses are starts of live blocks (see live.h).
// Catches every double free and every free of what is no block. Where there are canaries these say
// the same, for less.
#define MX_LIVE_BITS MX_MITIGATION(6, MX_CHECKED_FREE && (!MX_PADDING || MX_DEBUG > 0))

// 7: Freed blocks wait before they are used again (see page/delay.h). Catches immediate reuse; in
// level 5 they come back at random.
// Price: 5 instructions for a pair, 12 in level 5.
#define MX_QUARANTINE MX_MITIGATION(7, MX_SECURE >= 4 || MX_DEBUG > 0)

// 8: Blocks of zero bytes lie in inaccessible memory.
#define MX_ZERO_BLOCKS MX_MITIGATION(8, MX_SECURE >= 4 || MX_DEBUG > 0)

// 9: Sized and aligned frees and deletes are compared with the block.
#define MX_CHECK_SIZED MX_MITIGATION(9, MX_PADDING && (MX_SECURE >= 4 || MX_DEBUG > 0))

// 10: An inaccessible OS page ends every page of blocks, and every huge block.
#define MX_GUARD_PAGES MX_MITIGATION(10, MX_SECURE >= 5)

// 11: The debug fills: fresh blocks read as 0xD0, freed ones as 0xDF, and a freed block that was
// written to is reported when it is used again.
#define MX_DEBUG_FILL MX_MITIGATION(11, MX_DEBUG > 0)
#define MX_FILL_FRESH 0xD0
#define MX_FILL_FREED 0xDF
#define MX_FILL_SLACK 0xDE

// 12: Fresh pages lie at random places of their arena with gaps between them that are not mapped,
// and what was purged is not mapped either. Catches writes far beside their block, at once.
#define MX_SCATTER MX_MITIGATION(12, MX_SECURE >= 4 && MX_PIECEWISE)

// 13: A large block lies in a mapping of its own, its end against what is not mapped, as all around
// it; when it is freed nobody can access it, and its addresses wait long before they serve again.
// Catches overflows from the first byte that the alignment lets it, and any use after free.
#define MX_LARGE_APART MX_MITIGATION(13, MX_SECURE >= 4 && MX_PIECEWISE && MX_TRACK == 0)

// 14: A heap that the program makes has addresses of its own: no other heap is ever given one of
// them. Catches what a stale pointer of one heap does to the objects of another.
#define MX_ISOLATE MX_MITIGATION(14, MX_SECURE >= 4 && MX_PIECEWISE)

// 15: Freed blocks are cleared, large ones before their memory serves again, and whether a block
// still is clear is verified when it is used again (see page/clear.h). Catches writes to freed
// blocks, and keeps old contents from whoever looks for them.
#define MX_CLEAR_FREED \
  MX_MITIGATION(15, MX_PADDING && MX_SECURE >= 4 && MX_DEBUG == 0 && MX_TRACK == 0)
#define MX_CLEAR_LARGE (MX_LARGE_APART && MX_CLEAR_FREED)

// 16: What does not change any more after the start is read-only, and sealed where the kernel can;
// what only the API changes is read-only but for the moments in which it does (see mem/settings.h).
// Catches writes to options, keys, facts and function pointers.
#define MX_READ_ONLY MX_MITIGATION(16, MX_IS_LINUX && MX_SECURE >= 4 && MX_TRACK == 0)

// 17: Memory tags, where the processor has them: each block has a tag of 4 bits, which its pointer
// carries, another than its neighbours' and than free memory's, and the processor compares the two
// (see alloc/tags.h). Catches overflows into the next block, uses of freed ones, and most others.
#define MX_TAGS \
  MX_MITIGATION(17, MX_IS_LINUX && MX_IS_ARM64 && MX_PADDING && MX_SECURE >= 4 && \
                        !MX_LIVE_BITS && MX_DEBUG == 0 && MX_TRACK == 0)

// What is cleared of a small block behind its link, and of a larger one at most.
#define MX_CLEAR_SHORT ((size_t)16)
#define MX_CLEAR_MOST ((size_t)8192)

#endif
