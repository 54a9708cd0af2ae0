// SPDX-License-Identifier: MIT
// Giving memory back beyond what purging does on the way: on request, in the background, and
// when a limit nears.
#ifndef MX_SERVICE_GIVE_BACK_H
#define MX_SERVICE_GIVE_BACK_H

#include "../heap/heap.h"

MX_BEGIN_DECLS
// ---- now (limits.c) ----------------------------------------------------------------------------
// Purges all that waits and makes holes, in all sub-processes; the bytes that the holes gave.
size_t mx_give_back_now(void);
// Takes over what the option `purge_delay` says now, for what waits already.
void mx_purge_apply(void);

// ---- the memory limit (limits.c, cgroup.c) -----------------------------------------------------
// Takes over what the options `memory_limit`, `memory_limit_hard` and `cgroup_limit` say now.
void mx_limits_apply(void);
// Looks at the control group again, at most once in a while. For the background thread.
void mx_limits_tick(void);

typedef struct mx_cgroup_s {
  size_t limit;     // bytes that the group may use, SIZE_MAX: no limit
  size_t usage;     // bytes that it uses
  double pressure;  // percent of the last 10 s in which somebody waited for memory
} mx_cgroup_t;

// Reads the control group of this process; false when none can be read. `root` is where the
// cgroup file systems are mounted, `self` what /proc/self/cgroup is here.
bool mx_cgroup_read(const char* root, const char* self, mx_cgroup_t* group);

// ---- the background thread (scavenger.c) -------------------------------------------------------
// Takes over what the option `background_purge` says now: the thread starts when the program uses
// enough memory that there can be something to give back, and ends when the option is off.
void mx_scavenger_apply(void);
// Ends the thread, and waits until it is through.
void mx_scavenger_stop(void);
// A thread of the program's has ended, maybe the one that the process began with, which then did
// not end the process. From then on the background thread ends when no other is known, and comes
// again when another allocates: C libraries end the process with its last thread.
void mx_scavenger_thread_ended(bool was_first);
// In the child of a fork, where there is no such thread.
void mx_scavenger_after_fork(void);
bool mx_scavenger_is_running(void);
MX_END_DECLS

#endif
