// SPDX-License-Identifier: MIT
// Opening and closing of the settings. Their lock is held across two calls of the OS and taken
// within no other one; whoever has it already, because a handler interrupted it or for a fork,
// leaves them as it found them.
#include "settings.h"

#include "../os/os.h"

static mx_at_start mx_lock_t settings_lock;
static bool is_open;   // its holder's
static bool is_fixed;  // written by the start, under the lock

static void protect(bool read_only) {
  if (is_fixed) mx_os_protect_writes(&mx_settings, sizeof(mx_settings), read_only);
}

// Between the steps a handler may come, which closes what it opened: whoever is the outer one does
// its own step behind the mark for it.
bool mx_settings_unlock(void) {
  const bool outer = !mx_lock_is_mine(&settings_lock);
  if (outer) {
    mx_lock_acquire(&settings_lock);
    is_open = true;
  }
  protect(false);
  return outer;
}

void mx_settings_lock(bool outer) {
  if (outer) is_open = false;
  if (!is_open) protect(true);
  if (outer) mx_lock_release(&settings_lock);
}

void mx_settings_fix(void) {
  const bool outer = mx_settings_unlock();
  is_fixed = true;
  mx_settings_lock(outer);
}

void mx_settings_after_fork(void) {
  if (!mx_lock_is_mine(&settings_lock)) mx_lock_reset(&settings_lock);
}

bool mx_settings_visit_locks(mx_lock_visit_fn* visit) { return visit(&settings_lock); }
