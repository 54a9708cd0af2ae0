// SPDX-License-Identifier: MIT
// The atomic verbs: all that the rest of the library may do to shared words.
//
// A verb names its memory order, so that a reader sees at each use what it promises. A test build
// replaces this header (-include of another one that defines MX_BASE_ATOMIC_H) by one that hands
// each verb to a scheduler, and so explores the very functions that ship.
#ifndef MX_BASE_ATOMIC_H
#define MX_BASE_ATOMIC_H

#include "compiler.h"

#if defined(__cplusplus)
#include <atomic>
#define mx_atomic(T) std::atomic<T>
#define mx_std(name) std::name
#else
#include <stdatomic.h>
#define mx_atomic(T) _Atomic(T)
#define mx_std(name) name
#endif

#define mx_load_relaxed(p) mx_std(atomic_load_explicit)((p), mx_std(memory_order_relaxed))
#define mx_load_acquire(p) mx_std(atomic_load_explicit)((p), mx_std(memory_order_acquire))
#define mx_store_relaxed(p, v) mx_std(atomic_store_explicit)((p), (v), mx_std(memory_order_relaxed))
#define mx_store_release(p, v) mx_std(atomic_store_explicit)((p), (v), mx_std(memory_order_release))
#define mx_exchange_acq_rel(p, v) \
  mx_std(atomic_exchange_explicit)((p), (v), mx_std(memory_order_acq_rel))
#define mx_exchange_relaxed(p, v) \
  mx_std(atomic_exchange_explicit)((p), (v), mx_std(memory_order_relaxed))
// All that is there, if any: nobody else gets it then. To look takes the line from no processor.
#define mx_take_any(p, none) (mx_load_relaxed(p) == (none) ? (none) : mx_exchange_acq_rel(p, none))
// The weak form may fail for no reason and belongs in a loop; *expected is updated on failure.
#define mx_cas_weak_acq_rel(p, expected, desired)                               \
  mx_std(atomic_compare_exchange_weak_explicit)((p), (expected), (desired),     \
                                                mx_std(memory_order_acq_rel),   \
                                                mx_std(memory_order_relaxed))
#define mx_cas_strong_acq_rel(p, expected, desired)                             \
  mx_std(atomic_compare_exchange_strong_explicit)((p), (expected), (desired),   \
                                                  mx_std(memory_order_acq_rel), \
                                                  mx_std(memory_order_acquire))
#define mx_add_relaxed(p, v) \
  mx_std(atomic_fetch_add_explicit)((p), (v), mx_std(memory_order_relaxed))
#define mx_add_acq_rel(p, v) \
  mx_std(atomic_fetch_add_explicit)((p), (v), mx_std(memory_order_acq_rel))
#define mx_or_acq_rel(p, v) mx_std(atomic_fetch_or_explicit)((p), (v), mx_std(memory_order_acq_rel))
#define mx_and_acq_rel(p, v) \
  mx_std(atomic_fetch_and_explicit)((p), (v), mx_std(memory_order_acq_rel))
#define mx_fence_seq_cst() mx_std(atomic_thread_fence)(mx_std(memory_order_seq_cst))
// Plain writes before it come before plain writes behind it as the compiler sees them. No
// instruction: for readers that bring the processors into line themselves (mx_os_barrier_all).
#define mx_fence_compiler() mx_std(atomic_signal_fence)(mx_std(memory_order_release))
// Reads a plain word once that its owner may be writing: a guess, to be verified.
#define mx_peek_pointer(T, p) (*(T* const volatile*)(p))
#define mx_peek_uint32(p) (*(const volatile uint32_t*)(p))
#define mx_peek_word(p) (*(const volatile uintptr_t*)(p))

// base + *entry (relaxed). On x86-64 in one instruction: compilers do not fold atomic loads.
mx_inline uintptr_t mx_add_loaded(uintptr_t base, const mx_atomic(intptr_t) * entry) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MX_EXPLORE)
  __asm__("addq %1, %0" : "+r"(base) : "m"(*entry) : "cc");
  return base;
#else
  return base + (uintptr_t)mx_load_relaxed(entry);
#endif
}

// Whether x is below *bound (relaxed), in one instruction, as above.
mx_inline bool mx_is_below_loaded(uintptr_t x, const mx_atomic(uintptr_t) * bound) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__ILP32__) && !defined(MX_EXPLORE)
  bool is_below;
  __asm__("cmpq %2, %1" : "=@ccb"(is_below) : "r"(x), "m"(*bound));
  return is_below;
#else
  return x < mx_load_relaxed(bound);
#endif
}

// Tells the processor that this is a waiting loop.
mx_inline void mx_spin_hint(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

#endif
