// SPDX-License-Identifier: MIT
// Huge and large OS pages on a machine that has them set aside: 1 GiB on each of two NUMA nodes, and
// 64 of 2 MiB. Memory that the library says it reserved is such pages by the kernel's account, lies
// on the node that was asked for, keeps its contents whatever is purged, and what is asked for
// beyond is refused. Each part is a process of its own:
//
//   at NODE            mi_reserve_huge_os_pages_at_ex
//   interleave         mi_reserve_huge_os_pages_interleave over two nodes, and once more
//   start PAGES NODE   MIMALLOC_RESERVE_HUGE_OS_PAGES=PAGES, _AT=NODE in the environment
//   large              mi_reserve_os_memory with large pages
//   arenas             MIMALLOC_ALLOW_LARGE_OS_PAGES=1 in the environment: more than there is
//
// Without arguments it runs itself with each of them.
#include "guest.h"

#include <errno.h>
#include <mimalloc.h>
#include <sys/wait.h>

#define HUGE_KIB 1048576
#define LARGE_KIB 2048

static void fill(unsigned char* p, size_t size) {
  for (size_t i = 0; i < size; i += 4096) p[i] = (unsigned char)(i >> 12);
}

static int is_filled(const unsigned char* p, size_t size) {
  for (size_t i = 0; i < size; i += 4096) {
    if (p[i] != (unsigned char)(i >> 12)) return 0;
  }
  return 1;
}

// Blocks of several sizes in the heap are of pages of so many KiB, and purging spares them.
static void use(mi_heap_t* heap, long page_kib, int node) {
  static const size_t sizes[] = {40, 5000, 100 * KIB, 3 * MIB, 100 * MIB};
  unsigned char* p[COUNT_OF(sizes)];
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    p[i] = (unsigned char*)mi_heap_zalloc(heap, sizes[i]);
    CHECK_ROW(p[i] != NULL && mapping_kib(p[i], "KernelPageSize:") == page_kib, i);
    for (size_t k = 0; k < sizes[i]; k += 512) CHECK_ROW(p[i][k] == 0, i);
    fill(p[i], sizes[i]);
    if (node >= 0) CHECK_ROW(node_of(p[i]) == node, i);
  }
  // Freed memory waits for nothing, and is still there for the next.
  for (int round = 0; round < 20; round++) {
    unsigned char* const q = (unsigned char*)mi_heap_malloc(heap, 200 * MIB);
    CHECK(q != NULL && mapping_kib(q, "KernelPageSize:") == page_kib);
    q[round] = 1;
    mi_free(q);
    mi_collect(true);
  }
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    CHECK_ROW(is_filled(p[i], sizes[i]), i);
    mi_free(p[i]);
  }
}

