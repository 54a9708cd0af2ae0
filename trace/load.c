// SPDX-License-Identifier: MIT
// Makes the replayer's lists of steps of a trace: the columns are walked twice, to count and to fill.
// Nothing of a file is believed: what would lead outside of it, or to a block that is not there, ends
// the replay.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

#define LARGEST (UINT64_C(1) << 46)
#define LARGEST_ALIGN_LOG2 30
#define MOST_THREADS (UINT64_C(1) << 20)

typedef struct reader_s {
  const uint8_t* at[COLUMNS];
  const uint8_t* end[COLUMNS];
  uint64_t thread;
  uint64_t run;
} reader_t;

static const char* path_of;
static const trace_file_t* file_head;

void trace_fail(const char* what, const char* why) {
  char line[512];
  const int n = snprintf(line, sizeof(line), "mimalloc-trace: %s: %s\n", what, why);
  if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(2);
  _exit(1);
}

static void damaged(void) {
  trace_fail(path_of, "the trace is damaged");
}

void* trace_memory(uint64_t count, uint64_t size) {
  const uint64_t bytes = (count + 1) * size;
  if (count > LARGEST / size) trace_fail("replay", "no memory for the trace");
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  void* map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) trace_fail("replay", "no memory for the trace");
  return map;
}

// ---- columns --------------------------------------------------------------------------------------

static uint8_t get_byte(reader_t* in, trace_column_t which) {
  if (in->at[which] == in->end[which]) damaged();
  return *in->at[which]++;
}

static uint64_t get(reader_t* in, trace_column_t which) {
  uint64_t n = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    const uint8_t byte = get_byte(in, which);
    n |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return n;
  }
  damaged();
  return 0;
}

static uint64_t get_thread(reader_t* in) {
  if (in->run == 0) {
    in->thread = get(in, COLUMN_THREADS);
    in->run = get(in, COLUMN_THREADS);
    if (in->run == 0 || in->thread >= file_head->threads) damaged();
  }
  in->run--;
  return in->thread;
}

static reader_t open_columns(uint64_t file_size) {
  reader_t in = {.run = 0};
  const uint8_t* at = (const uint8_t*)(file_head + 1);
  uint64_t left = file_size - sizeof(*file_head);
  for (int i = 0; i < COLUMNS; i++) {
    if (file_head->column_bytes[i] > left) trace_fail(path_of, "the trace is cut short");
    left -= file_head->column_bytes[i];
    in.at[i] = at;
    in.end[i] = at += file_head->column_bytes[i];
  }
  if (left != 0 || file_head->calls != file_head->column_bytes[COLUMN_CALLS]) damaged();
  return in;
}

