// SPDX-License-Identifier: MIT
// Amounts for people, in a buffer of the caller's that is also the result, so that a row of a
// table can right-align it with %12s. One decimal, rounded to the nearest.
#ifndef MX_SERVICE_AMOUNTS_H
#define MX_SERVICE_AMOUNTS_H

#include "../base/compiler.h"

#define MX_AMOUNT_SIZE 32

MX_BEGIN_DECLS
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
