// SPDX-License-Identifier: MIT
// The implementation of fmt.h: one pass over the format, each conversion in a small buffer.
#include "fmt.h"

#include "bits.h"

// A parsed conversion: what stands between '%' and its letter.
typedef struct conversion_s {
  size_t width;
  size_t precision;  // SIZE_MAX: none
  bool left, zero, plus;
  unsigned length;  // how many l; z counts as the length of a size_t
} conversion_t;

#define LENGTH_SIZE 3  // the z of %zu

void mx_text_init(mx_text_t* text, char* buf, size_t size) {
  text->buf = buf;
  text->size = size;
  text->length = 0;
  text->full = NULL;
  text->arg = NULL;
  text->block = NULL;
  if (size != 0) buf[0] = 0;
}

void mx_text_char(mx_text_t* text, char c) {
  if (text->length + 1 >= text->size) {
    if (text->full == NULL) return;
    text->full(text);
    if (text->length + 1 >= text->size) return;
  }
  text->buf[text->length++] = c;
  // Kept at every step, since `full` may hand the buffer on as a string at any of them.
  text->buf[text->length] = 0;
}

static void put_repeated(mx_text_t* text, char c, size_t count) {
  while (count-- > 0) mx_text_char(text, c);
}

// Pads `sign` and `digits` to the width: zeros go between them, blanks outside of both.
static void put_padded(mx_text_t* text, const conversion_t* conv, const char* sign,
                       const char* digits, size_t digit_count) {
  size_t sign_count = 0;
  while (sign[sign_count] != 0) sign_count++;
  const size_t used = sign_count + digit_count;
  const size_t pad = (conv->width > used ? conv->width - used : 0);
  if (!conv->left && !conv->zero) put_repeated(text, ' ', pad);
  for (size_t i = 0; i < sign_count; i++) mx_text_char(text, sign[i]);
  if (!conv->left && conv->zero) put_repeated(text, '0', pad);
  for (size_t i = 0; i < digit_count; i++) mx_text_char(text, digits[i]);
  if (conv->left) put_repeated(text, ' ', pad);
}

static void put_unsigned(mx_text_t* text, const conversion_t* conv, const char* sign,
                         unsigned long long value, unsigned base, bool upper) {
  const char* const digit = (upper ? "0123456789ABCDEF" : "0123456789abcdef");
  char digits[24];  // 20 decimal digits hold 2^64
  size_t at = sizeof(digits);
  do {
    digits[--at] = digit[value % base];
    value /= base;
  } while (value != 0);
  put_padded(text, conv, sign, digits + at, sizeof(digits) - at);
}

static void put_signed(mx_text_t* text, const conversion_t* conv, long long value) {
  // Negated as unsigned: the smallest value has no positive counterpart.
  const unsigned long long size =
      (value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value);
  put_unsigned(text, conv, value < 0 ? "-" : (conv->plus ? "+" : ""), size, 10, false);
}

static void put_string(mx_text_t* text, conversion_t* conv, const char* s) {
  if (s == NULL) s = "(null)";
  size_t count = 0;
  while (count < conv->precision && s[count] != 0) count++;
  conv->zero = false;
  put_padded(text, conv, "", s, count);
}

// va_list is an array on some systems and a value on others; inside a struct it can be passed by
// address on both.
typedef struct arguments_s {
  va_list list;
} arguments_t;

static long long next_signed(arguments_t* args, unsigned length) {
  switch (length) {
    case 0: return va_arg(args->list, int);
    case 1: return va_arg(args->list, long);
    case 2: return va_arg(args->list, long long);
    default: return va_arg(args->list, ptrdiff_t);
  }
}

static unsigned long long next_unsigned(arguments_t* args, unsigned length) {
  switch (length) {
    case 0: return va_arg(args->list, unsigned);
    case 1: return va_arg(args->list, unsigned long);
    case 2: return va_arg(args->list, unsigned long long);
    default: return va_arg(args->list, size_t);
  }
}

static size_t parse_number(const char** fmt, arguments_t* args, bool* negative) {
  if (**fmt == '*') {
    (*fmt)++;
    const int n = va_arg(args->list, int);
    *negative = (n < 0);
    return (size_t)(n < 0 ? -(long long)n : n);
  }
  size_t n = 0;
  while (**fmt >= '0' && **fmt <= '9') n = n * 10 + (size_t)(*(*fmt)++ - '0');
  return n;
}

// Reads flags, width, precision and length; leaves *fmt at the letter.
static void parse_conversion(const char** fmt, arguments_t* args, conversion_t* conv) {
  conv->width = 0;
  conv->precision = SIZE_MAX;
  conv->left = conv->zero = conv->plus = false;
  conv->length = 0;
  for (bool flag = true; flag;) {
    switch (**fmt) {
      case '-': conv->left = true; break;
      case '0': conv->zero = true; break;
      case '+': conv->plus = true; break;
      default: flag = false; break;
    }
    if (flag) (*fmt)++;
  }
  bool negative = false;
  conv->width = parse_number(fmt, args, &negative);
  if (negative) conv->left = true;
  if (**fmt == '.') {
    (*fmt)++;
    negative = false;
    conv->precision = parse_number(fmt, args, &negative);
    if (negative) conv->precision = SIZE_MAX;
  }
  while (**fmt == 'l' || **fmt == 'z') {
    conv->length = (**fmt == 'z' ? LENGTH_SIZE : (conv->length == 0 ? 1 : 2));
    (*fmt)++;
  }
}

// Prints one conversion; false when its letter is unknown.
static bool put_conversion(mx_text_t* text, arguments_t* args, conversion_t* conv, char letter) {
  switch (letter) {
    case '%': mx_text_char(text, '%'); return true;
    case 'c': {
      const char c = (char)va_arg(args->list, int);
      put_padded(text, conv, "", &c, 1);
      return true;
    }
    case 's': put_string(text, conv, va_arg(args->list, const char*)); return true;
    case 'd':
    case 'i': put_signed(text, conv, next_signed(args, conv->length)); return true;
    case 'u':
    case 'x':
    case 'X':
      put_unsigned(text, conv, "", next_unsigned(args, conv->length), letter == 'u' ? 10 : 16,
                   letter == 'X');
      return true;
    case 'B':
    case 'p': {
      const void* const p = va_arg(args->list, const void*);
      if (letter == 'B') text->block = p;
      put_unsigned(text, conv, "0x", (uintptr_t)p, 16, false);
      return true;
    }
    default: return false;
  }
}

void mx_text_vadd(mx_text_t* text, const char* fmt, va_list list) {
  arguments_t args;
  va_copy(args.list, list);
  while (*fmt != 0) {
    if (*fmt != '%') {
      mx_text_char(text, *fmt++);
      continue;
    }
    const char* const start = fmt++;
    conversion_t conv;
    parse_conversion(&fmt, &args, &conv);
    if (*fmt != 0 && put_conversion(text, &args, &conv, *fmt)) {
      fmt++;
    } else {
      for (const char* s = start; s < fmt; s++) mx_text_char(text, *s);
    }
  }
  va_end(args.list);
}

void mx_text_add(mx_text_t* text, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  mx_text_vadd(text, fmt, args);
  va_end(args);
}

size_t mx_format(char* buf, size_t size, const char* fmt, ...) {
  mx_text_t text;
  mx_text_init(&text, buf, size);
  va_list args;
  va_start(args, fmt);
  mx_text_vadd(&text, fmt, args);
  va_end(args);
  return text.length;
}
