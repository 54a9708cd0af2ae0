// SPDX-License-Identifier: MIT
// The description of the library's records for programs that look at them from outside, through
// /proc/PID/mem or in a core dump: where the records are, and where in them each field is.
//
// The compiler makes it, so it is right in every build. It is found by its first bytes, in any
// module that holds the library. A reader takes it only if it knows the version; the version
// changes when a field that it reads means something else.
#ifndef MX_SERVICE_LAYOUT_H
#define MX_SERVICE_LAYOUT_H

#include "../base/compiler.h"

#define MX_LAYOUT_VERSION 1
#define MX_LAYOUT_NAME 24

// A field: its place in its record, and its size; or a number, in `value`.
typedef struct mx_layout_field_s {
  char name[MX_LAYOUT_NAME];
  uint32_t value, size;
} mx_layout_field_t;

typedef struct mx_layout_address_s {
  char name[MX_LAYOUT_NAME];
  const void* at;
} mx_layout_address_t;

typedef struct mx_layout_s {
  char magic[16];
  uint32_t version, library_version;
  uint32_t word;  // bytes of a pointer
  uint32_t field_count, address_count;
  uint32_t fields_at, addresses_at;  // from the start of this record
} mx_layout_t;

MX_BEGIN_DECLS
// Keeps the description in the program.
extern mx_hidden const mx_layout_t* const mx_layout;
MX_END_DECLS

#endif
