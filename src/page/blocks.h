// SPDX-License-Identifier: MIT
// What is done with the blocks of a whole page: making it, carving, collecting, verifying.
#ifndef MX_PAGE_BLOCKS_H
#define MX_PAGE_BLOCKS_H

#include "page.h"

MX_BEGIN_DECLS
// Makes a page of fresh slices, the first ones of those that it may take; unowned by any thread but
// with its owned bit set. No block is carved yet.
void mx_page_init(mx_page_t* page, const mx_slices_t* slices, size_t block_size, size_t bin,
                  struct mx_heap_s* heap);
// Carves more blocks onto `free`, those of holes first; false when there is none. *is_zero: those
// blocks read as zero but for their links.
bool mx_page_extend(mx_page_t* page, bool* is_zero);
// Puts carved neighbours in front of `free`, by address.
void mx_page_link_in_order(mx_page_t* page, size_t first, size_t count);
// Takes the slices that the next block needs, if it needs any; before mx_page_extend. Owner only.
void mx_page_grow(mx_page_t* page, mx_arenas_t* arenas);
// Moves remotely freed blocks onto `free`; answers whether there were any. Owner only.
bool mx_page_collect(mx_page_t* page);
// The same without those that wait in quarantine.
bool mx_page_collect_remote(mx_page_t* page);
// The first page of an arena at or behind slice *index, which becomes that behind the page; NULL
// when there is no more. What the page says is stable only while its heap is not in use.
mx_page_t* mx_page_next_in(const mx_arena_t* arena, size_t* index);
// The same in all arenas, from the one of number *item on.
mx_page_t* mx_page_next_of(const mx_arenas_t* arenas, size_t* item, size_t* index);
// The block of a page that has a note is no longer, and so is the note.
void mx_page_end_note(mx_page_t* page);
// Where memory has tags: that of blocks that go with their page has none any more.
void mx_page_end_tags(const mx_page_t* page);
// Level 5. Makes the OS page behind a huge block inaccessible, or accessible again; false when the
// OS refuses.
bool mx_page_guard_huge(mx_page_t* page, bool install);
// Whether all invariants hold (debug level 3).
bool mx_page_is_valid(const mx_page_t* page);
MX_END_DECLS

#endif
