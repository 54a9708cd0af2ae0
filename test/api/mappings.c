// SPDX-License-Identifier: MIT
// Tests what the library does to mappings: the protection that a program sets stays, a shrunk block
// gives its end back, few addresses are taken, memory of the program's is served from anywhere, and
// blocks that grow in turns keep what they hold, whatever their mappings are.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "expect.h"

#if !defined(__linux__)
int main(void) { return 0; }
#else

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static size_t statm(int field) {
  unsigned long values[2] = {0, 0};
  FILE* const f = fopen("/proc/self/statm", "r");
  if (f == NULL || fscanf(f, "%lu %lu", &values[0], &values[1]) != 2) values[field] = 0;
  if (f != NULL) fclose(f);
  return (size_t)values[field] * (size_t)sysconf(_SC_PAGESIZE);
}

// Whether a write to p ends a child by SIGSEGV.
static bool write_faults(unsigned char* p) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *(volatile unsigned char*)p = 1;
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_protection_stays(void) {
  enum { COUNT = 40000 };
  static void* blocks[COUNT];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char* const p = (unsigned char*)mi_malloc_aligned(4 * page, page);
  EXPECT(p != NULL && mprotect(p, 4 * page, PROT_READ) == 0);
  // Much more is committed beside it.
  for (size_t i = 0; i < COUNT; i++) blocks[i] = mi_malloc(16 + i % 4000);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
  mi_collect(true);
  EXPECT(write_faults(p));
  EXPECT(mprotect(p, 4 * page, PROT_READ | PROT_WRITE) == 0);
  mi_free(p);
}

// The same for an OS page that small blocks fill, as the memory of their size grows by far.
static void test_protection_of_small(void) {
  enum { FEW = 16, MANY = 100000 };
  static unsigned char* many[MANY];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char* few[FEW];
  for (int i = 0; i < FEW; i++) few[i] = (unsigned char*)mi_malloc(1024);
  unsigned char* const first = (unsigned char*)(((uintptr_t)few[0] + page - 1) / page * page);
  bool is_row = (first + page <= few[FEW - 1]);
  for (int i = 1; i < FEW; i++) is_row = is_row && few[i] == few[i - 1] + 1024;
  if (is_row) EXPECT(mprotect(first, page, PROT_READ) == 0);
  for (int i = 0; i < MANY; i++) many[i] = (unsigned char*)mi_malloc(1024);
  if (is_row) EXPECT(write_faults(first) && mprotect(first, page, PROT_READ | PROT_WRITE) == 0);
  for (int i = 0; i < MANY; i++) mi_free(many[i]);
  for (int i = 0; i < FEW; i++) mi_free(few[i]);
}

static void test_shrunk_block(void) {
  unsigned char* p = (unsigned char*)mi_malloc(3000 * MIB);  // a mapping of its own, if any is
  if (p == NULL) return;
  for (size_t i = 0; i < 256 * MIB; i += 4096) p[i] = 7;
  const size_t before = statm(1);
  p = (unsigned char*)mi_realloc(p, MIB);
  mi_collect(true);
  const size_t after = statm(1);
  EXPECT(p != NULL && p[0] == 7);
  EXPECT(before == 0 || before - after > 200 * MIB);
  mi_free(p);
}

// An arena of the program's memory at an address of the linker's choice.
static void test_far_memory(void) {
  static unsigned char memory[64 * MIB];
  mi_arena_id_t id;
  EXPECT(mi_manage_os_memory_ex(memory, sizeof(memory), true, false, true, -1, true, &id));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  EXPECT(heap != NULL);
  if (heap == NULL) return;
  unsigned char* blocks[2000];
  for (size_t i = 0; i < 2000; i++) {
    blocks[i] = (unsigned char*)mi_heap_malloc(heap, 16 + 8 * i);
    EXPECT_AT(i, blocks[i] >= memory && blocks[i] < memory + sizeof(memory));
    memset(blocks[i], (int)i, 16 + 8 * i);
  }
  for (size_t i = 0; i < 2000; i++) {
    EXPECT_AT(i, blocks[i][15 + 8 * i] == (unsigned char)i);
    EXPECT_AT(i, mi_usable_size(blocks[i]) >= 16 + 8 * i && mi_is_in_heap_region(blocks[i]));
    if (i % 3 == 0) blocks[i] = (unsigned char*)mi_heap_realloc(heap, blocks[i], 32 + 8 * i);
    mi_free(blocks[i]);
  }
  mi_heap_delete(heap);
}

static void test_growth_in_turns(void) {
  unsigned char* p[6] = {NULL};
  for (size_t size = 64 * 1024; size <= 6 * MIB; size += 80 * 1024) {
    for (int k = 0; k < 6; k++) {
      p[k] = (unsigned char*)mi_realloc(p[k], size);
      if (p[k] == NULL) break;
      p[k][size > 80 * 1024 ? size - 80 * 1024 : 0] = (unsigned char)(k + 1);
      p[k][0] = p[k][size - 1] = (unsigned char)(k + 1);
    }
  }
  for (int k = 0; k < 6; k++) {
    EXPECT_AT(k, p[k] != NULL && p[k][0] == k + 1);
    mi_free(p[k]);
  }
}

// What is in two mappings, by the program's own doing, cannot be moved as one.
static void test_split_blocks(void) {
  unsigned char* p[4];
  for (int k = 0; k < 4; k++) {
    p[k] = (unsigned char*)mi_malloc(4 * MIB);
    memset(p[k], k + 1, 4 * MIB);
#if defined(MADV_DONTDUMP)
    unsigned char* const middle = p[k] + 2 * MIB;
    madvise(middle - (uintptr_t)middle % 65536, 65536, MADV_DONTDUMP);
#endif
  }
  p[0] = (unsigned char*)mi_realloc(p[0], 40 * MIB);
  EXPECT(p[0] != NULL && p[0][0] == 1 && p[0][4 * MIB - 1] == 1);
  for (int k = 1; k < 4; k++) mi_free(p[k]);
  unsigned char* const next = (unsigned char*)mi_malloc(16 * MIB);
  memset(next, 9, 16 * MIB);
  EXPECT(next[0] == 9 && next[16 * MIB - 1] == 9);
  mi_free(next);
  mi_free(p[0]);
}

int main(void) {
  expect_errors();
  mi_free(mi_malloc(1));
  // The ground floor of other Unix systems has a page map of all addresses.
#if UINTPTR_MAX > 0xFFFFFFFFu && !defined(__SANITIZE_ADDRESS__) && !defined(MI_OS_POSIX)
  EXPECT(statm(0) < ((size_t)2 << 30));
#endif
  test_protection_of_small();
  test_protection_stays();
  if (sizeof(void*) > 4) test_shrunk_block();
  test_far_memory();
  test_growth_in_turns();
  test_split_blocks();
  return expect_end("mappings");
}
#endif
