// SPDX-License-Identifier: MIT
// The one message function behind mx_hooks, the stages of the output, and failed assertions.
//
// A message is formatted on the stack and delivered in one piece, so that lines of two threads do
// not mix. While a thread delivers, whatever it says in addition is dropped: a handler that
// allocates cannot make itself be called again. The kept output grows by a compare-and-swap and a
// copy, so a signal handler that interrupts a message cannot wait for it.
//
// Invariants: kept_length <= KEEP_SIZE; a byte of `kept` below it is 0 only while its writer
// is between the two steps.
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../base/check.h"
#include "../base/options.h"
#include "../mem/settings.h"
#include "../os/os.h"
#include "../os/thread.h"

#define KEEP_SIZE (16 * MX_KIB)
#define MESSAGE_SIZE 512

enum { STAGE_KEEP, STAGE_STDERR_AND_KEEP, STAGE_HANDLER, STAGE_STDERR };

static mx_at_start mx_atomic(int) stage;
static mx_atomic(long) shown_errors;
static mx_atomic(long) shown_warnings;
static mx_at_start mx_atomic(uintptr_t) main_thread;

static char kept[KEEP_SIZE + 1];
static mx_at_start mx_atomic(size_t) kept_length;

mx_used static mx_thread_local bool delivering;
mx_used static mx_thread_local bool in_error_handler;

// In passes, so many one in another, errors wait for their end: the first ones.
typedef struct held_s {
  uint8_t passes;
  uint8_t count;
  uint8_t codes[14];
} held_t;
mx_used static mx_thread_local held_t held;

// ---- receivers ---------------------------------------------------------------------------------

// What does not fit any more is not kept: the first messages tell more than the last.
static void keep(const char* text, size_t length) {
  size_t at = mx_load_relaxed(&kept_length);
  do {
    if (length > KEEP_SIZE - at) return;
  } while (!mx_cas_weak_acq_rel(&kept_length, &at, at + length));
  memcpy(kept + at, text, length);
}

// Sends everything kept, jumping over what other threads are about to fill in.
static void send_kept(mx_output_fun* fun, void* arg, size_t length) {
  for (size_t at = 0; at < length;) {
    const size_t n = strlen(kept + at);
    if (n == 0) {
      at++;
    } else {
      if (fun != NULL) fun(kept + at, arg);
      else mx_os_write_stderr(kept + at, n);
      at += n;
    }
  }
}

// Hands a text to the receiver of the present stage.
static void deliver(const char* text, size_t length) {
  if (length == 0 || mx_tls(delivering)) return;
  mx_tls(delivering) = true;
  const int now = mx_load_acquire(&stage);
  mx_output_fun* const fun = mx_load_acquire(&mx_settings.output_fun);
  void* const arg = mx_load_acquire(&mx_settings.output_arg);
  if (now == STAGE_HANDLER && fun != NULL && fun == mx_load_relaxed(&mx_settings.output_fun)) {
    fun(text, arg);
  } else {
    if (now <= STAGE_STDERR_AND_KEEP) keep(text, length);
    if (now != STAGE_KEEP) mx_os_write_stderr(text, length);
  }
  mx_tls(delivering) = false;
}

void mx_log_ready(void) {
  int expected = STAGE_KEEP;
  if (!mx_cas_strong_acq_rel(&stage, &expected, STAGE_STDERR_AND_KEEP)) return;
  send_kept(NULL, NULL, mx_load_acquire(&kept_length));
}

// Out of use while its argument changes, as the error function below.
static void set_output(mx_output_fun* out, void* arg) {
  const bool outer = mx_settings_open();
  mx_store_release(&mx_settings.output_fun, (mx_output_fun*)NULL);
  mx_store_release(&mx_settings.output_arg, arg);
  mx_store_release(&mx_settings.output_fun, out);
  mx_settings_close(outer);
}

