// SPDX-License-Identifier: MIT
// The C library's functions are looked up in its own table of names. The dynamic linker would not do:
// a library with another malloc, linked by the program or preloaded, has malloc_usable_size and
// mallopt, too, often even __libc_malloc, and would be asked about blocks that it does not know; and to
// open the C library, whose names are then its own, starts it before its turn, without an environment.
#define _GNU_SOURCE
#include "real.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct real_s {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void (*free)(void*);
  size_t (*usable)(void*);
  int (*option)(int, int);
} real_t;

static real_t real;
static atomic_int is_found;

// ---- tables of names ------------------------------------------------------------------------------

// What stands in a library's dynamic section; on some processors it is not relocated.
static const void* entry(const struct link_map* library, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* d = library->l_ld; d != NULL && d->d_tag != DT_NULL; d++) {
    if (d->d_tag != tag) continue;
    const uintptr_t at = (uintptr_t)d->d_un.d_ptr;
    return (const void*)(at < library->l_addr ? at + library->l_addr : at);
  }
  return NULL;
}

static uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

// The function of that name that a library defines, NULL when it defines none.
static void* defined(const struct link_map* library, const char* name) {
  const uint32_t* table = entry(library, DT_GNU_HASH);
  const ElfW(Sym)* symbols = entry(library, DT_SYMTAB);
  const char* names = entry(library, DT_STRTAB);
  if (table == NULL || symbols == NULL || names == NULL || table[0] == 0) return NULL;
  const uint32_t hash = hash_of(name);
  const uint32_t* buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chains = buckets + table[0];
  uint32_t at = buckets[hash % table[0]];
  if (at < table[1]) return NULL;
  for (;; at++) {
    const uint32_t word = chains[at - table[1]];
    const ElfW(Sym)* symbol = symbols + at;
    if ((word | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
        (symbol->st_info & 0xf) == STT_FUNC && strcmp(names + symbol->st_name, name) == 0) {
      return (void*)(library->l_addr + symbol->st_value);
    }
    if ((word & 1) != 0) return NULL;
  }
}

static bool find(void** function, const struct link_map* library, const char* name) {
  *function = defined(library, name);
  return *function != NULL;
}

static bool find_all(const struct link_map* libc) {
  return find((void**)&real.malloc, libc, "malloc") &&
         find((void**)&real.calloc, libc, "calloc") &&
         find((void**)&real.realloc, libc, "realloc") &&
         find((void**)&real.memalign, libc, "memalign") && find((void**)&real.free, libc, "free") &&
         find((void**)&real.usable, libc, "malloc_usable_size") &&
         find((void**)&real.option, libc, "mallopt");
}

// Without a C library of this kind there is nothing to serve by.
static void need(void) {
  if (atomic_load_explicit(&is_found, memory_order_acquire) == 0 && !real_find()) abort();
}

bool real_find(void) {
  for (const struct link_map* library = _r_debug.r_map; library != NULL; library = library->l_next) {
    if (defined(library, "gnu_get_libc_version") == NULL) continue;
    const bool found = find_all(library);
    atomic_store_explicit(&is_found, found, memory_order_release);
    return found;
  }
  return false;
}

const char* real_rival(void) {
  for (const struct link_map* library = _r_debug.r_map; library != NULL; library = library->l_next) {
    if (defined(library, "_Znwm") == NULL || defined(library, "malloc") == NULL) continue;
    return library->l_name[0] != 0 ? library->l_name : "the program";
  }
  return NULL;
}

// ---- the functions --------------------------------------------------------------------------------

void* real_malloc(size_t size) {
  need();
  return real.malloc(size);
}

void* real_calloc(size_t count, size_t size) {
  need();
  return real.calloc(count, size);
}

void* real_realloc(void* block, size_t size) {
  need();
  return real.realloc(block, size);
}

void* real_memalign(size_t alignment, size_t size) {
  need();
  return real.memalign(alignment, size);
}

void real_free(void* block) {
  need();
  real.free(block);
}

size_t real_usable(void* block) {
  need();
  return real.usable(block);
}

void real_option(int parameter, int value) {
  need();
  real.option(parameter, value);
}
