// SPDX-License-Identifier: MIT
// The calls on arenas and reserved memory. Arenas are those of the thread's sub-process; ids
// are numbers of the whole process, in the shape of pointers.
#include <errno.h>

#include "../arena/arena.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/subproc.h"
#include "../heap/thread_life.h"
#include "../mem/numa.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/tags.h"
#include "../service/arena_map.h"
#include "handles.h"

static mi_arena_id_t give_id(const mx_arena_t* arena, mi_arena_id_t* out) {
  const mi_arena_id_t id = (mi_arena_id_t)(arena == NULL ? 0 : arena->id);
  if (out != NULL) *out = id;
  return id;
}

// ---- reserving ---------------------------------------------------------------------------------

static mx_arena_t* reserve_plain(mx_arenas_t* arenas, size_t size, bool commit, bool exclusive) {
  bool is_refused;
  void* p = mx_vmem_map_placed(MX_ZONE_NEAR, size, size, MX_SLICE_SIZE, commit, &is_refused);
  if (p == NULL && !is_refused) p = mx_vmem_map(size, MX_SLICE_SIZE, commit);
  if (p == NULL) return NULL;
  mx_vmem_advise_large(p, size);
  mx_arena_config_t config = mx_arena_config(p, size);
  config.is_committed = commit;
  config.is_exclusive = exclusive;
  mx_arena_t* const arena = mx_arena_add(arenas, &config);
  if (arena == NULL) {
    mx_vmem_unmap(p, size, 0);
    mx_vmem_placed_is_free(MX_ZONE_NEAR, p, size);
  }
  return arena;
}

int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive,
                            mi_arena_id_t* arena_id) mi_attr_noexcept {
  give_id(NULL, arena_id);
  if (size < MX_ARENA_MIN_SIZE || size > MX_MAX_ALLOC || !mx_heap_start()) return ENOMEM;
  size = mx_align_up(size, MX_SLICE_SIZE);
  mx_arenas_t* const arenas = &mx_thread_subproc()->arenas;
  mx_arena_t* arena = NULL;
  if (allow_large) arena = mx_arena_reserve_large_pages(arenas, size, exclusive);
  if (arena == NULL) arena = reserve_plain(arenas, size, commit, exclusive);
  return give_id(arena, arena_id) == NULL ? ENOMEM : 0;
}

int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) mi_attr_noexcept {
  return mi_reserve_os_memory_ex(size, commit, allow_large, false, NULL);
}

// ---- memory of the program's -------------------------------------------------------------------

// Whether a part of it was brought before: two arenas would hand out the same blocks.
static bool was_brought(uintptr_t start, uintptr_t end) {
  bool found = false;
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    for (size_t i = mx_load_acquire(&s->arenas.count); i-- > 0;) {
      const mx_arena_t* const arena = mx_arena_at(&s->arenas, i);
      if (arena == NULL || arena->mapping != NULL) continue;
      const uintptr_t first = (uintptr_t)arena->start;
      found = found || (start < first + arena->slices * MX_SLICE_SIZE && first < end);
    }
  }
  return found;
}

bool mi_manage_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero,
                      int numa_node, bool exclusive, mi_commit_fun_t* commit_fun,
                      void* commit_fun_arg, mi_arena_id_t* arena_id) mi_attr_noexcept {
  give_id(NULL, arena_id);
  if (start == NULL || size > UINTPTR_MAX - (uintptr_t)start || !mx_heap_start()) return false;
  const uintptr_t first = mx_align_up((uintptr_t)start, MX_SLICE_SIZE);
  if (first < (uintptr_t)start || size < first - (uintptr_t)start + MX_ARENA_MIN_SIZE) {
    mx_warning("memory of %zu bytes at %p is too small for an arena\n", size, start);
    return false;
  }
  if (((uintptr_t)start + size - 1) >> (MX_PAGEMAP_BITS - 1) >> 1 != 0) {
    mx_warning("memory of %zu bytes at %p lies above the addresses that serve\n", size, start);
    return false;
  }
  if (was_brought(first, (uintptr_t)start + size)) {
    mx_warning("memory of %zu bytes at %p is an arena's already\n", size, start);
    return false;
  }
  mx_arena_config_t config = mx_arena_config(start, size);
  config.is_committed = is_committed;
  config.is_pinned = is_pinned;
  config.is_zero = is_zero;
  config.is_exclusive = exclusive;
  config.is_owned = false;
  config.numa_node = mx_numa_node_of(numa_node);
  config.commit_fn = commit_fun;
  config.commit_arg = commit_fun_arg;
  return give_id(mx_arena_add(&mx_thread_subproc()->arenas, &config), arena_id) != NULL;
}

