// SPDX-License-Identifier: MIT
// Guarded blocks: each lies against an inaccessible OS page and becomes inaccessible when it
// is freed. See guarded.c, and sample.h for which blocks are.
#ifndef MX_ALLOC_GUARDED_H
#define MX_ALLOC_GUARDED_H

#include "../base/options.h"
#include "../heap/heap.h"

#define MX_GUARDED_FRAMES 16
#define MX_GUARDED_LIVE_MAX 4096  // guarded blocks at a time: each costs three mappings
#define MX_GUARDED_FREED_MAX 256  // freed ones that stay inaccessible
#define MX_GUARDED_RECORDS (MX_GUARDED_LIVE_MAX + MX_GUARDED_FREED_MAX)

typedef struct mx_guarded_s {
  mx_atomic(uint8_t*) mapping;  // NULL: the record is free
  size_t mapping_size;
  uint8_t* data;
  size_t data_size;
  uint8_t* block;
  size_t size;
  mx_atomic(mx_page_t*) page;   // whoever finds it finds a record whose owner tells the rest
  size_t used_size;             // what may have contents; the rest of the data is zero
  mx_atomic(int) is_freed;
  void* alloc_stack[MX_GUARDED_FRAMES];
  void* free_stack[MX_GUARDED_FRAMES];
} mx_guarded_t;

MX_BEGIN_DECLS
extern mx_hidden mx_atomic(int) mx_guarded_ready;   // 1: what follows does not change any more
extern mx_hidden mx_guarded_t* mx_guarded_records;  // NULL: there are none
// A guarded block of the main heap whose bytes are zero; NULL when there cannot be one (more).
void* mx_guarded_alloc(size_t size);
// Frees a guarded block whose mark was taken.
void mx_guarded_free(mx_page_t* page);
// The live guarded blocks' pages one after the other, from *index 0 on; NULL behind the last one.
mx_page_t* mx_guarded_next(size_t* index);
// A fork waits until nobody is at the records.
bool mx_guarded_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

#endif
