// SPDX-License-Identifier: MIT
// Natural numbers of any length (see bigint.h): schoolbook algorithms on 16-bit limbs; division
// is Knuth's algorithm D. Invariant: no stored number has a zero limb on top.
#include "bigint.h"

#include "common.h"

enum { LIMB_BITS = 16 };
static const uint32_t LIMB_BASE = 1u << LIMB_BITS;

static nat_t* nat_new(size_t length) {
  size_t bytes = sizeof(nat_t) + length * sizeof(uint16_t);
  nat_t* a = (nat_t*)bench_need(malloc(bytes), bytes);
  a->length = (uint32_t)length;
  return a;
}

static nat_t* trim(nat_t* a) {
  while (a->length > 0 && a->limbs[a->length - 1] == 0) a->length--;
  return a;
}

nat_t* nat_from(uint64_t value) {
  nat_t* a = nat_new(64 / LIMB_BITS);
  for (size_t i = 0; i < 64 / LIMB_BITS; i++) a->limbs[i] = (uint16_t)(value >> (i * LIMB_BITS));
  return trim(a);
}

nat_t* nat_copy(const nat_t* a) {
  nat_t* copy = nat_new(a->length);
  memcpy(copy->limbs, a->limbs, a->length * sizeof(uint16_t));
  return copy;
}

void nat_free(nat_t* a) { free(a); }

int nat_is_zero(const nat_t* a) { return a->length == 0; }

int nat_compare(const nat_t* a, const nat_t* b) {
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  for (size_t i = a->length; i-- > 0;) {
    if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
  }
  return 0;
}

uint64_t nat_value(const nat_t* a) {
  uint64_t value = 0;
  for (size_t i = a->length; i-- > 0;) value = value << LIMB_BITS | a->limbs[i];
  return value;
}

nat_t* nat_add(const nat_t* a, const nat_t* b) {
  if (a->length < b->length) {
    const nat_t* other = a;
    a = b;
    b = other;
  }
  nat_t* sum = nat_new((size_t)a->length + 1);
  uint32_t carry = 0;
  for (size_t i = 0; i < a->length; i++) {
    carry += a->limbs[i] + (i < b->length ? b->limbs[i] : 0u);
    sum->limbs[i] = (uint16_t)carry;
    carry >>= LIMB_BITS;
  }
  sum->limbs[a->length] = (uint16_t)carry;
  return trim(sum);
}

nat_t* nat_subtract(const nat_t* a, const nat_t* b) {
  nat_t* difference = nat_new(a->length);
  int32_t borrow = 0;
  for (size_t i = 0; i < a->length; i++) {
    int32_t d = (int32_t)a->limbs[i] - (i < b->length ? b->limbs[i] : 0) - borrow;
    borrow = d < 0;
    difference->limbs[i] = (uint16_t)d;
  }
  if (borrow != 0) bench_fail("a natural number below zero");
  return trim(difference);
}

nat_t* nat_multiply(const nat_t* a, const nat_t* b) {
  nat_t* product = nat_new((size_t)a->length + b->length);
  memset(product->limbs, 0, product->length * sizeof(uint16_t));
  for (size_t i = 0; i < a->length; i++) {
    uint32_t carry = 0;
    for (size_t j = 0; j < b->length; j++) {
      carry += (uint32_t)a->limbs[i] * b->limbs[j] + product->limbs[i + j];
      product->limbs[i + j] = (uint16_t)carry;
      carry >>= LIMB_BITS;
    }
    product->limbs[i + b->length] = (uint16_t)carry;
  }
  return trim(product);
}

nat_t* nat_divide_small(const nat_t* a, uint32_t divisor, uint32_t* remainder) {
  nat_t* quotient = nat_new(a->length);
  uint32_t rest = 0;
  for (size_t i = a->length; i-- > 0;) {
    uint32_t value = rest << LIMB_BITS | a->limbs[i];
    quotient->limbs[i] = (uint16_t)(value / divisor);
    rest = value % divisor;
  }
  *remainder = rest;
  return trim(quotient);
}

static nat_t* shift_left(const nat_t* a, unsigned bits) {
  nat_t* result = nat_new((size_t)a->length + 1);
  uint32_t carry = 0;
  for (size_t i = 0; i < a->length; i++) {
    carry |= (uint32_t)a->limbs[i] << bits;
    result->limbs[i] = (uint16_t)carry;
    carry >>= LIMB_BITS;
  }
  result->limbs[a->length] = (uint16_t)carry;
  return result;
}

static void shift_right_in_place(nat_t* a, unsigned bits) {
  for (size_t i = 0; i < a->length; i++) {
    uint32_t above = i + 1 < a->length ? a->limbs[i + 1] : 0;
    a->limbs[i] = (uint16_t)((above << LIMB_BITS | a->limbs[i]) >> bits);
  }
}

