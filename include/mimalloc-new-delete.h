// SPDX-License-Identifier: MIT
/// @file mimalloc-new-delete.h
/// Replaces the global operators `new` and `delete` of a program by mimalloc's: every form that the
/// chosen C++ standard has. They fail as the standard asks: new-handler, then `std::bad_alloc`, or
/// NULL in the forms with `std::nothrow`.
///
/// Include it in exactly one source file of the program; it defines functions. A library should
/// leave the choice to the program that uses it.
#ifndef MIMALLOC_NEW_DELETE_H
#define MIMALLOC_NEW_DELETE_H

#ifdef __cplusplus

#include <cstddef>
#include <new>

#include "mimalloc.h"

/// @cond
// Microsoft's header declares the operators with annotations that a definition must repeat.
#if defined(_MSC_VER) && defined(_Ret_notnull_) && defined(_Post_writable_byte_size_)
#define _mi_decl_new(n) \
  mi_decl_nodiscard mi_decl_restrict _Ret_notnull_ _Post_writable_byte_size_(n)
#define _mi_decl_new_nothrow(n) \
  mi_decl_nodiscard mi_decl_restrict _Ret_maybenull_ _Success_(return != NULL) \
    _Post_writable_byte_size_(n)
#else
#define _mi_decl_new(n) mi_decl_nodiscard mi_decl_restrict
#define _mi_decl_new_nothrow(n) mi_decl_nodiscard mi_decl_restrict
#endif

// C++98 lists what a function throws.
#if __cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900)
#define _mi_throws_bad_alloc
#else
#define _mi_throws_bad_alloc throw(std::bad_alloc)
#endif

// A DLL that is C cannot reach the C++ run-time of a program that has it linked in: where it answers
// NULL, the program does the rest itself.
#if defined(_WIN32) && __cplusplus >= 201103L && defined(__cpp_exceptions)
static inline void* _mi_new_or_throw(void* p, std::size_t n, std::size_t alignment) {
  while (p == nullptr) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
    p = (alignment == 0 ? mi_new_nothrow(n) : mi_new_aligned_nothrow(n, alignment));
  }
  return p;
}
#define _mi_new(n) _mi_new_or_throw(mi_new(n), n, 0)
#define _mi_new_aligned(n, al) _mi_new_or_throw(mi_new_aligned(n, al), n, al)
#else
#define _mi_new(n) mi_new(n)
#define _mi_new_aligned(n, al) mi_new_aligned(n, al)
#endif

// What a new-handler throws ends in the forms that do not throw; C could not catch it.
#if __cplusplus >= 201103L && defined(__cpp_exceptions)
static inline void* _mi_new_or_null(std::size_t n, std::size_t alignment) noexcept {
  void* const p = (alignment == 0 ? mi_malloc(n) : mi_malloc_aligned(n, alignment));
  if (p != nullptr || std::get_new_handler() == nullptr) return p;
  try {
    return alignment == 0 ? _mi_new(n) : _mi_new_aligned(n, alignment);
  } catch (...) {
    return nullptr;
  }
}
#define _mi_new_nothrow(n) _mi_new_or_null(n, 0)
#define _mi_new_aligned_nothrow(n, al) _mi_new_or_null(n, (al) - ((al) == 0))  // 0 is refused
#else
#define _mi_new_nothrow(n) mi_new_nothrow(n)
#define _mi_new_aligned_nothrow(n, al) mi_new_aligned_nothrow(n, al)
#endif
/// @endcond

/// @addtogroup cpp
/// @{

/// As mi_free().
void operator delete(void* p) mi_attr_noexcept { mi_free(p); }
/// As mi_free().
void operator delete[](void* p) mi_attr_noexcept { mi_free(p); }
/// As mi_free().
void operator delete(void* p, const std::nothrow_t&) mi_attr_noexcept { mi_free(p); }
/// As mi_free().
void operator delete[](void* p, const std::nothrow_t&) mi_attr_noexcept { mi_free(p); }

/// As mi_new().
_mi_decl_new(n) void* operator new(std::size_t n) _mi_throws_bad_alloc { return _mi_new(n); }
/// As mi_new().
_mi_decl_new(n) void* operator new[](std::size_t n) _mi_throws_bad_alloc { return _mi_new(n); }
/// As mi_new_nothrow().
_mi_decl_new_nothrow(n) void* operator new(std::size_t n, const std::nothrow_t&) mi_attr_noexcept {
  return _mi_new_nothrow(n);
}
/// As mi_new_nothrow().
_mi_decl_new_nothrow(n) void* operator new[](std::size_t n, const std::nothrow_t&)
  mi_attr_noexcept {
  return _mi_new_nothrow(n);
}

// Sized: since C++14.
#if __cplusplus >= 201402L || (defined(_MSC_VER) && _MSC_VER >= 1916)
/// As mi_free_size().
void operator delete(void* p, std::size_t n) noexcept { mi_free_size(p, n); }
/// As mi_free_size().
void operator delete[](void* p, std::size_t n) noexcept { mi_free_size(p, n); }
#endif

// Aligned: since C++17.
#if defined(__cpp_aligned_new)
/// As mi_free_aligned().
void operator delete(void* p, std::align_val_t al) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(al));
}
/// As mi_free_aligned().
void operator delete[](void* p, std::align_val_t al) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(al));
}
/// As mi_free_size_aligned().
void operator delete(void* p, std::size_t n, std::align_val_t al) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(al));
}
/// As mi_free_size_aligned().
void operator delete[](void* p, std::size_t n, std::align_val_t al) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(al));
}
/// As mi_free_aligned().
void operator delete(void* p, std::align_val_t al, const std::nothrow_t&) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(al));
}
/// As mi_free_aligned().
void operator delete[](void* p, std::align_val_t al, const std::nothrow_t&) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(al));
}

/// As mi_new_aligned().
_mi_decl_new(n) void* operator new(std::size_t n, std::align_val_t al) {
  return _mi_new_aligned(n, static_cast<std::size_t>(al));
}
/// As mi_new_aligned().
_mi_decl_new(n) void* operator new[](std::size_t n, std::align_val_t al) {
  return _mi_new_aligned(n, static_cast<std::size_t>(al));
}
/// As mi_new_aligned_nothrow().
_mi_decl_new_nothrow(n) void* operator new(std::size_t n, std::align_val_t al,
                                           const std::nothrow_t&) noexcept {
  return _mi_new_aligned_nothrow(n, static_cast<std::size_t>(al));
}
/// As mi_new_aligned_nothrow().
_mi_decl_new_nothrow(n) void* operator new[](std::size_t n, std::align_val_t al,
                                             const std::nothrow_t&) noexcept {
  return _mi_new_aligned_nothrow(n, static_cast<std::size_t>(al));
}
#endif

/// @}

#undef _mi_decl_new
#undef _mi_decl_new_nothrow
#undef _mi_throws_bad_alloc

#endif  // __cplusplus

#endif  // MIMALLOC_NEW_DELETE_H
