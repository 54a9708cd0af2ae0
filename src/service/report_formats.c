// SPDX-License-Identifier: MIT
// The report for programs: one JSON object, and the OpenMetrics text format, which Prometheus
// reads as well. Names of rows and keys are only ever added.
#include "report.h"

#include "layout.h"

// ---- JSON --------------------------------------------------------------------------------------

static void put_json_rows(mx_out_t* out, const mx_report_t* report) {
  mx_out_add(out, "  \"rows\": {\n");
  for (int row = 0; row < MX_ROW_COUNT; row++) {
    const mx_report_field_t* const field = &mx_report_fields[row];
    mx_out_add(out, "    \"%s\": {\"bytes\": %zu, \"group\": \"%s\"}%s\n", field->name,
               report->rows[row].bytes, mx_report_groups[field->group],
               row + 1 == MX_ROW_COUNT ? "" : ",");
  }
  mx_out_add(out, "  },\n");
}

// What stands between two items.
static const char* comma(bool* is_first) {
  const char* const text = (*is_first ? "\n" : ",\n");
  *is_first = false;
  return text;
}

static void put_json_bins(mx_out_t* out, const mx_report_t* report) {
  bool is_first = true;
  mx_out_add(out, "  \"bins\": [");
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    const mx_report_bin_t* const b = &report->bins[bin];
    if (b->blocks == 0 && b->live + b->free == 0) continue;
    mx_out_add(out, "%s    {\"block_size\": %zu, \"blocks\": %zu, \"live\": %zu, \"free\": %zu}",
               comma(&is_first), bin == MX_BIN_HUGE ? 0 : mx_bin_size(bin), b->blocks, b->live,
               b->free);
  }
  mx_out_add(out, "\n  ],\n");
}

static void put_json_heaps(mx_out_t* out, const mx_report_t* report) {
  bool is_first = true;
  mx_out_add(out, "  \"heaps\": [");
  for (size_t i = 0; i <= report->heap_count && i <= MX_REPORT_HEAPS; i++) {
    const mx_report_heap_t* const h = &report->heaps[i];
    if (h->live + h->free == 0) continue;
    mx_out_add(out, "%s    {\"id\": %lld, \"tag\": %d, \"live\": %zu, \"free\": %zu}",
               comma(&is_first), h->heap == NULL ? -1 : (long long)h->id, h->tag, h->live, h->free);
  }
  mx_out_add(out, "\n  ],\n");
}

void mx_report_json(mx_out_t* out, const mx_report_t* report) {
  mx_advice_t advice[MX_ADVICE_MAX];
  const size_t count = mx_report_advise(report, advice);
  mx_out_add(out, "{\n  \"report_version\": 1,\n  \"mimalloc_version\": %d,\n", MX_VERSION);
  // Said so that no linker leaves out what looks unused.
  mx_out_add(out, "  \"layout\": \"%p\",\n", (const void*)mx_layout);
  mx_out_add(out, "  \"is_exact\": %s,\n", report->is_exact ? "true" : "false");
  mx_out_add(out, "  \"is_resident_known\": %s,\n",
             report->is_resident_known ? "true" : "false");
  mx_out_add(out, "  \"resident\": %zu,\n  \"huge_os_pages\": %zu,\n  \"swapped\": %zu,\n",
             report->resident, report->huge_os, report->swapped);
  put_json_rows(out, report);
  put_json_bins(out, report);
  put_json_heaps(out, report);
  mx_out_add(out, "  \"slack_at_most\": %zu,\n  \"advice\": [", report->slack_most);
  bool is_first = true;
  for (size_t i = 0; i < count; i++) {
    mx_out_add(out, "%s    {\"name\": \"%s\", \"bytes\": %zu, \"change\": \"%s\"}",
               comma(&is_first), advice[i].name, advice[i].bytes, advice[i].change);
  }
  mx_out_add(out, "\n  ]\n}\n");
}

// ---- OpenMetrics -------------------------------------------------------------------------------

static void put_family(mx_out_t* out, const char* name, bool is_bytes, const char* help) {
  mx_out_add(out, "# TYPE mimalloc_report_%s gauge\n", name);
  if (is_bytes) mx_out_add(out, "# UNIT mimalloc_report_%s bytes\n", name);
  mx_out_add(out, "# HELP mimalloc_report_%s %s\n", name, help);
}

static void put_single(mx_out_t* out, const char* name, const char* help, size_t value) {
  put_family(out, name, true, help);
  mx_out_add(out, "mimalloc_report_%s %zu\n", name, value);
}

static void put_bin_family(mx_out_t* out, const mx_report_t* report, const char* name, size_t at,
                           bool is_bytes, const char* help) {
  put_family(out, name, is_bytes, help);
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    const mx_report_bin_t* const b = &report->bins[bin];
    if (b->blocks == 0 && b->live + b->free == 0) continue;
    mx_out_add(out, "mimalloc_report_%s{block_bytes=\"", name);
    if (bin == MX_BIN_HUGE) mx_out_add(out, "+Inf");
    else mx_out_add(out, "%zu", mx_bin_size(bin));
    mx_out_add(out, "\"} %zu\n", *(const size_t*)(const void*)((const char*)b + at));
  }
}

void mx_report_metrics(mx_out_t* out, const mx_report_t* report) {
  put_family(out, "bytes", true, "resident memory by what it is for");
  for (int row = 0; row < MX_ROW_COUNT; row++) {
    const mx_report_field_t* const field = &mx_report_fields[row];
    mx_out_add(out, "mimalloc_report_bytes{group=\"%s\",row=\"%s\"} %zu\n",
               mx_report_groups[field->group], field->name, report->rows[row].bytes);
  }
  if (report->is_resident_known) {
    put_single(out, "resident_bytes", "memory present, the sum of all rows", report->resident);
  }
  put_single(out, "huge_os_page_bytes", "memory in huge OS pages, which is not counted as present",
             report->huge_os);
  put_single(out, "swapped_bytes", "memory swapped out", report->swapped);
  put_single(out, "slack_bytes", "what sizes of live blocks were rounded up by at the most",
             report->slack_most);
  put_bin_family(out, report, "bin_blocks", offsetof(mx_report_bin_t, blocks), false,
                 "live blocks by size");
  put_bin_family(out, report, "bin_live_bytes", offsetof(mx_report_bin_t, live), true,
                 "resident memory of live blocks by size");
  put_bin_family(out, report, "bin_free_bytes", offsetof(mx_report_bin_t, free), true,
                 "resident memory of free blocks by size");
  mx_advice_t advice[MX_ADVICE_MAX];
  const size_t count = mx_report_advise(report, advice);
  put_family(out, "advice_bytes", true, "by how much an option or a call would make it less");
  for (size_t i = 0; i < count; i++) {
    mx_out_add(out, "mimalloc_report_advice_bytes{advice=\"%s\"} %zu\n", advice[i].name,
               advice[i].bytes);
  }
  mx_out_add(out, "# EOF\n");
}
