// SPDX-License-Identifier: MIT
// Owns the operators new and delete of all programs on ELF systems. A library that is C defines
// them by their mangled names (Itanium C++ ABI); one that is compiled as C++ as what they are.
#include "override.h"

#if MX_OVERRIDE_ELF && defined(__cplusplus)

#include "../../include/mimalloc-new-delete.h"

#elif MX_OVERRIDE_ELF

#include "../api/sized.h"

// A size is an unsigned long in the mangled names, or an unsigned int where that is what it is.
#if UINTPTR_MAX > 0xFFFFFFFFu || defined(__EMSCRIPTEN__)
#define NEW(kind, rest) _Zn##kind##m##rest
#define DELETE(kind, rest) _Zd##kind##Pvm##rest
#else
#define NEW(kind, rest) _Zn##kind##j##rest
#define DELETE(kind, rest) _Zd##kind##Pvj##rest
#endif

// ---- new ---------------------------------------------------------------------------------------

// `kind` is w for new, a for new[].
#define DEFINE_NEW(kind)                                                                        \
  MX_EXPORT void* NEW(kind, )(size_t size);                                                     \
  MX_EXPORT void* NEW(kind, RKSt9nothrow_t)(size_t size, const void* tag);                      \
  MX_EXPORT void* NEW(kind, St11align_val_t)(size_t size, size_t align);                        \
  MX_EXPORT void* NEW(kind, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align,           \
                                                           const void* tag);                    \
  void* NEW(kind, )(size_t size) { return mx_new(size); }                                       \
  void* NEW(kind, RKSt9nothrow_t)(size_t size, const void* tag) {                               \
    (void)tag;                                                                                  \
    return mx_new_nothrow(size);                                                                \
  }                                                                                             \
  void* NEW(kind, St11align_val_t)(size_t size, size_t align) {                                 \
    return mi_new_aligned(size, align);                                                         \
  }                                                                                             \
  void* NEW(kind, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align, const void* tag) {  \
    (void)tag;                                                                                  \
    return mi_new_aligned_nothrow(size, align);                                                 \
  }

DEFINE_NEW(w)
DEFINE_NEW(a)

// ---- delete ------------------------------------------------------------------------------------

// `kind` is l for delete, a for delete[].
#define DEFINE_DELETE(kind, name)                                                               \
  MX_EXPORT void _Zd##kind##Pv(void* p);                                                        \
  MX_EXPORT void _Zd##kind##PvRKSt9nothrow_t(void* p, const void* tag);                         \
  MX_EXPORT void _Zd##kind##PvSt11align_val_t(void* p, size_t align);                           \
  MX_EXPORT void _Zd##kind##PvSt11align_val_tRKSt9nothrow_t(void* p, size_t align,              \
                                                            const void* tag);                   \
  MX_EXPORT void DELETE(kind, )(void* p, size_t size);                                          \
  MX_EXPORT void DELETE(kind, St11align_val_t)(void* p, size_t size, size_t align);             \
  void _Zd##kind##Pv(void* p) { mx_free(p); }                                                   \
  void _Zd##kind##PvRKSt9nothrow_t(void* p, const void* tag) {                                  \
    (void)tag;                                                                                  \
    mx_free(p);                                                                                 \
  }                                                                                             \
  void _Zd##kind##PvSt11align_val_t(void* p, size_t align) {                                    \
    mx_free_checked(name, p, MX_ANY_SIZE, align);                                               \
  }                                                                                             \
  void _Zd##kind##PvSt11align_val_tRKSt9nothrow_t(void* p, size_t align, const void* tag) {     \
    (void)tag;                                                                                  \
    mx_free_checked(name, p, MX_ANY_SIZE, align);                                               \
  }                                                                                             \
  void DELETE(kind, )(void* p, size_t size) { mx_free_checked(name, p, size, MX_ANY_ALIGN); }   \
  void DELETE(kind, St11align_val_t)(void* p, size_t size, size_t align) {                      \
    mx_free_checked(name, p, size, align);                                                      \
  }

DEFINE_DELETE(l, "operator delete")
DEFINE_DELETE(a, "operator delete[]")

#endif
