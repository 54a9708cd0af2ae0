// SPDX-License-Identifier: MIT
// Memory tags of hardened builds (src/alloc/tags.h), where the processor has them: which wrong
// accesses it finds, which neighbours blocks have, and that blocks are what they are without.
//
// A wrong access is made under a handler for SIGSEGV, which jumps back and says of which kind it
// was.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/mman.h>
#endif

#include "../child.h"
#include "expect.h"
#include "os/tags.h"

#define CODE_SYNC 9          // SEGV_MTESERR, which older headers lack
#define HWCAP2_HAS_MTE (1UL << 18)
#define TAG_SHIFT (MX_64BIT ? 56 : 24)

static const size_t sizes[] = {1, 8, 16, 24, 40, 64, 100, 200, 1000, 1024, 4000, 20000, 100000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static sigjmp_buf back;
static volatile sig_atomic_t code;

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  code = info->si_code;
  siglongjmp(back, 1);
}

static int tag_of(const void* p) { return (int)((uintptr_t)p >> TAG_SHIFT & 15); }
static uintptr_t plain(const void* p) { return (uintptr_t)p & ~((uintptr_t)15 << TAG_SHIFT); }

// Unknown to the compiler, which must not think that it knows what these calls do.
static char* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return (char*)p;
}

// Whether the processor refuses a read and a write of one byte.
static int refuses_read(const char* p) {
  code = 0;
  if (sigsetjmp(back, 1) != 0) return code == CODE_SYNC;
  (void)*(const volatile char*)p;
  return 0;
}

static int refuses_write(char* p) {
  const char kept = (char)0xDE;
  code = 0;
  if (sigsetjmp(back, 1) != 0) return code == CODE_SYNC;
  *(volatile char*)p = kept;
  return 0;
}

static int refuses(char* p) { return refuses_read(p) && refuses_write(p); }

static size_t rounded(size_t size) { return (size + 15) / 16 * 16; }

// ---- what is found ------------------------------------------------------------------------------

static void test_beside(void) {
  for (size_t s = 0; s < SIZES; s++) {
    for (int i = 0; i < 20; i++) {
      char* const p = hidden(mi_malloc(sizes[s]));
      EXPECT_AT(sizes[s], tag_of(p) != 0);
      memset(p, 1, sizes[s]);
      EXPECT_AT(sizes[s], refuses(p + rounded(sizes[s])) && refuses(p - 16) && refuses(p - 1));
      EXPECT_AT(sizes[s], refuses(p + rounded(sizes[s]) + 15));
      mi_free(p);
    }
  }
}

static void test_freed(void) {
  for (size_t s = 0; s < SIZES; s++) {
    char* const p = hidden(mi_malloc(sizes[s]));
    memset(p, 1, sizes[s]);
    mi_free(p);
    EXPECT_AT(sizes[s], refuses(p) && refuses(p + sizes[s] - 1));
  }
}

static void test_freed_by_realloc(void) {
  char* const p = hidden(mi_malloc(100));
  char* const q = hidden(mi_realloc(p, 1000));
  EXPECT(plain(p) != plain(q) && tag_of(q) != 0 && refuses(p));
  char* const r = hidden(mi_realloc(q, 900));
  EXPECT(r == q && refuses(r + 912) && !refuses_read(r + 899));  // stays what it was, but smaller
  mi_free(r);
}

static int compare(const void* a, const void* b) {
  const uintptr_t x = plain(*(char* const*)a), y = plain(*(char* const*)b);
  return (x > y) - (x < y);
}

