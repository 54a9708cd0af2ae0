// SPDX-License-Identifier: MIT
// In builds with canaries: what a page's owner takes over of the blocks that other threads freed. Of
// two frees of one block in the same nanoseconds it is the one to find the second: in any place of the
// list, or as a ring of it. And what is told of canaries that were written over.
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/tags.h"
#include "../../src/heap/theap.h"
#include "../../src/heap/thread_life.h"
#include "../../src/mem/vmem.h"
#include "../../src/os/os.h"
#include "../../src/page/blocks.h"
#include "../../src/page/ends.h"
#include "../../src/page/remote.h"
#include "../../src/page/state.h"
#include "../page_of.h"

#define SIZE 500
#define BLOCKS 24

#if MX_PADDING

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static int errors[2];  // EAGAIN, EFAULT

static void on_error(int code, void* arg) {
  (void)arg;
  errors[code != 11]++;
}

static mx_block_t* blocks[BLOCKS];
static mx_page_t* page;

static void set_live(mx_block_t* b, bool is_live) {
  if (!MX_LIVE_BITS) return;
  if (is_live) mx_live_begin(page, b);
  else mx_live_end(page, b);
}

// A list of the first blocks in this order, ended or led back to the first of them.
static mx_block_t* list_of(const int* order, int count, bool is_ring) {
  for (int i = 0; i < count; i++) {
    const mx_block_t* const end = (is_ring ? blocks[order[0]] : NULL);
    mx_block_set_next(page, blocks[order[i]], i + 1 < count ? blocks[order[i + 1]] : end);
  }
  return blocks[order[0]];
}

// Of the list of blocks 0 to 3 those of `twice` were freed by the owner just before.
static void test_list(const char* twice, const char* states) {
  static const int order[4] = {0, 1, 2, 3};
  int good = 0;
  const uint32_t used = page->used;
  uint64_t old[4];
  for (int i = 0; i < 4; i++) {
    old[i] = mx_pad_state(page, blocks[i]);
    const bool was_free = (twice[i] == '1');
    good += !was_free;
    const uint64_t gone = (states[i] == 'l' ? MX_PAD_LEFT : MX_PAD_GONE);
    mx_pad_set(page, blocks[i], was_free ? MX_PAD_FREE : gone);
  }
  mx_block_t* const list = list_of(order, 4, false);
  mx_block_t* const before = page->free;
  errors[0] = errors[1] = 0;
  EXPECT(mx_page_accept(page, list) == (good > 0));
  EXPECT(errors[0] == 4 - good && errors[1] == 0 && page->used == used - (uint32_t)good);
  int got = 0;
  const mx_block_t* b = page->free;
  for (; got < good && b != NULL; b = mx_block_next(page, b), got++) {
    const uint64_t state = mx_pad_state(page, b);
    EXPECT(mx_pad_is_free(state));
    int i = 0;
    while (i < 4 && blocks[i] != b) i++;
    EXPECT(i < 4 && twice[i] != '1');
    // One that was not cleared is not taken for clear.
    if (i < 4) EXPECT((state == MX_PAD_FREE) == (states[i] != 'l' || !MX_CLEAR_FREED));
  }
  EXPECT(got == good && b == before);
  // As it was.
  page->free = before;
  page->used = used;
  for (int i = 0; i < 4; i++) {
    mx_pad_set(page, blocks[i], old[i]);
    set_live(blocks[i], true);
  }
}

// One that is twice in the list: all behind it would be taken without end.
static void test_ring(void) {
  static const int order[3] = {0, 1, 2};
  const uint32_t used = page->used;
  mx_block_t* const before = page->free;
  for (int i = 0; i < 3; i++) mx_pad_set(page, blocks[i], MX_PAD_GONE);
  errors[0] = errors[1] = 0;
  EXPECT(mx_page_accept(page, list_of(order, 3, true)));
  EXPECT(page->used == used - 3 && errors[0] > 0);
  page->free = before;
  page->used = used;
  for (int i = 0; i < 3; i++) {
    mx_pad_set(page, blocks[i], SIZE);
    set_live(blocks[i], true);
  }
}

// Its canary is none: it was written to after it was freed, and is free all the same.
static void test_damaged(void) {
  static const int order[1] = {0};
  const uint32_t used = page->used;
  mx_block_t* const before = page->free;
  mx_store_relaxed(mx_pad_of(blocks[0]), (uint64_t)0x4141414141414141);
  errors[0] = errors[1] = 0;
  EXPECT(mx_page_accept(page, list_of(order, 1, false)) && page->used == used - 1);
  EXPECT(errors[0] == 0 && errors[1] == 1 && mx_pad_is_free(mx_pad_state(page, blocks[0])));
  page->free = before;
  page->used = used;
  mx_pad_set(page, blocks[0], SIZE);
  set_live(blocks[0], true);
}

