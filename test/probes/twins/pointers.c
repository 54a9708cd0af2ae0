// SPDX-License-Identifier: MIT
// Pointers given to free, realloc and malloc_usable_size that are no live block, or no longer.
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "twin.h"

static _Alignas(64) unsigned char foreign_static[4096];

// ---- double frees ------------------------------------------------------------------------------

static void twice(size_t size, bool wrong, size_t between, bool held) {
  enum { MOST = 64 };
  void* others[MOST];
  unsigned char* p = twin_malloc(size);
  free(p);
  for (size_t i = 0; i < between; i++) {
    others[i] = twin_malloc(size);
    if (!held) free(others[i]);
  }
  if (held) {
    for (size_t i = 0; i < between; i++) free(others[i]);
  }
  twin_ready();
  if (wrong) free(p);
  twin_done();
  twin_cycle(size);
  twin_after("reuse");
}

static void double_0(size_t size, bool wrong) { twice(size, wrong, 0, false); }
static void double_50(size_t size, bool wrong) { twice(size, wrong, 50, false); }
static void double_50_held(size_t size, bool wrong) { twice(size, wrong, 50, true); }

// The 50 others are still in use at the second free, one of them perhaps at the block's address:
// whoever has it loses it.
static void double_50_live(size_t size, bool wrong) {
  unsigned char* others[50];
  unsigned char* p = twin_malloc(size);
  free(p);
  for (size_t i = 0; i < 50; i++) others[i] = twin_malloc(size);
  twin_ready();
  if (wrong) free(p);
  twin_done();
  for (size_t i = 0; i < 50; i++) free(others[i]);
  twin_after("the others' frees");
}

static void* free_in_thread(void* p) {
  free(p);
  return NULL;
}

static void double_thread(size_t size, bool wrong) {
  pthread_t thread;
  unsigned char* p = twin_malloc(size);
  if (pthread_create(&thread, NULL, free_in_thread, p) != 0) twin_broken();
  pthread_join(thread, NULL);
  twin_ready();
  if (wrong) free(p);
  twin_done();
  twin_cycle(size);
  twin_after("reuse");
}

// ---- other wrong pointers ----------------------------------------------------------------------

typedef enum { FREED, INTERIOR, UNALIGNED, BEFORE, STACK, STATIC, MAPPED } pointer_t;
typedef enum { FREE, REALLOC, USABLE_SIZE } use_t;

static void use(size_t size, bool wrong, pointer_t which, use_t how) {
  _Alignas(64) unsigned char on_stack[4096];
  twin_fill(on_stack, sizeof(on_stack), 0);
  unsigned char* block = twin_malloc(size);
  unsigned char* p = block;
  unsigned char* map = (unsigned char*)mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == (unsigned char*)MAP_FAILED) twin_broken();
  switch (wrong ? which : FREED) {
    case FREED: if (wrong) free(block); break;
    case INTERIOR: p = block + size / 32 * 16; if (size < 64) p = block + 8; break;
    case UNALIGNED: p = block + 1; break;
    case BEFORE: p = block - 16; break;
    case STACK: p = on_stack + 1024; break;
    case STATIC: p = foreign_static + 1024; break;
    case MAPPED: p = map + MIB + size % 4096 / 16 * 16; break;
  }
  p = twin_hide(p);
  twin_ready();
  if (how == FREE) free(p);
  if (how == REALLOC) p = twin_hide(realloc(p, size + size / 2));
  if (how == USABLE_SIZE) twin_sink ^= (unsigned char)malloc_usable_size(p);
  if (how == REALLOC && p == NULL && wrong) twin_gone("realloc gives nothing");
  twin_done();
  twin_cycle(size);
  twin_after("reuse");
}

#define USE(name, which, how) \
  static void name(size_t size, bool wrong) { use(size, wrong, which, how); }

USE(free_interior, INTERIOR, FREE)
USE(free_unaligned, UNALIGNED, FREE)
USE(free_before, BEFORE, FREE)
USE(free_stack, STACK, FREE)
USE(free_static, STATIC, FREE)
USE(free_mapped, MAPPED, FREE)
USE(realloc_freed, FREED, REALLOC)
USE(realloc_interior, INTERIOR, REALLOC)
USE(realloc_stack, STACK, REALLOC)
USE(realloc_mapped, MAPPED, REALLOC)
USE(usable_freed, FREED, USABLE_SIZE)
USE(usable_interior, INTERIOR, USABLE_SIZE)
USE(usable_stack, STACK, USABLE_SIZE)
USE(usable_mapped, MAPPED, USABLE_SIZE)

#define DOUBLE "a block freed twice"
#define WRONG_FREE "free of what is no block"
#define WRONG_REALLOC "realloc of what is no block"
#define WRONG_SIZE "malloc_usable_size of what is no block"

static const twin_case_t cases[] = {
  {"double-0", DOUBLE, "at once", double_0, NULL},
  {"double-50", DOUBLE, "after 50 others, each allocated and freed", double_50, NULL},
  {"double-50-held", DOUBLE, "after 50 others, allocated, then freed", double_50_held, NULL},
  {"double-50-live", DOUBLE, "50 others allocated between, freed afterwards", double_50_live, NULL},
  {"double-thread", DOUBLE, "the first time by another thread", double_thread, NULL},
  {"free-interior", WRONG_FREE, "inside a block", free_interior, NULL},
  {"free-unaligned", WRONG_FREE, "one byte into a block", free_unaligned, NULL},
  {"free-before", WRONG_FREE, "16 bytes before a block", free_before, NULL},
  {"free-stack", WRONG_FREE, "on the stack", free_stack, NULL},
  {"free-static", WRONG_FREE, "a static array", free_static, NULL},
  {"free-mapped", WRONG_FREE, "in a mapping of the program", free_mapped, NULL},
  {"realloc-freed", WRONG_REALLOC, "freed", realloc_freed, NULL},
  {"realloc-interior", WRONG_REALLOC, "inside a block", realloc_interior, NULL},
  {"realloc-stack", WRONG_REALLOC, "on the stack", realloc_stack, NULL},
  {"realloc-mapped", WRONG_REALLOC, "in a mapping of the program", realloc_mapped, NULL},
  {"usable-freed", WRONG_SIZE, "freed", usable_freed, NULL},
  {"usable-interior", WRONG_SIZE, "inside a block", usable_interior, NULL},
  {"usable-stack", WRONG_SIZE, "on the stack", usable_stack, NULL},
  {"usable-mapped", WRONG_SIZE, "in a mapping of the program", usable_mapped, NULL},
};

TWINS(cases)
