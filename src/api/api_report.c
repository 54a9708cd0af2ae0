// SPDX-License-Identifier: MIT
// The call of the public interface that prints a report.
#include "../../include/mimalloc.h"
#include "../service/report.h"

bool mi_report(mi_report_format_t format, mi_output_fun* out, void* arg) mi_attr_noexcept {
  mx_report_t report;
  mx_out_t to;
  mx_out_open(&to, out, arg);
  if ((int)format < MI_REPORT_TEXT || (int)format > MI_REPORT_METRICS) return false;
  mx_report_take(&report);
  switch (format) {
    case MI_REPORT_JSON: mx_report_json(&to, &report); break;
    case MI_REPORT_METRICS: mx_report_metrics(&to, &report); break;
    default: mx_report_text(&to, &report); break;
  }
  return true;
}
