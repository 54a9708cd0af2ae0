// SPDX-License-Identifier: MIT
// Proves of the values of options: every text is read within its end, and means what it says.
#include "service/option_names.c"

static char prove_text[25];

static size_t any_text(size_t most) {
  const size_t length = any_size(0, most);
  for (size_t i = 0; i < most; i++) {
    prove_text[i] = (char)nondet_uint8();
    assume(i >= length || prove_text[i] != 0);
    if (i >= length) prove_text[i] = 0;
  }
  return length;
}

// prove: every text is read within its end; a size is then no larger than the largest there is, with either sign
// bound: all texts of up to 24 characters
// unwind: 27
// mutant: service/option_names.c: while (*word != 0 && to_upper(*text) == *word) text++, word++; => while (to_upper(*text) == *word) text++, word++;
void prove_option_is_read_within(void) {
  any_text(24);
  long value = -7;
  const bool is_size = nondet_bool();
  const bool is_good = mx_option_parse(prove_text, is_size, &value);
  claim(is_good || value == -7);
  if (is_good && is_size) claim(value >= -MX_KIB_MAX && value <= MX_KIB_MAX);
}

// prove: digits mean their number, and a sign its negative
// bound: all numbers of up to five digits
// unwind: 9
// mutant: service/option_names.c: number = number * 10 + digit; => number = number * 10 + digit + (number > 9998);
void prove_option_numbers(void) {
  const size_t length = any_text(6);
  const bool negative = (prove_text[0] == '-');
  assume(length > (negative ? 2 : 1));  // one digit may be a word for yes or no
  long wanted = 0;
  for (size_t i = (negative ? 1 : 0); i < length; i++) {
    assume(prove_text[i] >= '0' && prove_text[i] <= '9');
    wanted = wanted * 10 + (prove_text[i] - '0');
  }
  long value = 0;
  claim(mx_option_parse(prove_text, false, &value));
  claim(value == (negative ? -wanted : wanted));
}

// prove: a size is its number times its unit in KiB, rounded up, never less than what was asked for,
//   and bounded
// bound: all numbers and units
// mutant: service/option_names.c: (bytes % MX_KIB != 0) => 0
void prove_option_sizes(void) {
  const size_t number = nondet_size();
  const size_t unit = (size_t)1 << (10 * any_size(0, MX_64BIT ? 4 : 3));
  const long kib = to_kib(number, unit, false);
  claim(kib >= 0 && kib <= MX_KIB_MAX);
  size_t bytes;
  if (mx_mul_overflow(number, unit, &bytes) || kib == MX_KIB_MAX) return;
  claim((size_t)kib * MX_KIB >= bytes && (size_t)kib * MX_KIB - bytes < MX_KIB);
}

// prove: a value that is beyond its option's range becomes the nearer end
// bound: all options and values
// mutant: service/option_names.c: value < range->least ? range->least => value <= range->least ? range->most
void prove_option_ranges(void) {
  const int option = (int)any_size(0, mx_opt_count - 1);
  const long value = (long)nondet_size();
  const long got = mx_option_clamp(option, value);
  const option_range_t* const range = &option_ranges[option];
  claim(range->least <= range->most);
  claim(got >= range->least && got <= range->most);
  claim(got == value || value < range->least || value > range->most);
}
