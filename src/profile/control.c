// SPDX-License-Identifier: MIT
// The profiler's start and stop, what the options say of it, and the taking of samples.
#include "../alloc/alloc.h"
#include "../alloc/fast.h"
#include "../alloc/sample.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/thread_life.h"
#include "../host/process.h"
#include "../page/holes.h"
#include "profile.h"

static mx_at_start mx_lock_t control_lock;

// ---- samples -----------------------------------------------------------------------------------

// A sampled block does not lie where it would have, so an ordinary one beside the others of its
// size stands in for it when it is asked what the live ones pin. Of the main heap, which stays.
static void* make_stand_in(const void* block, size_t size) {
  mx_theap_t* const theap = mx_tls_theap->first;
  const mx_heap_t* const heap = &mx_subproc_main.main_heap;
  if (!MX_HOLES || theap == NULL || size > MX_BIN_MAX_SIZE - MX_PAD) return NULL;
  if (mx_page_heap(mx_pagemap_get(block)) != heap || mx_load_relaxed(&theap->heap) != heap) {
    return NULL;
  }
  return mx_alloc_in(theap, size);
}

// A sample that only a tracer wants has no site: the tracer walks the stack itself.
static void* take_sample(void* block, size_t size, double probability, const void* frame) {
  void* frames[MX_PROF_DEPTH_MAX];
  int depth = -1;
  if (mx_prof_is_on()) {
    depth = mx_host_walk_stack(frames, (int)mx_option(prof_depth), frame);
  } else if (!mx_sample_is_traced() || !mx_prof_prepare()) {
    return NULL;
  }
  mx_note_t* const note = mx_prof_note(depth < 0 ? NULL : frames, depth, block, size, probability);
  if (note == NULL) return NULL;
  mx_prof_trace_alloc(note);
  if (depth >= 0 && mx_option(prof_pins) != 0) note->stand_in = make_stand_in(block, size);
  if (depth >= 0) mx_prof_sample_taken();
  return note;
}

static void resize_sample(void* note, size_t size) {
  if (mx_prof_is_handed_over()) mx_prof_tell_free((mx_note_t*)note);
  mx_prof_trace_free((mx_note_t*)note);
  mx_prof_note_resize((mx_note_t*)note, size);
  mx_prof_trace_alloc((mx_note_t*)note);
  if (mx_prof_is_handed_over()) mx_prof_tell_resize((mx_note_t*)note);
}

static void end_sample(void* note) {
  if (mx_prof_is_handed_over()) mx_prof_tell_free((mx_note_t*)note);
  mx_prof_trace_free((mx_note_t*)note);
  void* const stand_in = ((mx_note_t*)note)->stand_in;
  mx_prof_note_end((mx_note_t*)note);
  // At the end of the process heaps go with all that is in them.
  if (stand_in != NULL && !mx_prof_has_finished()) mx_free(stand_in);
}

// ---- start and stop ----------------------------------------------------------------------------

bool mx_prof_start(size_t rate) {
  if (rate == 0) rate = mx_sample_default_rate();
  rate = mx_min(rate, MX_PROF_RATE_MAX);
  if (mx_prof_is_handed_over() || !mx_prof_prepare()) return false;
  if (mx_option(prof_at_limit) != 0) mx_prof_keep_reserve();
  const bool was_paused = mx_sample_pause(true);
  mx_theap_t* const before = mx_thread_set_lasting();
  mx_host_walk_prepare();  // may load the unwinder
  mx_thread_set_default(before);
  mx_lock_acquire(&control_lock);
  mx_prof_set_rate(rate, true);
  mx_sample_set_profile(rate);
  mx_lock_release(&control_lock);
  mx_sample_pause(was_paused);
  return true;
}

void mx_prof_stop(void) {
  mx_lock_acquire(&control_lock);
  mx_prof_set_rate(0, false);
  mx_sample_set_profile(0);
  mx_lock_release(&control_lock);
}

bool mx_prof_is_on(void) { return mx_load_relaxed(&mx_sampling.rate) != 0; }

void mx_prof_apply(void) {
  if (mx_option(prof) <= 0) {
    if (mx_prof_is_on()) mx_prof_stop();
  } else if (!mx_prof_start(0)) {
    mx_warning("the profiler cannot start: no memory, or the program has its own\n");
  }
}

// ---- the environment ---------------------------------------------------------------------------

void mx_prof_init(void) {
  mx_hooks.begin_note = &take_sample;
  mx_hooks.tell_note = &mx_prof_tell_sample;
  mx_hooks.resize_note = &resize_sample;
  mx_hooks.end_note = &end_sample;
  mx_hooks.tell_origin = &mx_prof_tell_origin;
  mx_hooks.memory_ran_out = &mx_prof_no_memory;
  mx_prof_read_file_name();
  if (mx_option(prof) > 0) mx_prof_apply();
}

bool mx_prof_visit_control_locks(mx_lock_visit_fn* visit) {
  return visit(&control_lock) && mx_prof_visit_locks(visit);
}

void mx_prof_after_fork(bool had_threads) {
  mx_prof_trace_after_fork();
  if (mx_prof_is_prepared) {
    mx_prof_records_after_fork();
    mx_prof_scratch_after_fork();
  }
  if (had_threads) mx_host_walk_after_fork();
}
