// SPDX-License-Identifier: MIT
// Redirection: when the DLL is loaded, the allocation functions of the C run-time that the
// process already has become ours, for whoever calls them: the program, other DLLs, the run-time
// itself. Programs need no change but to load the DLL.
//
// ucrtbase.dll is redirected wherever it is loaded, msvcrt.dll in programs that import it
// themselves: others have it only because DLLs of the system use it. A run-time is redirected as a
// whole or, where one of its functions begins with unfamiliar code, not at all.
//
// Blocks that the run-time handed out before, or hands out by ways of its own, are told by the
// page map: they go to the original functions, which still work, and move to us when they grow.
//
// The entries stay ours as long as the process lives: the DLL pins itself, since blocks of ours
// would outlive it. MIMALLOC_DISABLE_REDIRECT=1 leaves everything as it is.
#include "override.h"

#if MX_OVERRIDE_WINDOWS

#include <errno.h>
#include <string.h>
#include <wchar.h>

#include "../alloc/fast.h"
#include "../api/process_life.h"
#include "../base/facts.h"
#include "../base/hooks.h"
#include "../os/os.h"
#include "../os/windows_api.h"
#include "windows_jump.h"

// ---- the original functions --------------------------------------------------------------------

typedef void* malloc_fn(size_t size);
typedef void* calloc_fn(size_t count, size_t size);
typedef void* realloc_fn(void* p, size_t size);
typedef void free_fn(void* p);
typedef size_t size_fn(void* p);
typedef void* recalloc_fn(void* p, size_t count, size_t size);
typedef void* aligned_fn(size_t size, size_t align, size_t offset);
typedef void* aligned_realloc_fn(void* p, size_t size, size_t align, size_t offset);
typedef size_t aligned_size_fn(void* p, size_t align, size_t offset);

// What is called of a run-time after it was redirected. `any` takes what is never called.
typedef struct crt_s {
  const wchar_t* name;
  const char* import;  // redirected only where the program imports this
  void *free, *msize, *expand, *aligned_free, *aligned_msize, *op_new, *op_new_array, *any;
} crt_t;

static crt_t crts[] = {
    {L"ucrtbase.dll", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL},
    {L"msvcrt.dll", "msvcrt.dll", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL},
};

#define CALL(crt, name, type) ((type*)(uintptr_t)(crt)->name)

// ---- the replacements --------------------------------------------------------------------------

static bool is_ours(const void* p) { return mi_is_in_heap_region(p); }

static void* crt_realloc(const crt_t* crt, void* p, size_t size) {
  if (p == NULL) return mi_malloc(size);
  if (size == 0) {
    if (is_ours(p)) mx_free(p);
    else CALL(crt, free, free_fn)(p);
    return NULL;
  }
  if (mx_likely(is_ours(p))) return mi_realloc(p, size);
  void* const fresh = mi_malloc(size);
  if (fresh == NULL) return NULL;
  memcpy(fresh, p, mx_min(size, CALL(crt, msize, size_fn)(p)));
  CALL(crt, free, free_fn)(p);
  return fresh;
}

static void* crt_recalloc(const crt_t* crt, void* p, size_t count, size_t size) {
  size_t total;
  if (mx_mul_overflow(count, size, &total)) {
    mx_os_set_errno(ENOMEM);
    return NULL;
  }
  if (p == NULL) return mi_calloc(count, size);
  if (total != 0 && is_ours(p)) return mi_recalloc(p, count, size);
  const size_t before = (total == 0 ? 0 : CALL(crt, msize, size_fn)(p));
  void* const q = crt_realloc(crt, p, total);
  if (q != NULL && total > before) memset((char*)q + before, 0, total - before);
  return q;
}

// Frees take the way of free() for blocks of the thread's own pages.
static inline void crt_free(const crt_t* crt, void* p) {
  const mx_page_t* const page = mx_pagemap_get(p);
  if (mx_likely(mx_thread_is(mx_load_relaxed(&page->owner)) || is_ours(p))) mx_free(p);
  else if (p != NULL) CALL(crt, free, free_fn)(p);
}

static size_t crt_msize(const crt_t* crt, void* p) {
  return is_ours(p) ? mi_usable_size(p) : CALL(crt, msize, size_fn)(p);
}

