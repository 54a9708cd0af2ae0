// SPDX-License-Identifier: MIT
// The statistics calls of the public interface: which numbers, and into what.
//
// A record (mi_stats_t) comes with its size and version, and exists in two forms: version 5, and
// version 4 of older programs, which is the same without the fields on heaps and chunks. Inside
// there is only version 5.
#include <errno.h>
#include <string.h>

#include "../../include/mimalloc-stats.h"
#include "../heap/heap.h"
#include "../os/thread.h"
#include "../service/stats.h"
#include "handles.h"

// Sub-processes are numbered in the order of their list, the main one is 0.
static uint64_t number_of(const mx_subproc_t* subproc) {
  uint64_t number = 0;
  for (const mx_subproc_t* s = &mx_subproc_main; s != NULL && s != subproc; s = s->next) number++;
  return number;
}

// ---- forms of the record -----------------------------------------------------------------------

// Ranges of version 5 that version 4 has, one behind the other.
static const struct {
  size_t from, to;
} version_4_ranges[] = {
    {offsetof(mi_stats_t, pages), offsetof(mi_stats_t, heaps)},
    {offsetof(mi_stats_t, pages_reclaim_on_alloc), offsetof(mi_stats_t, heaps_delete_wait)},
    {offsetof(mi_stats_t, _stat_reserved), offsetof(mi_stats_t, chunk_bins)},
};

#define VERSION_4_SIZE                                                                      \
  (sizeof(mi_stats_t) - 2 * sizeof(mi_stat_count_t) - sizeof(mi_stat_counter_t) -           \
   MI_CBIN_COUNT * sizeof(mi_stat_count_t))

static bool is_version_4(const mi_stats_t* stats) {
  return stats->version == 4 && stats->size == VERSION_4_SIZE;
}

static bool is_known(const mi_stats_t* stats) {
  if (stats == NULL) return false;
  if (stats->version == MI_STAT_VERSION && stats->size == sizeof(mi_stats_t)) return true;
  return is_version_4(stats);
}

// Copies between the two forms; `older` has the shape of version 4.
static void copy_version_4(char* older, char* newer, bool to_older) {
  size_t at = offsetof(mi_stats_t, pages);
  for (size_t i = 0; i < sizeof(version_4_ranges) / sizeof(version_4_ranges[0]); i++) {
    const size_t from = version_4_ranges[i].from;
    const size_t size = version_4_ranges[i].to - from;
    if (to_older) memcpy(older + at, newer + from, size);
    else memcpy(newer + from, older + at, size);
    at += size;
  }
}

// Hands a record of version 5 to a caller whose own form is known to be good.
static void give_stats(mi_stats_t* to, mi_stats_t* stats) {
  if (is_version_4(to)) copy_version_4((char*)to, (char*)stats, true);
  else *to = *stats;
}

bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept {
  return mi_subproc_stats_get(mi_subproc_current(), stats);
}

bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats) mi_attr_noexcept {
  if (!is_known(stats)) return false;
  mi_stats_t now;
  mx_stats_of_heap(mx_api_heap(heap), &now);
  give_stats(stats, &now);
  return true;
}

static bool get_of_subproc(mi_subproc_id_t id, mi_stats_t* stats,
                           void (*take)(mx_subproc_t*, mi_stats_t*)) {
  mx_subproc_t* const subproc = mx_api_subproc(id);
  if (!is_known(stats) || subproc == NULL) return false;
  mi_stats_t now;
  take(subproc, &now);
  give_stats(stats, &now);
  return true;
}

bool mi_subproc_stats_get(mi_subproc_id_t subproc_id, mi_stats_t* stats) mi_attr_noexcept {
  return get_of_subproc(subproc_id, stats, mx_stats_of_subproc);
}

bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc_id, mi_stats_t* stats)
    mi_attr_noexcept {
  return get_of_subproc(subproc_id, stats, mx_stats_of_subproc_alone);
}

size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept { return mx_stats_bin_size(bin); }

// ---- JSON --------------------------------------------------------------------------------------

#define JSON_FIRST_SIZE ((size_t)12 * 1024)

static void grow(mx_text_t* text) {
  char* const larger = (char*)mi_realloc(text->buf, text->size * 2);
  if (larger == NULL) {
    // The rest is formatted to nowhere, and the caller sees that the text is not whole.
    text->full = NULL;
    return;
  }
  text->buf = larger;
  text->size *= 2;
}

