// SPDX-License-Identifier: MIT
// The statistics as one JSON object: versions, the process, every number of the record in its
// order, then the arrays of bins. Keys are only ever added.
#include "stats.h"

static void put_count_json(mx_text_t* text, const mi_stat_count_t* c) {
  mx_text_add(text, "\"total\": %lld, \"peak\": %lld, \"current\": %lld", (long long)c->total,
              (long long)c->peak, (long long)c->current);
}

static void put_process_json(mx_text_t* text) {
  mx_process_stats_t info;
  mx_process_stats(&info);
  mx_text_add(text, "  \"process\": {\n");
  mx_text_add(text, "    \"elapsed_msecs\": %llu,\n", (unsigned long long)info.elapsed_msecs);
  mx_text_add(text, "    \"user_msecs\": %llu,\n", (unsigned long long)info.user_msecs);
  mx_text_add(text, "    \"system_msecs\": %llu,\n", (unsigned long long)info.system_msecs);
  mx_text_add(text, "    \"page_faults\": %zu,\n", info.page_faults);
  mx_text_add(text, "    \"rss_current\": %zu,\n", info.current_rss);
  mx_text_add(text, "    \"rss_peak\": %zu,\n", info.peak_rss);
  mx_text_add(text, "    \"commit_current\": %zu,\n", info.current_commit);
  mx_text_add(text, "    \"commit_peak\": %zu\n  },\n", info.peak_commit);
}

static void put_fields(mx_text_t* text, const mi_stats_t* stats) {
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    const mx_stat_field_t* const field = &mx_stat_fields[i];
    const char* const at = (const char*)stats + field->offset;
    mx_text_add(text, "  \"%s\": ", field->name);
    switch (field->kind) {
      case MX_STAT_COUNT:
        mx_text_add(text, "{");
        put_count_json(text, (const mi_stat_count_t*)at);
        mx_text_add(text, "},\n");
        break;
      case MX_STAT_COUNTER:
        mx_text_add(text, "%lld,\n", (long long)((const mi_stat_counter_t*)at)->total);
        break;
      case MX_STAT_LEVEL:
        mx_text_add(text, "%lld,\n", (long long)((const mi_stat_count_t*)at)->current);
        break;
    }
  }
}

static size_t page_size_of(size_t bin) {
  const size_t size = mx_stats_bin_size(bin);
  if (bin == MI_BIN_HUGE || size > MX_BIN_MAX_SIZE) return 0;
  return mx_page_slices_for(size) * MX_SLICE_SIZE;
}

static void put_bins(mx_text_t* text, const char* name, const mi_stat_count_t* bins) {
  mx_text_add(text, "  \"%s\": [\n", name);
  for (size_t bin = 0; bin <= MI_BIN_HUGE; bin++) {
    mx_text_add(text, "    {");
    put_count_json(text, &bins[bin]);
    mx_text_add(text, ", \"block_size\": %zu, \"page_size\": %zu}%s\n", mx_stats_bin_size(bin),
                page_size_of(bin), bin == MI_BIN_HUGE ? "" : ",");
  }
  mx_text_add(text, "  ],\n");
}

void mx_stats_json(mx_text_t* text, const mi_stats_t* stats) {
  mx_text_add(text, "{\n  \"stat_version\": %d,\n  \"mimalloc_version\": %d,\n", MI_STAT_VERSION,
              MX_VERSION);
  put_process_json(text);
  put_fields(text, stats);
  put_bins(text, "malloc_bins", stats->malloc_bins);
  put_bins(text, "page_bins", stats->page_bins);
  static const char kinds[] = "SXMLHN";
  mx_text_add(text, "  \"chunk_bins\": [\n");
  for (size_t i = 0; i < MI_CBIN_COUNT; i++) {
    mx_text_add(text, "    {");
    put_count_json(text, &stats->chunk_bins[i]);
    mx_text_add(text, ", \"bin\": \"%c\"}%s\n", kinds[i], i + 1 == MI_CBIN_COUNT ? "" : ",");
  }
  mx_text_add(text, "  ]\n}\n");
}