static reader_t open_trace(const char* path) {
  const int file = open(path, O_RDONLY);
  struct stat told;
  if (file < 0 || fstat(file, &told) != 0) trace_fail(path, strerror(errno));
  if (told.st_size < (off_t)sizeof(trace_file_t)) trace_fail(path, "not a trace");
  file_head = mmap(NULL, (size_t)told.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (file_head == MAP_FAILED) trace_fail(path, strerror(errno));
  close(file);
  if (file_head->magic != TRACE_MAGIC) trace_fail(path, "not a trace");
  if (file_head->calls == 0) trace_fail(path, "there is no call in it");
  if (file_head->threads == 0 || file_head->threads > MOST_THREADS) damaged();
  if (file_head->blocks > file_head->calls || file_head->blocks >= UINT32_MAX) damaged();
  return open_columns((uint64_t)told.st_size);
}

// ---- counting -------------------------------------------------------------------------------------

static uint64_t samples_due(uint64_t call) {
  return call * SAMPLES / file_head->calls;
}

static void count_steps(reader_t in, program_t* program) {
  uint64_t* last = trace_memory(program->thread_count, sizeof(uint64_t));  // epoch + 1
  uint64_t seen = 0;
  for (uint64_t call = 0; call < program->calls; call++) {
    const uint64_t t = get_thread(&in), epoch = call / EPOCH_CALLS;
    thread_t* thread = &program->threads[t];
    if (last[t] == 0) {
      program->order[seen++] = (uint32_t)t;
      thread->epoch = epoch;
    }
    if (last[t] != epoch + 1) {
      thread->count++;
      program->busy[epoch]++;
      last[t] = epoch + 1;
    }
    thread->count += samples_due(call + 1) != samples_due(call) ? 2 : 1;
  }
  program->thread_count = seen;
  munmap(last, (size_t)(file_head->threads + 1) * sizeof(uint64_t));
}

// ---- filling --------------------------------------------------------------------------------------

typedef struct state_s {
  program_t* program;
  uint8_t* there;   // by block
  uint64_t* sizes;  // by block
  uint64_t made;
  uint64_t live;
} state_t;

static step_t* next_step(thread_t* thread) {
  return &thread->steps[thread->count++];
}

static uint32_t named(reader_t* in, state_t* state, bool goes) {
  const uint64_t back = get(in, COLUMN_BLOCKS);
  if (back >= state->made) damaged();
  const uint64_t block = state->made - 1 - back;
  if (!state->there[block]) damaged();
  if (goes) {
    state->there[block] = 0;
    state->live -= state->sizes[block];
  }
  return (uint32_t)block;
}

static void make(reader_t* in, state_t* state, step_t* step) {
  step->size = get(in, COLUMN_SIZES);
  if (step->size > LARGEST || state->made == state->program->blocks) damaged();
  if (step->size >= TRACE_LARGE) {
    const uint64_t pages = get(in, COLUMN_PAGES);
    if (pages > step->size / TRACE_OS_PAGE) damaged();
    step->pages = (uint32_t)pages;
  }
  if (step->kind == TRACE_ALIGNED) {
    step->align_log2 = get_byte(in, COLUMN_ALIGNS);
    if (step->align_log2 > LARGEST_ALIGN_LOG2) damaged();
  }
  step->block = (uint32_t)state->made;
  state->there[state->made] = 1;
  state->sizes[state->made++] = step->size;
  state->live += step->size;
}

static void fill_call(reader_t* in, state_t* state, thread_t* thread) {
  const uint8_t byte = get_byte(in, COLUMN_CALLS);
  const trace_kind_t kind = (trace_kind_t)(byte & 15);
  if (kind > TRACE_END || byte >> 6 != 0) damaged();
  thread->ends = kind == TRACE_END;
  step_t* step = next_step(thread);
  *step = (step_t){.kind = (uint8_t)kind, .wrote = byte >> 4};
  if (kind == TRACE_REALLOC) step->old = named(in, state, true);
  if (kind <= TRACE_REALLOC) make(in, state, step);
  if (kind == TRACE_FREE || kind == TRACE_USABLE) step->block = named(in, state, kind == TRACE_FREE);
}

static void fill(reader_t in, state_t* state) {
  program_t* program = state->program;
  uint64_t* last = trace_memory(file_head->threads, sizeof(uint64_t));
  for (uint64_t call = 0; call < program->calls; call++) {
    const uint64_t t = get_thread(&in), epoch = call / EPOCH_CALLS;
    thread_t* thread = &program->threads[t];
    if (last[t] != epoch + 1) {
      *next_step(thread) = (step_t){.kind = STEP_EPOCH, .size = epoch};
      last[t] = epoch + 1;
    }
    fill_call(&in, state, thread);
    if (samples_due(call + 1) != samples_due(call)) {
      *next_step(thread) = (step_t){.kind = STEP_SAMPLE, .size = program->samples};
      program->live[program->samples] = state->live;
      program->at[program->samples++] = call + 1;
    }
  }
  if (state->made != program->blocks || in.run != 0) damaged();
  for (int i = 0; i < COLUMNS; i++) {
    if (in.at[i] != in.end[i]) damaged();
  }
  munmap(last, (size_t)(file_head->threads + 1) * sizeof(uint64_t));
}

program_t trace_load(const char* path) {
  path_of = path;
  const reader_t in = open_trace(path);
  program_t program = {.thread_count = file_head->threads, .blocks = file_head->blocks,
                       .calls = file_head->calls,
                       .epochs = file_head->calls / EPOCH_CALLS + 1};
  program.threads = trace_memory(file_head->threads, sizeof(thread_t));
  program.order = trace_memory(file_head->threads, sizeof(uint32_t));
  program.busy = trace_memory(program.epochs, sizeof(uint64_t));
  count_steps(in, &program);
  for (uint64_t i = 0; i < file_head->threads; i++) {
    thread_t* thread = &program.threads[i];
    thread->steps = thread->count == 0 ? NULL : trace_memory(thread->count, sizeof(step_t));
    thread->count = 0;
  }
  state_t state = {.program = &program};
  state.there = trace_memory(program.blocks, 1);
  state.sizes = trace_memory(program.blocks, sizeof(uint64_t));
  fill(in, &state);
  munmap(state.there, (size_t)program.blocks + 1);
  munmap(state.sizes, (size_t)(program.blocks + 1) * sizeof(uint64_t));
  return program;
}