// Of a vanished thread's page: free, somebody's, or not to be told, which counts as somebody's.
static void test_repair(void) {
  mx_pad_set(page, blocks[0], MX_PAD_FREE);
  EXPECT(mx_page_repair_block(page, blocks[0]));
  EXPECT(mx_pad_state(page, blocks[0]) == MX_PAD_CARVED);
  mx_pad_set(page, blocks[0], SIZE);
  set_live(blocks[0], true);
  EXPECT(!mx_page_repair_block(page, blocks[0]) && mx_pad_state(page, blocks[0]) == SIZE);
  EXPECT(mx_page_has_live(page, blocks[0]));
  mx_store_relaxed(mx_pad_of(blocks[0]), (uint64_t)0x4141414141414141);
  EXPECT(!mx_page_repair_block(page, blocks[0]) && mx_pad_state(page, blocks[0]) == 0);
  mx_pad_set(page, blocks[0], MX_PAD_GONE);
  if (!MX_LIVE_BITS) EXPECT(!mx_page_has_live(page, blocks[0]));
  EXPECT(!mx_page_repair_block(page, blocks[0]));
  mx_pad_set(page, blocks[0], SIZE);
}

// A free block whose link leads nowhere or out of the page, and one that was not clear.
static void test_verify(mi_heap_t* heap) {
  for (int i = BLOCKS / 2; i < BLOCKS; i++) {
    mi_free(mx_has_tags() ? mx_tags_again(blocks[i]) : blocks[i]);
  }
  mx_page_collect(page);
  EXPECT(mx_page_verify(page) && mi_heap_verify(heap) && mi_heap_verify(NULL));
  mx_block_t* const b = page->free;
  EXPECT(b != NULL && b->next != 0);
  const uintptr_t link = b->next;
  static const uintptr_t wrong[] = {0, 1, 0x4141414141414141};
  for (int i = 0; i < 3; i++) {
    b->next = wrong[i];
    errors[1] = 0;
    EXPECT(!mx_page_verify(page) && errors[1] > 0);
    EXPECT(!mi_heap_verify(heap) && mi_heap_verify(NULL));
    b->next = link;
    EXPECT(mx_page_verify(page) && mi_heap_verify(heap));
  }
  for (int i = BLOCKS / 2; MX_CLEAR_FREED && i < BLOCKS; i++) {
    if (mx_pad_state(page, blocks[i]) != MX_PAD_FREE) continue;
    uint8_t* const byte = (uint8_t*)blocks[i] + 12;
    *byte = 1;
    errors[1] = 0;
    EXPECT(!mx_page_verify(page) && errors[1] == 1);
    mx_ends_are_torn = true;  // by a fork, in the middle of a clearing
    EXPECT(mx_page_verify(page));
    mx_ends_are_torn = false;
    *byte = 0;
    EXPECT(mx_page_verify(page));
    break;
  }
}

// What was written over between two blocks is reported once.
static void test_mended(void) {
  errors[1] = 0;
  mx_store_relaxed(mx_pad_of(blocks[1]), (uint64_t)0x4141414141414141);
  EXPECT(!mx_page_verify(page) && errors[1] == 1);
  EXPECT(mx_page_verify(page) && errors[1] == 1);
  mx_pad_set(page, blocks[1], SIZE);
}

// A block alone in its page, with what lies in front of it or behind it.
static void test_verify_huge(mi_heap_t* heap) {
  const size_t size = ((size_t)3 << 20) - 24;
  for (mi_heap_t* h = heap; h != NULL; h = (h == heap ? mi_heap_main() : NULL)) {
    unsigned char* const p = (unsigned char*)mi_heap_malloc(h, size);
    unsigned char* const at = (mx_page_is_apart(page_of(p)) ? p - 3 : p + size);
    EXPECT(mi_heap_verify(h));
    *at ^= 0x41;
    errors[1] = 0;
    EXPECT(!mi_heap_verify(h) && errors[1] == 1);
    *at ^= 0x41;
    EXPECT(mi_heap_verify(h));
    mi_free(p);
    EXPECT(mi_heap_verify(h));
  }
}

int main(void) {
  allow_damage();
  mi_option_set(mi_option_max_errors, 0);
  mi_register_error(&on_error, NULL);
  mi_heap_t* const heap = mi_heap_new();
  void* const in_front = mi_heap_malloc(heap, 2 * SIZE);
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = (mx_block_t*)mx_tag_strip(mi_heap_malloc(heap, SIZE));
  }
  page = page_of(blocks[0]);
  int count = 0;
  for (int i = 0; i < BLOCKS; i++) {
    if (page_of(blocks[i]) == page) blocks[count++] = blocks[i];
  }
  if (count < BLOCKS) return 77;
  static const char* const twice[] = {"0000", "1000", "0100", "0001",
                                      "1100", "0110", "1011", "1111"};
  for (int i = 0; i < 8; i++) {
    test_list(twice[i], "gggg");
    test_list(twice[i], "lglg");
  }
  test_ring();
  test_damaged();
  test_repair();
  void* const behind = mi_heap_malloc(heap, 3 * SIZE);
  test_verify(heap);
  test_mended();
  test_verify_huge(heap);
  mi_free(in_front);
  mi_free(behind);
  mi_heap_destroy(heap);
  printf("accept: %d failures\n", failures);
  return failures != 0;
}

#else
int main(void) {
  printf("accept: no canaries\n");
  return 77;
}
#endif