bool mi_manage_os_memory_ex(void* start, size_t size, bool is_committed, bool is_pinned,
                            bool is_zero, int numa_node, bool exclusive,
                            mi_arena_id_t* arena_id) mi_attr_noexcept {
  return mi_manage_memory(start, size, is_committed, is_pinned, is_zero, numa_node, exclusive, NULL,
                          NULL, arena_id);
}

bool mi_manage_os_memory(void* start, size_t size, bool is_committed, bool is_pinned, bool is_zero,
                         int numa_node) mi_attr_noexcept {
  return mi_manage_os_memory_ex(start, size, is_committed, is_pinned, is_zero, numa_node, false,
                                NULL);
}

// ---- huge OS pages -----------------------------------------------------------------------------

int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                   bool exclusive, mi_arena_id_t* arena_id) mi_attr_noexcept {
  give_id(NULL, arena_id);
  if (pages == 0) return 0;
  if (!mx_heap_start()) return ENOMEM;
  mx_arena_t* const arena =
      mx_arena_reserve_huge_pages(&mx_thread_subproc()->arenas, pages, mx_numa_node_of(numa_node),
                                  timeout_msecs, exclusive);
  return give_id(arena, arena_id) == NULL ? ENOMEM : 0;
}

int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                size_t timeout_msecs) mi_attr_noexcept {
  return mi_reserve_huge_os_pages_at_ex(pages, numa_node, timeout_msecs, false, NULL);
}

// Nodes have equal shares, the first ones what is left over. A node that has nothing ends it: what
// came before counts as success.
int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                        size_t timeout_msecs) mi_attr_noexcept {
  if (pages == 0) return 0;
  const size_t nodes = (numa_nodes > 0 ? numa_nodes : mx_numa_count());
  const size_t timeout = (timeout_msecs == 0 ? 0 : timeout_msecs / nodes + 50);
  for (size_t node = 0; node < nodes && node < pages; node++) {
    const size_t share = pages / nodes + (node < pages % nodes ? 1 : 0);
    const int code = mi_reserve_huge_os_pages_at(share, (int)node, timeout);
    if (code != 0) return node == 0 ? code : 0;
  }
  return 0;
}

int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                             size_t* pages_reserved) mi_attr_noexcept {
  mx_warning("mi_reserve_huge_os_pages is deprecated: use one of the calls by node\n");
  const size_t timeout = (max_secs > 0 ? (size_t)(max_secs * 1000.0) : 0);
  const int code = mi_reserve_huge_os_pages_interleave(pages, 0, timeout);
  if (pages_reserved != NULL) *pages_reserved = (code == 0 ? pages : 0);
  return code;
}

// ---- asking ------------------------------------------------------------------------------------

static mx_arena_t* arena_by_id(mi_arena_id_t id) {
  return mx_subproc_arena_by_id((size_t)(uintptr_t)id, NULL);
}

void* mi_arena_area(mi_arena_id_t arena_id, size_t* size) {
  const mx_arena_t* const arena = arena_by_id(arena_id);
  if (size != NULL) *size = (arena == NULL ? 0 : arena->slices * MX_SLICE_SIZE);
  return arena == NULL ? NULL : arena->start;
}

bool mi_arena_contains(mi_arena_id_t arena_id, const void* p) {
  const mx_arena_t* const arena = arena_by_id(arena_id);
  if (arena == NULL || p == NULL) return false;
  return (uintptr_t)mx_tag_strip(p) - (uintptr_t)arena->start < arena->slices * MX_SLICE_SIZE;
}

size_t mi_arena_min_alignment(void) { return MX_SLICE_SIZE; }

size_t mi_arena_min_size(void) { return MX_ARENA_MIN_SIZE; }

void mi_arenas_print(void) mi_attr_noexcept {
  mx_out_t out;
  mx_out_open(&out, NULL, NULL);
  mx_arena_map_print(mx_thread_subproc(), &out);
}

void mi_debug_show_arenas(void) mi_attr_noexcept { mi_arenas_print(); }
