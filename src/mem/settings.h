// SPDX-License-Identifier: MIT
// Memory that is read-only from the end of the process' start on, in hardened builds.
//
// What never changes then is protected once and sealed (mx_process_start). Settings, which calls of
// the API change, are opened for the few stores of each such call. Other threads can write to them
// as well while they are open, for two system calls' time: the window is one of a moment that the
// program itself chooses, and nothing opens it unasked but a fork, in its child.
#ifndef MX_MEM_SETTINGS_H
#define MX_MEM_SETTINGS_H

#include "../base/lock.h"
#include "../base/options.h"

MX_BEGIN_DECLS
bool mx_settings_unlock(void);
void mx_settings_lock(bool outer);
// From here on settings are read-only unless they are open.
void mx_settings_fix(void);
// In the child of a fork, before anything opens settings there.
void mx_settings_after_fork(void);
bool mx_settings_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

// Around stores to settings, by any thread, also in a signal's handler that interrupted such a
// pair. The answer is for the second one.
mx_inline bool mx_settings_open(void) { return MX_READ_ONLY && mx_settings_unlock(); }

mx_inline void mx_settings_close(bool outer) {
  if (MX_READ_ONLY) mx_settings_lock(outer);
}

#endif
