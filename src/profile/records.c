// SPDX-License-Identifier: MIT
// The profiler's memory: sites, notes, and the numbers in them.
//
// One lock is enough, since it is taken for a sample only, and for the time of some additions. All
// records lie in one mapping whose size is the bound on them; it is made when the profiler first
// starts, grows by being touched, and is never given back. A note that ends is used again.
#include <string.h>

#include "../base/options.h"
#include "../mem/vmem.h"
#include "../host/process.h"
#include "../os/thread.h"
#include "../page/holes.h"
#include "profile.h"

#define SITE_BUCKETS 4096
#define COMMIT_STEP (64 * MX_KIB)
#define REGION_MIN (256 * MX_KIB)

static mx_at_start mx_lock_t prof_lock;
static uint8_t* region;  // NULL: never started
static size_t region_size, region_used, region_committed;
static mx_site_t** site_buckets;
static mx_site_t* all_sites;
static mx_note_t* free_notes;  // by `stand_in`, which no other use needs then
static mx_note_t* all_notes;   // these and the live ones
static mx_prof_state_t totals;
static uint64_t peak_noted;    // live bytes when the sites' peaks were noted
static uint32_t generation = 1;

// ---- memory ------------------------------------------------------------------------------------

static void* take_memory(size_t size) {
  const size_t end = region_used + mx_align_up(size, sizeof(uint64_t));
  if (end > region_size) return NULL;
  while (end > region_committed) {
    const size_t step = mx_min(COMMIT_STEP, region_size - region_committed);
    if (!mx_vmem_commit(region + region_committed, step)) return NULL;
    mx_count_add(&mx_process_counters.committed, (int64_t)step);
    region_committed += step;
  }
  void* const p = region + region_used;
  region_used = end;
  return p;
}

size_t mx_prof_memory(const void** start) {
  mx_lock_acquire(&prof_lock);
  const size_t size = (region == NULL ? 0 : region_committed);
  *start = region;
  mx_lock_release(&prof_lock);
  return size;
}

mx_at_start bool mx_prof_is_prepared;

bool mx_prof_prepare(void) {
  mx_lock_acquire(&prof_lock);
  mx_prof_is_prepared = true;
  if (region == NULL) {
    const size_t limit = mx_max((size_t)mx_option(prof_memory) * MX_KIB, REGION_MIN);
    region_size = mx_align_up(limit, mx_facts.os_page);
    region = (uint8_t*)mx_vmem_map(region_size, mx_facts.os_page, false);
    if (region != NULL) site_buckets = (mx_site_t**)take_memory(SITE_BUCKETS * sizeof(mx_site_t*));
    totals.memory_limit = region_size;
  }
  mx_lock_release(&prof_lock);
  return site_buckets != NULL;
}

// ---- sites -------------------------------------------------------------------------------------

static uint32_t hash_stack(void* const* frames, size_t depth) {
  uint64_t h = depth;
  for (size_t i = 0; i < depth; i++) h = (h ^ (uintptr_t)frames[i]) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32);
}

static void clear_site(mx_site_t* site) {
  site->generation = generation;
  memset(&site->allocated, 0, offsetof(mx_site_t, frames) - offsetof(mx_site_t, allocated));
}

static mx_site_t* site_of(void* const* frames, size_t depth, uint32_t hash) {
  mx_site_t** const bucket = &site_buckets[hash % SITE_BUCKETS];
  const size_t bytes = depth * sizeof(void*);
  mx_site_t* site = *bucket;
  while (site != NULL && (site->hash != hash || site->depth != depth ||
                          memcmp(site->frames, frames, bytes) != 0)) {
    site = site->next_in_bucket;
  }
  if (site == NULL) {
    site = (mx_site_t*)take_memory(offsetof(mx_site_t, frames) + bytes);
    if (site == NULL) return NULL;
    site->hash = hash;
    site->depth = (uint32_t)depth;
    memcpy(site->frames, frames, bytes);
    site->next_in_bucket = *bucket;
    *bucket = site;
    site->next = all_sites;
    all_sites = site;
    totals.sites++;
    clear_site(site);
  }
  if (site->generation != generation) clear_site(site);
  return site;
}

