// SPDX-License-Identifier: MIT
// The thread's identity: a word that no other living thread has, read in one instruction.
//
// It is the thread pointer (the address of the thread's control block), so it is never 0, its low
// bits are clear, and it costs no system call. It may be used again after its thread has ended.
#ifndef MX_OS_THREAD_H
#define MX_OS_THREAD_H

#include "../base/atomic.h"
#include "../base/check.h"

// Without a libc no code of ours runs when a thread ends, and its address comes again before others
// have noticed: there the identity is a number that is never used again.
MX_BEGIN_DECLS
#if defined(MI_NO_LIBC)
extern mx_thread_local uintptr_t mx_thread_number;  // MX_THREAD_UNNUMBERED: asks for one
#define MX_THREAD_UNNUMBERED ((uintptr_t)8)
uintptr_t mx_thread_take_number(void);
mx_inline uintptr_t mx_thread_id(void) {
  const uintptr_t id = mx_thread_number;
  return mx_likely(id != MX_THREAD_UNNUMBERED) ? id : mx_thread_take_number();
}
#elif defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__)
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
  __asm__("movq %%fs:0, %0" : "=r"(id));
  return id;
}
#elif defined(__i386__) && defined(__linux__)
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
  __asm__("movl %%gs:0, %0" : "=r"(id));
  return id;
}
#elif defined(_WIN32) && defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
// The thread's environment block.
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
#if defined(__x86_64__)
  __asm__("movq %%gs:0x30, %0" : "=r"(id));
#else
  __asm__("movl %%fs:0x18, %0" : "=r"(id));
#endif
  return id;
}
#elif defined(_MSC_VER) && defined(_M_X64)
mx_inline uintptr_t mx_thread_id(void) { return __readgsqword(0x30); }
#elif defined(_MSC_VER) && defined(_M_IX86)
mx_inline uintptr_t mx_thread_id(void) { return __readfsdword(0x18); }
#elif defined(_MSC_VER) && defined(_M_ARM64)
mx_inline uintptr_t mx_thread_id(void) { return (uintptr_t)__getReg(18); }
#elif defined(__aarch64__) && (defined(__linux__) || defined(__FreeBSD__) || defined(__NetBSD__))
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
  __asm__("mrs %0, tpidr_el0" : "=r"(id));
  return id;
}
#elif defined(__APPLE__) && defined(__aarch64__)
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
  __asm__("mrs %0, tpidrro_el0" : "=r"(id));
  return id & ~(uintptr_t)7;
}
#elif defined(__APPLE__) && defined(__x86_64__)
mx_inline uintptr_t mx_thread_id(void) {
  uintptr_t id;
  __asm__("movq %%gs:0, %0" : "=r"(id));
  return id;
}
#else
// Aligned, since owner words have tags in their low bits.
#define MX_THREAD_ANCHOR mx_aligned(16) uintptr_t
extern mx_thread_local MX_THREAD_ANCHOR mx_thread_anchor;
mx_inline uintptr_t mx_thread_id(void) { return (uintptr_t)&mx_thread_anchor; }
#endif
MX_END_DECLS

// Whether `id` is the calling thread's.
mx_inline bool mx_thread_is(uintptr_t id) {
#if defined(MI_NO_LIBC)
  return id == mx_thread_number;
#elif defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__) && !defined(MX_EXPLORE)
  // One comparison with the thread pointer where it lies, which compilers do not find.
  bool same;
  __asm__("cmpq %%fs:0, %1" : "=@cce"(same) : "r"(id));
  return same;
#elif defined(_WIN32) && defined(__x86_64__) && defined(__GNUC__)
  bool same;
  __asm__("cmpq %%gs:0x30, %1" : "=@cce"(same) : "r"(id));
  return same;
#else
  return id == mx_thread_id();
#endif
}

// The bits in which `id` is not the calling thread's.
mx_inline uintptr_t mx_thread_apart(uintptr_t id) {
#if defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__) && !defined(MX_EXPLORE) && \
    !defined(MI_NO_LIBC) && !defined(__CPROVER__)
  __asm__("xorq %%fs:0, %0" : "+r"(id) : : "cc");
  return id;
#else
  return id ^ mx_thread_id();
#endif
}

// Around each call that changes heaps, pages or slices. While a thread is inside of one,
//
//   a fork in a signal's handler leaves what it interrupted alone in the child: what the threads
//   that are not there left behind is set right when the call is over (`mx_call_pending`);
//   without a libc, where a thread's heap is taken over by others whichever way the thread ended,
//   one that ended inside may have left its lists half changed, and is left alone. `mx_call_word`
//   is that thread's word for those others; its order is the program's, since it is read when the
//   writer is dead.
//
// The fences keep the compiler from moving what is done inside to the outside.
MX_BEGIN_DECLS
extern mx_hidden mx_thread_local uint32_t mx_call_depth_var;
#define mx_call_depth mx_tls(mx_call_depth_var)
extern mx_hidden mx_atomic(uint32_t) mx_call_pending;  // the child of a fork has to set right:
#define MX_PENDING_NONE 0
#define MX_PENDING_AT_END 1    // what there is, when the call is over that the fork lay in; not at
                               // all, if another thread begins one before
#define MX_PENDING_AT_BEGIN 2  // before the next call; other threads that begin one wait
#define MX_PENDING_RUNS 3      // it is being done
#if defined(MI_NO_LIBC)
extern mx_thread_local mx_atomic(uint32_t)* mx_call_word;
#define mx_call_tell(depth) \
  (mx_call_word != NULL ? mx_store_relaxed(mx_call_word, (depth)) : (void)0)
#else
#define mx_call_tell(depth) ((void)0)
#endif
// In the child of a fork: has `run` called when this thread's call is over; now if it is in none.
void mx_call_then(void (*run)(void));
// The same before any thread's next call, which may never come. NULL: nothing is pending any more.
void mx_call_before_next(void (*run)(void));
// Where something is pending when a call has begun, or is over.
void mx_call_begins_pending(void);
void mx_call_ends_pending(void);
// For a thread that forks, in no other call: waits while it is being done, and keeps others from
// it until the fork is over. Whether there is something. `missed`: it is being done, for too long.
bool mx_call_hold_pending(bool* missed);
void mx_call_let_pending(void);
MX_END_DECLS

// Without a look at what is pending: what a fork does, and what is pending itself.
mx_inline void mx_call_enter_plainly(void) {
  const uint32_t depth = ++mx_call_depth;
  mx_call_tell(depth);
  mx_fence_compiler();
  (void)depth;
}

mx_inline void mx_call_leave_plainly(void) {
  mx_check(mx_call_depth > 0);
  mx_fence_compiler();
  const uint32_t depth = --mx_call_depth;
  mx_call_tell(depth);
  mx_fence_compiler();
  (void)depth;
}

mx_inline bool mx_call_is_pending(void) {
  return mx_load_acquire(&mx_call_pending) != MX_PENDING_NONE;
}

mx_inline void mx_call_enter(void) {
  mx_call_enter_plainly();
  if (mx_unlikely(mx_call_is_pending())) mx_call_begins_pending();
}

mx_inline void mx_call_leave(void) {
  mx_call_leave_plainly();
  if (mx_unlikely(mx_call_is_pending())) mx_call_ends_pending();
}

// Before what is no call itself, and yet needs that nothing is pending.
mx_inline void mx_call_do_pending(void) {
  if (mx_likely(!mx_call_is_pending())) return;
  mx_call_enter();
  mx_call_leave();
}

#endif
