// SPDX-License-Identifier: MIT
// Proves of the free lists of a small page: whatever is done to them, each block is in one
// place, and the counts say so.
#include "page/blocks.c"
#include "page/freelist.c"

mx_facts_t mx_facts;

#define BLOCKS 4
#define BLOCK_SIZE ((size_t)16)

// The blocks of the page, with room in front for the first one's canary.
static mx_aligned(16) uint8_t prove_memory[16 + (BLOCKS + 1) * BLOCK_SIZE];
static mx_page_t prove_page;

static mx_block_t* block_number(size_t i) {
  return (mx_block_t*)(void*)(prove_memory + 16 + i * BLOCK_SIZE);
}

// Reports are counted; nothing else comes of them.
static unsigned prove_reports;
static void report(mx_level_t level, int code, const char* fmt, ...) {
  (void)level, (void)code, (void)fmt;
  prove_reports++;
}
mx_hooks_t mx_hooks = {.message = report};

// Blocks of other threads are proved by the explorer.
bool mx_page_accept(mx_page_t* page, mx_block_t* list) {
  (void)page, (void)list;
  claim(false);
  return false;
}

static void make_page(void) {
  mx_facts.os_page = 4096;
  prove_page.start = prove_memory + 16;
  prove_page.block_size = BLOCK_SIZE;
  prove_page.reserved = prove_page.capacity = BLOCKS;
  prove_page.slice_count = 1;
  prove_page.bin = 1;
  if (MX_ENCODE_LINKS || MX_PADDING) prove_page.key = nondet_uint64() & ~(uint64_t)0xFF;
  prove_page.remote = MX_OWNED;
}

// A list of any blocks in any order, none twice; answers which, as bits.
static mx_block_t* any_list(unsigned without, unsigned* which) {
  mx_block_t* list = NULL;
  *which = 0;
  for (size_t turn = 0; turn < BLOCKS; turn++) {
    const size_t i = any_size(0, BLOCKS);
    if (i == BLOCKS || ((*which | without) >> i & 1) != 0) continue;
    mx_block_set_next(&prove_page, block_number(i), list);
    list = block_number(i);
    *which |= 1u << i;
  }
  return list;
}

// The blocks of a list as bits; fails where one comes twice or is none.
static unsigned blocks_of(const mx_block_t* list) {
  unsigned which = 0;
  for (const mx_block_t* b = list; b != NULL; b = mx_block_next(&prove_page, b)) {
    const size_t offset = (size_t)((const uint8_t*)b - prove_page.start);
    claim(offset % BLOCK_SIZE == 0 && offset / BLOCK_SIZE < BLOCKS);
    const size_t i = offset / BLOCK_SIZE;
    claim((which >> i & 1) == 0);
    if ((which >> i & 1) != 0) break;
    which |= 1u << i;
  }
  return which;
}

static unsigned count_of(unsigned which) {
  unsigned count = 0;
  for (size_t i = 0; i < BLOCKS; i++) count += which >> i & 1;
  return count;
}

// prove: pop takes the first block, push puts one back: no other block comes or goes
// bound: all lists of up to four blocks
// unwind: 6
// long: yes
// mutant: page/freelist.h: mx_block_set_next(page, block, page->free); => mx_block_set_next(page, block, NULL);
void prove_list_pop_and_push(void) {
  unsigned which;
  make_page();
  prove_page.free = any_list(0, &which);
  prove_page.used = BLOCKS - count_of(which);
  mx_block_t* const block = mx_page_pop(&prove_page);
  claim((block == NULL) == (which == 0));
  if (block == NULL) return;
  const unsigned rest = blocks_of(prove_page.free);
  const unsigned taken = 1u << ((uint8_t*)block - prove_page.start) / BLOCK_SIZE;
  claim((rest & taken) == 0 && (rest | taken) == which);
  claim(prove_page.used == BLOCKS - count_of(rest));
  const bool is_empty = mx_page_push(&prove_page, block);
  claim(blocks_of(prove_page.free) == which && prove_page.free == block);
  claim(prove_page.used == BLOCKS - count_of(which));
  claim(is_empty == (prove_page.used == 0));
}

