// SPDX-License-Identifier: MIT
// Natural numbers of any length, one heap block each, for cfrac.
//
// Values are immutable and every operation returns a fresh block that the caller drops with
// nat_free: the style of a functional language's run time, and what makes cfrac a test of small
// short-lived blocks. Limbs hold 16 bits, so that even the numbers between 20 and 40 digits that
// cfrac works on have several of them.
#ifndef BENCH_BIGINT_H
#define BENCH_BIGINT_H

#include <stddef.h>
#include <stdint.h>

typedef struct nat {
  uint32_t length;  // limbs in use; the highest is not zero, and zero itself has none
  uint16_t limbs[];
} nat_t;

nat_t* nat_from(uint64_t value);
nat_t* nat_parse(const char* digits);
nat_t* nat_copy(const nat_t* a);
void nat_free(nat_t* a);

int nat_compare(const nat_t* a, const nat_t* b);
int nat_is_zero(const nat_t* a);
// The value when it fits in 64 bits; the caller knows that it does.
uint64_t nat_value(const nat_t* a);

nat_t* nat_add(const nat_t* a, const nat_t* b);
nat_t* nat_subtract(const nat_t* a, const nat_t* b);  // needs a >= b
nat_t* nat_multiply(const nat_t* a, const nat_t* b);
// Both results are fresh; `remainder` or the quotient may be unwanted (NULL).
void nat_divide(const nat_t* a, const nat_t* b, nat_t** quotient, nat_t** remainder);
nat_t* nat_divide_small(const nat_t* a, uint32_t divisor, uint32_t* remainder);

nat_t* nat_multiply_modulo(const nat_t* a, const nat_t* b, const nat_t* modulus);
nat_t* nat_square_root(const nat_t* a);  // rounded down
nat_t* nat_gcd(const nat_t* a, const nat_t* b);

// Decimal digits in a fresh block of the C library's malloc.
char* nat_text(const nat_t* a);

#endif