// ---- numbers -----------------------------------------------------------------------------------

// What a sample stands for.
static mx_prof_sum_t weight_of(const mx_note_t* note) {
  const mx_prof_sum_t sum = {(uint64_t)(MX_PROF_PARTS / note->probability + 0.5),
                             (uint64_t)((double)note->size / note->probability + 0.5)};
  return sum;
}

static void add_sum(mx_prof_sum_t* sum, mx_prof_sum_t more) {
  sum->objects += more.objects;
  sum->bytes += more.bytes;
}

static void subtract_sum(mx_prof_sum_t* sum, mx_prof_sum_t less) {
  sum->objects -= less.objects;
  sum->bytes -= less.bytes;
}

// Live memory is about to shrink. Peaks that are less than a hundredth higher than the last are not
// worth a walk over all sites.
static void note_peak(void) {
  if (totals.live > totals.peak) totals.peak = totals.live;
  if (totals.live < peak_noted + peak_noted / 100) return;
  if (totals.live == peak_noted) return;
  peak_noted = totals.live;
  for (mx_site_t* site = all_sites; site != NULL; site = site->next) {
    if (site->generation == generation) site->live_at_peak = site->live;
  }
}

static void add_note(mx_note_t* note) {
  const mx_prof_sum_t weight = weight_of(note);
  add_sum(&note->site->allocated, weight);
  add_sum(&note->site->live, weight);
  totals.samples++;
  totals.notes++;
  totals.allocated += weight.bytes;
  totals.live += weight.bytes;
}

static mx_note_t* fresh_note(void) {
  mx_note_t* const note = free_notes;
  if (note == NULL) {
    mx_note_t* const made = (mx_note_t*)take_memory(sizeof(mx_note_t));
    if (made == NULL) return NULL;
    made->next = all_notes;
    all_notes = made;
    return made;
  }
  free_notes = (mx_note_t*)note->stand_in;
  return note;
}

static void put_note(mx_note_t* note) {
  note->is_live = false;
  note->stand_in = free_notes;
  free_notes = note;
}

mx_note_t* mx_prof_note(void* const* frames, int depth, void* block, size_t size,
                        double probability) {
  const uint32_t hash = (depth < 0 ? 0 : hash_stack(frames, (size_t)depth));
  const uint64_t now = mx_host_clock_nsecs();
  mx_lock_acquire(&prof_lock);
  mx_site_t* const site = (depth < 0 ? NULL : site_of(frames, (size_t)depth, hash));
  mx_note_t* const note = (site == NULL && depth >= 0 ? NULL : fresh_note());
  if (note != NULL) {
    note->site = site;
    note->block = block;
    note->size = size;
    note->probability = probability;
    note->born = now;
    note->thread = mx_thread_id();
    note->generation = (site == NULL ? 0 : generation);
    note->traced = 0;
    note->stand_in = NULL;
    note->is_live = true;
    if (site != NULL) add_note(note);
  } else {
    totals.dropped++;
  }
  mx_lock_release(&prof_lock);
  return note;
}

bool mx_prof_note_extend(mx_note_t* note, size_t extra) {
  mx_lock_acquire(&prof_lock);
  // It stays with the note when that is used again.
  if (note->extra == NULL) {
    uint8_t* const p = (uint8_t*)take_memory(extra + MX_ALIGN);
    if (p != NULL) note->extra = (void*)mx_align_up((uintptr_t)p, MX_ALIGN);
  }
  const bool done = (note->extra != NULL);
  if (done) memset(note->extra, 0, extra);
  else put_note(note);
  mx_lock_release(&prof_lock);
  return done;
}

