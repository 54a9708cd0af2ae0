// SPDX-License-Identifier: MIT
// The calls that ask about the library and the process, and set the functions that hear of them:
// version, handlers, process information.
#include "../../include/mimalloc.h"
#include "../service/log.h"
#include "../service/stats.h"

mx_static_assert(MX_VERSION == MI_MALLOC_VERSION, "header and library are of one release");

int mi_version(void) mi_attr_noexcept { return MX_VERSION; }

void mi_register_output(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mx_log_set_output(out, arg);
}

void mi_register_error(mi_error_fun* fun, void* arg) { mx_log_set_error(fun, arg); }

static void give(size_t* to, uint64_t value) {
  if (to != NULL) *to = (value > SIZE_MAX ? SIZE_MAX : (size_t)value);
}

void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                     size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                     size_t* peak_commit, size_t* page_faults) mi_attr_noexcept {
  mx_process_stats_t info;
  mx_process_stats(&info);
  give(elapsed_msecs, info.elapsed_msecs);
  give(user_msecs, info.user_msecs);
  give(system_msecs, info.system_msecs);
  give(current_rss, info.current_rss);
  give(peak_rss, info.peak_rss);
  give(current_commit, info.current_commit);
  give(peak_commit, info.peak_commit);
  give(page_faults, info.page_faults);
}

void mi_process_info_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mx_out_t to;
  mx_out_open(&to, out, arg);
  mx_stats_print_process(&to);
}

void mi_process_info_print(void) mi_attr_noexcept { mi_process_info_print_out(NULL, NULL); }
