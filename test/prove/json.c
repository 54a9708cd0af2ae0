// SPDX-License-Identifier: MIT
// Proves of the writers of statistics: whatever the numbers are, the JSON is well-formed, and each
// line for Prometheus is a comment or a sample.
//
// The formats are constant text, so a reader of them that takes %d and its like for a number judges
// all outputs at once.
#include "service/stats.h"

// What the writers call instead of base/fmt.c and service/log.c.
#define mx_text_add(text, ...) read_format((text), __VA_ARGS__)
#define mx_out_add(out, ...) read_sample((out), __VA_ARGS__)
static void read_format(mx_text_t* text, const char* fmt, ...);
static void read_sample(mx_out_t* out, const char* fmt, ...);
#include "service/stats_fields.c"
#include "service/stats_json.c"
#include "service/stats_prometheus.c"
#undef mx_text_add
#undef mx_out_add

// ---- a reader of JSON --------------------------------------------------------------------------

// What may come next: a value, a key, a colon, what follows a value.
enum { WANTS_VALUE, WANTS_KEY, WANTS_COLON, WANTS_MORE, WANTS_NOTHING };
#define DEPTH_MAX 6
static char open_with[DEPTH_MAX];
static unsigned depth;
static int wanted;
static bool in_string, may_close;

static void value_ends(void) {
  wanted = (depth == 0 ? WANTS_NOTHING : WANTS_MORE);
}

static void opens(char c) {
  claim(wanted == WANTS_VALUE && depth < DEPTH_MAX);
  open_with[depth++] = c;
  wanted = (c == '{' ? WANTS_KEY : WANTS_VALUE);
  may_close = true;
}

static void closes(char c) {
  claim(depth > 0 && (wanted == WANTS_MORE || may_close));
  claim(open_with[depth - 1] == (c == '}' ? '{' : '['));
  depth--;
  may_close = false;
  value_ends();
}

static void read_quote(void) {
  if (!in_string) {
    claim(wanted == WANTS_KEY || wanted == WANTS_VALUE);
    in_string = true;
    return;
  }
  in_string = false;
  may_close = false;
  if (wanted == WANTS_KEY) wanted = WANTS_COLON;
  else value_ends();
}

static void read_comma(void) {
  claim(wanted == WANTS_MORE && depth > 0);
  wanted = (open_with[depth - 1] == '{' ? WANTS_KEY : WANTS_VALUE);
  may_close = false;
}

static void read_json(char c) {
  if (c == '"') {
    read_quote();
  } else if (in_string) {
    claim((unsigned char)c >= ' ' && c != '\\');
  } else if (c == '{' || c == '[') {
    opens(c);
  } else if (c == '}' || c == ']') {
    closes(c);
  } else if (c == ',') {
    read_comma();
  } else if (c == ':') {
    claim(wanted == WANTS_COLON);
    wanted = WANTS_VALUE;
  } else {
    claim(c == ' ' || c == '\n');
  }
}

static void read_json_number(void) {
  if (in_string) return;
  claim(wanted == WANTS_VALUE);
  may_close = false;
  value_ends();
}

// Behind a %: its letter. A text is read in its place.
static const char* skip_conversion(const char* fmt) {
  while (*fmt == 'l' || *fmt == 'z') fmt++;
  return fmt;
}

static void read_format(mx_text_t* text, const char* fmt, ...) {
  (void)text;
  va_list args;
  va_start(args, fmt);
  for (; *fmt != 0; fmt++) {
    if (*fmt != '%') {
      read_json(*fmt);
      continue;
    }
    const unsigned longs = (fmt[1] == 'l') + (fmt[1] == 'l' && fmt[2] == 'l');
    fmt = skip_conversion(fmt + 1);
    claim(*fmt == 'd' || *fmt == 'u' || *fmt == 's' || *fmt == 'c');
    if (*fmt == 's') {
      for (const char* s = va_arg(args, const char*); *s != 0; s++) read_json(*s);
    } else if (*fmt == 'c') {
      read_json(va_arg(args, char));  // which the checker passes as it is
    } else {
      if (longs == 2) (void)va_arg(args, long long);
      else if (fmt[-1] == 'z') (void)va_arg(args, size_t);
      else (void)va_arg(args, int);
      read_json_number();
    }
  }
  va_end(args);
}