static int at(int node) {
  mi_arena_id_t id = NULL;
  const long before = free_huge(node, HUGE_KIB), other = free_huge(1 - node, HUGE_KIB);
  CHECK(before == 1 && other == 1);
  CHECK(mi_reserve_huge_os_pages_at_ex(1, node, 20000, true, &id) == 0);
  size_t size = 0;
  unsigned char* const area = (unsigned char*)mi_arena_area(id, &size);
  CHECK(area != NULL && size == GIB && (uintptr_t)area % GIB == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  CHECK(heap != NULL);
  use(heap, HUGE_KIB, node);
  CHECK(free_huge(node, HUGE_KIB) == 0 && free_huge(1 - node, HUGE_KIB) == 1);
  // What the arena does not have, nobody else gives.
  errno = 0;
  CHECK(mi_heap_malloc(heap, GIB + 1) == NULL && errno == ENOMEM);
  CHECK(mi_heap_malloc(heap, 600 * MIB) != NULL && mi_heap_malloc(heap, 600 * MIB) == NULL);
  mi_heap_destroy(heap);
  return 0;
}

static int interleave(void) {
  CHECK(mi_reserve_huge_os_pages_interleave(2, 2, 20000) == 0);
  unsigned char* p[2];
  for (int i = 0; i < 2; i++) {
    p[i] = (unsigned char*)mi_malloc(700 * MIB);
    CHECK_ROW(p[i] != NULL && mapping_kib(p[i], "KernelPageSize:") == HUGE_KIB, i);
    p[i][0] = p[i][700 * MIB - 1] = 1;
  }
  CHECK(node_of(p[0]) + node_of(p[1]) == 1);  // one on each
  CHECK(free_huge(0, HUGE_KIB) == 0 && free_huge(1, HUGE_KIB) == 0);
  // There are no more.
  mi_arena_id_t id = (mi_arena_id_t)&p;
  CHECK(mi_reserve_huge_os_pages_interleave(2, 2, 1000) == ENOMEM);
  CHECK(mi_reserve_huge_os_pages_at_ex(1, 0, 0, false, &id) == ENOMEM && id == NULL);
  unsigned char* const q = (unsigned char*)mi_malloc(700 * MIB);  // which is served as ever
  CHECK(q != NULL && mapping_kib(q, "KernelPageSize:") == (long)(sysconf(_SC_PAGESIZE) / 1024));
  mi_free(q);
  mi_free(p[0]);
  mi_free(p[1]);
  return 0;
}

static int start(int pages, int node) {
  unsigned char* p[2];
  for (int i = 0; i < pages; i++) {
    p[i] = (unsigned char*)mi_malloc(700 * MIB);
    CHECK_ROW(p[i] != NULL && mapping_kib(p[i], "KernelPageSize:") == HUGE_KIB, i);
    p[i][0] = 1;
    if (node >= 0) CHECK(node_of(p[i]) == node);
  }
  if (pages == 2) CHECK(node_of(p[0]) + node_of(p[1]) == 1);
  for (int i = 0; i < pages; i++) mi_free(p[i]);
  if (pages == 1) use(NULL, HUGE_KIB, node);
  return 0;
}

static int large(void) {
  mi_arena_id_t id = NULL;
  CHECK(free_huge(0, LARGE_KIB) + free_huge(1, LARGE_KIB) == 64);
  CHECK(mi_reserve_os_memory_ex(64 * MIB, true, true, true, &id) == 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  unsigned char* const p = (unsigned char*)mi_heap_zalloc(heap, 40 * MIB);
  CHECK(p != NULL && mapping_kib(p, "KernelPageSize:") == LARGE_KIB);
  fill(p, 40 * MIB);
  CHECK(free_huge(0, LARGE_KIB) + free_huge(1, LARGE_KIB) <= 64 - 20);
  mi_collect(true);
  CHECK(is_filled(p, 40 * MIB));
  // The rest is not enough for this, which gets ordinary memory instead.
  CHECK(mi_reserve_os_memory_ex(128 * MIB, true, true, true, &id) == 0);
  mi_heap_t* const other = mi_heap_new_in_arena(id);
  unsigned char* const q = (unsigned char*)mi_heap_malloc(other, 40 * MIB);
  CHECK(q != NULL && mapping_kib(q, "KernelPageSize:") < LARGE_KIB);
  fill(q, 40 * MIB);
  CHECK(is_filled(q, 40 * MIB) && is_filled(p, 40 * MIB));
  mi_heap_destroy(heap);
  mi_heap_destroy(other);
  return 0;
}

// Some blocks lie in large pages; when these run out, others serve.
static int arenas(void) {
  enum { BLOCKS = 100 };
  unsigned char* p[BLOCKS];
  int of_large = 0;
  for (int i = 0; i < BLOCKS; i++) {
    p[i] = (unsigned char*)mi_malloc(3 * MIB);
    CHECK_ROW(p[i] != NULL, i);
    fill(p[i], 3 * MIB);
    of_large += mapping_kib(p[i], "KernelPageSize:") == LARGE_KIB;
  }
  printf("%d of %d blocks in large pages\n", of_large, BLOCKS);
  CHECK(of_large > 0 && of_large <= 64 * 2 / 3);
  for (int i = 0; i < BLOCKS; i++) {
    CHECK_ROW(is_filled(p[i], 3 * MIB), i);
    mi_free(p[i]);
  }
  return 0;
}

// ---- each in a process of its own --------------------------------------------------------------

static int run(char* program, const char* part, const char* a, const char* b) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (strcmp(part, "start") == 0) {
      setenv("MIMALLOC_RESERVE_HUGE_OS_PAGES", a, 1);
      setenv("MIMALLOC_RESERVE_HUGE_OS_PAGES_AT", b, 1);
    }
    if (strcmp(part, "arenas") == 0) setenv("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1", 1);
    execl(program, program, part, a, b, (char*)NULL);
    _exit(126);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("%s %s %s: %s %d\n", part, a, b, WIFSIGNALED(status) ? "signal" : "status",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  fflush(stdout);
  return status != 0;
}

int main(int argc, char** argv) {
  if (argc == 4) {
    const int a = atoi(argv[2]), b = atoi(argv[3]);
    if (strcmp(argv[1], "at") == 0) return at(a);
    if (strcmp(argv[1], "interleave") == 0) return interleave();
    if (strcmp(argv[1], "start") == 0) return start(a, b);
    if (strcmp(argv[1], "large") == 0) return large();
    if (strcmp(argv[1], "arenas") == 0) return arenas();
    return 2;
  }
  static const char* const parts[][3] = {{"at", "0", ""}, {"at", "1", ""}, {"interleave", "", ""},
    {"start", "1", "0"}, {"start", "1", "1"}, {"start", "2", "-1"}, {"large", "", ""},
    {"arenas", "", ""}};
  int failed = 0;
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    failed += run(argv[0], parts[i][0], parts[i][1], parts[i][2]);
  }
  return failed != 0;
}
