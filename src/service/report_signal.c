// SPDX-License-Identifier: MIT
// A report when a signal asks for one. The handler only notes it: the report is printed at the
// next slow allocation of any thread, or by the background thread at once, through the hook that
// both look at.
#include "../base/hooks.h"
#include "../base/options.h"
#include "report.h"

static mx_atomic(int) report_wanted;
static mx_atomic(mx_visit_fn*) visit_before;  // what the hook was, if that is not over

static void visit_for_report(void) {
  mx_visit_fn* hooked = &visit_for_report;
  mx_visit_fn* const before = mx_exchange_acq_rel(&visit_before, (mx_visit_fn*)NULL);
  mx_cas_strong_acq_rel(&mx_hooks.slow_visit, &hooked, before);
  if (mx_exchange_acq_rel(&report_wanted, 0) != 0) {
    mx_report_t report;
    mx_out_t out;
    mx_report_take(&report);
    mx_out_open(&out, NULL, NULL);
    mx_report_text(&out, &report);
  }
  if (before != NULL) before();
}

// In the handler.
static void want_report(void) {
  mx_store_release(&report_wanted, 1);
  mx_visit_fn* const before = mx_exchange_acq_rel(&mx_hooks.slow_visit, &visit_for_report);
  if (before != &visit_for_report) mx_store_release(&visit_before, before);
  mx_arenas_wake_background();
}

void mx_report_init(void) {
  const long number = mx_option(report_signal);
  if (number <= 0 || mx_os_on_report_signal((int)number, &want_report)) return;
  mx_warning("option report_signal: there is no signal %ld, or it has a handler\n", number);
}