// Those beside each other have different tags, after some were freed and had again, too.
static void check_neighbours(size_t size) {
  enum { COUNT = 10000 };
  static char* blocks[COUNT];
  size_t beside = 0, used[16] = {0};
  for (size_t i = 0; i < COUNT; i++) blocks[i] = hidden(mi_malloc(size));
  for (size_t i = 0; i < COUNT; i += 3) mi_free(blocks[i]);
  for (size_t i = 0; i < COUNT; i += 3) blocks[i] = hidden(mi_malloc(size));
  qsort(blocks, COUNT, sizeof(blocks[0]), compare);
  for (size_t i = 0; i < COUNT; i++) {
    EXPECT_AT(size, blocks[i] != NULL && tag_of(blocks[i]) != 0);
    used[tag_of(blocks[i])]++;
    if (i == 0 || plain(blocks[i]) - plain(blocks[i - 1]) > rounded(size + 8)) continue;
    beside++;
    EXPECT_AT(size, tag_of(blocks[i]) != tag_of(blocks[i - 1]));
  }
  EXPECT_AT(size, beside > COUNT / 2);
  for (int tag = 1; tag < 16; tag++) EXPECT_AT(size, used[tag] > COUNT / 30);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
}

static void test_neighbours(void) {
  check_neighbours(24);
  check_neighbours(8);
  check_neighbours(120);
  check_neighbours(1000);
}

// A pointer to a block that was freed, where another one is now.
static void test_stale(void) {
  enum { COUNT = 500, ROUNDS = 40 };
  static char *old[COUNT], *now[COUNT];
  size_t met = 0, found = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < COUNT; i++) old[i] = hidden(mi_malloc(56));
    for (size_t i = 0; i < COUNT; i++) mi_free(old[i]);
    for (size_t i = 0; i < COUNT; i++) now[i] = hidden(mi_malloc(56));
    qsort(old, COUNT, sizeof(old[0]), compare);
    qsort(now, COUNT, sizeof(now[0]), compare);
    for (size_t i = 0, j = 0; i < COUNT && j < COUNT;) {
      if (plain(old[i]) < plain(now[j])) i++;
      else if (plain(old[i]) > plain(now[j])) j++;
      else met++, found += (size_t)refuses_read(old[i]), i++, j++;
    }
    for (size_t i = 0; i < COUNT; i++) mi_free(now[i]);
  }
  printf("of %zu stale pointers to a block that is another one's now, %.2f %% are found\n", met,
         100.0 * (double)found / (double)(met + (met == 0)));
  EXPECT(met > 1000 && found < met);           // not all: the tags are random
  EXPECT(found * 100 > met * 91 && found * 100 < met * 96);  // 14 of 15 or less
}

// ---- what is reported --------------------------------------------------------------------------

static void free_twice(const void* unused) {
  (void)unused;
  char* const p = hidden(mi_malloc(100));
  mi_free(p);
  mi_free(p);
}

// Frees what another block's pointer would be.
static void free_of_other_tag(const void* unused) {
  (void)unused;
  char* const p = hidden(mi_malloc(100));
  mi_free((char*)((uintptr_t)p ^ (uintptr_t)1 << TAG_SHIFT));
}

static void free_plain(const void* unused) {
  (void)unused;
  mi_free((void*)plain(hidden(mi_malloc(100))));
}

static void realloc_freed(const void* unused) {
  (void)unused;
  char* const p = hidden(mi_malloc(100));
  mi_free(p);
  hidden(mi_realloc(p, 200));
}

static void usable_of_other(const void* unused) {
  (void)unused;
  char* const p = hidden(mi_malloc(100));
  exit((int)mi_usable_size((char*)((uintptr_t)p ^ (uintptr_t)1 << TAG_SHIFT)));
}

static void free_inside(const void* unused) {
  (void)unused;
  mi_free(hidden(mi_malloc(100)) + 16);
}