static char* to_json(const mi_stats_t* stats, size_t buf_size, char* buf) {
  mx_text_t text;
  if (buf != NULL) {
    mx_text_init(&text, buf, buf_size);
    mx_stats_json(&text, stats);
    return buf;
  }
  char* const first = (char*)mi_malloc(JSON_FIRST_SIZE);
  if (first == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  mx_text_init(&text, first, JSON_FIRST_SIZE);
  text.full = grow;
  mx_stats_json(&text, stats);
  if (text.full != NULL) return text.buf;
  mi_free(text.buf);
  errno = ENOMEM;
  return NULL;
}

char* mi_stats_as_json(mi_stats_t* stats, size_t buf_size, char* buf) mi_attr_noexcept {
  if (!is_known(stats)) return NULL;
  if (!is_version_4(stats)) return to_json(stats, buf_size, buf);
  mi_stats_t newer;
  mi_stats_init(&newer);
  copy_version_4((char*)stats, (char*)&newer, false);
  return to_json(&newer, buf_size, buf);
}

char* mi_stats_get_json(size_t buf_size, char* buf) mi_attr_noexcept {
  return mi_subproc_stats_get_json(mi_subproc_current(), buf_size, buf);
}

char* mi_heap_stats_get_json(mi_heap_t* heap, size_t buf_size, char* buf) mi_attr_noexcept {
  mi_stats_t now;
  mx_stats_of_heap(mx_api_heap(heap), &now);
  return to_json(&now, buf_size, buf);
}

char* mi_subproc_stats_get_json(mi_subproc_id_t subproc_id, size_t buf_size,
                                char* buf) mi_attr_noexcept {
  mx_subproc_t* const subproc = mx_api_subproc(subproc_id);
  if (subproc == NULL) return NULL;
  mi_stats_t now;
  mx_stats_of_subproc(subproc, &now);
  return to_json(&now, buf_size, buf);
}

// ---- text --------------------------------------------------------------------------------------

static void print(mi_output_fun* fun, void* arg, const char* kind, uint64_t number,
                  const mi_stats_t* stats) {
  mx_out_t out;
  mx_out_open(&out, fun, arg);
  mx_stats_print(&out, kind, number, stats);
}

static void print_subproc(mx_subproc_t* subproc, mi_output_fun* fun, void* arg) {
  mi_stats_t now;
  mx_stats_of_subproc(subproc, &now);
  print(fun, arg, "subproc", number_of(subproc), &now);
}

void mi_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_subproc_stats_print_out(mi_subproc_current(), out, arg);
}

void mi_stats_print(void* out) mi_attr_noexcept {
  mi_stats_print_out((mi_output_fun*)(uintptr_t)out, NULL);
}

void mi_thread_stats_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_t now;
  mx_stats_of_thread(&now);
  print(out, arg, "thread", mx_thread_id(), &now);
}

void mi_thread_stats_print(void* out) mi_attr_noexcept {
  mi_thread_stats_print_out((mi_output_fun*)(uintptr_t)out, NULL);
}

void mi_heap_stats_print_out(mi_heap_t* heap, mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_t now;
  mx_stats_of_heap(mx_api_heap(heap), &now);
  print(out, arg, "heap", mx_api_heap(heap)->id, &now);
}

void mi_subproc_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun* out,
                                void* arg) mi_attr_noexcept {
  mx_subproc_t* const subproc = mx_api_subproc(subproc_id);
  if (subproc != NULL) print_subproc(subproc, out, arg);
}

// Takes the record of the heap with the lowest id from `id` on; false when there is none. The lock
// is not held while a heap is printed, so heaps may come and go in between.
static bool heap_from_id(mx_subproc_t* subproc, uint64_t* id, mi_stats_t* stats) {
  mx_heap_t* found = NULL;
  mx_lock_acquire(&subproc->lock);
  for (mx_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    if (heap->id >= *id && (found == NULL || heap->id < found->id)) found = heap;
  }
  if (found != NULL) {
    *id = found->id;
    mx_stats_of_heap(found, stats);
  }
  mx_lock_release(&subproc->lock);
  return found != NULL;
}

void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun* out,
                                     void* arg) mi_attr_noexcept {
  mx_subproc_t* const subproc = mx_api_subproc(subproc_id);
  if (subproc == NULL) return;
  print_subproc(subproc, out, arg);
  mi_stats_t stats;
  for (uint64_t id = 0; heap_from_id(subproc, &id, &stats); id++) {
    print(out, arg, "heap", id, &stats);
  }
}

void mi_stats_print_prometheus(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_stats_t now;
  mx_stats_of_process(&now);
  mx_out_t to;
  mx_out_open(&to, out, arg);
  mx_stats_prometheus(&to, &now);
}

// ---- starting again ----------------------------------------------------------------------------

void mi_heap_stats_merge_to_subproc(mi_heap_t* heap) {
  mx_heap_t* const from = mx_api_heap(heap);
  if (from->subproc == NULL) return;  // nothing was allocated yet
  mx_lock_acquire(&from->lock);
  mx_counters_move_past(&from->subproc->counters, &from->counters);
  mx_lock_release(&from->lock);
}

void mi_stats_reset(void) mi_attr_noexcept { mi_heap_stats_merge_to_subproc(NULL); }

// A thread counts into its heap at once and keeps no numbers of its own that could be added.
void mi_stats_merge(void) mi_attr_noexcept {}
