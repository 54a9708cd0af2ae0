// SPDX-License-Identifier: MIT
// In builds with canaries: what each misuse of a block is told as, by its own thread and by another one,
// and that what was not the program's to free stays whole.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../include/mimalloc.h"
#include "../../src/alloc/harden.h"
#include "../../src/mem/pagemap.h"
#include "../../src/page/freelist.h"
#include "../../src/page/padding.h"
#include "../page_of.h"

#if MX_PADDING && MX_CHECKED_FREE

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

static int count, last;

static void on_error(int code, void* arg) {
  (void)arg;
  count++;
  last = code;
}

// The statement is told of, by this code.
#define TOLD(code, statement)                                                     \
  do {                                                                            \
    count = 0;                                                                    \
    statement;                                                                    \
    if (count == 0 || last != (code)) {                                           \
      printf("FAIL line %d: %d errors, the last %d\n", __LINE__, count, last);    \
      failures++;                                                                 \
    }                                                                             \
  } while (0)

#define SILENT(statement)                                                         \
  do {                                                                            \
    count = 0;                                                                    \
    statement;                                                                    \
    if (count != 0) {                                                             \
      printf("FAIL line %d: %d errors, the last %d\n", __LINE__, count, last);    \
      failures++;                                                                 \
    }                                                                             \
  } while (0)

static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static unsigned char* block(size_t size) {
  unsigned char* const p = (unsigned char*)hidden(mi_malloc(size));
  memset(p, 7, size);
  return p;
}

static bool is_whole(const unsigned char* p, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != 7) return false;
  }
  return true;
}

// The place of a block that was not carved yet.
static void* beyond(const void* p) {
  const mx_page_t* const page = page_of(p);
  return page->start + (page->reserved - 1) * page->block_size;
}

// ---- frees -------------------------------------------------------------------------------------

static void test_frees(size_t size) {
  unsigned char *const p = block(size), *const q = block(size);
  TOLD(EINVAL, mi_free(p + 1));
  TOLD(EINVAL, mi_free(p + 8));
  TOLD(EINVAL, mi_free(p + 16));
  if (page_of(p)->capacity < page_of(p)->reserved) TOLD(EINVAL, mi_free(beyond(p)));
  EXPECT(is_whole(p, size) && is_whole(q, size) && mi_usable_size(p) == size);
  SILENT(mi_free(p));
  TOLD(EAGAIN, mi_free(p));
  q[-3] ^= 0x41;
  TOLD(EFAULT, mi_free(q));
  unsigned char *const r = block(size), *const s = block(size);
  r[size] ^= 0x41;
  const bool has_slack = (page_of(r)->block_size - MX_PAD > size);
  // A byte behind the end of a small block lies where nobody looks, if that is not the canary.
  count = 0;
  mi_free(r);
  EXPECT(has_slack || (count == 1 && last == EFAULT));
  SILENT(mi_free(s));
}

static void* pointer;

static void* free_it(void* arg) {
  mi_free(hidden(pointer));
  return arg;
}

static void elsewhere(void* p) {
  pthread_t thread;
  pointer = p;
  if (pthread_create(&thread, NULL, free_it, NULL) == 0) pthread_join(thread, NULL);
}

static void test_frees_elsewhere(size_t size) {
  unsigned char *const p = block(size), *const q = block(size);
  TOLD(EINVAL, elsewhere(p + 1));
  TOLD(EINVAL, elsewhere(p + 8));
  TOLD(EINVAL, elsewhere(p + 16));
  if (page_of(p)->capacity < page_of(p)->reserved) {
    count = 0;
    elsewhere(beyond(p));
    EXPECT(count == 1 && (last == EINVAL || (MX_LIVE_BITS && last == EAGAIN)));
  }
  EXPECT(is_whole(p, size) && mi_usable_size(p) == size);
  SILENT(elsewhere(p));
  TOLD(EAGAIN, elsewhere(p));
  TOLD(EAGAIN, mi_free(p));
  q[-3] ^= 0x41;
  TOLD(EFAULT, elsewhere(q));
  SILENT(mi_collect(true));
}

