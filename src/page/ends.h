// SPDX-License-Identifier: MIT
// Verifying a page as a whole: the canaries between its blocks, live and free ones, and the slack
// of live ones. In builds without canaries there is nothing to verify.
#ifndef MX_PAGE_ENDS_H
#define MX_PAGE_ENDS_H

#include "page.h"

// Room for eight bytes as text.
#define MX_BYTES_TEXT 24

// What is wrong between two blocks, to be told when the page is another thread's again.
typedef struct mx_damage_s {
  const void* block;  // NULL: nothing
  const void* front;  // the live one in front, of so many bytes; or NULL
  size_t size;        // else the most that the other may have
  char bytes[MX_BYTES_TEXT];
} mx_damage_t;

MX_BEGIN_DECLS
// In a child of fork: threads are gone that may have been between two steps of making a block, so
// what lies behind a block may not be what its state says.
extern mx_hidden bool mx_ends_are_torn;
// Whether nobody wrote between the carved blocks of a page of blocks; reports each place where
// somebody did. Owner only; other threads may free meanwhile.
bool mx_page_verify(const mx_page_t* page);
// The first damage of a page that is lent, and is none any more. Of canaries only, each of which is
// valid at any time: what else there is of a block, its owner may be about to write.
mx_damage_t mx_page_damage_of_lent(const mx_page_t* page);
void mx_damage_report(const mx_damage_t* damage);
// Eight bytes from `p` on as text, in a buffer of the caller's.
const char* mx_bytes_text(char* buf, const void* p);
MX_END_DECLS

#endif
