// SPDX-License-Identifier: MIT
// Everything that the library says, and to whom: messages, the output handler, the error
// handler and what an error does to the process.
//
// Output goes through three stages. Until mx_log_ready it is only kept (16 KiB), since nothing may
// be written before the process is up. From then on it goes to stderr and is kept as well. A
// handler of the user's receives what was kept, once, and is from then on the only receiver;
// taking it away leaves stderr alone. Nothing here allocates, locks or changes errno.
#ifndef MX_SERVICE_LOG_H
#define MX_SERVICE_LOG_H

#include "../base/fmt.h"
#include "../base/hooks.h"
#include "../base/options.h"

MX_BEGIN_DECLS


// Registers mx_hooks.message. The caller becomes the main thread, whose messages have no thread
// in front. Any number of calls.
void mx_log_init(void);
// The process is up: writes what was kept to stderr and opens it.
void mx_log_ready(void);
void mx_log_set_output(mx_output_fun* out, void* arg);  // NULL: stderr
void mx_log_set_error(mx_error_fun* fun, void* arg);    // NULL: the default handler

// Where a print-out goes, in lines of at most 255 characters. A line is sent when it ends or is
// full, so a print-out ends with the end of a line.
#define MX_OUT_LINE 256
typedef struct mx_out_s {
  mx_output_fun* fun;  // NULL: the log's own receiver
  void* arg;
  mx_text_t line;
  char buf[MX_OUT_LINE];
} mx_out_t;

// `fun` may be NULL or, as old callers do, stdout or stderr: all of them mean the log's receiver.
void mx_out_open(mx_out_t* out, mx_output_fun* fun, void* arg);
mx_printf(2, 3) void mx_out_add(mx_out_t* out, const char* fmt, ...);
// One open and add; what is open at the end goes out as well.
mx_printf(3, 4) void mx_out(mx_output_fun* fun, void* arg, const char* fmt, ...);

MX_END_DECLS

#endif