static void test_huge(void) {
  const size_t size = 3 * MX_MIB;
  unsigned char* const p = block(size);
  TOLD(EINVAL, mi_free(p + 1));
  TOLD(EINVAL, mi_free(p + 4096));
  TOLD(EINVAL, elsewhere(p + 16));
  EXPECT(is_whole(p, size));
  SILENT(mi_free(p));
  count = 0;
  mi_free(p);  // its addresses may be nobody's by now
  EXPECT(count == 1 && (last == EINVAL || last == EAGAIN));
  // One that ends with its mapping: nothing behind it can be read for the report. There its canary lies
  // in front, and what its alignment leaves is filled.
  for (size_t more = 0; MX_LARGE_APART && more < 16; more++) {
    unsigned char* const q = block(size + more);
    if (!mx_page_is_apart(page_of(q))) continue;
    q[-3] ^= 0x41;
    TOLD(EFAULT, mi_free(q));
    const size_t slack = (16 - more) % 16, filled = (slack < 8 ? slack : 8);
    for (size_t at = 0; at < filled; at++) {
      unsigned char* const r = block(size + more);
      r[size + more + at] ^= 0x41;
      TOLD(EFAULT, mi_free(r));
    }
  }
}

// ---- sizes -------------------------------------------------------------------------------------

static void test_sizes(size_t size) {
  unsigned char* const p = block(size);
  if (MX_CHECK_SIZED) {
    TOLD(EINVAL, mi_free_size(p, size + 1));
    TOLD(EINVAL, mi_free_size(p, size / 2));
    TOLD(EINVAL, mi_free_aligned(p + 8, 4096));
    TOLD(EINVAL, mi_free_size_aligned(p, size + 1, 16));
    EXPECT(is_whole(p, size));
  }
  EXPECT(mi_usable_size(p + 8) == 0 && mi_usable_size(p) == size);
  unsigned char* r = NULL;
  TOLD(EINVAL, r = (unsigned char*)mi_realloc(hidden(p + 8), 10));
  EXPECT(r == NULL && is_whole(p, size));
  SILENT(r = (unsigned char*)mi_realloc(p, size - 1));
  EXPECT(r != NULL && is_whole(r, size - 1) && mi_usable_size(r) == size - 1);
  SILENT(mi_free_size_aligned(r, size - 1, 16));
  TOLD(EINVAL, r = (unsigned char*)mi_realloc(hidden(r), size * 3));
  EXPECT(r == NULL);
  unsigned char* const damaged = block(size);
  damaged[-3] ^= 0x41;
  TOLD(EFAULT, r = (unsigned char*)mi_realloc(hidden(damaged), size * 3));
  if (r != NULL) mi_free(r);
}

// ---- free blocks -------------------------------------------------------------------------------

// What was written to blocks that wait to be used again.
static void test_spoiled(size_t size) {
  enum { BLOCKS = 40 };
  unsigned char* p[BLOCKS];
  mi_heap_t* const heap = mi_heap_new();
  for (int i = 0; i < BLOCKS; i++) p[i] = (unsigned char*)mi_heap_malloc(heap, size);
  for (int i = 1; i < BLOCKS; i++) mi_free(p[i]);
  mx_page_t* const page = page_of(p[0]);
  mx_block_t* const first = page->free;
  EXPECT(first != NULL);
  if (first != NULL) {
    // Somebody's canary, or none.
    const uint64_t own = mx_pad_state(page, first);
    mx_pad_set(page, first, size);
    count = 0;
    void* q = NULL;
    for (int i = 0; i < 4 * BLOCKS && q != first; i++) {
      q = mx_tag_strip(mi_heap_malloc(heap, size));
    }
    EXPECT(q == first ? count > 0 && last == EFAULT : page->free == first);
    if (q != first) mx_pad_set(page, first, own);
  }
  mi_heap_destroy(heap);
}

int main(void) {
  allow_damage();
  mi_option_set(mi_option_max_errors, 0);
  mi_register_error(&on_error, NULL);
  static const size_t sizes[] = {40, 500, 3000, 30000};
  for (int i = 0; i < 4; i++) {
    test_frees(sizes[i]);
    test_frees_elsewhere(sizes[i]);
    test_sizes(sizes[i]);
    test_spoiled(sizes[i]);
  }
  test_huge();
  printf("reports: %d failures\n", failures);
  return failures != 0;
}

#else
int main(void) {
  printf("reports: not in this build\n");
  return 77;
}
#endif
