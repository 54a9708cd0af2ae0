// SPDX-License-Identifier: MIT
// A fuzz target: each input is an environment, one variable in a line. Options must take what it
// says or stay as they were, and nothing else may happen.
//
// The source itself is part of this program, so that the environment can be read more than once.
#include "../../src/service/option_names.c"

#include <string.h>

#include "fuzz.h"

#define LINES_MAX 64

extern char** environ;

static void begin_anew(const long* values) {
  const bool outer = mx_settings_open();
  mx_store_relaxed(&is_read, 0);
  for (int i = 0; i < mx_opt_count; i++) {
    mx_store_relaxed(&origins[i], FROM_DEFAULT);
    mx_store_relaxed(&mx_option_values[i], values[i]);
  }
  mx_settings_close(outer);
}

// What a value must be for an option of this kind, whatever the text.
static void check(int option, long before) {
  const long now = mx_option_get(option);
  if (mx_option_is_size(option) && now != before) {
    REQUIRE(now >= 0 && (size_t)now <= MX_MAX_ALLOC / MX_KIB);
  }
  // Given once more in digits, it means the same.
  char text[32];
  snprintf(text, sizeof(text), "%ld", now);
  long again = now - 1;
  if (!mx_option_is_size(option) && now != LONG_MIN) {
    REQUIRE(mx_option_parse(text, false, &again) && again == now);
  }
}

static void swallow(const char* text, void* arg) {
  (void)arg;
  REQUIRE(strlen(text) < 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static long defaults[mx_opt_count];
  static bool started;
  if (!started) {
    started = true;
    for (int i = 0; i < mx_opt_count; i++) defaults[i] = mx_load_relaxed(&mx_option_values[i]);
    mx_log_init();
    mx_log_ready();
    mx_log_set_output(swallow, NULL);
  }
  // Two copies: the first line of a name counts, so the order is part of what is tested.
  char* const text = (char*)malloc(size + 1);
  memcpy(text, data, size);
  text[size] = 0;
  char* lines[LINES_MAX + 1];
  size_t count = 0;
  for (char* p = text; count < LINES_MAX && p < text + size;) {
    char* const end = p + strcspn(p, "\n");
    const bool last = (end >= text + size);
    *end = 0;
    lines[count++] = p;
    if (last) break;
    p = end + 1;
  }
  lines[count] = NULL;
  begin_anew(defaults);
  char** const real = environ;
  environ = lines;
  mx_options_init();
  environ = real;
  for (int i = 0; i < mx_opt_count; i++) check(i, defaults[i]);
  mx_options_print(swallow, NULL);
  begin_anew(defaults);
  free(text);
  return 0;
}
