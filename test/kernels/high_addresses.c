// SPDX-License-Identifier: MIT
// Addresses above 47 bits, which x86-64 gives out with page tables of five levels to a call that
// names one: blocks of the library do not lie there unless lent to it, pointers to there are known
// to be nobody's, and memory there that a program lends is refused or serves.
#include "guest.h"

#include <mimalloc.h>
#include <sys/mman.h>

int main(void) {
  const uintptr_t hint = (uintptr_t)1 << 52;
  const size_t size = 64 * MIB;
  unsigned char* const p = (unsigned char*)mmap((void*)hint, size, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  if ((uintptr_t)p < (uintptr_t)1 << 47) {
    fprintf(stderr, "the kernel gives no address above 47 bits\n");
    return 1;
  }
  CHECK(!mi_is_in_heap_region(p) && !mi_check_owned(p + 64) && mi_heap_of(p + 64) == NULL);
  // Reported and left alone where that is what the build does; a secure one ends here.
  if (mi_usable_size(mi_malloc(100)) >= 112) mi_free(p + 64);
  CHECK(p[64] == 0);
  mi_arena_id_t id = NULL;
  if (mi_manage_os_memory_ex(p, size, true, false, true, -1, true, &id)) {
    CHECK(mi_arena_contains(id, p + size / 2));
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    CHECK(heap != NULL);
    for (size_t n = 16; n < 40 * MIB; n *= 3) {
      unsigned char* const q = (unsigned char*)mi_heap_malloc(heap, n);
      CHECK_ROW(q >= p && q + n <= p + size && mi_usable_size(q) >= n, n);
      memset(q, 3, n);
      mi_free(q);
    }
    mi_heap_destroy(heap);
    printf("lent memory above 47 bits serves\n");
  } else {
    printf("lent memory above 47 bits is refused\n");
  }
  for (size_t n = 16; n < 256 * MIB; n *= 4) {
    unsigned char* const q = (unsigned char*)mi_malloc(n);
    CHECK_ROW(q != NULL && (uintptr_t)q < (uintptr_t)1 << 47, n);
    q[n - 1] = 1;
    mi_free(q);
  }
  return 0;
}
