// SPDX-License-Identifier: MIT
// Formatting without allocation: printf's useful half, written into a fixed buffer.
//
// It takes no lock, touches neither errno nor the locale, and uses no floating point, so it works
// before libc has started, inside malloc and inside a signal handler. A text is a buffer with a
// length. What does not fit is cut off, unless the text has a `full` function: that one empties
// the buffer (a stream) or finds a larger one (a growing string), and the rest follows.
//
// Understood: %% %c %s %d %i %u %x %X %p with the lengths l, ll and z; the flags '-', '0' and
// '+'; a width and a precision as digits or '*'. The precision cuts strings and has no other
// meaning. A NULL string prints as (null). Everything else is copied as it stands.
//
// Invariant: buf[length] is 0 and length < size, whenever size is not 0.
#ifndef MX_BASE_FMT_H
#define MX_BASE_FMT_H

#include <stdarg.h>

#include "compiler.h"

MX_BEGIN_DECLS

typedef struct mx_text_s mx_text_t;
struct mx_text_s {
  char* buf;
  size_t size;    // bytes of buf, with the final 0
  size_t length;  // characters in it, without the final 0
  void (*full)(mx_text_t* text);  // NULL: cut off
  void* arg;                      // for `full`
};

void mx_text_init(mx_text_t* text, char* buf, size_t size);
void mx_text_char(mx_text_t* text, char c);
void mx_text_vadd(mx_text_t* text, const char* fmt, va_list args);
mx_printf(2, 3) void mx_text_add(mx_text_t* text, const char* fmt, ...);
// Formats once into a buffer; the characters stored, without the final 0.
mx_printf(3, 4) size_t mx_format(char* buf, size_t size, const char* fmt, ...);

// Amounts for people, in a buffer of the caller's that is also the result, so that a row of a
// table can right-align it with %12s. One decimal, rounded to the nearest.
#define MX_AMOUNT_SIZE 32
// Bytes in binary units, all of them three wide: "384   B", "1.3 KiB", "-2.0 GiB".
const char* mx_amount_bytes(char* buf, int64_t bytes);
// Items in decimal units: "384  ", "1.3 K", "2.0 G".
const char* mx_amount_items(char* buf, int64_t items);
// A quotient with one decimal, "0.0" when the divisor is 0.
const char* mx_amount_ratio(char* buf, int64_t dividend, int64_t divisor);
// Milliseconds as seconds with three decimals: "0.018".
const char* mx_amount_seconds(char* buf, uint64_t msecs);

MX_END_DECLS

#endif
