// SPDX-License-Identifier: MIT
// Memory tags of blocks: what the program holds, and what the library does.
//
//   tag 0         all that is no live block of a page of blocks: free blocks, what is not carved
//                 yet, the library's records, huge blocks
//   tag 1 to 15   a live block, in all 16 bytes that hold a byte of it; at random, but another one
//                 than the 16 bytes before and behind have
//
// The pointer that the program has of a block carries the tag; the library's own carry none. So
// there is one border, where blocks are given to the program and taken from it: `give` tags a block
// and its pointer, `take` compares the two, makes the memory the library's again, and answers the
// plain address. What lies behind the border knows nothing of tags, but that canaries, and what
// else lies beside or in live blocks, is read and written without the comparison (os/tags.h).
//
// So an access by a pointer to a freed block is always found, and so is one beyond the end of a
// block or before its start, into the next 16 bytes; other wrong ones are by a chance of 14 in 15
// at most, 12 in 13 at least.
//
// Huge and guarded blocks have no tags: they lie alone, and nothing is mapped behind them, nor is
// anything where they were.
#ifndef MX_ALLOC_TAGS_H
#define MX_ALLOC_TAGS_H

#include "../heap/heap.h"
#include "../os/tags.h"

MX_BEGIN_DECLS
// Tags a block, and answers the pointer that the program may have. NULL stays NULL.
void* mx_tags_give(void* p);
// The plain address of what the program gives back, which is the library's now. NULL: its tag is
// another than its memory's, which is reported by the function's name. What is no block of a tagged
// page, or no live one, stays as it is: the check that follows says so.
void* mx_tags_take(const char* function, void* p);
// The same for a block that stays the program's, as any call that looks at one.
const void* mx_tags_look(const char* function, const void* p);
// The same for any address, of which nothing is reported: NULL when it is not to be accessed so.
const void* mx_tags_ask(const void* p);
// The pointer to a live block by its address, with the tag that its memory has.
void* mx_tags_again(void* block);

// Tags a block anew that was taken, with the tag that it had: where the program may go on with the
// pointer that it has. With another one, if a neighbour was given the same meanwhile, unless it
// must be that. The pointer to it.
void* mx_tags_give_back(void* at, unsigned tag, bool must);
MX_END_DECLS

// A block that goes to the program.
mx_inline void* mx_given(void* p) { return mx_has_tags() ? mx_tags_give(p) : p; }

#endif
