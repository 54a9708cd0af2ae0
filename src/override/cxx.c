// SPDX-License-Identifier: MIT
// The operators new and delete of all programs on ELF systems, by their mangled names (Itanium
// C++ ABI).
//
// A program may replace some of them and leave the others as they are. The standard says what these
// do then: they end in the throwing operators of one object, with an alignment or without. So they
// call them by name; and these four call malloc and free by name where those are the program's own.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "override.h"

#if MX_OVERRIDE_ELF

#if !defined(__wasm__)
#include <dlfcn.h>
#pragma weak dlsym
#endif

#include "../api/sized.h"
#include "../host/cxx.h"
#include "../service/walk.h"

// A size is an unsigned long in the mangled names, or an unsigned int where that is what it is.
// `kind` is w for new, a for new[], l for delete, a for delete[].
#if UINTPTR_MAX > 0xFFFFFFFFu || defined(__EMSCRIPTEN__)
#define NEW(kind, rest) _Zn##kind##m##rest
#define SIZED(kind, rest) _Zd##kind##Pvm##rest
#else
#define NEW(kind, rest) _Zn##kind##j##rest
#define SIZED(kind, rest) _Zd##kind##Pvj##rest
#endif
#define DELETE(kind, rest) _Zd##kind##Pv##rest

// ---- names -------------------------------------------------------------------------------------

