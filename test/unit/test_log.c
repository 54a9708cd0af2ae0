// SPDX-License-Identifier: MIT
// Tests service/log: the three stages of the output, the recursion guard, limits, prefixes, the
// error handler and which errors end the process.
//
// The stages are state of the process, so each case is a child of its own; the parent compares all
// that it wrote to stderr, and how it ended, with what the case says.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "../../src/base/check.h"
#include "../../src/base/config.h"
#include "../../src/os/os.h"
#include "../../src/service/log.h"
#include "../../src/service/option_names.h"
#include "../child.h"

static int failures;

#define CHECK(cond) \
  do {              \
    if (!(cond)) { fprintf(stderr, "line %d: %s\n", __LINE__, #cond); _exit(1); } \
  } while (0)

typedef struct case_s { void (*body)(void); } case_t;

static void be_case(const void* argument) {
  clearenv();
  mx_options_init();
  mx_option_set(mx_opt_show_errors, 1);
  ((const case_t*)argument)->body();
  _exit(0);
}

// Runs `body` with errors shown; `want` NULL leaves the text to the caller.
static void run(void (*body)(void), int want_signal, const char* want, const char* what) {
  const case_t one = {body};
  run_child(be_case, &one);
  const bool ended = (want_signal == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                                       : WIFSIGNALED(status) && WTERMSIG(status) == want_signal);
  if (ended && (want == NULL || strcmp(said, want) == 0)) return;
  printf("FAIL %s: status %x, said:\n%s\nwanted:\n%s\n", what, (unsigned)status, said,
         want == NULL ? "(anything)" : want);
  failures++;
}

static char received[64 * 1024];
static size_t calls;
static size_t longest;

static void receive(const char* text, void* arg) {
  CHECK(arg == (void*)&calls);
  calls++;
  if (strlen(text) > longest) longest = strlen(text);
  strcat(received, text);
}

// ---- stages ------------------------------------------------------------------------------------

static void kept_until_ready(void) {
  mx_warning("one");
  mx_error(0, "two %d\n", 2);
  mx_os_write_stderr("|", 1);
  mx_log_ready();
  mx_os_write_stderr("|", 1);
  mx_warning("three\n");
  mx_log_ready();
}

static void handler_gets_history_once(void) {
  mx_warning("one\n");
  mx_log_ready();
  mx_warning("two\n");
  mx_log_set_output(receive, &calls);
  CHECK(strcmp(received, "mimalloc: warning: one\nmimalloc: warning: two\n") == 0);
  mx_warning("three\n");
  CHECK(strstr(received, "two\nmimalloc: warning: three\n") != NULL);
  received[0] = 0;
  mx_log_set_output(receive, &calls);
  CHECK(received[0] == 0);
  mx_out(NULL, NULL, "print-out\n");
  CHECK(strcmp(received, "print-out\n") == 0);
  mx_os_write_stderr("|", 1);
  mx_log_set_output(NULL, NULL);
  mx_warning("four\n");
  mx_log_set_output(receive, &calls);
  CHECK(strcmp(received, "print-out\n") == 0);
}

static void null_before_ready_loses_nothing(void) {
  mx_warning("one\n");
  mx_log_set_output(NULL, NULL);
  mx_warning("two\n");
}

static void early_flood_keeps_the_first(void) {
  mx_option_set(mx_opt_max_warnings, -1);
  for (int i = 0; i < 2000; i++) mx_warning("number %d\n", i);
  mx_log_ready();
}

// ---- guards ------------------------------------------------------------------------------------

static void chatty(const char* text, void* arg) {
  mx_warning("never seen\n");
  mx_out(receive, &calls, "nor this\n");
  receive(text, arg);
}

static void recursion_is_dropped(void) {
  mx_log_set_output(chatty, &calls);
  mx_warning("one\n");
  mx_warning("two\n");
  CHECK(calls == 2);
  CHECK(strcmp(received, "mimalloc: warning: one\nmimalloc: warning: two\n") == 0);
  received[0] = 0;
  mx_out(chatty, &calls, "three\n");
  CHECK(strcmp(received, "three\n") == 0);
}

static void limits(void) {
  mx_log_ready();
  mx_option_set(mx_opt_max_errors, 2);
  mx_option_set(mx_opt_max_warnings, 1);
  for (int i = 0; i < 5; i++) mx_error(0, "e%d\n", i);
  for (int i = 0; i < 5; i++) mx_warning("w%d\n", i);
  mx_verbose("not shown\n");
  mx_option_set(mx_opt_max_errors, -1);
  mx_error(0, "unlimited\n");
  mx_option_set(mx_opt_max_errors, 0);
  mx_error(0, "not shown\n");
  mx_option_set(mx_opt_verbose, 1);
  mx_option_set(mx_opt_show_errors, 0);
  mx_error(0, "e5\n");
  mx_verbose("v\n");
  mx_message(MX_TRACE, 0, "not shown\n");
  mx_option_set(mx_opt_verbose, 2);
  mx_message(MX_TRACE, 0, "t\n");
  mx_option_set(mx_opt_verbose, 0);
  mx_error(0, "not shown\n");
  mx_warning("not shown\n");
}

static void* speak(void* arg) {
  (void)arg;
  mx_error(0, "hello\n");
  mx_verbose("hello\n");
  return NULL;
}

static void other_threads_say_who(void) {
  pthread_t thread;
  mx_log_ready();
  mx_option_set(mx_opt_verbose, 1);
  CHECK(pthread_create(&thread, NULL, speak, NULL) == 0);
  pthread_join(thread, NULL);
}

static void long_texts(void) {
  static char big[3000];
  memset(big, 'x', sizeof(big) - 1);
  mx_log_set_output(receive, &calls);
  mx_warning("%s", big);
  CHECK(calls == 1 && longest == 511 && received[510] == '\n' && received[511] == 0);
  received[0] = 0;
  calls = longest = 0;
  mx_out(receive, &calls, "<%s>\n", big);
  CHECK(strlen(received) == sizeof(big) - 1 + 3 && longest <= 255 && calls == 12);
  CHECK(received[0] == '<' && strcmp(received + sizeof(big), ">\n") == 0);
}

static void lines_are_sent_whole(void) {
  mx_out_t out;
  mx_out_open(&out, receive, &calls);
  mx_out_add(&out, "a %d", 1);
  mx_out_add(&out, " b %d", 2);
  CHECK(calls == 0);
  mx_out_add(&out, "\n");
  CHECK(calls == 1 && strcmp(received, "a 1 b 2\n") == 0);
  mx_out_add(&out, "the next");
  CHECK(calls == 1);
  mx_out(receive, &calls, "rest");
  CHECK(calls == 2 && strcmp(received, "a 1 b 2\nrest") == 0);
}

static void old_callers_pass_a_stream(void) {
  mx_log_ready();
  mx_output_fun* fun = NULL;
  FILE* streams[] = {stdout, stderr};
  for (size_t i = 0; i < 2; i++) {
    memcpy(&fun, &streams[i], sizeof(fun));
    mx_out(fun, NULL, "stream %zu\n", i);
  }
}

// ---- errors ------------------------------------------------------------------------------------

static int last_code;
static int errors;

static void on_error(int code, void* arg) {
  CHECK(arg == (void*)&errors);
  last_code = code;
  errors++;
  errno = ERANGE;
  if (errors == 1) mx_error(EINVAL, "inside\n");
}

static void handler_always_runs(void) {
  mx_log_ready();
  mx_log_set_error(on_error, &errors);
  errno = EDOM;
  mx_error(EFAULT, "first\n");
  CHECK(errors == 1 && last_code == EFAULT && errno == EDOM);
  mx_option_set(mx_opt_show_errors, 0);
  mx_error(ENOMEM, "not shown\n");
  CHECK(errors == 2 && last_code == ENOMEM);
  mx_option_set(mx_opt_abort_on_error, 1);
  mx_error(EAGAIN, "not shown\n");
  CHECK(errors == 3 && last_code == EAGAIN);
  mx_warning("not shown\n");
  CHECK(errors == 3);
}

static int the_code;
static long the_policy;

static void default_policy(void) {
  mx_option_set(mx_opt_show_errors, 0);
  mx_option_set(mx_opt_abort_on_error, the_policy);
  mx_log_set_error(on_error, &errors);
  mx_log_set_error(NULL, NULL);
  mx_error(the_code, "block %d\n", 7);
}

static void test_default_policy(void) {
  static const struct {
    int code;
    long policy;
    bool fatal;
  } table[] = {
      {EFAULT, -1, MX_DEBUG > 0 || MX_SECURE > 0},
      {EFAULT, 0, MX_DEBUG > 0 || MX_SECURE > 0},
      {EFAULT, 1, true},
      {EAGAIN, -1, MX_SECURE >= 4},
      {EAGAIN, 0, false},
      {EAGAIN, 1, true},
      {EINVAL, -1, MX_SECURE >= 4},
      {EINVAL, 0, false},
      {EINVAL, 1, true},
      {ENOMEM, 1, MX_XMALLOC != 0},
      {EOVERFLOW, 1, MX_XMALLOC != 0},
      {ENOMEM, -1, MX_XMALLOC != 0},
      {0, 1, false},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    the_code = table[i].code;
    the_policy = table[i].policy;
    char what[64];
    snprintf(what, sizeof(what), "code %d, abort_on_error %ld", the_code, the_policy);
    run(default_policy, table[i].fatal ? SIGABRT : 0,
        table[i].fatal ? "mimalloc: error: block 7\n" : "", what);
  }
}

static void failed_assertion(void) { mx_assert_fail("a == b", "file.c", 42, "function"); }

static void expect(bool ok, const char* what) {
  if (ok) return;
  printf("FAIL %s: said:\n%s\n", what, said);
  failures++;
}

int main(void) {
  run(kept_until_ready, 0,
      "|mimalloc: warning: one\nmimalloc: error: two 2\n|mimalloc: warning: three\n", "keep");
  run(handler_gets_history_once, 0,
      "mimalloc: warning: one\nmimalloc: warning: two\n|mimalloc: warning: four\n", "handler");
  run(null_before_ready_loses_nothing, 0, "mimalloc: warning: one\nmimalloc: warning: two\n",
      "early NULL");
  run(early_flood_keeps_the_first, 0, NULL, "early flood");
  expect(strncmp(said, "mimalloc: warning: number 0\n", 28) == 0 &&
             strstr(said, "warning: number 400\n") != NULL && strlen(said) <= 16 * 1024 &&
             strlen(said) > 15 * 1024 && strstr(said, "number 1999") == NULL, "early flood");
  run(recursion_is_dropped, 0, "", "recursion");
  run(limits, 0,
      "mimalloc: error: e0\nmimalloc: error: e1\nmimalloc: warning: w0\n"
      "mimalloc: error: unlimited\nmimalloc: error: e5\nmimalloc: v\nmimalloc: t\n", "limits");
  run(other_threads_say_who, 0, NULL, "threads");
  unsigned long id = 0, id2 = 1;
  expect(sscanf(said, "mimalloc: error: thread 0x%lx: hello\nmimalloc: thread 0x%lx: hello\n", &id,
                &id2) == 2 && id == id2 && id != 0, "threads");
  run(long_texts, 0, "", "long texts");
  run(lines_are_sent_whole, 0, "", "lines");
  run(old_callers_pass_a_stream, 0, "stream 0\nstream 1\n", "streams");
  run(handler_always_runs, 0, "mimalloc: error: first\nmimalloc: error: inside\n", "error handler");
  test_default_policy();
  run(failed_assertion, SIGABRT,
      "mimalloc: assertion failed: at \"file.c\":42, function\n  assertion: \"a == b\"\n",
      "assertion");
  if (failures == 0) printf("log: ok\n");
  return failures != 0;
}