void mx_log_set_output(mx_output_fun* out, void* arg) {
  const int saved = errno;
  if (out == NULL) {
    // A process that never became ready would otherwise lose what it has said so far.
    mx_log_ready();
    mx_store_release(&stage, (int)STAGE_STDERR);
    set_output(NULL, NULL);
  } else {
    set_output(out, arg);
    mx_store_release(&stage, (int)STAGE_HANDLER);
    const size_t length = mx_load_acquire(&kept_length);
    const bool outer = mx_tls(delivering);
    mx_tls(delivering) = true;
    send_kept(out, arg, length);
    mx_tls(delivering) = outer;
    // Nothing is kept from here on, so this is the last that anybody gets of it.
    mx_store_release(&kept_length, (size_t)0);
  }
  errno = saved;
}

// ---- print-outs --------------------------------------------------------------------------------

static void out_send(mx_text_t* line) {
  mx_out_t* const out = (mx_out_t*)line->arg;
  if (line->length == 0) return;
  const int saved = errno;
  if (out->fun == NULL) {
    deliver(line->buf, line->length);
  } else if (!mx_tls(delivering)) {
    mx_tls(delivering) = true;
    out->fun(line->buf, out->arg);
    mx_tls(delivering) = false;
  }
  errno = saved;
  line->length = 0;
}

void mx_out_open(mx_out_t* out, mx_output_fun* fun, void* arg) {
  // Never called when it is one of these, only compared: they are not functions at all.
  const uintptr_t raw = (uintptr_t)fun;
  const bool own = (raw == (uintptr_t)stdout || raw == (uintptr_t)stderr);
  out->fun = (own ? NULL : fun);
  out->arg = arg;
  mx_text_init(&out->line, out->buf, sizeof(out->buf));
  out->line.full = out_send;
  out->line.arg = out;
}

static void out_vadd(mx_out_t* out, const char* fmt, va_list args) {
  mx_text_vadd(&out->line, fmt, args);
  if (out->line.length > 0 && out->buf[out->line.length - 1] == '\n') out_send(&out->line);
}

void mx_out_add(mx_out_t* out, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  out_vadd(out, fmt, args);
  va_end(args);
}

void mx_out(mx_output_fun* fun, void* arg, const char* fmt, ...) {
  mx_out_t out;
  mx_out_open(&out, fun, arg);
  va_list args;
  va_start(args, fmt);
  out_vadd(&out, fmt, args);
  va_end(args);
  out_send(&out.line);
}

// ---- errors ------------------------------------------------------------------------------------

void mx_log_set_error(mx_error_fun* fun, void* arg) {
  const bool outer = mx_settings_open();
  mx_store_release(&mx_settings.error_fun, (mx_error_fun*)NULL);
  mx_store_release(&mx_settings.error_arg, arg);
  mx_store_release(&mx_settings.error_fun, fun);
  mx_settings_close(outer);
}

// The default policy: whether an error of this kind ends the process. Corruption always does in
// the builds that look for it, since going on would hand damaged memory out.
static bool error_is_fatal(int code) {
  const long policy = mx_option(abort_on_error);
  switch (code) {
    case EFAULT: return MX_DEBUG > 0 || MX_SECURE > 0 || policy > 0;
    case EAGAIN:
    case EINVAL: return policy > 0 || (policy < 0 && MX_SECURE >= 4);
    case ENOMEM:
    case EOVERFLOW: return MX_XMALLOC != 0;
    default: return false;
  }
}

// ---- messages ----------------------------------------------------------------------------------

static bool below_limit(mx_atomic(long)* shown, long limit) {
  if (mx_option(verbose) > 0 || limit < 0) return true;
  // Read first, so that an endless stream of errors cannot overflow the number.
  return mx_load_relaxed(shown) < limit && mx_add_relaxed(shown, 1L) < limit;
}

static bool is_shown(mx_level_t level) {
  const long verbose = mx_option(verbose);
  if (level == MX_TRACE) return verbose >= 2;
  if (level == MX_VERBOSE) return verbose >= 1;
  if (verbose < 1 && mx_option(show_errors) == 0) return false;
  return level == MX_ERROR ? below_limit(&shown_errors, mx_option(max_errors))
                           : below_limit(&shown_warnings, mx_option(max_warnings));
}