// Where words are wide the list's count lies where CBMC keeps what object a pointer leads into.
// prove: what others freed comes onto the list once, and is counted
// bound: all lists of up to four blocks, free and remote
// unwind: 6
// builds: release32
// long: yes
// mutant: page/blocks.c: mx_block_set_next(page, last, page->free); => mx_block_set_next(page, list.first, page->free);
void prove_list_collect(void) {
  unsigned here, there;
  make_page();
  prove_page.free = any_list(0, &here);
  mx_block_t* const remote = any_list(here, &there);
  prove_page.used = BLOCKS - count_of(here);
  if (remote != NULL) prove_page.remote = mx_remote_word(MX_OWNED, remote, count_of(there));
  const bool any = mx_page_collect_remote(&prove_page);
  claim(any == (there != 0) && prove_page.remote == MX_OWNED);
  claim(blocks_of(prove_page.free) == (here | there));
  claim(prove_page.used == BLOCKS - count_of(here | there));
}

// prove: the word of a list that has one block more is the same whichever way it is reckoned
// bound: all words, all addresses
// mutant: page/remote.h: return block + MX_REMOTE_COUNT_ONE - next + old; => return block - next + old + 1;
void prove_list_word(void) {
  const uintptr_t old = nondet_uintptr() | MX_OWNED, block = nondet_uintptr();
  assume((block & (MX_OWNED | MX_REMOTE_COUNT_MASK)) == 0);
  const uintptr_t next = old & ~(MX_REMOTE_COUNT_MASK | MX_OWNED);
  claim(mx_remote_word_on(old, next, block) == mx_remote_word(old, (mx_block_t*)block, 1));
}

// prove: what is put back comes onto the list, once and counted; a circle is reported and left out
// bound: all lists of up to four blocks; ends that lead back, but where lists are counted and none follows
// unwind: 6
// long: yes
// mutant: page/blocks.c: if (++list->count > page->capacity) return NULL; => if (++list->count > page->capacity + 9) return NULL;
void prove_list_put_back(void) {
  unsigned here, there;
  make_page();
  prove_page.free = any_list(0, &here);
  mx_block_t* const back = any_list(here, &there);
  if (back == NULL) return;
  prove_page.used = BLOCKS - count_of(here);
  const bool is_circle = nondet_bool();
  if (is_circle) {
    mx_block_t* last = back;
    while (mx_block_next(&prove_page, last) != NULL) last = mx_block_next(&prove_page, last);
    mx_block_set_next(&prove_page, last, back);
  }
  const bool is_counted = (MX_64BIT && nondet_bool());
  const mx_remote_list_t list = {back, is_counted ? count_of(there) : 0};
  if (is_circle && is_counted && here == 0) return;
  const bool is_back = put_back(&prove_page, list);
  if (is_circle) {
    claim(!is_back && prove_reports == 1);
    claim(blocks_of(prove_page.free) == here && prove_page.used == BLOCKS - count_of(here));
    return;
  }
  claim(is_back && prove_reports == 0);
  claim(blocks_of(prove_page.free) == (here | there));
  claim(prove_page.used == BLOCKS - count_of(here | there));
}

// prove: fresh blocks are linked in an order of the key's that has each of a group once
// bound: all keys, any two places of a group
// builds: secure64 secure32
// mutant: page/blocks.c: (random >> 20 | 1) => (random >> 20)
void prove_list_scatter(void) {
  const uint32_t random = nondet_uint32();
  const uint32_t i = (uint32_t)any_size(0, SHUFFLED - 1), j = (uint32_t)any_size(0, SHUFFLED - 1);
  const uint64_t order = shuffled(random);
  const uint64_t at_i = order >> 8 * i & 0xFF, at_j = order >> 8 * j & 0xFF;
  claim(at_i < SHUFFLED);
  claim((at_i == at_j) == (i == j));
}

// prove: a link that leads out of its page's reach ends the list and is reported
// bound: all links and keys
// builds: secure64 secure32
// addresses: yes
// mutant: page/freelist.h: if (mx_unlikely(!mx_link_leads_home(page, block, link))) { => if (link == 0) {
void prove_list_sees_strangers(void) {
  make_page();
  mx_block_t* const block = block_number(0);
  block->next = nondet_uintptr();
  const uintptr_t link = block->next ^ (uintptr_t)mx_place_key(&prove_page, block);
  const uintptr_t distance =
      (link > (uintptr_t)block ? link - (uintptr_t)block : (uintptr_t)block - link);
  const mx_block_t* const next = mx_block_next(&prove_page, block);
  claim(next == NULL || distance <= (uintptr_t)1 << MX_LINK_SHIFT);
  claim((prove_reports != 0) == (link != 0 && next == NULL));
}
