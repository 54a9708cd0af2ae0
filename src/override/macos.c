// SPDX-License-Identifier: MIT
// The override on macOS: names of the C library and of C++ are interposed by the dynamic
// linker where our library is inserted (DYLD_INSERT_LIBRARIES) or linked, and a malloc zone of our
// own becomes the default one, for callers that go to zones.
//
// A block may have been made before the override was there, by a zone of the system: such a one
// goes back to the zone that the system finds for it.
#include "override.h"

#if defined(MI_MALLOC_OVERRIDE) && defined(__APPLE__)

#include <errno.h>
#include <malloc/malloc.h>
#include <stdlib.h>
#include <string.h>

#include "macos_zone.h"

// ---- zones -------------------------------------------------------------------------------------

#if defined(MI_OSX_ZONE)

static boolean_t claims_address(malloc_zone_t* zone, void* p) {
  (void)zone;
  return mi_is_in_heap_region(p);
}

static kern_return_t enumerate(task_t task, void* p, unsigned types, vm_address_t zone,
                               memory_reader_t* reader, vm_range_recorder_t* recorder) {
  (void)task, (void)p, (void)types, (void)zone, (void)reader, (void)recorder;
  return KERN_SUCCESS;
}

static boolean_t check_zone(malloc_zone_t* zone) {
  (void)zone;
  return true;
}

static void print_zone(malloc_zone_t* zone, boolean_t verbose) {
  (void)zone, (void)verbose;
}

static void log_zone(malloc_zone_t* zone, void* p) { (void)zone, (void)p; }

// The library's own handlers of fork look after its locks.
static void lock_zone(malloc_zone_t* zone) { (void)zone; }

static boolean_t is_zone_locked(malloc_zone_t* zone) {
  (void)zone;
  return false;
}

static void zone_statistics(malloc_zone_t* zone, malloc_statistics_t* stats) {
  (void)zone;
  memset(stats, 0, sizeof(*stats));
}

static malloc_introspection_t introspection = {
    .enumerator = &enumerate,
    .good_size = (size_t(*)(malloc_zone_t*, size_t))&mx_zone_good_size,
    .check = &check_zone,
    .print = &print_zone,
    .log = &log_zone,
    .force_lock = &lock_zone,
    .force_unlock = &lock_zone,
    .statistics = &zone_statistics,
    .zone_locked = &is_zone_locked,
};

static malloc_zone_t our_zone = {
    .size = (size_t(*)(malloc_zone_t*, const void*))&mx_zone_size,
    .malloc = (void* (*)(malloc_zone_t*, size_t))&mx_zone_malloc,
    .calloc = (void* (*)(malloc_zone_t*, size_t, size_t))&mx_zone_calloc,
    .valloc = (void* (*)(malloc_zone_t*, size_t))&mx_zone_valloc,
    .free = (void (*)(malloc_zone_t*, void*))&mx_zone_free,
    .realloc = (void* (*)(malloc_zone_t*, void*, size_t))&mx_zone_realloc,
    .destroy = (void (*)(malloc_zone_t*))&mx_zone_destroy,
    .zone_name = "mimalloc",
    .batch_malloc =
        (unsigned (*)(malloc_zone_t*, size_t, void**, unsigned))&mx_zone_batch_malloc,
    .batch_free = (void (*)(malloc_zone_t*, void**, unsigned))&mx_zone_batch_free,
    .introspect = &introspection,
    .version = 10,
    .memalign = (void* (*)(malloc_zone_t*, size_t, size_t))&mx_zone_memalign,
    .free_definite_size = (void (*)(malloc_zone_t*, void*, size_t))&mx_zone_free_definite_size,
    .pressure_relief = (size_t(*)(malloc_zone_t*, size_t))&mx_zone_pressure_relief,
    .claimed_address = &claims_address,
};

// The zone that is registered first is the default one. Taking the system's out and putting it in
// again moves it behind ours.
static void become_default(void) {
  malloc_zone_register(&our_zone);
  malloc_zone_t* const purgeable = malloc_default_purgeable_zone();
  malloc_zone_t* const before = malloc_default_zone();
  if (before == &our_zone || before == NULL) return;
  (void)purgeable;  // asked for, so that it is made before the order changes
  malloc_zone_unregister(before);
  malloc_zone_register(before);
}

__attribute__((constructor(102))) static void start_zone(void) { become_default(); }

#endif

// ---- interposing -------------------------------------------------------------------------------

#if defined(MI_OSX_INTERPOSE) && defined(MI_SHARED_LIB_EXPORT)

static void* replace_malloc(size_t size) { return mi_malloc(size); }

static void* replace_calloc(size_t count, size_t size) { return mi_calloc(count, size); }

static malloc_zone_t* foreign_zone(const void* p) {
  if (p == NULL || mi_is_in_heap_region(p)) return NULL;
  malloc_zone_t* const zone = malloc_zone_from_ptr(p);
#if defined(MI_OSX_ZONE)
  if (zone == &our_zone) return NULL;
#endif
  return zone;
}

static void replace_free(void* p) {
  malloc_zone_t* const zone = foreign_zone(p);
  if (zone == NULL) mi_free(p);
  else zone->free(zone, p);
}

static void* replace_realloc(void* p, size_t size) {
  malloc_zone_t* const zone = foreign_zone(p);
  return zone == NULL ? mi_realloc(p, size) : zone->realloc(zone, p, size);
}

static size_t replace_malloc_size(const void* p) {
  malloc_zone_t* const zone = foreign_zone(p);
  return zone == NULL ? mi_usable_size(p) : zone->size(zone, p);
}

static int replace_posix_memalign(void** p, size_t align, size_t size) {
  return mi_posix_memalign(p, align, size);
}

static void* replace_aligned_alloc(size_t align, size_t size) {
  return mi_aligned_alloc(align, size);
}

extern int posix_memalign(void** p, size_t align, size_t size);
extern void* reallocf(void* p, size_t size);
extern void* valloc(size_t size);

#define INTERPOSE(name, with) {(const void*)(uintptr_t)&with, (const void*)(uintptr_t)&name}

__attribute__((used, section("__DATA,__interpose"))) static const struct {
  const void* with;
  const void* name;
} interposed[] = {
    INTERPOSE(malloc, replace_malloc),
    INTERPOSE(calloc, replace_calloc),
    INTERPOSE(realloc, replace_realloc),
    INTERPOSE(free, replace_free),
    INTERPOSE(valloc, mi_valloc),
    INTERPOSE(reallocf, mi_reallocf),
    INTERPOSE(strdup, mi_strdup),
    INTERPOSE(strndup, mi_strndup),
    INTERPOSE(realpath, mi_realpath),
    INTERPOSE(posix_memalign, replace_posix_memalign),
    INTERPOSE(aligned_alloc, replace_aligned_alloc),
    INTERPOSE(malloc_size, replace_malloc_size),
    INTERPOSE(malloc_good_size, mi_malloc_good_size),
};

#endif
#endif
