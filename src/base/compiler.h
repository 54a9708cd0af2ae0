// SPDX-License-Identifier: MIT
// The words that differ between compilers, so that no other file has to know them.
//
// C and C++ (MSVC builds the library as C++) share one source: attributes, thread-local storage
// and static assertions are spelled here once.
#ifndef MX_BASE_COMPILER_H
#define MX_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define mx_likely(x) __builtin_expect(!!(x), 1)
#define mx_unlikely(x) __builtin_expect(!!(x), 0)
#define mx_noinline __attribute__((noinline))
#define mx_cold __attribute__((noinline, cold))
#define mx_inline static inline __attribute__((always_inline))
#define mx_unused __attribute__((unused))
#define mx_used __attribute__((used))
#define mx_noreturn __attribute__((noreturn))
#define mx_aligned(n) __attribute__((aligned(n)))
#define mx_prefetch_write(p) __builtin_prefetch((p), 1)
#define mx_frame_address() __builtin_frame_address(0)
#if defined(_WIN32)
#define mx_hidden  // what a DLL exports is said one by one
#else
#define mx_hidden __attribute__((visibility("hidden")))
#endif
// For Windows gcc takes `printf` for that of an old C library, which does not know %zu.
#if defined(_WIN32) && !defined(__clang__)
#define mx_printf(f, a) __attribute__((format(gnu_printf, f, a)))
#else
#define mx_printf(f, a) __attribute__((format(printf, f, a)))
#endif
#elif defined(_MSC_VER)
#define mx_likely(x) (x)
#define mx_unlikely(x) (x)
#define mx_noinline __declspec(noinline)
#define mx_cold __declspec(noinline)
#define mx_inline static __forceinline
#define mx_unused
#define mx_used
#define mx_hidden
#define mx_noreturn __declspec(noreturn)
#define mx_printf(f, a)
#define mx_aligned(n) __declspec(align(n))
#define mx_prefetch_write(p) ((void)(p))
#define mx_frame_address() NULL
#include <intrin.h>
#endif

// A small variable that every start of a program touches, or each fork of one with threads. It lies
// with the initialised data, on OS pages that the dynamic linker writes in any case: each other one
// would cost a fault. The checker of the proofs takes a variable that is declared without its
// section for another one.
#if defined(__GNUC__) && defined(__ELF__) && !defined(__CPROVER__)
#define mx_at_start __attribute__((section(".data.mx_at_start")))
#else
#define mx_at_start
#endif

// Around a variable whose initializer leaves out what is zero.
#if defined(__GNUC__)
#define MX_BEGIN_SPARSE                                                                            \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define MX_END_SPARSE _Pragma("GCC diagnostic pop")
#else
#define MX_BEGIN_SPARSE
#define MX_END_SPARSE
#endif

// Keeps a value in the register that a function returns it in: compilers choose another one for
// what is returned last and copy it, which is one instruction in fifteen of malloc.
#if defined(__x86_64__) && defined(__GNUC__)
#define mx_keep_in_result(x) __asm__("" : "+a"(x))
#else
#define mx_keep_in_result(x) ((void)(x))
#endif

// Keeps a multiplication by a constant one instruction, where compilers would rather take five.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CPROVER__)
#define mx_keep_factor(factor, by) \
  do { \
    if (!__builtin_constant_p(by)) __asm__("" : "+r"(factor)); \
  } while (0)
#else
#define mx_keep_factor(factor, by) ((void)(factor))
#endif

// For functions that read what another thread may be writing, and make sure by other means that
// what they read counts: the thread sanitizer cannot know those means.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MX_TSAN 1
#define mx_unsynchronised __attribute__((no_sanitize("thread")))
#endif
#endif
#if !defined(mx_unsynchronised)
#define mx_unsynchronised
#endif

#if defined(__cplusplus)
#define mx_static_assert(c, m) static_assert(c, m)
#define MX_EXTERN_C extern "C"
#define MX_BEGIN_DECLS extern "C" {
#define MX_END_DECLS }
#else
#define mx_static_assert(c, m) _Static_assert(c, m)
#define MX_EXTERN_C
#define MX_BEGIN_DECLS
#define MX_END_DECLS
#endif

// A variable of which every thread has its own. The model is chosen by the build: initial-exec
// by default, so that an access is two instructions and never calls the dynamic linker.
// A program that is built for one thread may have set up no such storage at all.
//
// gcc for Windows emulates such variables by calls that allocate, which malloc cannot make. There
// they are put into the section of thread-local storage by hand, and found as other compilers do.
// For its sake every use is written mx_tls(variable), and static ones are marked as used.
#if defined(MI_SINGLE_THREADED)
#define mx_thread_local
#elif defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)
#define mx_thread_local __attribute__((section(".tls$M")))
#define MX_TLS_BY_HAND 1
#elif defined(_MSC_VER)
#define mx_thread_local __declspec(thread)
#elif defined(__cplusplus)
#define mx_thread_local __thread
#else
#define mx_thread_local _Thread_local
#endif

#if !defined(MX_TLS_BY_HAND)
#define mx_tls(variable) (variable)
#else
MX_BEGIN_DECLS
extern unsigned long _tls_index;
MX_END_DECLS
mx_inline char* mx_tls_block(void) {
  char** blocks;
#if defined(_WIN64)
  __asm__("movq %%gs:0x58, %0" : "=r"(blocks));
#else
  __asm__("movl %%fs:0x2c, %0" : "=r"(blocks));
#endif
  return blocks[_tls_index];
}
#if defined(_WIN64)
#define MX_TLS_ADD(variable) "leaq " #variable "@secrel32(%1), %0"
#else
#define MX_TLS_ADD(variable) "leal _" #variable "@secrel32(%1), %0"
#endif
// By its name: the address of an external variable is no constant to gcc here.
#define mx_tls(variable)                                                       \
  (*__extension__({                                                            \
    __typeof__(variable)* mx_address;                                          \
    __asm__(MX_TLS_ADD(variable) : "=r"(mx_address) : "r"(mx_tls_block()));    \
    mx_address;                                                                \
  }))
#endif

// A function that runs when the program or the library is loaded, before most others, and one that
// runs when it ends. Where the compiler has no such thing the ground floor arranges for it.
#if defined(__GNUC__)
#define mx_on_load __attribute__((constructor(101)))
#define mx_on_unload __attribute__((destructor(101)))
#else
#define mx_on_load mx_unused
#define mx_on_unload mx_unused
#endif

// A whole product: its lower word, and in *high the upper one.
#if defined(__SIZEOF_INT128__)
__extension__ typedef unsigned __int128 mx_uint128_t;
mx_inline uint64_t mx_mul_wide(uint64_t a, uint64_t b, uint64_t* high) {
  const mx_uint128_t product = (mx_uint128_t)a * b;
  *high = (uint64_t)(product >> 64);
  return (uint64_t)product;
}
#else
mx_inline uint64_t mx_mul_wide(uint64_t a, uint64_t b, uint64_t* high) {
  const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  const uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
  *high = a1 * b1 + (middle >> 32) + (other >> 32);
  return other << 32 | (uint32_t)low;
}
#endif

// The unit in which processors own memory; the common ones fetch two at a time.
#define MX_CACHE_LINE 64

#endif
