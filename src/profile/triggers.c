// SPDX-License-Identifier: MIT
// What has a profile written without a call: the end of the process, so many bytes, a peak, memory
// that runs out; and a signal, which the service floor waits for.
//
// What depends on samples is looked at where one is taken. A profile is then written by the thread
// that takes it, in the middle of its allocation: dumps allocate nothing and take no lock for long.
#include <string.h>

#include "../alloc/sample.h"
#include "../host/process.h"
#include "profile.h"

#define NAME_MAX_LENGTH 1024
#define LIMIT_PAUSE 10000000000u  // ns between two profiles of memory that ran out

static char file_name[NAME_MAX_LENGTH];  // of MIMALLOC_PROF_FILE; constant after the start
static mx_at_start bool has_name;
static mx_at_start mx_atomic(bool) is_limit_passed;
static mx_atomic(uint64_t) allocated_then, peak_then, limit_then;  // at the last profile

static char lower(char c) { return (c >= 'A' && c <= 'Z') ? (char)(c - 'A' + 'a') : c; }

// A text is no option's value: those are numbers.
void mx_prof_read_file_name(void) {
  static const char name[] = "mimalloc_prof_file=";
  char** const environment = mx_os_environ();
  for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
    const char* const entry = environment[i];
    size_t n = 0;
    while (name[n] != 0 && lower(entry[n]) == name[n]) n++;
    if (name[n] != 0) continue;
    const size_t length = strlen(entry + n);
    if (length >= sizeof(file_name)) mx_warning("the name of prof_file is too long\n");
    else memcpy(file_name, entry + n, length + 1), has_name = (length > 0);
    return;
  }
}

void mx_prof_finish(void) {
  mx_prof_no_more_files();
  if (has_name && mx_prof_has_records() && mx_option(prof_at_exit) != 0) {
    mx_prof_dump_file(MX_PROF_LIVE, NULL, file_name);
  }
  mx_prof_end_unfinished();
}

void mx_prof_dump_now(void) {
  if (!mx_prof_has_records()) {
    mx_warning("there is no profile to write: the profiler was never started\n");
    return;
  }
  mx_prof_dump_file(MX_PROF_LIVE, NULL, file_name[0] != 0 ? file_name : "mimalloc.%p.%n.pb.gz");
}

// Whether a number is so much higher than it was the last time that this was true; once.
static bool has_passed(mx_atomic(uint64_t)* then, uint64_t now, uint64_t step) {
  uint64_t last = mx_load_relaxed(then);
  // All was forgotten in between.
  if (now < last && mx_cas_strong_acq_rel(then, &last, (uint64_t)0)) last = 0;
  return now >= last && now - last >= step && mx_cas_strong_acq_rel(then, &last, now);
}

// Whether memory that ran out shall be told of now.
static bool wants_limit(void) {
  if (mx_option(prof_at_limit) == 0 || !mx_prof_has_records()) return false;
  const uint64_t now = mx_host_clock_nsecs();
  uint64_t last = mx_load_relaxed(&limit_then);
  return (last == 0 || now - last >= LIMIT_PAUSE) && mx_cas_strong_acq_rel(&limit_then, &last, now);
}

void mx_prof_sample_taken(void) {
  const uint64_t interval = (uint64_t)mx_option(prof_interval);
  const uint64_t step = (uint64_t)mx_option(prof_peak);
  mx_prof_state_t state;
  bool is_due = mx_take_any(&is_limit_passed, false);
  if (interval != 0 || step != 0) {
    mx_prof_read_state(&state);
    if (interval > 0 && has_passed(&allocated_then, state.allocated, interval)) is_due = true;
    if (step > 0 && has_passed(&peak_then, state.peak, step)) is_due = true;
  }
  if (is_due) mx_prof_dump_now();
}

void mx_prof_limit_passed(void) {
  if (wants_limit()) mx_store_release(&is_limit_passed, true);
}

void mx_prof_no_memory(void) {
  const bool was_paused = mx_sample_pause(true);  // by a dump that is out of memory itself
  if (!was_paused && wants_limit()) mx_prof_dump_now();
  mx_sample_pause(was_paused);
}
