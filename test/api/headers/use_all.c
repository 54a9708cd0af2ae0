// SPDX-License-Identifier: MIT
// Uses every function and macro of mimalloc.h, mimalloc-prof.h and mimalloc-stats.h from C, in either generation.
//
// It must compile without a warning in every C standard, and link: the addresses of all functions
// are taken, with their exact types, in a branch that no run reaches.
#include <mimalloc-prof.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>

#include "checks.h"
#include "use_typed.h"

typedef void any_fun_t(void);

static any_fun_t* volatile sink;
static volatile size_t sink_size;

static void use(any_fun_t* fun) { sink = fun; }

#if MI_API_VERSION < 3
#define V2_CONST const
#else
#define V2_CONST
#endif

static void use_functions(void) {
#define MI_FUN(result, name, params, throws) \
  {                                          \
    result(*const fun) params = &name;       \
    use((any_fun_t*)fun);                    \
  }
#include "functions.h"
#undef MI_FUN
}

// A program's own wrapper, with all the attributes that it may take over.
mi_decl_nodiscard mi_decl_export mi_decl_restrict void* own_alloc(size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size(1);
mi_decl_nodiscard void* own_alloc_n(size_t alignment, size_t count, size_t size) mi_attr_noexcept
  mi_attr_malloc mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(1);

void* own_alloc(size_t size) mi_attr_noexcept { return mi_malloc(size); }
void* own_alloc_n(size_t alignment, size_t count, size_t size) mi_attr_noexcept {
  return mi_calloc_aligned(count, size, alignment);
}

static bool mi_cdecl on_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                              size_t block_size, void* arg) {
  sink_size = area->reserved + area->committed + area->used + area->block_size +
              area->full_block_size + block_size + (block == area->blocks);
  return heap != NULL && arg == NULL;
}
static bool mi_cdecl on_heap(mi_heap_t* heap, void* arg) { return heap != arg; }
static void mi_cdecl on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  if (force || arg) sink_size = (size_t)heartbeat;
}
static void mi_cdecl on_output(const char* msg, void* arg) {
  if (arg) sink_size = (size_t)msg[0];
}
static void mi_cdecl on_error(int err, void* arg) {
  if (arg) sink_size = (size_t)err;
}
static bool mi_cdecl on_commit(bool commit, void* start, size_t size, bool* is_zero, void* arg) {
  if (is_zero) *is_zero = false;
  return commit && start != arg && size > 0;
}

static void use_callbacks(mi_heap_t* heap) {
  mi_arena_id_t arena = 0;
  mi_register_deferred_free(&on_deferred, NULL);
  mi_register_output(&on_output, NULL);
  mi_register_error(&on_error, NULL);
  if (mi_heap_visit_blocks(heap, true, &on_block, NULL)) sink_size = 1;
  if (mi_subproc_visit_heaps(mi_subproc_main(), &on_heap, NULL)) sink_size = 2;
  if (mi_manage_memory(&arena, 1, true, true, true, -1, false, &on_commit, NULL, &arena)) {
    sink_size = 3;
  }
}

static void use_stats(void) {
  mi_stats_t_decl(stats);
  mi_stats_t again;
  mi_stats_init(&again);
  if (mi_stats_get(&stats) && stats.version == MI_STAT_VERSION) {
    sink_size = (size_t)(stats.malloc_bins[MI_BIN_HUGE].peak + again.mmap_calls.total);
  }
}

int main(int argc, char** argv) {
  if (argc > 1000 && argv) {
    mi_heap_t* const heap = mi_heap_main();
    use_functions();
    use_typed(heap);
    use_callbacks(heap);
    use_stats();
    mi_free(own_alloc(MI_SMALL_SIZE_MAX));
    mi_free(own_alloc_n(64, MI_SMALL_WSIZE_MAX, 1));
    if (sink == NULL) return 1;
  }
  return (mi_version() / 10000 == MI_MALLOC_VERSION / 10000 ? 0 : 1);
}
