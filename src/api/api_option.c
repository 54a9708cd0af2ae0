// SPDX-License-Identifier: MIT
// The option calls of the interface: numbers in, values out (see service/option_names.h).
//
// The public numbers are those of base/options.h, which is checked here name by name. A program
// built for an older interface translates its numbers in the header.
#include "../../include/mimalloc.h"
#include "../service/option_names.h"

#define SAME_NUMBER(name, caps, least, most)                                 \
  mx_static_assert((int)mi_option_##name == (int)mx_opt_##name,              \
                   "the public option " #name " has the number of the inner one");
MX_OPTIONS(SAME_NUMBER)
mx_static_assert((int)_mi_option_last == (int)mx_opt_count, "both tables have the same length");

long mi_option_get(mi_option_t option) { return mx_option_get((int)option); }

long mi_option_get_clamp(mi_option_t option, long min, long max) {
  return mx_option_get_clamp((int)option, min, max);
}

size_t mi_option_get_size(mi_option_t option) { return mx_option_get_size((int)option); }

void mi_option_set(mi_option_t option, long value) { mx_option_set((int)option, value); }

void mi_option_set_default(mi_option_t option, long value) {
  mx_option_set_default((int)option, value);
}

bool mi_option_is_enabled(mi_option_t option) { return mi_option_get(option) != 0; }

void mi_option_set_enabled(mi_option_t option, bool enable) {
  mi_option_set(option, enable ? 1 : 0);
}

void mi_option_set_enabled_default(mi_option_t option, bool enable) {
  mi_option_set_default(option, enable ? 1 : 0);
}

void mi_option_enable(mi_option_t option) { mi_option_set_enabled(option, true); }

void mi_option_disable(mi_option_t option) { mi_option_set_enabled(option, false); }

void mi_options_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mx_options_print(out, arg);
}

void mi_options_print(void) mi_attr_noexcept { mi_options_print_out(NULL, NULL); }
