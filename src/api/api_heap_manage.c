// SPDX-License-Identifier: MIT
// The making, giving up and asking of heaps, with the calls that only versions 1 and 2 had.
//
// In those versions a heap was its thread's; here every thread may use it, and each of their calls
// is said in terms of the present ones.
#include <errno.h>

#include "../alloc/spare.h"
#include "../alloc/verify.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/heap_end.h"
#include "../heap/heap_record.h"
#include "../heap/os_pages.h"
#include "../heap/parked.h"
#include "../heap/subproc.h"
#include "../heap/theap.h"
#include "../heap/thread_life.h"
#include "../mem/numa.h"
#include "../page/shift.h"
#include "../service/verify.h"
#include "../service/walk.h"
#include "handles.h"
#include "process_life.h"

// ---- making ------------------------------------------------------------------------------------

mi_heap_t* mi_heap_try_new(int heap_tag, bool allow_destroy, mi_arena_id_t arena_id) {
  mx_subproc_t* subproc = mx_thread_subproc();
  mx_arena_t* arena = NULL;
  mx_heap_t* heap = NULL;
  if (arena_id != NULL) arena = mx_subproc_arena_by_id((size_t)(uintptr_t)arena_id, &subproc);
  if ((arena != NULL || arena_id == NULL) && mx_heap_start()) {
    heap = mx_heap_create(subproc, arena, heap_tag, allow_destroy);
  }
  if (heap == NULL) errno = ENOMEM;
  return mx_api_heap_handle(heap);
}

mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy, mi_arena_id_t arena_id) {
  mi_heap_t* const heap = mi_heap_try_new(heap_tag, allow_destroy, arena_id);
  if (heap == NULL) mx_error(ENOMEM, "unable to make a heap\n");
  return heap;
}

mi_heap_t* mi_heap_new(void) { return mi_heap_new_ex(0, true, NULL); }

mi_heap_t* mi_heap_new_in_arena(mi_arena_id_t arena_id) {
  return mi_heap_new_ex(0, true, arena_id);
}

// ---- giving up ---------------------------------------------------------------------------------

// The heap, if there is something to give up; a warning or an error when there should be.
static mx_heap_t* may_give_up(mi_heap_t* handle, const char* verb) {
  if (handle == NULL) return NULL;
  mx_heap_t* const heap = mx_api_heap(handle);
  if (mx_load_relaxed(&heap->id) == MX_HEAP_GONE) {
    mx_error(EINVAL, "heap %p was deleted or destroyed before\n", (void*)heap);
    return NULL;
  }
  if (!mx_heap_is_main(heap)) return heap;
  mx_warning("cannot %s the main heap\n", verb);
  return NULL;
}

void mi_heap_delete(mi_heap_t* handle) {
  mx_heap_t* const heap = may_give_up(handle, "delete");
  if (heap != NULL) mx_heap_delete(heap);
}

void mi_heap_destroy(mi_heap_t* handle) {
  mx_heap_t* const heap = may_give_up(handle, "destroy");
  if (heap == NULL) return;
  if (heap->allow_destroy) mx_heap_destroy(heap);
  else mx_heap_delete(heap);
}

// ---- settings and collecting -------------------------------------------------------------------

void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node) {
  mx_api_heap(heap)->numa_node = mx_numa_node_of(numa_node);
}

void mi_theap_collect(mi_theap_t* handle, bool force) mi_attr_noexcept {
  mx_theap_t* const theap = mx_api_theap(handle);
  if (theap == NULL) return;
  mx_spare_flush(mx_tls_theap);
  // Held, its heap is being destroyed, or this is the handler of an error that a collection found.
  if (!mx_lock_try(&theap->lock)) return;
  if (mx_load_acquire(&theap->heap) != NULL) mx_theap_collect(theap, force);
  mx_lock_release(&theap->lock);
  if (force) mx_arenas_purge(&theap->subproc->arenas, true);
}

void mi_heap_collect(mi_heap_t* heap, bool force) {
  mi_theap_collect(mx_api_theap_handle(mx_thread_theap_of(mx_api_heap(heap), false)), force);
}

// ---- asking ------------------------------------------------------------------------------------

mi_heap_t* mi_heap_main(void) { return mx_api_heap_handle(mx_api_heap(NULL)); }

// The page of the block that holds an address, in builds that know it of a live one; or NULL.
static mx_page_t* page_holding(const void* p) {
  if (mx_has_tags()) p = mx_tags_ask(p);
  mx_page_t* const page = mx_walk_page_of(p);
  return MX_KNOWS_LIVE && page != NULL && !mx_verify_is_inside(page, p) ? NULL : page;
}

mi_heap_t* mi_heap_of(const void* p) {
  const mx_page_t* const page = page_holding(p);
  return page == NULL ? NULL : mx_api_heap_handle(mx_page_heap(page));
}

