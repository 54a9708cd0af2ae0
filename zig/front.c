// SPDX-License-Identifier: MIT
// The C side of the Zig front: std.mem.Allocator's four verbs in terms of the core's.
//
// Zig says with every resize and free which size and alignment it believes in. Checked builds
// compare; the others need neither, since the page of a block knows both.
//
// A resize may only stay where it is. A remap may move, but not copy by itself: only huge blocks
// are moved, by page tables. Shrinking by more than a quarter is refused for blocks that share
// their page, so that the caller moves to a small block instead of holding on to a large one: lists
// that are given their final size after they grew live on in what they need.
//
// The commonest cases of a small block are not here, but in Zig, where the compiler sees them
// (mimalloc.zig): a block that is at hand (magazine.c) is taken and given there. What
// such a free says is small must then lie in a page of blocks, so no huge block is ever resized to
// that.
#include <string.h>

#include "../include/mimalloc-stats.h"
#include "../src/alloc/fast.h"
#include "../src/alloc/guarded.h"
#include "../src/alloc/sample.h"
#include "../src/api/handles.h"
#include "../src/api/process_life.h"
#include "../src/api/sized.h"
#include "../src/base/hooks.h"
#include "../src/heap/claim.h"
#include "../src/page/remote.h"
#include "magazine.h"
#if defined(MI_NO_LIBC)
#include "../src/os/robust.h"
#include "../src/heap/thread_life.h"
#endif

void* mx_zig_alloc(size_t size);
void* mx_zig_alloc_aligned(size_t size, size_t align);
void* mx_zig_heap_alloc(mi_heap_t* heap, size_t size, size_t align);
bool mx_zig_resize(void* p, size_t size, size_t align, size_t new_size);
void* mx_zig_remap(void* p, size_t size, size_t align, size_t new_size);
void mx_zig_free(void* p, size_t size, size_t align);
void mx_zig_free_slow(void* p, size_t size);
mi_heap_t* mx_zig_heap_new(void);
void mx_zig_collect(bool force);

void* mx_zig_alloc(size_t size) { return mx_alloc(size); }

void* mx_zig_alloc_aligned(size_t size, size_t align) {
  return mx_given(mx_alloc_aligned(mx_tls_theap, size, align, 0, false));
}

void* mx_zig_heap_alloc(mi_heap_t* heap, size_t size, size_t align) {
  mx_theap_t* const theap = mx_api_theap_of(heap);
  if (mx_unlikely(theap == NULL)) return NULL;
  if (mx_likely(align <= MX_ALIGN)) return mx_given(mx_alloc_in(theap, size));
  return mx_given(mx_alloc_aligned(theap, size, align, 0, false));
}

mi_heap_t* mx_zig_heap_new(void) { return mi_heap_try_new(0, true, NULL); }

// What a checked build says of a pointer and its size that do not belong together.
static bool is_believed(const char* function, void* p, size_t size, size_t align) {
  return !MX_CHECK_SIZED || mx_harden_check_sized(function, p, size, align);
}

static void note_renewal(void* p, size_t size) {
  if (mx_unlikely(mx_tls_theap->sampling.is_on || mx_page_has_note(mx_pagemap_get(p)))) {
    mx_sample_renew(mx_tls_theap, p, size);
  }
}

bool mx_zig_resize(void* p, size_t size, size_t align, size_t new_size) {
  if (mx_has_tags()) return false;  // the caller moves to another block, with another tag
  if (!is_believed("resize", p, size, align)) return false;
  mx_page_t* const page = mx_pagemap_get(p);
  if (mx_page_is_guarded(page)) return false;
  // The pointer may lie inside its block, because of its alignment (see alloc_inside).
  if (mx_unlikely(mx_load_relaxed(&page->shifted) != 0)) return false;
  // A small one that is sampled is resized as any other is, further below.
  if (mx_page_is_huge(page) && page->block_size > MX_BIN_MAX_SIZE) {
    const bool is_done =
        new_size > MX_SMALL_MAX && p == page->start && mx_huge_resize(page, new_size);
    if (is_done) note_renewal(p, new_size);
    return is_done;
  }
  if (MX_PADDING) {
    // The canary moves along, or, if that would leave too much slack, the block stays as it is.
    if (new_size > size || new_size == 0) return false;
    mx_harden_shrink(p, new_size);
    return mx_harden_usable(page, p) == new_size;
  }
  const bool stays =
      new_size <= page->block_size && new_size >= page->block_size - page->block_size / 4;
  if (stays && mx_unlikely(mx_page_has_note(page))) mx_sample_resize(page, new_size);
  return stays;
}