static void test_reports(void) {
  static const struct {
    void (*body)(const void* unused);
    const char* says;
  } rows[] = {{free_twice, "free: double free detected of block"},
              {free_of_other_tag, "free: pointer"},
              {free_plain, "free: pointer"},
              {realloc_freed, "realloc: block"},
              {usable_of_other, "usable_size: pointer"},
              {free_inside, "free: invalid pointer"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    run_child(rows[i].body, NULL);
    EXPECT_AT(i, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    EXPECT_AT(i, strstr(said, rows[i].says) != NULL);
    if (strstr(said, rows[i].says) == NULL) fprintf(stderr, "    it says: %s\n", said);
  }
}

// A free that is refused leaves the block as it was, with its tag.
static void test_refused(void) {
  expect_errors();
  char* const p = hidden(mi_malloc(100));
  mi_free((char*)((uintptr_t)p ^ (uintptr_t)1 << TAG_SHIFT));
  mi_free_size(p, 50);
  EXPECT(error_count == (MX_CHECK_SIZED ? 2 : 1) && mi_usable_size(p) == 100);
  errno = 0;
  EXPECT(hidden(mi_realloc((char*)((uintptr_t)p ^ (uintptr_t)1 << TAG_SHIFT), 200)) == NULL);
  EXPECT(errno == EINVAL && mi_usable_size(p) == 100);
  memset(p, 1, 100);
  EXPECT(mi_is_in_heap_region(p) && !mi_is_in_heap_region((void*)plain(p)));
  EXPECT(mi_check_owned(p + 50) && !mi_check_owned(p + 112));
  EXPECT(hidden(mi_realloc(p, SIZE_MAX / 4)) == NULL && mi_usable_size(p) == 100);
  memset(p, 2, 100);
  mi_free(p);
  EXPECT(!mi_is_in_heap_region(p));
  mi_register_error(NULL, NULL);
}

// What is said of a block's size and alignment, where it is so, frees it as without that.
static void test_said(void) {
  char* p = hidden(mi_malloc(100));
  mi_free_size(p, 100);
  EXPECT(!mi_is_in_heap_region(p));
  p = hidden(mi_malloc_aligned(100, 64));
  mi_free_aligned(p, 64);
  EXPECT(!mi_is_in_heap_region(p));
}

// ---- that blocks are what they are -------------------------------------------------------------

static void test_contents(void) {
  for (size_t s = 0; s < SIZES; s++) {
    const size_t size = sizes[s];
    char* p = hidden(mi_calloc(1, size));
    EXPECT_AT(size, is_zero(p, size) && is_usable_for(p, size));
    memset(p, 7, size);
    p = hidden(mi_realloc(p, size * 3 + 5));
    EXPECT_AT(size, is_filled(p, size, 7));
    memset(p, 8, size * 3 + 5);
    p = hidden(mi_realloc(p, size / 2 + 1));
    EXPECT_AT(size, is_filled(p, size / 2 + 1, 8));
    mi_free(p);
    for (size_t align = 16; align <= 65536; align *= 4) {
      p = hidden(mi_memalign(align, size));
      EXPECT_AT(size, is_multiple((void*)plain(p), align));
      memset(p, 9, size);
      mi_free(p);
      p = hidden(mi_zalloc_aligned_at(size, align, 8));
      EXPECT_AT(size, (plain(p) + 8) % align == 0 && is_zero(p, size));
      memset(p, 9, size);
      p = hidden(mi_rezalloc_aligned_at(p, size + 100, align, 8));
      EXPECT_AT(size, is_filled(p, size, 9) && is_zero(p + size, 100));
      mi_free(p);
    }
  }
}

static bool mi_cdecl write_all(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                               size_t size, void* arg) {
  (void)heap, (void)area, (void)size;
  if (block == NULL) return true;
  memset(block, 3, mi_usable_size(block));
  ++*(size_t*)arg;
  return true;
}

// What a visitor is given may be used; and a heap that goes with its blocks leaves no tags: other
// blocks, and huge ones, are made of its memory.
static void test_heaps(void) {
  for (int round = 0; round < 20; round++) {
    mi_heap_t* const heap = mi_heap_new();
    for (int i = 0; i < 2000; i++) hidden(mi_heap_malloc(heap, (size_t)(i % 300) + 1));
    size_t count = 0;
    EXPECT(mi_heap_visit_blocks(heap, true, write_all, &count) && count == 2000);
    EXPECT(mi_heap_verify(heap));
    mi_heap_destroy(heap);
    const size_t size = (size_t)(round + 1) << 16;
    char* const p = hidden(mi_malloc(size));
    memset(p, 1, size);
    mi_free(p);
  }
  mi_collect(true);
}

enum { THREADS = 4, PASSED = 4000 };
static void* _Atomic passed[THREADS][PASSED];

// Fills blocks for the next thread, frees those of the one before.
static void* pass_on(void* arg) {
  const size_t own = (size_t)(uintptr_t)arg, other = (own + 1) % THREADS;
  for (size_t i = 0; i < PASSED; i++) {
    const size_t size = 1 + (i * 37 + own) % 700;
    char* const p = hidden(mi_malloc(size));
    memset(p, (int)own, size);
    passed[own][i] = p;
    char* const q = (char*)passed[other][i];
    if (q == NULL) continue;
    EXPECT(mi_usable_size(q) == 1 + (i * 37 + other) % 700 && q[0] == (char)other);
    passed[other][i] = NULL;
    mi_free(q);
  }
  return NULL;
}

static void test_threads(void) {
  for (int round = 0; round < 5; round++) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
      pthread_create(&threads[i], NULL, pass_on, (void*)(uintptr_t)i);
    }
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
      for (size_t k = 0; k < PASSED; k++) mi_free(passed[i][k]), passed[i][k] = NULL;
    }
  }
}