// prove: the statistics in JSON are one object whose brackets, keys and commas are in order
// bound: all numbers
// unwind: 200
// builds: release64 release32
// objects: 12
// mutant: service/stats_json.c: i + 1 == MI_CBIN_COUNT ? "" : "," => i == MI_CBIN_COUNT ? "" : ","
void prove_json_is_well_formed(void) {
  static mi_stats_t stats;
  wanted = WANTS_VALUE;
  depth = 0;
  in_string = may_close = false;
  mx_stats_json(NULL, &stats);
  claim(wanted == WANTS_NOTHING && depth == 0 && !in_string);
}

// ---- a reader of samples -----------------------------------------------------------------------

enum { AT_LINE, IN_COMMENT, IN_NAME, IN_LABELS, IN_NUMBER };
static int place;
static unsigned line_length;

static bool is_name(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static void ends_line(void) {
  claim(place == IN_COMMENT || (place == IN_NUMBER && line_length > 0));
  place = AT_LINE;
}

static void read_character(char c) {
  switch (place) {
    case AT_LINE:
      claim(c == '#' || is_name(c, true));
      place = (c == '#' ? IN_COMMENT : IN_NAME);
      break;
    case IN_COMMENT:
      if (c == '\n') ends_line();
      break;
    case IN_NAME:
      claim(is_name(c, false) || c == '{' || c == ' ');
      if (c == '{') place = IN_LABELS;
      if (c == ' ') place = IN_NUMBER, line_length = 0;
      break;
    case IN_LABELS:
      claim(c != '\n');
      if (c == '}') place = IN_NAME;
      break;
    default:
      if (c == '\n') ends_line();
      else claim((c >= '0' && c <= '9') || c == '.' || c == '-');
      line_length++;
  }
}

static void read_sample(mx_out_t* out, const char* fmt, ...) {
  (void)out;
  va_list args;
  va_start(args, fmt);
  for (; *fmt != 0; fmt++) {
    if (*fmt != '%') {
      read_character(*fmt);
      continue;
    }
    fmt = skip_conversion(fmt + 1);
    claim(*fmt == 'd' || *fmt == 'u' || *fmt == 's');
    if (*fmt == 's') {
      for (const char* s = va_arg(args, const char*); *s != 0; s++) read_character(*s);
    } else {
      if (fmt[-1] == 'z') (void)va_arg(args, size_t);
      else (void)va_arg(args, long long);
      claim(place == IN_NUMBER || place == IN_LABELS);
      line_length++;
    }
  }
  va_end(args);
}

// prove: each line of the statistics for Prometheus is a comment or a name, labels and a number
// bound: all numbers, of a record whose bins were never used, or all were
// unwind: 200
// builds: release64 release32
// mutant: service/stats_prometheus.c: "mimalloc_%s%s %lld\n" => "mimalloc_%s%s %lld"
void prove_prometheus_lines(void) {
  static mi_stats_t stats;
  static mx_out_t out;
  const bool is_used = nondet_bool();
  for (size_t bin = 0; bin <= MI_BIN_HUGE; bin++) stats.page_bins[bin].total = is_used;
  place = AT_LINE;
  mx_stats_prometheus(&out, &stats);
  claim(place == AT_LINE);
}

void mx_process_stats(mx_process_stats_t* info) { info->elapsed_msecs = nondet_uint64(); }
size_t mx_stats_bin_size(size_t bin) { return bin * 8; }
const char* mx_amount_seconds(char* buf, uint64_t msecs) {
  (void)msecs;
  buf[0] = '0';
  buf[1] = 0;
  return buf;
}
