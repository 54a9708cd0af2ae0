// SPDX-License-Identifier: MIT
// Owns the call that gives memory back from inside of pages in use.
#include "../../include/mimalloc.h"
#include "../service/give_back.h"

size_t mi_purge_holes(void) mi_attr_noexcept { return mx_give_back_now(); }
