// SPDX-License-Identifier: MIT
// A fuzz target: the reader of numbers and sizes next to one that is written differently, and the
// formatter next to the C library's.
#include <limits.h>
#include <string.h>

#include "../../src/base/config.h"
#include "../../src/base/fmt.h"
#include "../../src/service/amounts.h"
#include "../../src/service/option_names.h"
#include "fuzz.h"

#define SIZE_KIB_MAX ((long)(PTRDIFF_MAX / 1024))

// ---- reading -----------------------------------------------------------------------------------

static bool is_one_of(const char* text, const char* list) {
  char key[16];
  const size_t length = strlen(text);
  if (length > 8) return false;
  key[0] = ' ';
  for (size_t i = 0; i < length; i++) {
    const char c = text[i];
    key[i + 1] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  key[length + 1] = ' ';
  key[length + 2] = 0;
  return strstr(list, key) != NULL && strchr(text, ' ') == NULL;
}

// 128 bits hold any 64 digits that matter: beyond 2^100 a number stays there.
static bool parse_slowly(const char* text, bool is_size, long* value) {
  if (strlen(text) > 64) return false;
  if (text[0] == 0 || is_one_of(text, " 1 true yes on ")) return *value = 1, true;
  if (is_one_of(text, " 0 false no off ")) return *value = 0, true;
  text += strspn(text, " \t");
  const bool negative = (*text == '-');
  if (negative || *text == '+') text++;
  const size_t digits = strspn(text, "0123456789");
  if (digits == 0) return false;
  unsigned __int128 n = 0;
  for (size_t i = 0; i < digits; i++) {
    n = n * 10 + (unsigned)(text[i] - '0');
    if (n >> 100) n = (unsigned __int128)1 << 100;
  }
  const char* const unit = text + digits;
  if (!is_size) {
    if (*unit != 0) return false;
    if (n > (unsigned __int128)LONG_MAX) n = (unsigned __int128)LONG_MAX;
    *value = negative ? -(long)n : (long)n;
    return true;
  }
  static const char* const units[] = {"", "b", "k", "kb", "kib", "m", "mb", "mib",
                                      "g", "gb", "gib", "t", "tb", "tib"};
  static const int shifts[] = {0, 0, 10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40};
  for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
    const size_t length = strlen(units[i]);
    if (strlen(unit) != length) continue;
    size_t k = 0;
    while (k < length && (unit[k] | 0x20) == units[i][k]) k++;
    if (k < length) continue;
    if (n > ((unsigned __int128)1 << 64)) n = (unsigned __int128)1 << 64;
    const unsigned __int128 kib = ((n << shifts[i]) + 1023) >> 10;
    *value = kib > (unsigned __int128)SIZE_KIB_MAX ? SIZE_KIB_MAX : (long)kib;
    if (negative) *value = -*value;
    return true;
  }
  return false;
}

static void check_reading(const char* text) {
  for (int is_size = 0; is_size < 2; is_size++) {
    long value = 4711, expected = 4711;
    const bool ok = mx_option_parse(text, is_size, &value);
    REQUIRE(ok == parse_slowly(text, is_size, &expected));
    REQUIRE(value == expected);
  }
}

// ---- writing -----------------------------------------------------------------------------------

// A format of the kind that both know, made of the input; the argument is the same number.
static void check_writing(const uint8_t* data, size_t size) {
  if (size < 12) return;
  uint64_t number;
  memcpy(&number, data, 8);
  const uint8_t flags = data[8], width = data[9], kind = data[10], room = data[11];
  char format[32];
  size_t n = 0;
  format[n++] = '<';
  format[n++] = '%';
  if (flags & 1) format[n++] = '-';
  else if (flags & 2) format[n++] = '0';
  const bool is_signed = (kind % 4 < 2);
  if ((flags & 4) && is_signed) format[n++] = '+';
  if (flags & 8) n += (size_t)snprintf(format + n, 8, "%d", width % 40);
  const char* const length[] = {"", "l", "ll", "z"};
  n += (size_t)snprintf(format + n, 8, "%s%c>", length[flags >> 6], "diuxX"[kind % 5]);
  format[n] = 0;
  char ours[100], theirs[100];
  memset(ours, '#', sizeof(ours));
  const size_t space = 1 + room % 60;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  size_t written;
  if ((flags >> 6) == 0) {
    written = mx_format(ours, space, format, (unsigned)number);
    snprintf(theirs, space, format, (unsigned)number);
  } else {
    written = mx_format(ours, space, format, number);
    snprintf(theirs, space, format, number);
  }
#pragma GCC diagnostic pop
  REQUIRE(strcmp(ours, theirs) == 0 && written == strlen(ours) && ours[space] == '#');
  char amount[MX_AMOUNT_SIZE];
  REQUIRE(strlen(mx_amount_bytes(amount, (int64_t)number)) < MX_AMOUNT_SIZE);
  REQUIRE(strlen(mx_amount_items(amount, (int64_t)number)) < MX_AMOUNT_SIZE);
  REQUIRE(strlen(mx_amount_seconds(amount, number)) < MX_AMOUNT_SIZE);
  REQUIRE(strlen(mx_amount_ratio(amount, (int64_t)number, (int8_t)width)) < MX_AMOUNT_SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char* const text = (char*)malloc(size + 1);
  memcpy(text, data, size);
  text[size] = 0;
  check_reading(text);
  check_writing(data, size);
  free(text);
  return 0;
}