// u[at .. at+n] -= digit * v; adds v back once where the digit was one too large.
static uint32_t subtract_multiple(nat_t* u, const nat_t* v, size_t at, size_t n, uint32_t digit) {
  int64_t borrow = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t d = (int64_t)u->limbs[at + i] - (int64_t)digit * v->limbs[i] + borrow;
    u->limbs[at + i] = (uint16_t)d;
    borrow = d >> LIMB_BITS;
  }
  int64_t top = (int64_t)u->limbs[at + n] + borrow;
  u->limbs[at + n] = (uint16_t)top;
  if (top >= 0) return digit;
  uint32_t carry = 0;
  for (size_t i = 0; i < n; i++) {
    carry += (uint32_t)u->limbs[at + i] + v->limbs[i];
    u->limbs[at + i] = (uint16_t)carry;
    carry >>= LIMB_BITS;
  }
  u->limbs[at + n] = (uint16_t)(u->limbs[at + n] + carry);
  return digit - 1;
}

static void divide_long(const nat_t* a, const nat_t* b, nat_t** quotient, nat_t** remainder) {
  size_t n = b->length, m = a->length - n;
  unsigned bits = (unsigned)__builtin_clz((uint32_t)b->limbs[n - 1]) - LIMB_BITS;
  nat_t* u = shift_left(a, bits);
  nat_t* v = shift_left(b, bits);
  nat_t* q = nat_new(m + 1);
  for (size_t at = m + 1; at-- > 0;) {
    uint32_t top = (uint32_t)u->limbs[at + n] << LIMB_BITS | u->limbs[at + n - 1];
    uint32_t digit = top / v->limbs[n - 1], rest = top % v->limbs[n - 1];
    while (rest < LIMB_BASE &&
           (digit >= LIMB_BASE ||
            (uint64_t)digit * v->limbs[n - 2] > (rest << LIMB_BITS | u->limbs[at + n - 2]))) {
      digit--;
      rest += v->limbs[n - 1];
    }
    q->limbs[at] = (uint16_t)subtract_multiple(u, v, at, n, digit);
  }
  shift_right_in_place(u, bits);
  u->length = (uint32_t)n;
  nat_free(v);
  *quotient = trim(q);
  *remainder = trim(u);
}

void nat_divide(const nat_t* a, const nat_t* b, nat_t** quotient, nat_t** remainder) {
  nat_t *q, *r;
  if (b->length == 0) bench_fail("division by zero");
  if (nat_compare(a, b) < 0) {
    q = nat_from(0);
    r = nat_copy(a);
  } else if (b->length == 1) {
    uint32_t rest;
    q = nat_divide_small(a, b->limbs[0], &rest);
    r = nat_from(rest);
  } else {
    divide_long(a, b, &q, &r);
  }
  if (quotient != NULL) {
    *quotient = q;
  } else {
    nat_free(q);
  }
  if (remainder != NULL) {
    *remainder = r;
  } else {
    nat_free(r);
  }
}

nat_t* nat_multiply_modulo(const nat_t* a, const nat_t* b, const nat_t* modulus) {
  nat_t* product = nat_multiply(a, b);
  nat_t* rest;
  nat_divide(product, modulus, NULL, &rest);
  nat_free(product);
  return rest;
}

// Newton's iteration from above: strictly falling until the root is reached.
nat_t* nat_square_root(const nat_t* a) {
  if (nat_is_zero(a)) return nat_from(0);
  nat_t* x = nat_new((size_t)a->length / 2 + 2);
  memset(x->limbs, 0, x->length * sizeof(uint16_t));
  x->limbs[x->length - 1] = 1;
  for (;;) {
    nat_t *q, *next;
    uint32_t odd;
    nat_divide(a, x, &q, NULL);
    nat_t* sum = nat_add(x, q);
    next = nat_divide_small(sum, 2, &odd);
    nat_free(q);
    nat_free(sum);
    if (nat_compare(next, x) >= 0) {
      nat_free(next);
      return x;
    }
    nat_free(x);
    x = next;
  }
}

nat_t* nat_gcd(const nat_t* a, const nat_t* b) {
  nat_t* x = nat_copy(a);
  nat_t* y = nat_copy(b);
  while (!nat_is_zero(y)) {
    nat_t* rest;
    nat_divide(x, y, NULL, &rest);
    nat_free(x);
    x = y;
    y = rest;
  }
  nat_free(y);
  return x;
}

nat_t* nat_parse(const char* digits) {
  nat_t* ten = nat_from(10);
  nat_t* value = nat_from(0);
  for (const char* c = digits; *c != '\0'; c++) {
    if (*c < '0' || *c > '9') bench_fail("not a natural number: %s", digits);
    nat_t* product = nat_multiply(value, ten);
    nat_t* digit = nat_from((uint64_t)(*c - '0'));
    nat_free(value);
    value = nat_add(product, digit);
    nat_free(product);
    nat_free(digit);
  }
  nat_free(ten);
  return value;
}

char* nat_text(const nat_t* a) {
  size_t most = (size_t)a->length * 5 + 2, at = most - 1;
  char* text = (char*)bench_need(malloc(most), most);
  text[at] = '\0';
  nat_t* rest = nat_copy(a);
  do {
    uint32_t digit;
    nat_t* quotient = nat_divide_small(rest, 10, &digit);
    nat_free(rest);
    rest = quotient;
    text[--at] = (char)('0' + digit);
  } while (!nat_is_zero(rest));
  nat_free(rest);
  memmove(text, text + at, most - at);
  return text;
}
