// SPDX-License-Identifier: MIT
// The statistics as tables for people.
//
// A row is "  label     :" and amounts of 12 columns each: peak, total, current, then in the table
// of blocks the block's size and how many were made. What only grows has a total alone.
#include "stats.h"

#include "amounts.h"

#include <string.h>

#include "../base/facts.h"
#include "../mem/numa.h"

#define COLUMN 12

typedef const char*(amount_fun)(char* buf, int64_t amount);

// One row under construction; sent without the blanks that amounts without a unit end in.
typedef struct row_s {
  mx_text_t text;
  char buf[128];
} row_t;

static void row_begin(row_t* row, const char* label) {
  mx_text_init(&row->text, row->buf, sizeof(row->buf));
  mx_text_add(&row->text, "  %-10s:", label);
}

static void row_amount(row_t* row, amount_fun* amount, int64_t value) {
  char buf[MX_AMOUNT_SIZE];
  mx_text_add(&row->text, "%*s", COLUMN, amount(buf, value));
}

static void row_end(row_t* row, mx_out_t* out) {
  size_t length = row->text.length;
  while (length > 0 && row->buf[length - 1] == ' ') length--;
  mx_out_add(out, "%.*s\n", (int)length, row->buf);
}

static void put_heading(mx_out_t* out, const char* section, bool has_blocks) {
  mx_out_add(out, " %-12s%*s%*s%*s", section, COLUMN - 1, "peak", COLUMN, "total", COLUMN,
             "current");
  if (has_blocks) mx_out_add(out, "%*s%*s", COLUMN, "block", COLUMN, "total#");
  mx_out_add(out, "\n");
}

static void put_count(mx_out_t* out, const char* label, amount_fun* amount,
                      const mi_stat_count_t* c) {
  row_t row;
  row_begin(&row, label);
  row_amount(&row, amount, c->peak);
  row_amount(&row, amount, c->total);
  row_amount(&row, amount, c->current);
  row_end(&row, out);
}

static void put_counter(mx_out_t* out, const char* label, amount_fun* amount,
                        const mi_stat_counter_t* c) {
  row_t row;
  row_begin(&row, label);
  mx_text_add(&row.text, "%*s", COLUMN, "");
  row_amount(&row, amount, c->total);
  row_end(&row, out);
}

static void put_level(mx_out_t* out, const char* label, amount_fun* amount, int64_t current) {
  row_t row;
  row_begin(&row, label);
  mx_text_add(&row.text, "%*s", 2 * COLUMN, "");
  row_amount(&row, amount, current);
  row_end(&row, out);
}

// ---- blocks ------------------------------------------------------------------------------------

static bool is_counted(const mi_stat_count_t* c) { return c->total != 0 || c->current != 0; }

static void put_end_of_blocks(row_t* row, mx_out_t* out, const mi_stat_count_t* c) {
  mx_text_add(&row->text, c->current == 0 ? " ok" : " not all freed");
  row_end(row, out);
}

static char kind_of(size_t block_size) {
  if (block_size > MX_BIN_MAX_SIZE) return 'H';
  const size_t slices = mx_page_slices_for(block_size);
  return slices == 1 ? 'S' : (slices == MX_MEDIUM_PAGE_SLICES ? 'M' : 'L');
}

// Counts of blocks, shown as the memory that they take.
static void put_bin(mx_out_t* out, size_t bin, const mi_stat_count_t* c) {
  const int64_t size = (int64_t)mx_stats_bin_size(bin);
  char label[16];
  mx_format(label, sizeof(label), "bin %c %4zu", kind_of((size_t)size), bin);
  row_t row;
  row_begin(&row, label);
  row_amount(&row, mx_amount_bytes, c->peak * size);
  row_amount(&row, mx_amount_bytes, c->total * size);
  row_amount(&row, mx_amount_bytes, c->current * size);
  row_amount(&row, mx_amount_bytes, size);
  row_amount(&row, mx_amount_items, c->total);
  put_end_of_blocks(&row, out, c);
}

static void put_blocks_sum(mx_out_t* out, const char* label, const mi_stat_count_t* c,
                           int64_t count) {
  row_t row;
  row_begin(&row, label);
  row_amount(&row, mx_amount_bytes, c->peak);
  row_amount(&row, mx_amount_bytes, c->total);
  row_amount(&row, mx_amount_bytes, c->current);
  mx_text_add(&row.text, "%*s", COLUMN, "");
  row_amount(&row, mx_amount_items, count);
  put_end_of_blocks(&row, out, c);
}

