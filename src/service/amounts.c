// SPDX-License-Identifier: MIT
// The implementation of amounts.h.
#include "amounts.h"

#include "../base/fmt.h"

// `value` in tenths of `unit`, rounded; split so that nothing overflows.
static uint64_t tenths_of(uint64_t value, uint64_t unit) {
  return value / unit * 10 + (value % unit * 10 + unit / 2) / unit;
}

// Scales by `base` until the number has at most four digits before the point.
static const char* put_scaled(char* buf, int64_t amount, unsigned base, const char* const* units,
                              size_t unit_count) {
  const uint64_t size = (amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount);
  const char* const sign = (amount < 0 ? "-" : "");
  if (size < base) {
    mx_format(buf, MX_AMOUNT_SIZE, "%s%u%s", sign, (unsigned)size, units[0]);
    return buf;
  }
  size_t i = 1;
  uint64_t unit = base;
  // Decided on the rounded number, so that 1023.99 KiB becomes 1.0 MiB.
  while (i + 1 < unit_count && tenths_of(size, unit) >= (uint64_t)base * 10) {
    unit *= base;
    i++;
  }
  const unsigned long long tenths = tenths_of(size, unit);
  mx_format(buf, MX_AMOUNT_SIZE, "%s%llu.%llu%s", sign, tenths / 10, tenths % 10, units[i]);
  return buf;
}

const char* mx_amount_bytes(char* buf, int64_t bytes) {
  static const char* const units[] = {"   B", " KiB", " MiB", " GiB", " TiB"};
  return put_scaled(buf, bytes, 1024, units, sizeof(units) / sizeof(units[0]));
}

const char* mx_amount_items(char* buf, int64_t items) {
  static const char* const units[] = {"  ", " K", " M", " G", " T"};
  return put_scaled(buf, items, 1000, units, sizeof(units) / sizeof(units[0]));
}

const char* mx_amount_ratio(char* buf, int64_t dividend, int64_t divisor) {
  if (dividend < 0 || divisor <= 0) dividend = 0, divisor = 1;
  const unsigned long long tenths = tenths_of((uint64_t)dividend, (uint64_t)divisor);
  mx_format(buf, MX_AMOUNT_SIZE, "%llu.%llu", tenths / 10, tenths % 10);
  return buf;
}

const char* mx_amount_seconds(char* buf, uint64_t msecs) {
  mx_format(buf, MX_AMOUNT_SIZE, "%llu.%03u", (unsigned long long)(msecs / 1000),
            (unsigned)(msecs % 1000));
  return buf;
}
