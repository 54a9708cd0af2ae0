// SPDX-License-Identifier: MIT
// The memory limit: where it comes from, and what is given back when it nears.
//
// The arena floor compares what is committed with the limit each time it hands out slices. From
// seven eighths on it purges what waits at once and then asks here, where holes are made. If that
// is not enough, a hard limit fails the allocation; a soft one lets it pass.
//
// With `cgroup_limit` the control group's limit counts, too. What others in the group use (and what
// of this process is not ours) is taken off it; it is read again when the limit nears, and from
// time to time by the background thread.
#include "../alloc/spare.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/huge_cache.h"
#include "../heap/parked.h"
#include "../heap/subproc.h"
#include "../heap/transfer.h"
#include "../heap/trim.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../profile/profile.h"
#include "give_back.h"

#define PRESSURE_MSECS 100     // between two walks for holes
#define GROUP_MSECS 1000      // between two looks at the control group
#define LIMIT_MIN MX_MIB      // the smallest limit that is taken
#define GROUP_ROOT "/sys/fs/cgroup"
#define GROUP_SELF "/proc/self/cgroup"
#define GROUP_TABLES 64       // part of a group's limit that is left to the kernel
#define PRESSURE_HIGH 10.0    // percent of time in which the group waits for memory

static mx_atomic(uint64_t) pressure_at, group_at;

// True for the one caller that is to act now.
static bool is_time(mx_atomic(uint64_t)* at, uint64_t pause) {
  uint64_t when = mx_load_relaxed(at);
  const uint64_t now = mx_os_clock_msecs();
  return now >= when && mx_cas_strong_acq_rel(at, &when, now + pause);
}

static size_t make_holes(bool purges) {
  size_t bytes = 0;
  bool has_changed;
  mx_huge_cache_flush(true);
  mx_transfer_flush(true);
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    mx_parked_give_up(s, true);
    if (mx_option(purge_holes) != 0) bytes += mx_subproc_make_holes(s, false, &has_changed);
    if (purges) mx_arenas_purge(&s->arenas, true);
  }
  return bytes;
}

size_t mx_give_back_now(void) {
  mx_spare_flush(mx_tls_theap);
  return make_holes(true);
}

void mx_purge_apply(void) {
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) {
    mx_arenas_follow_delay(&s->arenas);
  }
}

// ---- the limit ---------------------------------------------------------------------------------

static size_t own_limit(void) {
  const long kib = mx_option(memory_limit);
  if (kib <= 0) return SIZE_MAX;
  return (size_t)kib > SIZE_MAX / MX_KIB ? SIZE_MAX : mx_max((size_t)kib * MX_KIB, LIMIT_MIN);
}

static size_t group_limit(double* pressure) {
  mx_cgroup_t group;
  *pressure = 0;
  if (mx_option(cgroup_limit) <= 0) return SIZE_MAX;
  if (!mx_cgroup_read(GROUP_ROOT, GROUP_SELF, &group) || group.limit == SIZE_MAX) return SIZE_MAX;
  *pressure = group.pressure;
  const int64_t ours = mx_load_relaxed(&mx_process_counters.committed.current);
  const size_t committed = mx_min(ours > 0 ? (size_t)ours : 0, group.usage);
  const size_t others = group.usage - committed;
  // The kernel's tables for our memory count in the group, too.
  group.limit -= group.limit / GROUP_TABLES;
  // However much the others take, a process must be able to start.
  return others >= group.limit ? group.limit / 2 : mx_max(group.limit - others, group.limit / 2);
}

static double set_limit(void) {
  double pressure;
  const size_t limit = mx_min(own_limit(), group_limit(&pressure));
  mx_store_relaxed(&mx_memory_limit.is_hard, mx_option(memory_limit_hard) > 0);
  mx_store_relaxed(&mx_memory_limit.bytes, limit == SIZE_MAX ? (size_t)0 : limit);
  return pressure;
}

// Where an allocation would fail else, what it costs does not matter.
static void on_pressure(bool is_last_resort) {
  if (mx_option(cgroup_limit) > 0 && is_time(&group_at, GROUP_MSECS)) set_limit();
  if (is_last_resort || is_time(&pressure_at, PRESSURE_MSECS)) make_holes(is_last_resort);
  // Where it fails the profile is written then.
  if (!mx_memory_limit_room(mx_load_relaxed(&mx_memory_limit.bytes), 0)) mx_prof_limit_passed();
}

void mx_limits_apply(void) {
  mx_store_relaxed(&mx_memory_limit.on_pressure, &on_pressure);
  const long kib = mx_option(memory_limit);
  if (kib > 0 && (size_t)kib < LIMIT_MIN / MX_KIB) {
    mx_warning("option memory_limit: %ld KiB are too little for any program; the limit is 1 MiB\n",
               kib);
  }
  set_limit();
  const size_t limit = mx_load_relaxed(&mx_memory_limit.bytes);
  if (mx_option(cgroup_limit) > 0 && limit == 0) {
    mx_verbose("option cgroup_limit: no control group with a limit can be read\n");
  }
  if (limit != 0) {
    mx_verbose("memory limit: %zu KiB (%s)\n", limit / MX_KIB,
               mx_load_relaxed(&mx_memory_limit.is_hard) ? "hard" : "soft");
  }
}

void mx_limits_tick(void) {
  if (mx_option(cgroup_limit) <= 0 || !is_time(&group_at, GROUP_MSECS)) return;
  if (set_limit() >= PRESSURE_HIGH) mx_give_back_now();
}
