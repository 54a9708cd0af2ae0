// SPDX-License-Identifier: MIT
// The calls of the heap profiler.
#include "../../include/mimalloc-prof.h"
#include "../alloc/sample.h"
#include "../profile/profile.h"
#include "process_life.h"

// The kinds and formats are numbered alike inside.
static bool is_kind(mi_prof_kind_t kind) { return (unsigned)kind <= MI_PROF_PINNED; }

bool mi_prof_start(size_t sample_rate) mi_attr_noexcept {
  mx_process_start();
  return mx_prof_start(sample_rate);
}

void mi_prof_stop(void) mi_attr_noexcept { mx_prof_stop(); }
bool mi_prof_is_enabled(void) mi_attr_noexcept { return mx_prof_is_on(); }
void mi_prof_reset(void) mi_attr_noexcept { mx_prof_forget(); }
void mi_prof_mark(void) mi_attr_noexcept { mx_prof_set_mark(); }

// ---- profiles ----------------------------------------------------------------------------------

bool mi_prof_write(mi_prof_kind_t kind, mi_prof_format_t format, mi_prof_writer_fun* writer,
                   void* arg) {
  if (!is_kind(kind) || (unsigned)format > MI_PROF_GPERF || writer == NULL) return false;
  return mx_prof_dump_to((mx_prof_kind_t)kind, (mx_prof_format_t)format, writer, arg);
}

bool mi_prof_write_file(mi_prof_kind_t kind, const char* path) mi_attr_noexcept {
  if (!is_kind(kind) || path == NULL) return false;
  return mx_prof_dump_file((mx_prof_kind_t)kind, NULL, path);
}

bool mi_prof_dump(const char* path) mi_attr_noexcept {
  return mi_prof_write_file(MI_PROF_LIVE, path);
}

bool mi_prof_dump_proto(const char* path) mi_attr_noexcept {
  const mx_prof_format_t format = MX_PROF_PPROF;
  return path != NULL && mx_prof_dump_file(MX_PROF_LIVE, &format, path);
}

bool mi_prof_dump_writer(mi_prof_writer_fun* writer, void* arg) {
  return mi_prof_write(MI_PROF_LIVE, MI_PROF_HEAP_V2, writer, arg);
}

bool mi_prof_dump_proto_writer(mi_prof_writer_fun* writer, void* arg) {
  return mi_prof_write(MI_PROF_LIVE, MI_PROF_PPROF, writer, arg);
}

bool mi_profiler_enable(size_t record_extra_bytes, mi_profiler_alloc_fun* on_alloc,
                        mi_profiler_free_fun* on_free) mi_attr_noexcept {
  mx_process_start();
  return mx_prof_hand_over(record_extra_bytes, on_alloc, on_free);
}

// ---- numbers -----------------------------------------------------------------------------------

bool mi_prof_visit(mi_prof_kind_t kind, mi_prof_visit_fun* visitor, void* arg) {
  mx_prof_table_t table;
  if (!is_kind(kind) || kind >= MI_PROF_LIFETIMES || visitor == NULL) return false;
  if (!mx_prof_take_table((mx_prof_kind_t)kind, &table)) return false;
  bool goes_on = true;
  for (size_t i = 0; i < table.count && goes_on; i++) {
    const mx_prof_row_t* const row = &table.rows[i];
    const mi_prof_stack_t stack = {row->site->frames, row->site->depth, row->values[0],
                                   row->values[1],    row->values[2],   row->values[3]};
    const bool was_paused = mx_sample_pause(true);
    goes_on = visitor(&stack, arg);
    mx_sample_pause(was_paused);
  }
  mx_prof_drop_table(&table);
  return goes_on;
}

void mi_prof_stats_get(mi_prof_stats_t* stats) mi_attr_noexcept {
  mx_prof_state_t state;
  if (stats == NULL) return;
  mx_prof_read_state(&state);
  stats->sample_rate = state.rate;
  stats->samples = state.samples;
  stats->samples_live = state.notes;
  stats->samples_dropped = state.dropped;
  stats->bytes_allocated = state.allocated;
  stats->bytes_live = state.live;
  stats->bytes_peak = state.peak;
  stats->stacks = state.sites;
  stats->memory = state.memory;
  stats->memory_limit = state.memory_limit;
}
