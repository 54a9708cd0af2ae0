// SPDX-License-Identifier: MIT
// Samples for a profiler of the program's own: it is told of each one and of its end, has some
// memory of its own with each, and says after each how many bytes there are up to the next.
//
// Ours and the program's exclude each other: what a foreign profiler chooses is no Poisson process,
// so nothing could be estimated from it.
#include "../alloc/sample.h"
#include "../base/hooks.h"
#include "profile.h"

#define EXTRA_MAX (64 * MX_KIB)

static mx_prof_alloc_fn* told_alloc;  // constant once it is handed over, as these
static mx_prof_free_fn* told_free;
static size_t extra_size;
static mx_atomic(int) hand_over_state;

enum { HELD, HANDING_OVER, HANDED_OVER };

bool mx_prof_is_handed_over(void) { return mx_load_acquire(&hand_over_state) == HANDED_OVER; }

void* mx_prof_tell_sample(void* block, size_t size, size_t usable, size_t threshold, size_t since,
                          uint8_t tag, size_t* next) {
  mx_note_t* const note = mx_prof_note(NULL, -1, block, size, 1);
  if (note == NULL || !mx_prof_note_extend(note, extra_size)) return NULL;
  *next = told_alloc(note->extra, block, size, usable, threshold, since, tag);
  return note;
}

// It ended with its old size, and this answer says nothing about the next one.
void mx_prof_tell_resize(const mx_note_t* note) {
  if (note->extra == NULL) return;
  told_alloc(note->extra, note->block, note->size, note->size, 0, 0, 0);
}

void mx_prof_tell_free(const mx_note_t* note) {
  if (note->extra != NULL) told_free(note->extra, note->block);
}

bool mx_prof_hand_over(size_t extra, mx_prof_alloc_fn* on_alloc, mx_prof_free_fn* on_free) {
  int held = HELD;
  if (extra > EXTRA_MAX || on_alloc == NULL || on_free == NULL) return false;
  if (mx_load_relaxed(&mx_sampling.rate) != 0 || !mx_prof_prepare()) return false;
  if (!mx_cas_strong_acq_rel(&hand_over_state, &held, HANDING_OVER)) return false;
  told_alloc = on_alloc;
  told_free = on_free;
  extra_size = extra;
  mx_store_release(&hand_over_state, HANDED_OVER);
  mx_sample_set_told();
  return true;
}