void* mx_zig_remap(void* p, size_t size, size_t align, size_t new_size) {
  if (mx_zig_resize(p, size, align, new_size)) return p;
  if (mx_has_tags()) return NULL;
  mx_page_t* const page = mx_pagemap_get(p);
  if (MX_PADDING || !mx_page_is_huge(page) || mx_page_is_guarded(page)) return NULL;
  if (page->block_size <= MX_BIN_MAX_SIZE) return NULL;
  if (p != page->start || align > MX_SLICE_SIZE || new_size <= MX_SMALL_MAX) return NULL;
  void* const moved = mx_huge_realloc(page, new_size, false);
  if (moved != NULL) note_renewal(moved, new_size);
  return moved;
}

// A block of another thread's page. That it is a block, and where it starts, is known from the type
// of the call, so all that free() would have to find out is left to the rare cases.
static mx_noinline void free_of_others(mx_page_t* page, void* p) {
  const uintptr_t owner = mx_load_relaxed(&page->owner);
  const bool is_plain = page->bin != 0 && page->bin != MX_BIN_HUGE && owner != 0 &&
                        (owner & MX_OWNER_SHIFTED) == 0;
  if (mx_unlikely(!is_plain || mx_thread_apart(owner) <= MX_OWNER_TAGS)) {
    mx_free_slow(p);
    return;
  }
  if (mx_unlikely(!mx_remote_push_once(page, (mx_block_t*)p))) mx_free_slow(p);
}

void mx_zig_free(void* p, size_t size, size_t align) {
  if (MX_HARDEN || MX_CHECK_SIZED) {
    mx_free_checked("free", p, size, align);
    return;
  }
  if (mx_unlikely(!mx_pagemap_is_near(p))) {
    mx_free_slow(p);
    return;
  }
  mx_page_t* const page = mx_pagemap_get_near(p);
  if (mx_unlikely(!mx_thread_is(mx_load_relaxed(&page->owner)))) {
    free_of_others(page, p);
    return;
  }
  if (mx_unlikely(mx_page_push(page, (mx_block_t*)p))) mx_free_emptied(p);
}

mx_static_assert((!MX_MAGAZINES || MX_SMALL_MAX == 1024) && MX_ALIGN == 16 && MX_MAGAZINE_PLACES == 31 &&
                     offsetof(mx_magazine_t, most) == 4 && offsetof(mx_magazine_t, blocks) == 8,
                 "mimalloc.zig says the same");
mx_static_assert(!MX_MAGAZINES || !MX_HARDEN, "blocks at hand are neither checked nor marked");

// A free for which the magazine has no place. Where blocks are sampled there are no magazines: each
// free needs a look, and sampling begins with the program, since this front has no call that starts
// it. A thread that only frees gets a theap, too: then most of its frees are cheap. Heaps that can
// be destroyed have no magazines: their blocks would be gone, and what else is there would be lost.
void mx_zig_free_slow(void* p, size_t size) {
  mx_call_enter();
  mx_theap_t* const theap = (mx_tls_theap == &mx_theap_empty ? mx_thread_theap() : mx_tls_theap);
  const bool is_done = MX_MAGAZINES && theap != NULL && theap == theap->first &&
                       mx_load_relaxed(&theap->heap) != NULL && !mx_sample_is_on() &&
                       mx_magazine_put(theap, mx_bin_of(size), (mx_block_t*)p);
  mx_call_leave();
  if (!is_done) mx_zig_free(p, size, MX_ALIGN);
}

// What ended threads left is taken over first.
void mx_zig_collect(bool force) {
#if defined(MI_NO_LIBC)
  mx_robust_look(true);
#endif
  mi_collect(force);
}

#if defined(MI_NO_LIBC)
// Behind the start of the library, which sets the hook to its own needs.
__attribute__((constructor(102))) static void look_after_threads(void) {
  mx_robust_setup(&mx_thread_died);
  mx_store_relaxed(&mx_visits.slow_visit, &mx_nolibc_visit);
}
#endif