static void* crt_expand(const crt_t* crt, void* p, size_t size) {
  // What fits stays, also in builds whose blocks end in a canary.
  if (is_ours(p)) return size <= mi_usable_size(p) ? p : mi_expand(p, size);
  return crt->expand == NULL ? NULL : CALL(crt, expand, realloc_fn)(p, size);
}

// The run-time takes smaller alignments for that of a pointer.
static void* crt_aligned(size_t size, size_t align, size_t offset) {
  if (!mx_is_pow2(align) || (offset != 0 && offset >= size)) {
    mx_os_set_errno(EINVAL);
    return NULL;
  }
  return mi_malloc_aligned_at(size, mx_max(align, sizeof(void*)), offset);
}

static void crt_aligned_free(const crt_t* crt, void* p) {
  if (p == NULL || is_ours(p)) mx_free(p);
  else CALL(crt, aligned_free, free_fn)(p);
}

static size_t crt_aligned_msize(const crt_t* crt, void* p, size_t align, size_t offset) {
  if (is_ours(p)) return mi_usable_size(p);
  if (crt->aligned_msize != NULL) {
    return CALL(crt, aligned_msize, aligned_size_fn)(p, align, offset);
  }
  // An old run-time cannot tell: all that can be read there is the most that it can be.
  MEMORY_BASIC_INFORMATION info;
  if (VirtualQuery(p, &info, sizeof(info)) == 0) return 0;
  return info.RegionSize - (size_t)((uint8_t*)p - (uint8_t*)info.BaseAddress);
}

// The original would be no help: what it allocates by way of malloc is ours, with a header of its.
static void* crt_aligned_realloc(const crt_t* crt, void* p, size_t size, size_t align,
                                 size_t offset, bool zero) {
  if (p != NULL && size == 0) {
    crt_aligned_free(crt, p);
    return NULL;
  }
  const size_t before = (p == NULL ? 0 : crt_aligned_msize(crt, p, align, offset));
  if (p != NULL && is_ours(p) && mx_is_pow2(align)) {
    align = mx_max(align, sizeof(void*));
    return zero ? mi_rezalloc_aligned_at(p, size, align, offset)
                : mi_realloc_aligned_at(p, size, align, offset);
  }
  void* const fresh = crt_aligned(size, align, offset);
  if (fresh == NULL) return NULL;
  if (p != NULL) memcpy(fresh, p, mx_min(before, size));
  if (zero && size > before) memset((char*)fresh + before, 0, size - before);
  crt_aligned_free(crt, p);
  return fresh;
}

static size_t product(size_t count, size_t size) {
  size_t total;
  return mx_mul_overflow(count, size, &total) ? SIZE_MAX : total;
}

// What fails runs the new-handler and throws, as the original knows how to.
static void* crt_new(const void* original, size_t size) {
  void* const p = mi_malloc(size);
  return mx_likely(p != NULL) ? p : ((malloc_fn*)(uintptr_t)original)(size);
}

// Functions without a run-time to fall back on serve all of them.
static void* my_malloc(size_t size) { return mx_alloc(size); }
static void* my_calloc(size_t count, size_t size) {
  return mx_calloc(count, size);
}
static char* my_strdup(const char* s) { return mi_strdup(s); }
static wchar_t* my_wcsdup(const wchar_t* s) { return (wchar_t*)mi_wcsdup(s); }
static unsigned char* my_mbsdup(const unsigned char* s) { return mi_mbsdup(s); }
static void* my_aligned(size_t size, size_t align) { return crt_aligned(size, align, 0); }
static void* my_offset(size_t size, size_t align, size_t offset) {
  return crt_aligned(size, align, offset);
}

