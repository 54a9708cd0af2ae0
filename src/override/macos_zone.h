// SPDX-License-Identifier: MIT
// The functions of a malloc zone as macOS asks for them, written so that other systems can
// compile and test them: the zone itself is a pointer that they do not look at.
#ifndef MX_OVERRIDE_MACOS_ZONE_H
#define MX_OVERRIDE_MACOS_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "../../include/mimalloc.h"
#include "../base/compiler.h"

// The size of a block of this zone; 0 says that it is another zone's.
mx_unused static size_t mx_zone_size(void* zone, const void* p) {
  (void)zone;
  return p != NULL && mi_is_in_heap_region(p) ? mi_usable_size(p) : 0;
}

mx_unused static void* mx_zone_malloc(void* zone, size_t size) {
  (void)zone;
  return mi_malloc(size);
}

mx_unused static void* mx_zone_calloc(void* zone, size_t count, size_t size) {
  (void)zone;
  return mi_calloc(count, size);
}

mx_unused static void* mx_zone_valloc(void* zone, size_t size) {
  (void)zone;
  return mi_valloc(size);
}

mx_unused static void* mx_zone_memalign(void* zone, size_t align, size_t size) {
  (void)zone;
  return mi_memalign(align, size);
}

mx_unused static void mx_zone_free(void* zone, void* p) {
  (void)zone;
  mi_free(p);
}

mx_unused static void mx_zone_free_definite_size(void* zone, void* p, size_t size) {
  (void)zone;
  (void)size;
  mi_free(p);
}

mx_unused static void* mx_zone_realloc(void* zone, void* p, size_t size) {
  (void)zone;
  return mi_realloc(p, size);
}

// As many as there is memory for; the caller is told the number.
mx_unused static unsigned mx_zone_batch_malloc(void* zone, size_t size, void** results,
                                               unsigned count) {
  unsigned made = 0;
  while (made < count && (results[made] = mx_zone_malloc(zone, size)) != NULL) made++;
  return made;
}

mx_unused static void mx_zone_batch_free(void* zone, void** blocks, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    mx_zone_free(zone, blocks[i]);
    blocks[i] = NULL;
  }
}

mx_unused static size_t mx_zone_good_size(void* zone, size_t size) {
  (void)zone;
  return mi_good_size(size);
}

// The system is short of memory. How much went back is not counted.
mx_unused static size_t mx_zone_pressure_relief(void* zone, size_t goal) {
  (void)zone;
  (void)goal;
  mi_collect(false);
  return 0;
}

// Blocks outlive the zone: there is one of it, and it stays.
mx_unused static void mx_zone_destroy(void* zone) { (void)zone; }

#endif
