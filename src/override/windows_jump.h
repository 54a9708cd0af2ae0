// SPDX-License-Identifier: MIT
// The overwriting of functions' entries in other modules of the process.
//
// Patches are prepared one by one and then applied together or not at all. Each function's first
// instructions are moved to an island, memory within reach of the module; the entry becomes a jump
// to the replacement, by way of the island. While entries are written all other threads are held
// where they are, outside the bytes that change.
#ifndef MX_OVERRIDE_WINDOWS_JUMP_H
#define MX_OVERRIDE_WINDOWS_JUMP_H

#include "windows_code.h"

// What happens with a function.
typedef struct mx_patch_s {
  uint8_t* entry;
  const void* replacement;
  void** original;        // becomes where the function can still be called
  uint8_t before[MX_CODE_PATCH];
  uint8_t after[MX_CODE_PATCH];
} mx_patch_t;

#define MX_PATCHES_MAX 64

// All patches of a module.
typedef struct mx_patches_s {
  uint8_t* island;
  size_t used;            // bytes of it
  size_t count;
  mx_patch_t items[MX_PATCHES_MAX];
} mx_patches_t;

MX_BEGIN_DECLS
// Finds memory for the island near an address.
bool mx_patches_begin(mx_patches_t* patches, const void* where);
// Prepares a patch; true also where this entry has one already. False: unfamiliar code.
bool mx_patches_add(mx_patches_t* patches, void* entry, const void* replacement, void** original);
// Applies what was prepared; false with nothing changed.
bool mx_patches_apply(mx_patches_t* patches);
// Puts back what was there before.
void mx_patches_undo(mx_patches_t* patches);
// Gives up what was prepared and not applied.
void mx_patches_drop(mx_patches_t* patches);
MX_END_DECLS

#endif