bool mi_heap_contains(const mi_heap_t* heap, const void* p) {
  const mx_page_t* const page = page_holding(p);
  return page != NULL && mx_page_heap(page) == mx_api_heap(heap);
}

size_t mi_partition_of(const void* p) mi_attr_noexcept {
  if (!MX_ISOLATE) return 0;
  const mx_page_t* const page = page_holding(p);
  return page == NULL ? 0 : (size_t)mx_page_partition(page);
}

bool mi_any_heap_contains(const void* p) { return page_holding(p) != NULL; }

bool mi_is_in_heap_region(const void* p) mi_attr_noexcept { return page_holding(p) != NULL; }

bool mi_check_owned(const void* p) { return page_holding(p) != NULL; }

bool mi_heap_check_owned(mi_heap_t* heap, const void* p) {
  return mx_is_aligned(p, sizeof(void*)) && mi_heap_contains(heap, p);
}

bool mi_heap_contains_block(mi_heap_t* heap, const void* p) {
  const mx_page_t* const page = page_holding(p);
  if (page == NULL || mx_page_heap(page) != mx_api_heap(heap)) return false;
  // An aligned pointer may lie inside.
  const void* const block = mx_page_block_of(page, mx_tag_strip(p));
  return block != NULL && mx_page_is_block(page, block);
}

bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t* heap, void* p,
                                           size_t perc_threshold) mi_attr_noexcept {
  mx_page_t* const page = page_holding(p);
  if (page == NULL || mx_page_is_huge(page)) return false;
  if (heap != NULL && mx_page_heap(page) != mx_api_heap(heap)) return false;
  // A page that still grows or serves allocations is about to be used better; only its owner can
  // tell, so one of another thread counts as such.
  const mx_theap_t* const theap = mx_page_theap(page);
  if (theap == NULL || theap->first != mx_tls_theap->first) return false;
  if (page->capacity < page->reserved && page->is_final == 0) return false;
  if (theap->bins.current[page->bin] == page) return false;
  const size_t used = mx_walk_live_count(page);
  if (used >= page->capacity) return false;
  return perc_threshold >= 100 || used * 100 <= perc_threshold * page->capacity;
}

// ---- visiting ----------------------------------------------------------------------------------

bool mi_heap_visit_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun* visitor,
                          void* arg) {
  if (visitor == NULL) return false;
  const mx_visit_t visit = {visitor, arg, visit_blocks, false};
  return mx_walk_heap(mx_api_heap(heap), &visit);
}

bool mi_heap_visit_abandoned_blocks(mi_heap_t* heap, bool visit_blocks, mi_block_visit_fun* visitor,
                                    void* arg) {
  if (visitor == NULL) return false;
  const mx_visit_t visit = {visitor, arg, visit_blocks, true};
  mx_parked_give_up(mx_api_heap(heap)->subproc, true);
  return mx_walk_heap(mx_api_heap(heap), &visit);
}

bool mi_abandoned_visit_blocks(mi_subproc_id_t subproc_id, int heap_tag, bool visit_blocks,
                               mi_block_visit_fun* visitor, void* arg) {
  mx_subproc_t* const subproc = mx_api_subproc(subproc_id);
  if (subproc == NULL || visitor == NULL || mx_option(visit_abandoned) == 0) return false;
  const mx_visit_t visit = {visitor, arg, visit_blocks, true};
  mx_parked_give_up(subproc, true);
  return mx_walk_subproc(subproc, heap_tag, &visit);
}

bool mi_theap_visit_blocks(const mi_theap_t* theap, bool visit_blocks, mi_block_visit_fun* visitor,
                           void* arg) {
  if (visitor == NULL) return false;
  const mx_visit_t visit = {visitor, arg, visit_blocks, false};
  return theap == NULL || mx_walk_theap(mx_api_theap(theap), &visit);
}

bool mi_heap_verify(mi_heap_t* heap) { return !MX_PADDING || mx_verify_heap(mx_api_heap(heap)); }

// ---- versions 1 and 2 --------------------------------------------------------------------------

mi_heap_t* mi_heap_get_backing(void) { return mi_heap_main(); }

mi_heap_t* mi_heap_get_default(void) {
  mx_theap_t* const theap = mx_thread_theap();
  return theap == NULL ? mi_heap_main() : mx_api_heap_handle(mx_load_relaxed(&theap->heap));
}

mi_heap_t* mi_heap_set_default(mi_heap_t* heap) {
  if (heap == NULL) return NULL;
  mx_theap_t* const theap = mx_api_theap_of(heap);
  if (theap == NULL) return NULL;
  mi_heap_t* const before = mi_heap_get_default();
  mx_thread_set_default(theap);
  return before;
}
