// SPDX-License-Identifier: MIT
// What every harness of test/prove is compiled with (-include): stands for src/base/atomic.h, since
// a proof is of one thread, and names what a harness asks of the checker.
//
// A verb becomes the plain operation. Weak exchanges fail as often as the checker likes, once in a
// row. Processors' own instructions are left out: what the library does without them is proved.
#ifndef MX_BASE_ATOMIC_H
#define MX_BASE_ATOMIC_H

#undef __x86_64__
#undef __i386__

#include "base/compiler.h"

// ---- what a harness says -----------------------------------------------------------------------

#define assume(c) __CPROVER_assume(c)
#define claim(c) __CPROVER_assert((c), #c)

_Bool nondet_bool(void);
unsigned char nondet_uint8(void);
unsigned nondet_uint32(void);
unsigned long long nondet_uint64(void);
size_t nondet_size(void);
uintptr_t nondet_uintptr(void);

// Any size from `least` to `most`.
static size_t any_size(size_t least, size_t most) {
  const size_t n = nondet_size();
  assume(n >= least && n <= most);
  return n;
}

// ---- the verbs ---------------------------------------------------------------------------------

#define mx_atomic(T) T  // in front of __typeof__ CBMC passes over an alignment
#define prove_exchange(p, v) \
  __extension__({ __typeof__((void)0, *(p)) prove_was = *(p); *(p) = (v); prove_was; })
#define prove_fetch(p, op, v) \
  __extension__({ __typeof__((void)0, *(p)) prove_was = *(p); *(p) = *(p) op (v); prove_was; })
#define prove_cas(p, expected, desired)          \
  __extension__({                                \
    const bool prove_done = (*(p) == *(expected)); \
    if (prove_done) *(p) = (desired);            \
    else *(expected) = *(p);                     \
    prove_done;                                  \
  })

static _Bool prove_has_failed;
#define prove_cas_weak(p, expected, desired)                          \
  __extension__({                                                     \
    const bool prove_fails = !prove_has_failed && nondet_bool();      \
    prove_has_failed = prove_fails;                                   \
    bool prove_did = false;                                           \
    if (prove_fails) *(expected) = *(p);                              \
    else prove_did = prove_cas((p), (expected), (desired));           \
    prove_did;                                                        \
  })

#define mx_load_relaxed(p) ((__typeof__((void)0, *(p)))*(p))
#define mx_load_acquire(p) mx_load_relaxed(p)
#define mx_store_relaxed(p, v) ((void)(*(p) = (v)))
#define mx_store_release(p, v) ((void)(*(p) = (v)))
#define mx_exchange_acq_rel(p, v) prove_exchange(p, v)
#define mx_exchange_relaxed(p, v) prove_exchange(p, v)
#define mx_take_any(p, none) (mx_load_relaxed(p) == (none) ? (none) : mx_exchange_acq_rel(p, none))
#define mx_cas_weak_acq_rel(p, expected, desired) prove_cas_weak(p, expected, desired)
#define mx_cas_strong_acq_rel(p, expected, desired) prove_cas(p, expected, desired)
#define mx_add_relaxed(p, v) prove_fetch(p, +, v)
#define mx_add_acq_rel(p, v) prove_fetch(p, +, v)
#define mx_or_acq_rel(p, v) prove_fetch(p, |, v)
#define mx_and_acq_rel(p, v) prove_fetch(p, &, v)
#define mx_fence_seq_cst() ((void)0)
#define mx_fence_compiler() ((void)0)
#define mx_peek_pointer(T, p) (*(T* const*)(p))
#define mx_peek_uint32(p) (*(const uint32_t*)(p))
#define mx_peek_word(p) (*(const uintptr_t*)(p))
#define mx_add_loaded(base, entry) ((base) + (uintptr_t)mx_load_relaxed(entry))
#define mx_is_below_loaded(x, bound) ((x) < mx_load_relaxed(bound))
#define mx_spin_hint() ((void)0)

#include "base/check.h"

// No harness comes to a failed check.
void mx_assert_fail(const char* expr, const char* file, unsigned line, const char* func) {
  (void)expr, (void)file, (void)line, (void)func;
  claim(false);
}

#endif
