// SPDX-License-Identifier: MIT
// Formatting without allocation: printf's useful half, written into a fixed buffer.
//
// It takes no lock, touches neither errno nor the locale, and uses no floating point, so it works
// before libc has started, inside malloc and inside a signal handler. A text is a buffer with a
// length. What does not fit is cut off, unless the text has a `full` function: that one empties
// the buffer (a stream) or finds a larger one (a growing string), and the rest follows.
//
// Understood: %% %c %s %d %i %u %x %X %p %B with the lengths l, ll and z; the flags '-', '0' and
// '+'; a width and a precision as digits or '*'. The precision cuts strings and has no other
// meaning. A NULL string prints as (null). %B prints as %p, and is kept for whoever has more to say
// of that address. Everything else is copied as it stands.
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
  const void* block;              // of the last %B
};

void mx_text_init(mx_text_t* text, char* buf, size_t size);
void mx_text_char(mx_text_t* text, char c);
void mx_text_vadd(mx_text_t* text, const char* fmt, va_list args);
mx_printf(2, 3) void mx_text_add(mx_text_t* text, const char* fmt, ...);
// Formats once into a buffer; the characters stored, without the final 0.
mx_printf(3, 4) size_t mx_format(char* buf, size_t size, const char* fmt, ...);

MX_END_DECLS

#endif