void mx_prof_note_resize(mx_note_t* note, size_t size) {
  mx_lock_acquire(&prof_lock);
  const mx_prof_sum_t before = weight_of(note);
  note->size = size;
  if (note->generation == generation) {
    note_peak();
    const mx_prof_sum_t now = weight_of(note);
    mx_site_t* const site = note->site;
    subtract_sum(&site->live, before);
    subtract_sum(&site->allocated, before);
    add_sum(&site->live, now);
    add_sum(&site->allocated, now);
    totals.live += now.bytes - before.bytes;
    totals.allocated += now.bytes - before.bytes;
  }
  mx_lock_release(&prof_lock);
}

void mx_prof_note_end(mx_note_t* note) {
  const uint64_t now = mx_host_clock_nsecs();
  mx_lock_acquire(&prof_lock);
  if (note->generation == generation) {
    note_peak();
    mx_site_t* const site = note->site;
    const mx_prof_sum_t weight = weight_of(note);
    subtract_sum(&site->live, weight);
    totals.live -= weight.bytes;
    totals.notes--;
    site->freed += weight.objects;
    if (note->thread != mx_thread_id()) site->freed_elsewhere += weight.objects;
    site->lived += (double)weight.objects / MX_PROF_PARTS * ((double)(now - note->born) * 1e-9);
  }
  put_note(note);
  mx_lock_release(&prof_lock);
}

// ---- time --------------------------------------------------------------------------------------

static void begin_generation(void) {
  generation += (generation == UINT32_MAX ? 2 : 1);
  totals.samples = totals.dropped = 0;
  totals.allocated = totals.live = totals.peak = 0;
  totals.notes = 0;
  peak_noted = 0;
}

void mx_prof_forget(void) {
  mx_lock_acquire(&prof_lock);
  begin_generation();
  mx_lock_release(&prof_lock);
}

// The child of a fork is alone: nothing of its parent's is its own.
void mx_prof_records_after_fork(void) {
  if (region != NULL) begin_generation();
}

void mx_prof_set_mark(void) {
  mx_lock_acquire(&prof_lock);
  for (mx_site_t* site = all_sites; site != NULL; site = site->next) {
    if (site->generation != generation) continue;
    site->allocated_at_mark = site->allocated;
    site->live_at_mark = site->live;
  }
  mx_lock_release(&prof_lock);
}

static void read_state(mx_prof_state_t* state) {
  *state = totals;
  if (state->live > state->peak) state->peak = state->live;
  state->memory = region_committed;
}

void mx_prof_read_state(mx_prof_state_t* state) {
  mx_lock_acquire(&prof_lock);
  read_state(state);
  mx_lock_release(&prof_lock);
}

void mx_prof_set_rate(size_t rate, bool is_on) {
  mx_lock_acquire(&prof_lock);
  if (is_on) totals.rate = rate;
  totals.is_on = is_on;
  mx_lock_release(&prof_lock);
}

bool mx_prof_has_records(void) { return totals.rate != 0; }

// ---- one sample --------------------------------------------------------------------------------

// A few milliseconds: the lock's holder may be the very thread that asks.
static bool try_lock(void) {
  for (unsigned turn = 0; turn < 40; turn++) {
    if (mx_lock_try(&prof_lock)) return true;
    mx_pause(turn);
  }
  return false;
}

// The note of the youngest block that began there.
static const mx_note_t* last_note_at(const void* block) {
  const mx_note_t* last = NULL;
  for (const mx_note_t* note = all_notes; note != NULL; note = note->next) {
    if (note->block == block && (last == NULL || note->born > last->born)) last = note;
  }
  return last;
}

size_t mx_prof_frames_at(const void* block, void** frames, size_t most, bool* is_live) {
  size_t count = 0;
  if (!try_lock()) return 0;
  const mx_note_t* const note = last_note_at(block);
  if (note != NULL && note->site != NULL) {
    count = mx_min(note->site->depth, most);
    memcpy(frames, note->site->frames, count * sizeof(void*));
    *is_live = note->is_live;
  }
  mx_lock_release(&prof_lock);
  return count;
}

bool mx_prof_visit_locks(mx_lock_visit_fn* visit) { return visit(&prof_lock); }

