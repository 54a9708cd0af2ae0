// SPDX-License-Identifier: MIT
// The report as a table for people.
#include "report.h"

#include "amounts.h"

#define SHOWN_BINS 12

static void put_line(mx_out_t* out, const char* indent, const char* label, size_t bytes,
                     size_t all) {
  char amount[MX_AMOUNT_SIZE], share[MX_AMOUNT_SIZE];
  mx_amount_ratio(share, (int64_t)bytes * 100, (int64_t)all);
  mx_out_add(out, "%s%-*s%12s%8s %%\n", indent, indent[2] == 0 ? 32 : 30, label,
             mx_amount_bytes(amount, (int64_t)bytes), share);
}

static size_t group_bytes(const mx_report_t* report, int group) {
  size_t bytes = 0;
  for (int row = 0; row < MX_ROW_COUNT; row++) {
    if ((int)mx_report_fields[row].group == group) bytes += report->rows[row].bytes;
  }
  return bytes;
}

static void put_report_rows(mx_out_t* out, const mx_report_t* report) {
  for (int group = 0; group < MX_GROUP_COUNT; group++) {
    const size_t bytes = group_bytes(report, group);
    if (bytes == 0) continue;
    put_line(out, "  ", mx_report_titles[group], bytes, report->resident);
    for (int row = 0; row < MX_ROW_COUNT; row++) {
      const mx_report_field_t* const field = &mx_report_fields[row];
      if ((int)field->group != group || report->rows[row].bytes == 0) continue;
      put_line(out, "    ", field->label, report->rows[row].bytes, report->resident);
    }
  }
}

// The bin with the most memory that was not shown; `shown` is a bit for each.
static size_t next_bin(const mx_report_t* report, uint64_t* shown) {
  size_t best = 0, most = 0;
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    const size_t bytes = report->bins[bin].live + report->bins[bin].free;
    if (bytes <= most || mx_has_bit(shown, bin)) continue;
    most = bytes;
    best = bin;
  }
  mx_set_bit(shown, best);
  return best;
}

static void put_report_bins(mx_out_t* out, const mx_report_t* report) {
  uint64_t shown[MX_BIN_WORDS] = {0};
  for (int i = 0; i < SHOWN_BINS; i++) {
    const size_t bin = next_bin(report, shown);
    if (bin == 0) return;
    if (i == 0) {
      mx_out_add(out, "\n  %-18s%12s%12s%12s\n", "blocks of size", "number", "live", "free");
    }
    const mx_report_bin_t* const b = &report->bins[bin];
    char size[MX_AMOUNT_SIZE], number[MX_AMOUNT_SIZE], live[MX_AMOUNT_SIZE];
    char free_bytes[MX_AMOUNT_SIZE];
    if (bin == MX_BIN_HUGE) mx_format(size, sizeof(size), "huge");
    else mx_format(size, sizeof(size), "%zu", mx_bin_size(bin));
    mx_out_add(out, "    %-16s%12s%12s%12s\n", size,
               mx_amount_items(number, (int64_t)b->blocks),
               mx_amount_bytes(live, (int64_t)b->live),
               mx_amount_bytes(free_bytes, (int64_t)b->free));
  }
}

static void put_report_heaps(mx_out_t* out, const mx_report_t* report) {
  if (report->heap_count < 2) return;
  mx_out_add(out, "\n  %-30s%12s%12s\n", "heap", "live", "free");
  for (size_t i = 0; i <= report->heap_count && i <= MX_REPORT_HEAPS; i++) {
    const mx_report_heap_t* const h = &report->heaps[i];
    char name[MX_AMOUNT_SIZE], live[MX_AMOUNT_SIZE], free_bytes[MX_AMOUNT_SIZE];
    if (h->live + h->free == 0) continue;
    if (h->heap == NULL) mx_format(name, sizeof(name), "all others");
    else mx_format(name, sizeof(name), "%llu", (unsigned long long)h->id);
    mx_out_add(out, "    %-28s%12s%12s\n", name, mx_amount_bytes(live, (int64_t)h->live),
               mx_amount_bytes(free_bytes, (int64_t)h->free));
  }
}

static void put_advice(mx_out_t* out, const mx_report_t* report) {
  mx_advice_t advice[MX_ADVICE_MAX];
  const size_t count = mx_report_advise(report, advice);
  if (count > 0) mx_out_add(out, "\n  what would make it less\n");
  for (size_t i = 0; i < count; i++) {
    char amount[MX_AMOUNT_SIZE], because[128];
    mx_amount_bytes(amount, (int64_t)advice[i].bytes);
    // The formats are those of the table, in report_advice.c.
    mx_text_t text;
    mx_text_init(&text, because, sizeof(because));
    for (const char* c = advice[i].because; *c != 0; c++) {
      if (c[0] == '%' && c[1] == 's') mx_text_add(&text, "%s", (c++, amount));
      else mx_text_char(&text, *c);
    }
    mx_out_add(out, "    %s:\n      %s, at most %s less\n", because, advice[i].change, amount);
  }
}

void mx_report_text(mx_out_t* out, const mx_report_t* report) {
  char amount[MX_AMOUNT_SIZE];
  mx_out_add(out, "memory report\n");
  put_line(out, "  ", report->is_resident_known ? "resident" : "touched by the library",
           report->resident, report->resident);
  put_report_rows(out, report);
  if (report->huge_os > 0) {
    mx_out_add(out, "  and in huge OS pages, which do not count as resident: %s\n",
               mx_amount_bytes(amount, (int64_t)report->huge_os));
  }
  if (report->swapped > 0) {
    mx_out_add(out, "  and swapped out: %s\n", mx_amount_bytes(amount, (int64_t)report->swapped));
  }
  if (!report->is_exact) {
    mx_out_add(out, "  The system does not say what is present: shown is what was touched.\n");
  }
  if (!report->is_resident_known) {
    mx_out_add(out, "  Nor is the resident size known: what is not the library's is left out.\n");
  }
  put_report_bins(out, report);
  put_report_heaps(out, report);
  put_advice(out, report);
}
