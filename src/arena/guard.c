// SPDX-License-Identifier: MIT
// The guard pages of an arena's slices.
#include "../base/facts.h"
#include "../os/os.h"
#include "arena.h"

static uint8_t* last_os_page(const mx_arena_t* arena, size_t slice) {
  return arena->start + (slice + 1) * MX_SLICE_SIZE - mx_facts.os_page;
}

bool mx_arena_guard(mx_arena_t* arena, size_t index, size_t count, bool wanted) {
  const size_t last = index + count - 1;
  bool ok = true;
  for (size_t i = index; i <= last; i++) {
    const bool wants = (wanted && i == last);
    if (mx_bits_test(arena->guarded, i) == wants) continue;
    // A fork may come in between: a guard that is noted and not there does no harm.
    if (wants) mx_bits_set(arena->guarded, i, 1);
    const bool done = mx_os_guard(last_os_page(arena, i), mx_facts.os_page, wants);
    if (done != wants) mx_bits_clear(arena->guarded, i, 1);
    else if (!wants) ok = false;
  }
  return ok;
}
