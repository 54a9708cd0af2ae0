// SPDX-License-Identifier: MIT
// Tests base/fmt: where the C library understands the same conversion it is the judge, over every
// combination of flags, widths and values; the amounts and the full-buffer rule have tables.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../../src/base/fmt.h"
#include "../../src/service/amounts.h"

static int failures;

static void expect_text(const char* got, const char* want, const char* what) {
  if (strcmp(got, want) == 0) return;
  printf("FAIL %s: got \"%s\", want \"%s\"\n", what, got, want);
  failures++;
}

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// The formats are built at run time, on purpose.
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

#define COMPARE(fmt, value)                            \
  do {                                                 \
    char got[128], want[128];                          \
    mx_format(got, sizeof(got), (fmt), (value));       \
    snprintf(want, sizeof(want), (fmt), (value));      \
    expect_text(got, want, (fmt));                     \
  } while (0)

#define COMPARE_IN(flag, width, conversion, value)                               \
  do {                                                                           \
    char fmt[32];                                                                \
    snprintf(fmt, sizeof(fmt), "<%%%s%s%s>", (flag), (width), (conversion));     \
    COMPARE(fmt, (value));                                                       \
  } while (0)

static void test_numbers(void) {
  static const char* const flags[] = {"", "-", "0", "-0"};
  static const char* const widths[] = {"", "1", "5", "12", "30"};
  static const long long values[] = {0, 1, -1, 9, 10, 255, -255, 65536, INT_MAX, INT_MIN,
                                     LLONG_MAX, LLONG_MIN};
  for (size_t f = 0; f < 4; f++) {
    for (size_t w = 0; w < 5; w++) {
      for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        const long long n = values[v];
        COMPARE_IN(flags[f], widths[w], "d", (int)n);
        COMPARE_IN(flags[f], widths[w], "i", (int)n);
        COMPARE_IN(flags[f], widths[w], "u", (unsigned)n);
        COMPARE_IN(flags[f], widths[w], "x", (unsigned)n);
        COMPARE_IN(flags[f], widths[w], "X", (unsigned)n);
        COMPARE_IN(flags[f], widths[w], "ld", (long)n);
        COMPARE_IN(flags[f], widths[w], "lu", (unsigned long)n);
        COMPARE_IN(flags[f], widths[w], "lx", (unsigned long)n);
        COMPARE_IN(flags[f], widths[w], "lld", n);
        COMPARE_IN(flags[f], widths[w], "llu", (unsigned long long)n);
        COMPARE_IN(flags[f], widths[w], "zu", (size_t)n);
        COMPARE_IN(flags[f], widths[w], "zd", (ptrdiff_t)n);
        COMPARE_IN(flags[f], widths[w], "zx", (size_t)n);
      }
    }
  }
  COMPARE("%+d", 5);
  COMPARE("%+d", -5);
#if !defined(_WIN32)  // whose C run-time prints another form
  COMPARE("%p", (void*)0x1234abcd);
#endif
}

static void test_strings(void) {
  char got[128], want[128];
  COMPARE("[%s]", "");
  COMPARE("[%s]", "page");
  COMPARE("[%10s]", "page");
  COMPARE("[%-10s]", "page");
  COMPARE("[%.2s]", "page");
  COMPARE("[%8.3s]", "page");
  COMPARE("[%.0s]", "page");
  COMPARE("[%c]", 'x');
  COMPARE("[%3c]", 'x');
  mx_format(got, sizeof(got), "%*d|%-*d|%.*s|%*d", 5, 42, 5, 42, 2, "abc", -4, 7);
  snprintf(want, sizeof(want), "%*d|%-*d|%.*s|%*d", 5, 42, 5, 42, 2, "abc", -4, 7);
  expect_text(got, want, "starred widths");
  const char* volatile nothing = NULL;  // volatile: the compiler knows better than to pass NULL
  mx_format(got, sizeof(got), "%s", nothing);
  expect_text(got, "(null)", "NULL string");
  mx_format(got, sizeof(got), "100%%");
  expect_text(got, "100%", "percent");
  // A precision bounds what is read: the array has no final 0.
  const char raw[3] = {'a', 'b', 'c'};
  mx_format(got, sizeof(got), "%.3s", raw);
  expect_text(got, "abc", "unterminated");
  const char* odd = "%q and %";
  mx_format(got, sizeof(got), odd);
  expect_text(got, "%q and %", "unknown letters are copied");
}

// The address of the last %B is kept, also where the text has no room for it.
static void add_block(mx_text_t* text, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  mx_text_vadd(text, fmt, args);
  va_end(args);
}

