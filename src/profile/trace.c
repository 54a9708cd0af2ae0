// SPDX-License-Identifier: MIT
// What a tracer is told of samples: the probes of OpenTelemetry's contract for heap profiles.
//
//   otel_memory:alloc(user, size, weighted_bytes)    of a sampled allocation, which stands for so
//                                                    many bytes
//   otel_memory:free(user)                           of one that was told of, when it ends
//
// While a tracer listens, the sampler runs also where the profiler is off: the semaphore of both is
// a part of the state that each slow allocation compares (alloc/sample.h). A realloc in place is
// told as a free and an allocation.
#include "../alloc/sample.h"
#include "profile.h"

static uint32_t this_process = 1;  // another number in a child of fork

void mx_prof_trace_alloc(mx_note_t* note) {
  if (!mx_sample_is_traced()) return;
  note->traced = this_process;
  mx_probe3("alloc", "mx_sampling", (uintptr_t)note->block, note->size,
            (size_t)((double)note->size / note->probability + 0.5));
}

void mx_prof_trace_free(mx_note_t* note) {
  if (note->traced != this_process || !mx_sample_is_traced()) return;
  note->traced = 0;
  mx_probe1("free", "mx_sampling", (uintptr_t)note->block);
}

void mx_prof_trace_after_fork(void) { this_process++; }