#define DECLARE_NEW(kind, own)                                                                 \
  MX_EXPORT void* NEW(kind, )(size_t size);                                                    \
  MX_EXPORT void* NEW(kind, RKSt9nothrow_t)(size_t size, const void* tag);                     \
  MX_EXPORT void* NEW(kind, St11align_val_t)(size_t size, size_t align);                       \
  MX_EXPORT void* NEW(kind, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align,          \
                                                           const void* tag);                   \
  MX_OWN_NAME(own, void*, NEW(kind, ), (size_t size))                                          \
  MX_OWN_NAME(own##_aligned, void*, NEW(kind, St11align_val_t), (size_t size, size_t align))

DECLARE_NEW(w, mx_own_new)
DECLARE_NEW(a, mx_own_new_many)

#define DECLARE_DELETE(kind, own)                                                              \
  MX_EXPORT void DELETE(kind, )(void* p);                                                      \
  MX_EXPORT void DELETE(kind, RKSt9nothrow_t)(void* p, const void* tag);                       \
  MX_EXPORT void DELETE(kind, St11align_val_t)(void* p, size_t align);                         \
  MX_EXPORT void DELETE(kind, St11align_val_tRKSt9nothrow_t)(void* p, size_t align,            \
                                                             const void* tag);                 \
  MX_EXPORT void SIZED(kind, )(void* p, size_t size);                                          \
  MX_EXPORT void SIZED(kind, St11align_val_t)(void* p, size_t size, size_t align);             \
  MX_OWN_NAME(own, void, DELETE(kind, ), (void* p))                                            \
  MX_OWN_NAME(own##_aligned, void, DELETE(kind, St11align_val_t), (void* p, size_t align))

DECLARE_DELETE(l, mx_own_delete)
DECLARE_DELETE(a, mx_own_delete_many)

// The operators that others end in, as the program has them.
static MX_BOUND struct {
  void* (*one)(size_t size);
  void* (*one_aligned)(size_t size, size_t align);
  void* (*many)(size_t size);
  void* (*many_aligned)(size_t size, size_t align);
} bound_new = {NEW(w, ), NEW(w, St11align_val_t), NEW(a, ), NEW(a, St11align_val_t)};

static MX_BOUND struct {
  void (*one)(void* p);
  void (*one_aligned)(void* p, size_t align);
  void (*many)(void* p);
  void (*many_aligned)(void* p, size_t align);
} bound_delete = {DELETE(l, ), DELETE(l, St11align_val_t), DELETE(a, ),
                  DELETE(a, St11align_val_t)};

// ---- new ---------------------------------------------------------------------------------------

// An `align` of 0 stands for malloc.
static void* new_once(size_t size, size_t align) {
  if (mx_owns_malloc()) return align == 0 ? mi_malloc(size) : mi_malloc_aligned(size, align);
  size = mx_max(size, 1);
  return align == 0 ? mx_bound.allocate(size)
                    : mx_bound.allocate_aligned(align, mx_align_up(size, align));
}

// As the C++ library does it.
static mx_noinline void* new_by_name(size_t size, size_t align, bool throws) {
  void* p;
  do {
    p = new_once(size, align);
  } while (mx_unlikely(p == NULL) && mx_new_again(throws));
  return p;
}

// A program with a malloc of its own always comes here: no page of ours ever serves it.
static mx_noinline void* new_slow(size_t size) {
  return mx_owns_malloc() ? mx_new_slow(size) : new_by_name(size, 0, true);
}

void* NEW(w, )(size_t size) {
  void* const p = mx_alloc_quick(size);
  return mx_likely(p != NULL) ? mx_given(p) : new_slow(size);
}

void* NEW(w, St11align_val_t)(size_t size, size_t align) {
  return mx_owns_malloc() ? mi_new_aligned(size, align) : new_by_name(size, align, true);
}

void* NEW(a, )(size_t size) { return bound_new.one(size); }

void* NEW(a, St11align_val_t)(size_t size, size_t align) {
  return bound_new.one_aligned(size, align);
}

// The forms that do not throw must catch what the program's own operator throws, or its
// new-handler, which C cannot: the C++ library's do. What is next in the order of loading may be
// another allocator's, and is asked last.
static void* find_next(bool is_many, bool is_aligned) {
  static const char names[2][2][36] = {
    {MX_NAME_OF(NEW(w, RKSt9nothrow_t)), MX_NAME_OF(NEW(w, St11align_val_tRKSt9nothrow_t))},
    {MX_NAME_OF(NEW(a, RKSt9nothrow_t)), MX_NAME_OF(NEW(a, St11align_val_tRKSt9nothrow_t))}};
  const char* const name = names[is_many][is_aligned];
  void* found = NULL;
#if defined(RTLD_NEXT)
  if (!mx_cxx_find(name, &found) && dlsym != NULL) found = dlsym(RTLD_NEXT, name);
#else
  (void)name;
#endif
  return found;
}

#define ONE_IS_OWN MX_IS_OWN(bound_new.one, mx_own_new)
#define ONE_ALIGNED_IS_OWN MX_IS_OWN(bound_new.one_aligned, mx_own_new_aligned)
#define MANY_IS_OWN MX_IS_OWN(bound_new.many, mx_own_new_many)
#define MANY_ALIGNED_IS_OWN MX_IS_OWN(bound_new.many_aligned, mx_own_new_many_aligned)

// Without such a library NULL, or what a new-handler throws ends the program.
static mx_noinline void* new_nothrow(size_t size, size_t align, const void* tag, bool is_many) {
  const bool is_own = (align == 0 ? ONE_IS_OWN && (!is_many || MANY_IS_OWN)
                                  : ONE_ALIGNED_IS_OWN && (!is_many || MANY_ALIGNED_IS_OWN));
  if (mx_likely(is_own)) {
    void* const p = new_once(size, align);
    if (mx_likely(p != NULL) || mx_cxx_new_handler() == NULL) return p;
  }
  union {
    void* found;
    void* (*plain)(size_t size, const void* tag);
    void* (*aligned)(size_t size, size_t align, const void* tag);
  } next = {find_next(is_many, align != 0)};
  if (next.found == NULL) return is_own ? new_by_name(size, align, false) : NULL;
  return align == 0 ? next.plain(size, tag) : next.aligned(size, align, tag);
}

void* NEW(w, RKSt9nothrow_t)(size_t size, const void* tag) {
  void* const p = (mx_likely(ONE_IS_OWN) ? mx_alloc_quick(size) : NULL);
  return mx_likely(p != NULL) ? mx_given(p) : new_nothrow(size, 0, tag, false);
}

void* NEW(a, RKSt9nothrow_t)(size_t size, const void* tag) {
  return new_nothrow(size, 0, tag, true);
}

// An alignment of 0 is refused as any that is no power of two.
#define SAID_ALIGN(align) ((align) - ((align) == 0))

void* NEW(w, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align, const void* tag) {
  return new_nothrow(size, SAID_ALIGN(align), tag, false);
}

void* NEW(a, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align, const void* tag) {
  return new_nothrow(size, SAID_ALIGN(align), tag, true);
}

// ---- delete ------------------------------------------------------------------------------------

// What no page of ours holds came from the program's malloc, when it has one.
static mx_noinline void delete_slow(void* p) {
  if (mx_unlikely(!mx_owns_free()) && p != NULL && mx_walk_page_of(p) == NULL) {
    mx_bound.release(p);
  } else {
    mx_free_slow(p);
  }
}

static mx_noinline void delete_other(void* p, mx_page_t* page) {
  if (mx_unlikely(mx_pagemap_is_none(page))) delete_slow(p);
  else mx_free_other(p, page);
}

// What lies in one of our pages is ours, whoever has free.
mx_inline void end_any(void* p) {
  if (mx_has_tags()) p = mx_tags_take("operator delete", p);
  mx_free_or(p, delete_slow, delete_other);
}

// The names are those for reports.
static mx_noinline void end_said(const char* name, void* p, size_t size, size_t align) {
  if (mx_owns_free()) (mx_has_tags() ? mx_free_said_tagged : mx_free_said)(name, p, size, align);
  else end_any(p);
}

mx_inline void end(const char* name, void* p, size_t size, size_t align) {
  if (!MX_CHECK_SIZED) end_any(p);
  else if (mx_has_tags()) end_said(name, p, size, align);
  else if (mx_unlikely(!mx_free_as(p, size, align))) end_said(name, p, size, align);
}

void DELETE(l, )(void* p) { end_any(p); }

void DELETE(l, St11align_val_t)(void* p, size_t align) {
  end("operator delete", p, MX_ANY_SIZE, align);
}

// Only checked builds look at what else is said of the block.
#define IS_CHECKED(kind, own) \
  (MX_CHECK_SIZED && MX_IS_OWN(bound_delete.one##kind, mx_own_delete##kind) && (own))
#define MANY(kind) MX_IS_OWN(bound_delete.many##kind, mx_own_delete_many##kind)

void DELETE(a, )(void* p) { bound_delete.one(p); }

void DELETE(a, St11align_val_t)(void* p, size_t align) {
  if (IS_CHECKED(_aligned, true)) end("operator delete[]", p, MX_ANY_SIZE, align);
  else bound_delete.one_aligned(p, align);
}

#define DEFINE_DELETE(kind, which, name, own)                                                  \
  void DELETE(kind, RKSt9nothrow_t)(void* p, const void* tag) {                                \
    (void)tag;                                                                                 \
    bound_delete.which(p);                                                                     \
  }                                                                                            \
  void DELETE(kind, St11align_val_tRKSt9nothrow_t)(void* p, size_t align, const void* tag) {   \
    (void)tag;                                                                                 \
    bound_delete.which##_aligned(p, align);                                                    \
  }                                                                                            \
  void SIZED(kind, )(void* p, size_t size) {                                                   \
    if (IS_CHECKED(, own())) end(name, p, size, MX_ANY_ALIGN);                                 \
    else bound_delete.which(p);                                                                \
  }                                                                                            \
  void SIZED(kind, St11align_val_t)(void* p, size_t size, size_t align) {                      \
    if (IS_CHECKED(_aligned, own(_aligned))) end(name, p, size, align);                        \
    else bound_delete.which##_aligned(p, align);                                               \
  }

#define ALWAYS(kind) true
DEFINE_DELETE(l, one, "operator delete", ALWAYS)
DEFINE_DELETE(a, many, "operator delete[]", MANY)

#endif