static void in_child(const void* p) {
  char* const mine = (char*)(uintptr_t)p;
  memset(mine, 4, 100);
  char* const q = hidden(mi_malloc(100));
  if (tag_of(q) == 0 || !refuses(q + 112)) exit(1);
  mi_free(mine);
  exit(refuses(mine) ? 0 : 2);
}

static void test_fork(void) {
  char* const p = hidden(mi_malloc(100));
  run_child(in_child, p);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  mi_free(p);
}

// What lies alone has no tag, and what the program brings cannot have.
static void test_without(void) {
  char* p = hidden(mi_malloc((size_t)3 << 20));
  EXPECT(tag_of(p) == 0 && mi_usable_size(p) == (size_t)3 << 20);
  p = hidden(mi_realloc(p, 100));
  EXPECT(tag_of(p) != 0);
  p = hidden(mi_realloc(p, (size_t)3 << 20));
  EXPECT(tag_of(p) == 0);
  mi_free(p);
}

// ---- whether there are any ---------------------------------------------------------------------

// The system emulation of qemu 7.2 gives every other 16 bytes of an OS page the same tag, which no
// allocator can use.
static bool has_tags(void) {
#if defined(__linux__) && defined(__aarch64__)
  if ((getauxval(AT_HWCAP2) & HWCAP2_HAS_MTE) == 0) return false;
  const int prot = PROT_READ | PROT_WRITE | 0x20;
  void* const p = mmap(NULL, 65536, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  mx_tag_write(mx_tag_with(p, 5), 16);
  return mx_tag_read(p) == 5 && mx_tag_read((char*)p + 32) == 0;
#else
  return false;
#endif
}

int main(void) {
  char* const p = hidden(mi_malloc(100));
  if (!MX_TAGS || !has_tags()) {
    EXPECT(p == NULL || !MX_TAGS || tag_of(p) == 0);
    printf("api-tags: skipped, %s\n",
           MX_TAGS ? "the processor has no tags" : "not a build that has tags");
    return expect_failures != 0 ? 1 : 77;
  }
  EXPECT(tag_of(p) != 0);
  mi_free(p);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  test_beside();
  test_freed();
  test_freed_by_realloc();
  test_neighbours();
  test_stale();
  test_reports();
  test_refused();
  test_said();
  test_contents();
  test_heaps();
  test_threads();
  test_fork();
  test_without();
  return expect_end("api-tags");
}
