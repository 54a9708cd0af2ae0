// SPDX-License-Identifier: MIT
// Giving tags to blocks and taking them: see tags.h.
#include "tags.h"

#include "../base/hooks.h"
#include "../page/shift.h"
#include "../page/state.h"
#include "harden.h"

// The live block that a plain address stands for, or lies in, if that is in a page whose blocks
// have tags; else NULL. *page: the page that there is, or NULL.
static uint8_t* find_tagged(const void* at, bool is_inside, const mx_page_t** page) {
  const mx_page_t* const found = *page = mx_pagemap_find(at);
  if (found == NULL || !mx_harden_has_canaries(found)) return NULL;
  void* const around = mx_shift_block(found, at);
  if (around == NULL) return NULL;
  uint8_t* const block = (uint8_t*)(is_inside ? around : mx_page_block_of(found, at));
  return block != NULL && mx_page_has_live(found, block) ? block : NULL;
}

// How many bytes of a live block have its tag: those of its user, and what shares granules with
// them; all where its canary was written over.
static size_t tagged_bytes(const mx_page_t* page, const uint8_t* block) {
  mx_check(mx_harden_has_canaries(page) && mx_page_could_be_block(page, block));
  const uint64_t size = mx_pad_state(page, block);
  if (size > page->block_size - MX_PAD) return page->block_size;
  return mx_align_up(mx_max((size_t)size, 1), MX_TAG_GRANULE);
}

// The tags that lie beside a block, as bits. In front of a page's first one is a canary's place;
// behind the last one may be nothing at all.
static unsigned tags_beside(const mx_page_t* page, const uint8_t* block, size_t size) {
  const uint8_t *const end = block + size, *const carved = page->start + mx_page_carved(page);
  const unsigned before = mx_tag_read(block - MX_TAG_GRANULE);
  return 1u << before | 1u << (end < carved ? mx_tag_read(end) : 0);
}

static unsigned choose_tag(const uint8_t* block, unsigned excluded) {
  mx_check((excluded & 0xFFFF) != 0xFFFF);
  const unsigned tag = mx_tag_of(mx_tag_random(block, excluded));
  return (excluded >> tag & 1) == 0 ? tag : (unsigned)mx_bit_low(~(uint64_t)excluded);
}

#define SET_TRIES 64  // chance and others cannot take so many

// Of two neighbours that get their tags at once, by two threads, at least one sees the other's, and
// takes another one. False: the memory has no tags, as what the program brought.
static bool set_tag(const mx_page_t* page, uint8_t* block, unsigned* tag) {
  mx_check(*tag < 16 && mx_harden_has_canaries(page));
  const size_t size = tagged_bytes(page, block);
  for (int i = 0; i < SET_TRIES; i++) {
    mx_tag_write(mx_tag_with(block, *tag), size);
    if (mx_tag_read(block) != *tag) return false;
    mx_fence_seq_cst();
    const unsigned beside = tags_beside(page, block, size);
    if ((beside >> *tag & 1) == 0) return true;
    *tag = choose_tag(block, beside | 1);
  }
  mx_tag_write(mx_tag_with(block, *tag), size);
  return true;
}

mx_noinline void* mx_tags_give(void* p) {
  const mx_page_t* page;
  uint8_t* const block = (p == NULL ? NULL : find_tagged(p, false, &page));
  if (block == NULL) return p;
  unsigned tag = choose_tag(block, tags_beside(page, block, tagged_bytes(page, block)) | 1);
  return set_tag(page, block, &tag) ? mx_tag_with(p, tag) : p;
}

void* mx_tags_again(void* block) {
  const mx_page_t* const page = mx_pagemap_find(block);
  if (page == NULL || !mx_harden_has_canaries(page)) return block;
  return mx_tag_with(block, mx_tag_read(block));
}

mx_cold static void report_tag(const char* function, const mx_page_t* page, const void* p) {
  mx_error(EINVAL, "%s: pointer %p has another tag than the block there, of size %zu: its own was "
           "freed, or it was made up\n", function, p, page->block_size - MX_PAD);
}

// What an address that stands for no live block is as the checks behind the border shall see it:
// one of a page without tags is none with a tag.
static const void* as_it_is(const mx_page_t* page, const void* p) {
  return page != NULL && mx_harden_has_canaries(page) ? mx_tag_strip(p) : p;
}

const void* mx_tags_look(const char* function, const void* p) {
  const mx_page_t* page;
  const void* const at = mx_tag_strip(p);
  const uint8_t* const block = find_tagged(at, false, &page);
  if (block == NULL) return as_it_is(page, p);
  if (mx_likely(mx_tag_read(block) == mx_tag_of(p))) return at;
  report_tag(function, page, p);
  return NULL;
}

const void* mx_tags_ask(const void* p) {
  const mx_page_t* page;
  const void* const at = mx_tag_strip(p);
  if (find_tagged(at, true, &page) == NULL) return as_it_is(page, p);
  return mx_tag_read(at) == mx_tag_of(p) ? at : NULL;
}

mx_noinline void* mx_tags_take(const char* function, void* p) {
  const mx_page_t* page;
  void* const at = mx_tag_strip(p);
  uint8_t* const block = find_tagged(at, false, &page);
  if (block == NULL) return (void*)(uintptr_t)as_it_is(page, p);
  const unsigned tag = mx_tag_read(block);
  if (mx_unlikely(tag != mx_tag_of(p))) {
    report_tag(function, page, p);
    return NULL;
  }
  if (tag != 0) mx_tag_write(block, tagged_bytes(page, block));
  return at;
}

void* mx_tags_give_back(void* at, unsigned tag, bool must) {
  const mx_page_t* page;
  uint8_t* const block = find_tagged(at, false, &page);
  if (block == NULL) return at;
  if (must) mx_tag_write(mx_tag_with(block, tag), tagged_bytes(page, block));
  else set_tag(page, block, &tag);
  return mx_tag_with(at, tag);
}
