// SPDX-License-Identifier: MIT
// The statistics in the text format that Prometheus scrapes (version 0.0.4).
//
// A count becomes two gauges, what is there and the peak, and a counter of all that was added; a
// counter becomes a counter. Names end as the conventions ask: _bytes, and _total for counters.
#include "stats.h"

#include "amounts.h"

static void put_head(mx_out_t* out, const char* name, const char* suffix, const char* type,
                     const char* help, const char* what) {
  mx_out_add(out, "# HELP mimalloc_%s%s %s%s\n", name, suffix, help, what);
  mx_out_add(out, "# TYPE mimalloc_%s%s %s\n", name, suffix, type);
}

static void put_metric(mx_out_t* out, const char* name, const char* suffix, const char* type,
                       const char* help, const char* what, int64_t value) {
  put_head(out, name, suffix, type, help, what);
  mx_out_add(out, "mimalloc_%s%s %lld\n", name, suffix, (long long)value);
}

static void put_field(mx_out_t* out, const mx_stat_field_t* field, const mi_stats_t* stats) {
  const char* const at = (const char*)stats + field->offset;
  const bool bytes = field->is_bytes;
  if (field->kind == MX_STAT_COUNTER) {
    put_metric(out, field->name, bytes ? "_bytes_total" : "_total", "counter", field->help,
               " since the start", ((const mi_stat_counter_t*)at)->total);
    return;
  }
  const mi_stat_count_t* const c = (const mi_stat_count_t*)at;
  put_metric(out, field->name, bytes ? "_bytes" : "", "gauge", field->help, " now", c->current);
  if (field->kind == MX_STAT_LEVEL) return;
  put_metric(out, field->name, bytes ? "_peak_bytes" : "_peak", "gauge", field->help,
             " at the peak", c->peak);
  put_metric(out, field->name, bytes ? "_added_bytes_total" : "_added_total", "counter",
             field->help, ", all that was added since the start", c->total);
}

// Bins that were never used are left out: a series that appears later is no harm to a scraper.
static void put_page_bins(mx_out_t* out, const mi_stats_t* stats) {
  put_head(out, "bin_pages", "", "gauge", "pages in use by the size of their blocks", "");
  for (size_t bin = 1; bin <= MI_BIN_HUGE; bin++) {
    const mi_stat_count_t* const c = &stats->page_bins[bin];
    if (c->total == 0) continue;
    if (bin == MI_BIN_HUGE) mx_out_add(out, "mimalloc_bin_pages{block_bytes=\"+Inf\"} ");
    else mx_out_add(out, "mimalloc_bin_pages{block_bytes=\"%zu\"} ", mx_stats_bin_size(bin));
    mx_out_add(out, "%lld\n", (long long)c->current);
  }
}

static void put_seconds(mx_out_t* out, const char* name, const char* help, uint64_t msecs) {
  char buf[MX_AMOUNT_SIZE];
  put_head(out, name, "", "counter", help, "");
  mx_out_add(out, "mimalloc_%s %s\n", name, mx_amount_seconds(buf, msecs));
}

static void put_process_metrics(mx_out_t* out) {
  mx_process_stats_t info;
  mx_process_stats(&info);
  put_seconds(out, "elapsed_seconds_total", "time since the library started", info.elapsed_msecs);
  put_seconds(out, "user_seconds_total", "processor time in the program", info.user_msecs);
  put_seconds(out, "system_seconds_total", "processor time in the system", info.system_msecs);
  put_metric(out, "page_faults", "_total", "counter", "page faults that read from a device", "",
             (int64_t)info.page_faults);
  // Where the system does not tell, a server shall see no value instead of a wrong one.
  if (info.current_rss != 0) {
    put_metric(out, "resident", "_bytes", "gauge", "memory of the process present", " now",
               (int64_t)info.current_rss);
  }
  put_metric(out, "resident_peak", "_bytes", "gauge", "memory of the process present",
             " at the peak", (int64_t)info.peak_rss);
}

void mx_stats_prometheus(mx_out_t* out, const mi_stats_t* stats) {
  for (size_t i = 0; i < mx_stat_field_count; i++) {
    // Kept in the record for older programs; a server has no use for them.
    if (mx_stat_fields[i].offset >= offsetof(mi_stats_t, segments) &&
        mx_stat_fields[i].offset < offsetof(mi_stats_t, heaps)) {
      continue;
    }
    put_field(out, &mx_stat_fields[i], stats);
  }
  put_page_bins(out, stats);
  put_process_metrics(out);
}
