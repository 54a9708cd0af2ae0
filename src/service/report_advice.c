// SPDX-License-Identifier: MIT
// The advice of a report: which rows an option or a call would make less, and by how much.
//
// The amounts are bounds: a page whose free blocks lie between live ones gives back only what fills
// whole OS pages.
#include "../base/check.h"
#include "../base/options.h"
#include "report.h"

// What is less than this and than this part of all is not worth a line.
#define WORTH_BYTES (256 * MX_KIB)
#define ADVICE_SHARE 100

typedef struct advising_s {
  const mx_report_t* report;
  mx_advice_t* advice;
  size_t count;
} advising_t;

static size_t row_bytes(const mx_report_t* report, mx_report_row_t row) {
  return report->rows[row].bytes;
}

// Enters a line where its amount says, the most first.
static void advise_to(advising_t* a, const char* name, size_t bytes, const char* because,
                      const char* change) {
  if (bytes < mx_max(WORTH_BYTES, a->report->resident / ADVICE_SHARE)) return;
  mx_check(a->count < MX_ADVICE_MAX);
  size_t at = a->count++;
  for (; at > 0 && a->advice[at - 1].bytes < bytes; at--) a->advice[at] = a->advice[at - 1];
  const mx_advice_t line = {name, bytes, because, change};
  a->advice[at] = line;
}

static void advise_on_slices(advising_t* a) {
  const mx_report_t* const r = a->report;
  advise_to(a, "waiting", row_bytes(r, MX_ROW_waiting),
            "%s are free and wait for purge_delay",
            mx_option(purge_delay) < 0        ? "mi_collect(true), or MIMALLOC_PURGE_DELAY=1000"
            : mx_option(background_purge) > 0 ? "mi_collect(true), or a lower MIMALLOC_PURGE_DELAY"
                                              : "mi_collect(true), or MIMALLOC_BACKGROUND_PURGE=1");
  const char* const change =
      (mx_option(purge_decommits) == 0     ? "MIMALLOC_PURGE_DECOMMITS=1 instead of 0"
       : mx_option(minimal_purge_size) > 0 ? "a lower MIMALLOC_MINIMAL_PURGE_SIZE"
                                           : "arenas that are not pinned (mi_manage_os_memory)");
  advise_to(a, "kept", row_bytes(r, MX_ROW_kept), "%s are free and stay", change);
  advise_to(a, "huge_kept", row_bytes(r, MX_ROW_huge_kept),
            "%s are a freed huge block kept for the next one", "mi_collect(true)");
  advise_to(a, "fresh", row_bytes(r, MX_ROW_fresh) + row_bytes(r, MX_ROW_uncarved),
            "%s are present and hold no block yet",
            mx_option(allow_thp) > 1 ? "MIMALLOC_ALLOW_THP=0" : "mi_collect(true)");
}

static void advise_on_blocks(advising_t* a) {
  const mx_report_t* const r = a->report;
  advise_to(a, "sleeping", row_bytes(r, MX_ROW_free_sleeping),
            "%s are free blocks in pages of threads that sleep",
            mx_option(background_purge) > 0
                ? "mi_thread_set_in_threadpool(), or mi_collect(true) before a thread sleeps"
                : "MIMALLOC_BACKGROUND_PURGE=1, or mi_collect(true)");
  advise_to(a, "partial", row_bytes(r, MX_ROW_free_partial) + row_bytes(r, MX_ROW_free_current),
            "%s are free blocks in pages of threads that run", "mi_collect(true) in those threads");
  advise_to(a, "abandoned", row_bytes(r, MX_ROW_free_abandoned),
            "%s are free blocks in pages of threads that ended",
            "MIMALLOC_PAGE_RECLAIM_ON_FREE=1, or mi_collect(true)");
  advise_to(a, "empty", row_bytes(r, MX_ROW_free_empty), "%s are pages without a live block",
            "mi_collect(true)");
  advise_to(a, "pinned", row_bytes(r, MX_ROW_free_pinned),
            "%s are free beside live blocks that keep their OS pages",
            "a heap of its own (mi_heap_new) for blocks that live long");
  advise_to(a, "slack", r->slack_most, "up to %s in live blocks are rounded up sizes",
            "sizes as mi_good_size() gives them");
}

size_t mx_report_advise(const mx_report_t* report, mx_advice_t* advice) {
  advising_t a = {report, advice, 0};
  advise_on_slices(&a);
  advise_on_blocks(&a);
  advise_to(&a, "guarded",
            row_bytes(report, MX_ROW_live_guarded) + row_bytes(report, MX_ROW_guarded_freed),
            "%s are guarded blocks, an OS page each", "a higher MIMALLOC_GUARDED_SAMPLE_RATE");
  return a.count;
}
