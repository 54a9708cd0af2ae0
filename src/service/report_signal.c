// SPDX-License-Identifier: MIT
// Reports and profiles that a signal asks for. The handler only notes it: they are written at the
// next slow allocation of any thread, or by the background thread at once, through the hook that
// both look at.
#include "../base/hooks.h"
#include "../base/options.h"
#include "../profile/profile.h"
#include "report.h"

enum { WANT_REPORT = 1, WANT_PROFILE = 2 };

static mx_atomic(uint32_t) things_wanted;
static mx_atomic(mx_visit_fn*) visit_before;  // what the hook was, if that is not over
static mx_at_start int report_number, profile_number;  // of the signals; constant after the start

mx_noinline static void print_report(void) {
  mx_report_t report;
  mx_out_t out;
  mx_report_take(&report);
  mx_out_open(&out, NULL, NULL);
  mx_report_text(&out, &report);
}

static void visit_for_wishes(void) {
  mx_visit_fn* hooked = &visit_for_wishes;
  mx_visit_fn* const before = mx_exchange_acq_rel(&visit_before, (mx_visit_fn*)NULL);
  mx_cas_strong_acq_rel(&mx_visits.slow_visit, &hooked, before);
  const uint32_t wanted = mx_exchange_acq_rel(&things_wanted, (uint32_t)0);
  if ((wanted & WANT_REPORT) != 0) print_report();
  if ((wanted & WANT_PROFILE) != 0) mx_prof_dump_now();
  if (before != NULL) before();
}

static void want(uint32_t what) {
  mx_or_acq_rel(&things_wanted, what);
  mx_visit_fn* const before = mx_exchange_acq_rel(&mx_visits.slow_visit, &visit_for_wishes);
  if (before != &visit_for_wishes) mx_store_release(&visit_before, before);
  mx_arenas_wake_background();
}

// In the handler.
static void on_wish(int number) {
  uint32_t what = 0;
  if (number == report_number) what |= WANT_REPORT;
  if (number == profile_number) what |= WANT_PROFILE;
  want(what);
}

static void follow_signal(const char* option, int number) {
  if (number <= 0 || mx_host_on_wish_signal(number, &on_wish)) return;
  mx_warning("option %s: signal %d cannot be taken, or has a handler\n", option, number);
}

void mx_report_init(void) {
  report_number = (int)mx_option(report_signal);
  profile_number = (int)mx_option(prof_signal);
  follow_signal("report_signal", report_number);
  follow_signal("prof_signal", profile_number);
}