static void show(mx_level_t level, const char* fmt, va_list args) {
  char buf[MESSAGE_SIZE];
  mx_text_t text;
  // One byte is held back for the end of the line, which a long message must not lose.
  mx_text_init(&text, buf, sizeof(buf) - 1);
  mx_text_add(&text, "mimalloc: %s",
              level == MX_ERROR ? "error: " : (level == MX_WARNING ? "warning: " : ""));
  const uintptr_t thread = mx_thread_id();
  if (mx_load_relaxed(&main_thread) != thread) mx_text_add(&text, "thread 0x%zx: ", (size_t)thread);
  mx_text_vadd(&text, fmt, args);
  text.size++;
  if (buf[text.length - 1] != '\n') mx_text_char(&text, '\n');
  deliver(buf, text.length);
  if (text.block != NULL && mx_hooks.tell_origin != NULL) {
    mx_hooks.tell_origin(text.block, &deliver);
  }
}

// After the last message of a process: whatever stage it died in, the text must be seen.
mx_noreturn static void die(void) {
  mx_log_ready();
  mx_os_abort();
}

static void call_error_handler(int code) {
  mx_error_fun* const fun = mx_load_acquire(&mx_settings.error_fun);
  void* const arg = mx_load_acquire(&mx_settings.error_arg);
  // An error inside the handler is only printed: calling it again might never end.
  if (fun == NULL || fun != mx_load_relaxed(&mx_settings.error_fun)) return;
  if (mx_tls(in_error_handler)) return;
  mx_tls(in_error_handler) = true;
  fun(code, arg);
  mx_tls(in_error_handler) = false;
}

static void enter_or_leave_pass(bool begins) {
  held_t* const own = &mx_tls(held);
  own->passes = (uint8_t)(own->passes + (begins ? 1 : -1));
  if (own->passes > 0) return;
  const held_t found = *own;
  own->count = 0;
  const int saved = errno;
  for (size_t i = 0; i < found.count; i++) call_error_handler(found.codes[i]);
  errno = saved;
}

static void tell_handler(int code) {
  held_t* const own = &mx_tls(held);
  if (!MX_PADDING || own->passes == 0) call_error_handler(code);
  else if (own->count < sizeof(own->codes)) own->codes[own->count++] = (uint8_t)code;
}

static void message(mx_level_t level, int code, const char* fmt, ...) {
  const int saved = errno;
  // An error that ends the process is shown whatever the options say.
  const bool has_handler = (mx_load_relaxed(&mx_settings.error_fun) != NULL);
  const bool fatal = (level == MX_ERROR && !has_handler && error_is_fatal(code));
  if (is_shown(level) || fatal) {
    va_list args;
    va_start(args, fmt);
    show(level, fmt, args);
    va_end(args);
  }
  if (fatal) die();
  if (level == MX_ERROR) tell_handler(code);
  errno = saved;
}

void mx_log_init(void) {
  uintptr_t none = 0;
  mx_cas_strong_acq_rel(&main_thread, &none, mx_thread_id());
  if (MX_READ_ONLY && mx_hooks.message != NULL) return;
  mx_hooks.message = message;
  if (MX_PADDING) mx_hooks.hold_errors = enter_or_leave_pass;
}

void mx_assert_fail(const char* expr, const char* file, unsigned line, const char* func) {
  char buf[MESSAGE_SIZE];
  const size_t length =
      mx_format(buf, sizeof(buf), "mimalloc: assertion failed: at \"%s\":%u, %s\n"
                "  assertion: \"%s\"\n", file, line, func, expr);
  // Inside a delivery the handler cannot be trusted with it.
  if (mx_tls(delivering)) mx_os_write_stderr(buf, length);
  else deliver(buf, length);
  die();
}