// The others exist once for each.
#define DEFINE_FUNCTIONS(n)                                                                     \
  static void free_##n(void* p) { crt_free(&crts[n], p); }                                      \
  static void* realloc_##n(void* p, size_t s) { return crt_realloc(&crts[n], p, s); }           \
  static void* recalloc_##n(void* p, size_t c, size_t s) {                                      \
    return crt_recalloc(&crts[n], p, c, s);                                                     \
  }                                                                                             \
  static void* expand_##n(void* p, size_t s) { return crt_expand(&crts[n], p, s); }             \
  static size_t msize_##n(void* p) { return crt_msize(&crts[n], p); }                           \
  static void aligned_free_##n(void* p) { crt_aligned_free(&crts[n], p); }                      \
  static size_t aligned_msize_##n(void* p, size_t a, size_t o) {                                \
    return crt_aligned_msize(&crts[n], p, a, o);                                                \
  }                                                                                             \
  static void* aligned_realloc_##n(void* p, size_t s, size_t a) {                               \
    return crt_aligned_realloc(&crts[n], p, s, a, 0, false);                                    \
  }                                                                                             \
  static void* offset_realloc_##n(void* p, size_t s, size_t a, size_t o) {                      \
    return crt_aligned_realloc(&crts[n], p, s, a, o, false);                                    \
  }                                                                                             \
  static void* aligned_recalloc_##n(void* p, size_t c, size_t s, size_t a) {                    \
    return crt_aligned_realloc(&crts[n], p, product(c, s), a, 0, true);                         \
  }                                                                                             \
  static void* offset_recalloc_##n(void* p, size_t c, size_t s, size_t a, size_t o) {           \
    return crt_aligned_realloc(&crts[n], p, product(c, s), a, o, true);                         \
  }                                                                                             \
  static void* new_##n(size_t s) { return crt_new(crts[n].op_new, s); }                         \
  static void* new_array_##n(size_t s) { return crt_new(crts[n].op_new_array, s); }

DEFINE_FUNCTIONS(0)
DEFINE_FUNCTIONS(1)

// ---- which function becomes which --------------------------------------------------------------

typedef void any_fn(void);

typedef struct entry_s {
  const char* name;
  any_fn* replacements[2];  // by run-time
  size_t original;          // offset in crt_t
} entry_t;

#define BOTH(f) {(any_fn*)(f), (any_fn*)(f)}
#define EACH(f) {(any_fn*)f##_0, (any_fn*)f##_1}
#define KEEP(field) offsetof(crt_t, field)

#if MX_64BIT
#define NEW_NAMES "??2@YAPEAX_K@Z", "??_U@YAPEAX_K@Z", "??3@YAXPEAX@Z", "??_V@YAXPEAX@Z"
#else
#define NEW_NAMES "??2@YAPAXI@Z", "??_U@YAPAXI@Z", "??3@YAXPAX@Z", "??_V@YAXPAX@Z"
#endif
static const char* const new_names[] = {NEW_NAMES};