// ---- what pins memory --------------------------------------------------------------------------

// A note's stand-in cannot be freed as long as the lock is held.
static void find_pins(void) {
  for (mx_note_t* note = all_notes; note != NULL; note = note->next) {
    if (!note->is_live || note->stand_in == NULL || note->generation != generation) continue;
    const mx_pins_t pins = mx_pins_of(mx_pagemap_get(note->stand_in), note->stand_in);
    note->site->pinned.bytes += (uint64_t)(pins.shared / note->probability);
    note->site->pinned.alone += (uint64_t)((double)pins.alone / note->probability);
  }
}

static void take_pins(void) {
  for (mx_site_t* site = all_sites; site != NULL; site = site->next) {
    site->pinned.bytes = site->pinned.alone = 0;
  }
  if (!mx_holes_begin()) return;
  find_pins();
  mx_holes_end();
}

// ---- tables ------------------------------------------------------------------------------------

static int64_t whole(uint64_t parts) {
  return (int64_t)((parts + MX_PROF_PARTS / 2) / MX_PROF_PARTS);
}

static void set_columns(mx_prof_row_t* row, mx_prof_sum_t allocated, mx_prof_sum_t live) {
  row->values[0] = whole(allocated.objects);
  row->values[1] = (int64_t)allocated.bytes;
  row->values[2] = whole(live.objects);
  row->values[3] = (int64_t)live.bytes;
}

static void fill_since_mark(mx_prof_row_t* row, const mx_site_t* site) {
  mx_prof_sum_t allocated = site->allocated;
  subtract_sum(&allocated, site->allocated_at_mark);
  set_columns(row, allocated, site->live);
  row->values[2] -= whole(site->live_at_mark.objects);
  row->values[3] -= (int64_t)site->live_at_mark.bytes;
}

static void fill_row(mx_prof_kind_t kind, mx_prof_row_t* row, const mx_site_t* site) {
  const bool is_peak_now = (totals.live >= peak_noted);
  row->site = site;
  switch (kind) {
    case MX_PROF_SINCE_MARK: fill_since_mark(row, site); break;
    case MX_PROF_PEAK:
      set_columns(row, site->allocated, is_peak_now ? site->live : site->live_at_peak);
      break;
    case MX_PROF_LIFETIMES:
      row->values[0] = whole(site->freed);
      row->values[1] = (int64_t)(site->lived * 1e9);
      row->values[2] = whole(site->freed_elsewhere);
      row->values[3] = 0;
      break;
    case MX_PROF_PINNED:
      row->values[0] = (int64_t)site->pinned.bytes;
      row->values[1] = (int64_t)site->pinned.alone;
      row->values[2] = row->values[3] = 0;
      break;
    default: set_columns(row, site->allocated, site->live); break;
  }
}

static bool has_values(const mx_prof_row_t* row) {
  return (row->values[0] | row->values[1] | row->values[2] | row->values[3]) != 0;
}

bool mx_prof_take_table(mx_prof_kind_t kind, mx_prof_table_t* table) {
  memset(table, 0, sizeof(*table));
  mx_prof_read_state(&table->state);
  // Some more, which may come before the lock is taken again; what is newer still is left out.
  const size_t most = table->state.sites + 16;
  table->kind = kind;
  table->mapped = most * sizeof(mx_prof_row_t);
  table->rows = (mx_prof_row_t*)mx_prof_map(table->mapped);
  if (table->rows == NULL) return false;
  mx_lock_acquire(&prof_lock);
  read_state(&table->state);
  if (kind == MX_PROF_PINNED) take_pins();
  for (mx_site_t* site = all_sites; site != NULL && table->count < most; site = site->next) {
    if (site->generation != generation) continue;
    fill_row(kind, &table->rows[table->count], site);
    if (has_values(&table->rows[table->count])) table->count++;
  }
  mx_lock_release(&prof_lock);
  return true;
}

void mx_prof_drop_table(mx_prof_table_t* table) { mx_prof_unmap(table->rows, table->mapped); }