static void test_block(void) {
  char got[16];
  mx_text_t text;
  mx_text_init(&text, got, sizeof(got));
  add_block(&text, "%p %d,", (void*)0x12, 7);
  EXPECT(text.block == NULL);
  add_block(&text, "%6B", (void*)0x345);
  expect_text(got, "0x12 7, 0x345", "block");
  EXPECT(text.block == (void*)0x345);
  add_block(&text, "%B", (void*)0x6789);
  EXPECT(text.block == (void*)0x6789);
}

static void collect(mx_text_t* text) {
  strncat((char*)text->arg, text->buf, text->length);
  text->length = 0;
}

static void test_full(void) {
  char small[8];
  memset(small, 'Z', sizeof(small));
  EXPECT(mx_format(small, 5, "%s", "abcdefgh") == 4);
  expect_text(small, "abcd", "cut off");
  EXPECT(small[5] == 'Z');
  EXPECT(mx_format(small, 1, "%d", 7) == 0 && small[0] == 0);
  small[0] = 'Q';
  EXPECT(mx_format(small, 0, "%d", 7) == 0 && small[0] == 'Q');
  // A stream: nothing is lost, whatever the size of the buffer.
  for (size_t size = 2; size <= sizeof(small); size++) {
    char all[64] = "";
    mx_text_t text;
    mx_text_init(&text, small, size);
    text.full = collect;
    text.arg = all;
    mx_text_add(&text, "%d-%s-%08x", -12345, "abcdef", 0xbeefu);
    collect(&text);
    expect_text(all, "-12345-abcdef-0000beef", "stream");
  }
}

static void test_amounts(void) {
  static const struct {
    int64_t n;
    const char* bytes;
    const char* items;
  } table[] = {
      {0, "0   B", "0  "},
      {384, "384   B", "384  "},
      {999, "999   B", "999  "},
      {1000, "1000   B", "1.0 K"},
      {1023, "1023   B", "1.0 K"},
      {1024, "1.0 KiB", "1.0 K"},
      {1331, "1.3 KiB", "1.3 K"},
      {999949, "976.5 KiB", "999.9 K"},
      {999950, "976.5 KiB", "1.0 M"},
      {1048575, "1.0 MiB", "1.0 M"},
      {1LL << 30, "1.0 GiB", "1.1 G"},
      {-(5LL << 19), "-2.5 MiB", "-2.6 M"},
      {INT64_MAX, "8388608.0 TiB", "9223372.0 T"},
      {INT64_MIN, "-8388608.0 TiB", "-9223372.0 T"},
  };
  char buf[MX_AMOUNT_SIZE];
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    expect_text(mx_amount_bytes(buf, table[i].n), table[i].bytes, "bytes");
    expect_text(mx_amount_items(buf, table[i].n), table[i].items, "items");
  }
  expect_text(mx_amount_ratio(buf, 7, 2), "3.5", "ratio");
  expect_text(mx_amount_ratio(buf, 2, 3), "0.7", "ratio");
  expect_text(mx_amount_ratio(buf, 5, 0), "0.0", "ratio");
  expect_text(mx_amount_seconds(buf, 18), "0.018", "seconds");
  expect_text(mx_amount_seconds(buf, 61234), "61.234", "seconds");
}

// A precision below zero is none; and what is full stays as it is, when nobody takes what is there, and
// when whoever takes it leaves it.
static void keep_all(mx_text_t* text) { text->arg = text; }

static void test_odd(void) {
  char got[16];
  mx_format(got, sizeof(got), "<%.*s>", -1, "text");
  expect_text(got, "<text>", "%.*s of -1");
  mx_format(got, sizeof(got), "<%.*s>", 2, "text");
  expect_text(got, "<te>", "%.*s of 2");
  mx_format(got, sizeof(got), "<%*d>", -4, 7);
  expect_text(got, "<7   >", "%*d of -4");
  mx_text_t text;
  mx_text_init(&text, got, 3);
  for (int i = 0; i < 5; i++) mx_text_char(&text, (char)('a' + i));
  expect_text(got, "ab", "full");
  EXPECT(text.length == 2 && text.arg == NULL);
  text.full = &keep_all;
  mx_text_char(&text, 'x');
  expect_text(got, "ab", "full");
  EXPECT(text.length == 2 && text.arg == &text);
}

int main(void) {
  test_odd();
  test_numbers();
  test_strings();
  test_block();
  test_full();
  test_amounts();
  if (failures == 0) printf("fmt: ok\n");
  return failures != 0;
}