// Where a run-time does not export a name nothing is missing. The names that end in _base are those
// by which the run-time calls itself.
static const entry_t entries[] = {
    {"malloc", BOTH(my_malloc), KEEP(any)},
    {"_malloc_base", BOTH(my_malloc), KEEP(any)},
    {"calloc", BOTH(my_calloc), KEEP(any)},
    {"_calloc_base", BOTH(my_calloc), KEEP(any)},
    {"realloc", EACH(realloc), KEEP(any)},
    {"_realloc_base", EACH(realloc), KEEP(any)},
    {"free", EACH(free), KEEP(free)},
    {"_free_base", EACH(free), KEEP(any)},
    {"_recalloc", EACH(recalloc), KEEP(any)},
    {"_recalloc_base", EACH(recalloc), KEEP(any)},
    {"_expand", EACH(expand), KEEP(expand)},
    {"_msize", EACH(msize), KEEP(msize)},
    {"_msize_base", EACH(msize), KEEP(any)},
    {"_aligned_malloc", BOTH(my_aligned), KEEP(any)},
    {"_aligned_realloc", EACH(aligned_realloc), KEEP(any)},
    {"_aligned_recalloc", EACH(aligned_recalloc), KEEP(any)},
    {"_aligned_free", EACH(aligned_free), KEEP(aligned_free)},
    {"_aligned_msize", EACH(aligned_msize), KEEP(aligned_msize)},
    {"_aligned_offset_malloc", BOTH(my_offset), KEEP(any)},
    {"_aligned_offset_realloc", EACH(offset_realloc), KEEP(any)},
    {"_aligned_offset_recalloc", EACH(offset_recalloc), KEEP(any)},
    {"_strdup", BOTH(my_strdup), KEEP(any)},
    {"_wcsdup", BOTH(my_wcsdup), KEEP(any)},
    {"_mbsdup", BOTH(my_mbsdup), KEEP(any)},
    {NULL, EACH(new), KEEP(op_new)},
    {NULL, EACH(new_array), KEEP(op_new_array)},
    {NULL, EACH(free), KEEP(any)},
    {NULL, EACH(free), KEEP(any)},
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

// Without these nothing could be given back to where it came from.
static bool is_complete(const crt_t* crt) { return crt->free != NULL && crt->msize != NULL; }

static mx_patches_t patches[2];

static void report_unfamiliar(const char* module, const char* name, const uint8_t* code) {
  mx_warning("redirection: %s of %s begins with unfamiliar code: "
             "%02x %02x %02x %02x %02x %02x %02x %02x; nothing of it is redirected\n",
             name, module, code[0], code[1], code[2], code[3], code[4], code[5], code[6], code[7]);
}

static bool redirect(size_t number, HMODULE module, const char* module_name) {
  crt_t* const crt = &crts[number];
  mx_patches_t* const set = &patches[number];
  if (!mx_patches_begin(set, (const void*)module)) return false;
  size_t next_new = 0;
  for (size_t i = 0; i < ENTRY_COUNT; i++) {
    const entry_t* const e = &entries[i];
    const char* const name = (e->name != NULL ? e->name : new_names[next_new++]);
    void* const code = (void*)(uintptr_t)GetProcAddress(module, name);
    void** const original = (void**)(void*)((char*)crt + e->original);
    if (code == NULL) continue;
    if (!mx_patches_add(set, code, (const void*)(uintptr_t)e->replacements[number], original)) {
      report_unfamiliar(module_name, name, (const uint8_t*)code);
      mx_patches_drop(set);
      return false;
    }
  }
  if (is_complete(crt) && mx_patches_apply(set)) return true;
  mx_warning("redirection: the code of %s cannot be written to\n", module_name);
  mx_patches_drop(set);
  return false;
}

// ---- at the start ------------------------------------------------------------------------------

static bool is_same_name(const char* a, const char* b) {
  for (; *a != 0 && *b != 0; a++, b++) {
    const char c = (*a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a);
    if (c != *b) return false;
  }
  return *a == *b;
}

// Whether the program's own import table names a module.
static bool program_imports(const char* name) {
  const uint8_t* const image = (const uint8_t*)(const void*)GetModuleHandleW(NULL);
  const IMAGE_DOS_HEADER* const dos = (const IMAGE_DOS_HEADER*)(const void*)image;
  const IMAGE_NT_HEADERS* const nt = (const IMAGE_NT_HEADERS*)(const void*)(image + dos->e_lfanew);
  const IMAGE_DATA_DIRECTORY* const directory =
      &nt->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
  if (directory->VirtualAddress == 0) return false;
  const IMAGE_IMPORT_DESCRIPTOR* import =
      (const IMAGE_IMPORT_DESCRIPTOR*)(const void*)(image + directory->VirtualAddress);
  for (; import->Name != 0; import++) {
    if (is_same_name((const char*)image + import->Name, name)) return true;
  }
  return false;
}

static bool is_disabled(void) {
  char value[8];
  const DWORD length = GetEnvironmentVariableA("MIMALLOC_DISABLE_REDIRECT", value, sizeof(value));
  if (length == 0 || length >= sizeof(value)) return false;
  return strcmp(value, "1") == 0 || is_same_name(value, "true") || is_same_name(value, "yes") ||
         is_same_name(value, "on");
}

static void pin(void) {
  HMODULE self;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     (LPCWSTR)(const void*)&patches, &self);
}

static void redirect_all(void) {
  if (is_disabled()) {
    mx_verbose("redirection is disabled\n");
    return;
  }
  for (size_t i = 0; i < sizeof(crts) / sizeof(crts[0]); i++) {
    const HMODULE module = GetModuleHandleW(crts[i].name);
    if (module == NULL || (crts[i].import != NULL && !program_imports(crts[i].import))) continue;
    const char* const name = (i == 0 ? "ucrtbase.dll" : "msvcrt.dll");
    if (!redirect(i, module, name)) continue;
    mx_facts.is_redirected = true;
    mx_verbose("%s is redirected\n", name);
  }
  if (mx_facts.is_redirected) pin();
}

// Behind the start of the library itself.
#if defined(__GNUC__)
__attribute__((constructor(102))) static void redirect_on_load(void) {
  mx_process_start();
  redirect_all();
}
#else
static int redirect_on_load(void) {
  mx_process_start();
  redirect_all();
  return 0;
}
#pragma section(".CRT$XCU", long, read)
MX_EXTERN_C __declspec(allocate(".CRT$XCU")) int (*const mx_windows_redirect)(void) =
    &redirect_on_load;
#endif

#endif
