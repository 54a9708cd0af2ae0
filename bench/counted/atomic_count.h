// SPDX-License-Identifier: MIT
// Stands for src/base/atomic.h in the counted library: every verb becomes a call to count.c, with
// the words of the source for the variable that it changes.
//
// The source itself is compiled as it ships. Plain accesses are instrumented by the compiler's
// thread sanitizer, whose functions count.c defines, too.
#ifndef MX_BASE_ATOMIC_H
#define MX_BASE_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../src/base/compiler.h"

typedef enum mc_op_e { MC_SET, MC_ADD, MC_OR, MC_AND } mc_op_t;

uint64_t mc_load(const volatile void* p, unsigned size);
void mc_store(volatile void* p, unsigned size, uint64_t value, const char* name);
uint64_t mc_rmw(volatile void* p, unsigned size, uint64_t value, mc_op_t op, const char* name);
bool mc_cas(volatile void* p, unsigned size, uint64_t* expected, uint64_t value, const char* name);
void mc_fence(void);
// Whether an address lies in a page of blocks; counted.c knows it.
bool mc_is_block(const void* p);

#define mx_atomic(T) __typeof__(T)
#define mc_value_of(p) __typeof__(((void)0, *(p)))
#define mc_load_(p) ((mc_value_of(p))mc_load((p), sizeof(*(p))))
#define mc_store_(p, v) mc_store((p), sizeof(*(p)), (uint64_t)(v), #p)
#define mc_rmw_(p, v, op) ((mc_value_of(p))mc_rmw((p), sizeof(*(p)), (uint64_t)(v), op, #p))
#define mc_cas_(p, expected, desired)                                               \
  __extension__({                                                                   \
    uint64_t mc_was = (uint64_t)*(expected);                                        \
    const bool mc_done = mc_cas((p), sizeof(*(p)), &mc_was, (uint64_t)(desired), #p); \
    if (!mc_done) *(expected) = (__typeof__(*(expected)))mc_was;                    \
    mc_done;                                                                        \
  })

#define mx_load_relaxed(p) mc_load_(p)
#define mx_load_acquire(p) mc_load_(p)
#define mx_store_relaxed(p, v) mc_store_(p, v)
#define mx_store_release(p, v) mc_store_(p, v)
#define mx_exchange_acq_rel(p, v) mc_rmw_(p, v, MC_SET)
#define mx_exchange_relaxed(p, v) mc_rmw_(p, v, MC_SET)
#define mx_take_any(p, none) (mx_load_relaxed(p) == (none) ? (none) : mx_exchange_acq_rel(p, none))
#define mx_cas_weak_acq_rel(p, expected, desired) mc_cas_(p, expected, desired)
#define mx_cas_strong_acq_rel(p, expected, desired) mc_cas_(p, expected, desired)
#define mx_add_relaxed(p, v) mc_rmw_(p, v, MC_ADD)
#define mx_add_acq_rel(p, v) mc_rmw_(p, v, MC_ADD)
#define mx_or_acq_rel(p, v) mc_rmw_(p, v, MC_OR)
#define mx_and_acq_rel(p, v) mc_rmw_(p, v, MC_AND)
#define mx_fence_seq_cst() mc_fence()
#define mx_fence_compiler() __asm__ volatile("" ::: "memory")
#define mx_peek_pointer(T, p) (*(T* const volatile*)(p))
#define mx_peek_uint32(p) (*(const volatile uint32_t*)(p))
#define mx_peek_word(p) (*(const volatile uintptr_t*)(p))
#define mx_add_loaded(base, entry) ((base) + (uintptr_t)mx_load_relaxed(entry))
#define mx_is_below_loaded(x, bound) ((x) < mx_load_relaxed(bound))
#define mx_spin_hint() __asm__ volatile("" ::: "memory")

#endif