static void put_blocks(mx_out_t* out, const mi_stats_t* stats) {
  // Two kinds of blocks need not have been at their peaks together; the higher one was reached.
  mi_stat_count_t sum = stats->malloc_normal;
  sum.total += stats->malloc_huge.total;
  sum.current += stats->malloc_huge.current;
  if (sum.peak < stats->malloc_huge.peak) sum.peak = stats->malloc_huge.peak;
  if (sum.peak < sum.current) sum.peak = sum.current;
  if (!is_counted(&sum)) return;
  put_heading(out, "blocks", true);
  for (size_t bin = 0; bin <= MI_BIN_HUGE; bin++) {
    if (is_counted(&stats->malloc_bins[bin])) put_bin(out, bin, &stats->malloc_bins[bin]);
  }
  const int64_t normal = stats->malloc_normal_count.total;
  const int64_t huge = stats->malloc_huge_count.total;
  if (is_counted(&stats->malloc_normal)) {
    put_blocks_sum(out, "binned", &stats->malloc_normal, normal);
  }
  put_blocks_sum(out, "huge", &stats->malloc_huge, huge);
  put_blocks_sum(out, "total", &sum, normal + huge);
  if (is_counted(&stats->malloc_requested)) {
    const mi_stat_counter_t requested = {stats->malloc_requested.total};
    put_counter(out, "malloc req", mx_amount_bytes, &requested);
  }
  mx_out_add(out, "\n");
}

// ---- pages, arenas, process --------------------------------------------------------------------

static void put_pages(mx_out_t* out, const mi_stats_t* stats) {
  put_heading(out, "pages", false);
  put_count(out, "touched", mx_amount_bytes, &stats->page_committed);
  put_count(out, "pages", mx_amount_items, &stats->pages);
  put_count(out, "abandoned", mx_amount_items, &stats->pages_abandoned);
  put_counter(out, "reclaima", mx_amount_items, &stats->pages_reclaim_on_alloc);
  put_counter(out, "reclaimf", mx_amount_items, &stats->pages_reclaim_on_free);
  put_counter(out, "extended", mx_amount_items, &stats->pages_extended);
  put_counter(out, "retire", mx_amount_items, &stats->pages_retire);
  char average[MX_AMOUNT_SIZE];
  mx_amount_ratio(average, stats->page_searches.total, stats->page_searches_count.total);
  mx_out_add(out, "  %-10s:%*s avg\n", "searches", COLUMN - 4, average);
  mx_out_add(out, "\n");
}

// Memory is counted by sub-process; heaps and threads leave these rows out.
static void put_memory(mx_out_t* out, const mi_stats_t* stats) {
  put_count(out, "reserved", mx_amount_bytes, &stats->reserved);
  put_count(out, "committed", mx_amount_bytes, &stats->committed);
  put_count(out, "metadata", mx_amount_bytes, &stats->mx_stat_metadata);
  put_level(out, "waiting", mx_amount_bytes, stats->mx_stat_waiting.current);
  put_counter(out, "reset", mx_amount_bytes, &stats->reset);
  put_counter(out, "purged", mx_amount_bytes, &stats->purged);
  put_counter(out, "holes", mx_amount_bytes, &stats->mx_stat_holes_purged);
  put_counter(out, "arenas", mx_amount_items, &stats->arena_count);
  put_counter(out, "rollback", mx_amount_items, &stats->arena_rollback_count);
  put_counter(out, "mmaps", mx_amount_items, &stats->mmap_calls);
  put_counter(out, "commits", mx_amount_items, &stats->commit_calls);
  put_counter(out, "resets", mx_amount_items, &stats->reset_calls);
  put_counter(out, "purges", mx_amount_items, &stats->purge_calls);
}

static void put_arenas(mx_out_t* out, const mi_stats_t* stats) {
  put_heading(out, "arenas", false);
  if (is_counted(&stats->reserved)) put_memory(out, stats);
  put_counter(out, "guarded", mx_amount_items, &stats->malloc_guarded_count);
  put_count(out, "theaps", mx_amount_items, &stats->theaps);
  put_count(out, "heaps", mx_amount_items, &stats->heaps);
  put_counter(out, "heap waits", mx_amount_items, &stats->heaps_delete_wait);
  mx_out_add(out, "\n");
}

void mx_stats_print_process(mx_out_t* out) {
  mx_process_stats_t info;
  mx_process_stats(&info);
  char a[MX_AMOUNT_SIZE], b[MX_AMOUNT_SIZE];
  mx_out_add(out, "  %-10s: %9s s\n", "elapsed", mx_amount_seconds(a, info.elapsed_msecs));
  mx_out_add(out, "  %-10s: user: %s s, ", "process", mx_amount_seconds(a, info.user_msecs));
  mx_out_add(out, "system: %s s, faults: %zu, ", mx_amount_seconds(a, info.system_msecs),
             info.page_faults);
  mx_out_add(out, "peak rss: %s, peak commit: %s\n", mx_amount_bytes(a, (int64_t)info.peak_rss),
             mx_amount_bytes(b, (int64_t)info.peak_commit));
  mx_out_add(out, "  %-10s: current rss: %s, current commit: %s\n", "memory",
             mx_amount_bytes(a, (int64_t)info.current_rss),
             mx_amount_bytes(b, (int64_t)info.current_commit));
}

void mx_stats_print(mx_out_t* out, const char* kind, uint64_t number, const mi_stats_t* stats) {
  mx_out_add(out, "%s %llu\n", kind, (unsigned long long)number);
  put_blocks(out, stats);
  put_pages(out, stats);
  put_arenas(out, stats);
  put_heading(out, "process", false);
  put_count(out, "threads", mx_amount_items, &stats->threads);
  mx_out_add(out, "  %-10s: %u\n", "numa nodes", mx_numa_count());
  mx_stats_print_process(out);
  mx_out_add(out, "\n");
}
