// SPDX-License-Identifier: MIT
// Stands for src/base/atomic.h (and src/os/thread.h) when the library's own source is explored:
// every verb becomes a call to the explorer, with its memory order and the function it stands in.
//
// Given with -include, so that the source itself is compiled as it ships. The compiler's thread
// sanitizer instruments the plain accesses; the explorer defines the functions which it calls.
#ifndef MX_BASE_ATOMIC_H
#define MX_BASE_ATOMIC_H
#define MX_OS_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../src/base/compiler.h"

typedef enum ex_order_e { EX_RELAXED, EX_ACQUIRE, EX_RELEASE, EX_ACQ_REL } ex_order_t;
typedef enum ex_op_e { EX_LOAD, EX_STORE, EX_XCHG, EX_ADD, EX_OR, EX_AND, EX_CAS, EX_CAS_WEAK,
               EX_FENCE, EX_COMPILER_FENCE, EX_BARRIER, EX_PEEK } ex_op_t;

// Where a verb stands: the unit that a mutant changes.
typedef struct ex_site_s {
  const char* function;
  int line;
  uint8_t op, order;
} ex_site_t;

uint64_t ex_load(const volatile void* p, unsigned size, const ex_site_t* site);
void ex_store(volatile void* p, unsigned size, uint64_t value, const ex_site_t* site);
uint64_t ex_rmw(volatile void* p, unsigned size, uint64_t value, const ex_site_t* site);
bool ex_cas(volatile void* p, unsigned size, uint64_t* expected, uint64_t value,
            const ex_site_t* site);
void ex_fence(const ex_site_t* site);
void ex_compiler_fence(const ex_site_t* site);
void ex_barrier_all(const ex_site_t* site);
uint64_t ex_peek(const void* p, unsigned size, const ex_site_t* site);
void ex_spin(void);
void ex_sleep(const void* word, uint32_t value);
void ex_wake(const void* word);
uintptr_t ex_thread_id(void);
void* ex_memset(void* p, int value, size_t size);
void* ex_memcpy(void* to, const void* from, size_t size);

#define mx_atomic(T) __typeof__(T)
#define ex_value_of(p) __typeof__(((void)0, *(p)))
#define ex_site_(op, order)                                                \
  __extension__({                                                          \
    static const ex_site_t ex_site_here = {__func__, __LINE__, (op), (order)}; \
    &ex_site_here;                                                         \
  })
#define ex_load_(p, order) \
  ((ex_value_of(p))ex_load((p), sizeof(*(p)), ex_site_(EX_LOAD, order)))
#define ex_store_(p, v, order) ex_store((p), sizeof(*(p)), (uint64_t)(v), ex_site_(EX_STORE, order))
#define ex_rmw_(p, v, op, order) \
  ((ex_value_of(p))ex_rmw((p), sizeof(*(p)), (uint64_t)(v), ex_site_(op, order)))
#define ex_cas_(p, expected, desired, op)                                            \
  __extension__({                                                                    \
    uint64_t ex_was = (uint64_t)*(expected);                                         \
    const bool ex_done =                                                             \
        ex_cas((p), sizeof(*(p)), &ex_was, (uint64_t)(desired), ex_site_(op, EX_ACQ_REL)); \
    if (!ex_done) *(expected) = (__typeof__(*(expected)))ex_was;                     \
    ex_done;                                                                         \
  })

#define mx_load_relaxed(p) ex_load_(p, EX_RELAXED)
#define mx_add_loaded(base, entry) ((base) + (uintptr_t)mx_load_relaxed(entry))
#define mx_is_below_loaded(x, bound) ((x) < mx_load_relaxed(bound))
#define mx_load_acquire(p) ex_load_(p, EX_ACQUIRE)
#define mx_store_relaxed(p, v) ex_store_(p, v, EX_RELAXED)
#define mx_store_release(p, v) ex_store_(p, v, EX_RELEASE)
#define mx_exchange_acq_rel(p, v) ex_rmw_(p, v, EX_XCHG, EX_ACQ_REL)
#define mx_exchange_relaxed(p, v) ex_rmw_(p, v, EX_XCHG, EX_RELAXED)
#define mx_take_any(p, none) (mx_load_relaxed(p) == (none) ? (none) : mx_exchange_acq_rel(p, none))
#define mx_cas_weak_acq_rel(p, expected, desired) ex_cas_(p, expected, desired, EX_CAS_WEAK)
#define mx_cas_strong_acq_rel(p, expected, desired) ex_cas_(p, expected, desired, EX_CAS)
#define mx_add_relaxed(p, v) ex_rmw_(p, v, EX_ADD, EX_RELAXED)
#define mx_add_acq_rel(p, v) ex_rmw_(p, v, EX_ADD, EX_ACQ_REL)
#define mx_or_acq_rel(p, v) ex_rmw_(p, v, EX_OR, EX_ACQ_REL)
#define mx_and_acq_rel(p, v) ex_rmw_(p, v, EX_AND, EX_ACQ_REL)
#define mx_fence_seq_cst() ex_fence(ex_site_(EX_FENCE, EX_ACQ_REL))
#define mx_fence_compiler() ex_compiler_fence(ex_site_(EX_COMPILER_FENCE, EX_RELAXED))
#define mx_peek_pointer(T, p) ((T*)ex_peek((p), sizeof(T*), ex_site_(EX_PEEK, EX_RELAXED)))
#define mx_peek_uint32(p) ((uint32_t)ex_peek((p), 4, ex_site_(EX_PEEK, EX_RELAXED)))
#define mx_peek_word(p) ((uintptr_t)ex_peek((p), sizeof(uintptr_t), ex_site_(EX_PEEK, EX_RELAXED)))
#define mx_spin_hint() ex_spin()

// The identity of the thread is the explored one's.
#define mx_thread_id() ex_thread_id()
#define mx_thread_is(id) ((id) == ex_thread_id())
#define mx_thread_apart(id) ((uintptr_t)(id) ^ ex_thread_id())
// No explored thread dies or forks inside of a call.
#define mx_call_enter() ((void)0)
#define mx_call_enter_plainly() ((void)0)
#define mx_call_leave() ((void)0)
#define mx_call_depth 0
#define mx_call_then(run) (run)()
static inline void ex_call_now(void (*run)(void)) {
  if (run != NULL) run();
}
#define mx_call_before_next(run) ex_call_now(run)
#define mx_call_do_pending() ((void)0)
#define mx_call_is_pending() false
#define mx_call_hold_pending(missed) (*(missed) = false)
#define mx_call_let_pending() ((void)0)

// Plain fills and copies that a compiler's instrumentation would leave to libc.
#define memset(p, value, size) ex_memset((p), (value), (size))
#define memcpy(to, from, size) ex_memcpy((to), (from), (size))

#endif
