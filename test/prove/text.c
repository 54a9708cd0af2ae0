// SPDX-License-Identifier: MIT
// Proves of what reads and writes text: options, numbers and formats. No access beyond the input or
// the output, and what is written is what it should be.
#include "base/fmt.c"

// ---- the buffer --------------------------------------------------------------------------------

#define BUFFER 8
static char prove_buffer[BUFFER + 1];  // the last one is never the text's

static void check_text(const mx_text_t* text, size_t size) {
  claim(text->buf == prove_buffer && text->size == size);
  claim(size == 0 || (text->length < size && text->buf[text->length] == 0));
  claim(prove_buffer[size] == 'x');
}

// A text of any state that its invariant allows.
static void any_text(mx_text_t* text, size_t size) {
  for (size_t i = 0; i <= BUFFER; i++) prove_buffer[i] = 'x';
  mx_text_init(text, prove_buffer, size);
  if (size == 0) return;
  text->length = any_size(0, size - 1);
  prove_buffer[text->length] = 0;
}

// What a stream does: it takes all, or as much as it likes.
static void take_some(mx_text_t* text) {
  if (text->size == 0) return;
  text->length = any_size(0, text->length);
  text->buf[text->length] = 0;
}

// prove: a character keeps the text's invariant, and nothing is written behind the buffer; hence no
//   sequence of them does, of whatever length
// bound: all texts of up to eight bytes in any state, with and without a function for full ones
// unwind: 10
// builds: release64 release32
// mutant: base/fmt.c: if (text->length + 1 >= text->size) return; => if (text->length >= text->size) return;
void prove_text_char(void) {
  mx_text_t text;
  const size_t size = any_size(0, BUFFER);
  any_text(&text, size);
  if (nondet_bool()) text.full = take_some;
  mx_text_char(&text, (char)nondet_uint8());
  check_text(&text, size);
}

// ---- numbers -----------------------------------------------------------------------------------

static uint64_t value_of(const char* digits, size_t count, unsigned base) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; i++) {
    const char c = digits[i];
    claim((c >= '0' && c <= '9') || (base == 16 && c >= 'a' && c <= 'f'));
    value = value * base + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

static const conversion_t plain_conversion = {.precision = SIZE_MAX};

static void number(uint64_t value, unsigned base) {
  char buffer[24];
  mx_text_t text;
  mx_text_init(&text, buffer, sizeof(buffer));
  put_unsigned(&text, &plain_conversion, "", value, base, false);
  claim(text.length >= 1 && text.length <= 20);
  claim(value_of(buffer, text.length, base) == value);
  claim(buffer[0] != '0' || text.length == 1);
}

// prove: a number is written in digits that read as this number, without a zero in front
// bound: hexadecimal, all 64 bits
// unwind: 26
// builds: release64 release32
// mutant: base/fmt.c: while (value != 0); => while (value > 1);
void prove_text_hexadecimal(void) { number(nondet_uint64(), 16); }

// prove: the same
// bound: decimal, numbers below 10,000
// unwind: 7
// builds: release64 release32
// long: yes
// mutant: base/fmt.c: value % base => value % 9
void prove_text_decimal(void) { number(any_size(0, 9999), 10); }

// prove: widths and precisions of any size are read without a fault, and the letter is reached
// bound: all formats of up to six characters behind the %, without *
// unwind: 9
// builds: release64 release32
// mutant: base/fmt.c: if (flag) (*fmt)++; => if (flag) (*fmt) += 4;
void prove_text_conversion(void) {
  char format[7];
  for (size_t i = 0; i < 6; i++) {
    format[i] = (char)nondet_uint8();
    assume(format[i] != '*');
  }
  format[6] = 0;
  const char* at = format;
  conversion_t conv;
  arguments_t none;
  parse_conversion(&at, &none, &conv);
  claim(at >= format && at <= format + 6);
}
