// SPDX-License-Identifier: MIT
// The report of blocks that are in use when the process ends: how many of which size, and with
// leak_report=2 which call stacks allocated them. Debug builds only.
//
// With stacks, every allocation is entered into a table by its address and every free takes it out;
// heaps that are destroyed leave entries behind, which the next block at that address overwrites.
// The report starts from the blocks that heaps say are live and only looks up their entries.
#include "leaks.h"

#include <string.h>

#include "../alloc/alloc.h"
#include "../base/hooks.h"
#include "../host/process.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/tags.h"
#include "log.h"
#include "walk.h"

#define DEPTH 20
#define BUCKETS 4096
#define CHUNK 64         // entries made at a time
#define GROUPS_MAX 1024  // sizes, or pairs of size and stack; the rest is summed up

typedef struct origin_s {
  struct origin_s* next;
  const void* block;
  void* stack[DEPTH];
} origin_t;

typedef struct group_s {
  size_t size;
  size_t count;
  void* stack[DEPTH];
} group_t;

typedef struct report_s {
  group_t groups[GROUPS_MAX];
  size_t used;
  group_t others;  // `size` is their bytes
  size_t count, bytes;
} report_t;

static mx_at_start mx_lock_t leaks_lock;
static origin_t** buckets;
static origin_t* spares;

// ---- where blocks come from --------------------------------------------------------------------

static origin_t** origin_place(const void* block) {
  const uint64_t hash = ((uintptr_t)block >> 4) * (uint64_t)0x9E3779B97F4A7C15u;
  origin_t** at = &buckets[(hash >> 32) % BUCKETS];
  while (*at != NULL && (*at)->block != block) at = &(*at)->next;
  return at;
}

static origin_t* new_origin(void) {
  if (spares == NULL) {
    origin_t* const chunk = (origin_t*)mx_meta_alloc(CHUNK * sizeof(origin_t));
    if (chunk == NULL) return NULL;
    for (size_t i = 0; i < CHUNK; i++) chunk[i].next = (i + 1 < CHUNK ? &chunk[i + 1] : NULL);
    spares = chunk;
  }
  origin_t* const origin = spares;
  spares = origin->next;
  origin->next = NULL;
  return origin;
}

static void on_alloc(const void* block) {
  void* stack[DEPTH] = {NULL};
  if (mx_hooks.capture_stack != NULL) mx_hooks.capture_stack(stack, DEPTH);
  mx_lock_acquire(&leaks_lock);
  origin_t** const at = origin_place(block);
  if (*at == NULL) *at = new_origin();
  if (*at != NULL) {
    (*at)->block = block;
    memcpy((*at)->stack, stack, sizeof(stack));
  }
  mx_lock_release(&leaks_lock);
}

static void on_free(const void* block) {
  mx_lock_acquire(&leaks_lock);
  origin_t** const at = origin_place(block);
  origin_t* const origin = *at;
  if (origin != NULL) {
    *at = origin->next;
    origin->next = spares;
    spares = origin;
  }
  mx_lock_release(&leaks_lock);
}

void mx_leaks_init(void) {
  if (mx_option(leak_report) < 2) return;
  buckets = (origin_t**)mx_meta_alloc(BUCKETS * sizeof(origin_t*));
  if (buckets == NULL) return;
  mx_hooks.block_freed = on_free;
  mx_hooks.block_allocated = on_alloc;
}

bool mx_leaks_visit_locks(mx_lock_visit_fn* visit) { return visit(&leaks_lock); }

// ---- the report --------------------------------------------------------------------------------

static bool add_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                      void* arg) {
  (void)heap, (void)area;
  report_t* const report = (report_t*)arg;
  if (block == NULL) return true;
  block = mx_tag_strip(block);
  const size_t usable = mx_usable_size(block);
  if (usable > 0) size = usable;
  report->count++;
  report->bytes += size;
  static void* const unknown[DEPTH] = {NULL};
  const origin_t* const origin = (buckets == NULL ? NULL : *origin_place(block));
  void* const* const stack = (origin == NULL ? unknown : origin->stack);
  for (size_t i = 0; i < report->used; i++) {
    group_t* const group = &report->groups[i];
    if (group->size != size || memcmp(group->stack, stack, sizeof(group->stack)) != 0) continue;
    group->count++;
    return true;
  }
  if (report->used == GROUPS_MAX) {
    report->others.count++;
    report->others.size += size;
    return true;
  }
  group_t* const group = &report->groups[report->used++];
  group->size = size;
  group->count = 1;
  memcpy(group->stack, stack, sizeof(group->stack));
  return true;
}

static void print_group(mx_out_t* out, const group_t* group) {
  mx_out_add(out, "  %zu bytes in %zu blocks of size %zu\n", group->size * group->count,
             group->count, group->size);
  for (size_t i = 0; i < DEPTH && group->stack[i] != NULL; i++) {
    char place[160];
    mx_host_describe_code(group->stack[i], place, sizeof(place));
    mx_out_add(out, "    #%zu %p %s\n", i, group->stack[i], place);
  }
}

// The groups with the most bytes first.
static void print_groups(mx_out_t* out, report_t* report) {
  while (report->used > 0) {
    size_t most = 0;
    for (size_t i = 1; i < report->used; i++) {
      const group_t *const a = &report->groups[i], *const b = &report->groups[most];
      if (a->size * a->count > b->size * b->count) most = i;
    }
    print_group(out, &report->groups[most]);
    report->groups[most] = report->groups[--report->used];
  }
}

void mx_leaks_print(void) {
  report_t* const report = (report_t*)mx_meta_alloc(sizeof(report_t));
  if (report == NULL) return;
  const mx_visit_t visit = {add_block, report, true, false};
  mx_lock_acquire(&leaks_lock);
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) mx_walk_subproc(s, -1, &visit);
  mx_lock_release(&leaks_lock);
  mx_out_t out;
  mx_out_open(&out, NULL, NULL);
  mx_out_add(&out, "leak report: %zu bytes in %zu blocks are in use\n", report->bytes,
             report->count);
  print_groups(&out, report);
  if (report->others.count > 0) {
    mx_out_add(&out, "  %zu bytes in %zu blocks of other sizes\n", report->others.size,
               report->others.count);
  }
}
