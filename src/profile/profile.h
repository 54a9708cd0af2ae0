// SPDX-License-Identifier: MIT
// The heap profiler's records, and what its files know of each other.
//
// A site is a call stack that allocated; it is never forgotten, since dumps read it without a lock.
// A note is a sampled block that is live, and leads to its site. What is counted is estimated
// already: each sample adds what it stands for. A site counts for one generation: a reset, and a
// fork in its child, begin the next one, in which all that came before is nothing.
#ifndef MX_PROFILE_PROFILE_H
#define MX_PROFILE_PROFILE_H

#include "../base/lock.h"
#include "../os/os.h"

// Objects are counted in such parts, bytes as they are.
#define MX_PROF_PARTS 65536

// The most frames of a stack that are kept.
#define MX_PROF_DEPTH_MAX 128

typedef struct mx_prof_sum_s {
  uint64_t objects;  // in parts
  uint64_t bytes;
} mx_prof_sum_t;

typedef struct mx_site_s {
  struct mx_site_s* next;  // of all, the newest first; constant, as the stack is
  struct mx_site_s* next_in_bucket;
  uint32_t hash;
  uint32_t depth;
  uint32_t generation;  // under the profiler's lock, as all that follows
  mx_prof_sum_t allocated, live;
  mx_prof_sum_t allocated_at_mark, live_at_mark;
  mx_prof_sum_t live_at_peak;
  uint64_t freed, freed_elsewhere;  // objects in parts; by another thread than allocated them
  double lived;                     // seconds of all that were freed
  struct {
    uint64_t bytes, alone;
  } pinned;                         // as of the latest look
  void* frames[1];                  // `depth` of them, the innermost first
} mx_site_t;

typedef struct mx_note_s {
  struct mx_note_s* next;  // of all, those that ended among them; constant
  mx_site_t* site;
  void* stand_in;  // an ordinary block of the same size, or NULL
  void* extra;    // what a profiler of the program's own keeps of it, or NULL
  void* block;
  size_t size;
  double probability;
  uint64_t born;  // clock, ns
  uintptr_t thread;
  uint32_t generation;  // 0: it has no site
  uint32_t traced;      // the process that told a tracer of it, 0: none did
  bool is_live;
} mx_note_t;

// What a profile shows of a site.
typedef enum mx_prof_kind_e {
  MX_PROF_LIVE,       // allocated since the start, live now
  MX_PROF_SINCE_MARK,  // allocated since the mark, and what is more live than then
  MX_PROF_PEAK,       // allocated since the start, live when most was
  MX_PROF_LIFETIMES,  // freed, how long they lived, freed by other threads
  MX_PROF_PINNED,     // free bytes that cannot go back for the sake of live blocks
} mx_prof_kind_t;

typedef enum mx_prof_format_e {
  MX_PROF_PPROF,
  MX_PROF_PPROF_GZ,
  MX_PROF_HEAP_V2,
  MX_PROF_FOLDED,
  MX_PROF_GPERF,
} mx_prof_format_t;

typedef void mx_prof_write_fn(void* arg, const char* data, size_t size);

typedef struct mx_prof_state_s {
  bool is_on;
  size_t rate;
  uint64_t samples, dropped;         // since the start or reset
  uint64_t allocated, live, peak;    // bytes, estimated
  size_t sites, notes;
  size_t memory, memory_limit;       // bytes of records
} mx_prof_state_t;

MX_BEGIN_DECLS
// ---- records.c ---------------------------------------------------------------------------------
// Prepares memory for the records; false when there is none.
bool mx_prof_prepare(void);
// Whether anybody asked for that: else the profiler has nothing that a fork's child must set right.
extern mx_hidden bool mx_prof_is_prepared;
// Where its records lie: how many bytes from *start on; 0: nowhere.
size_t mx_prof_memory(const void** start);
// One of a stack that was taken (depth -1: without one, which is in no profile); the block's note,
// or NULL.
mx_note_t* mx_prof_note(void* const* frames, int depth, void* block, size_t size,
                        double probability);
// Gives a note memory of a fixed size, zeroed; false: there is none, and the note has ended.
bool mx_prof_note_extend(mx_note_t* note, size_t extra);
void mx_prof_note_resize(mx_note_t* note, size_t size);
// The stack that allocated the latest sampled block that began at this address, which is live or
// not; how many frames, the innermost first. 0: none is known, or another thread is busy with it.
size_t mx_prof_frames_at(const void* block, void** frames, size_t most, bool* is_live);
// The note is another's from then on.
void mx_prof_note_end(mx_note_t* note);
// What has happened so far is forgotten.
void mx_prof_forget(void);
void mx_prof_set_mark(void);
void mx_prof_read_state(mx_prof_state_t* state);
// The mean distance of samples from now on; the last one stays known when there are none.
void mx_prof_set_rate(size_t rate, bool is_on);
bool mx_prof_has_records(void);  // it was started once
bool mx_prof_visit_locks(mx_lock_visit_fn* visit);
void mx_prof_records_after_fork(void);

// What a profile is made of: up to four numbers for each site that has any.
#define MX_PROF_COLUMNS 4
typedef struct mx_prof_row_s {
  const mx_site_t* site;
  int64_t values[MX_PROF_COLUMNS];
} mx_prof_row_t;

typedef struct mx_prof_table_s {
  mx_prof_kind_t kind;
  size_t rate;
  mx_prof_row_t* rows;
  size_t count;
  size_t mapped;  // bytes of `rows`
  mx_prof_state_t state;
} mx_prof_table_t;

// Copies the numbers of all sites at one moment; false when memory is out.
bool mx_prof_take_table(mx_prof_kind_t kind, mx_prof_table_t* table);
void mx_prof_drop_table(mx_prof_table_t* table);

// ---- formats -----------------------------------------------------------------------------------
// A stream that is written in pieces.
#define MX_PROF_PIECE 4096
typedef struct mx_prof_out_s {
  mx_prof_write_fn* write;
  void* arg;
  bool zips;
  uint32_t crc;
  uint32_t total;
  size_t length;
  char buf[MX_PROF_PIECE];
} mx_prof_out_t;

void mx_prof_out_open(mx_prof_out_t* out, mx_prof_write_fn* write, void* arg, bool zips);
void mx_prof_out_add(mx_prof_out_t* out, const void* data, size_t size);
mx_printf(2, 3) void mx_prof_out_print(mx_prof_out_t* out, const char* fmt, ...);
void mx_prof_out_close(mx_prof_out_t* out);

bool mx_prof_write_pprof(mx_prof_out_t* out, const mx_prof_table_t* table);
// As jemalloc or as gperftools writes it.
void mx_prof_write_heap_v2(mx_prof_out_t* out, const mx_prof_table_t* table, bool is_gperf);
void mx_prof_write_folded(mx_prof_out_t* out, const mx_prof_table_t* table);

// ---- dump.c ------------------------------------------------------------------------------------
// False: memory is out.
bool mx_prof_dump_to(mx_prof_kind_t kind, mx_prof_format_t format, mx_prof_write_fn* write,
                     void* arg);
// To a file, whose name may have %p, %n and %%; the text NULL names no file. What fails is said.
bool mx_prof_dump_file(mx_prof_kind_t kind, const mx_prof_format_t* format, const char* path);
// At the end of the process: no thread but this one begins a file any more; and whether that was.
void mx_prof_no_more_files(void);
bool mx_prof_has_finished(void);
// After it: waits a little for what other threads write, and removes the rest.
void mx_prof_end_unfinished(void);
// The format that a file name's ending says.
mx_prof_format_t mx_prof_format_of(const char* path);
// ---- origin.c ----------------------------------------------------------------------------------
// The hook for reports of a block.
void mx_prof_tell_origin(const void* p, void (*say)(const char* text, size_t length));

// ---- callbacks.c -------------------------------------------------------------------------------
typedef size_t mx_prof_alloc_fn(void* extra, void* block, size_t size, size_t usable,
                                size_t threshold, size_t since, uint8_t tag);
typedef void mx_prof_free_fn(void* extra, void* block);
// The hook for samples that were handed over.
void* mx_prof_tell_sample(void* block, size_t size, size_t usable, size_t threshold, size_t since,
                          uint8_t tag, size_t* next);
// Hands samples to a profiler of the program's own, for good. False: there is one, or ours is on.
bool mx_prof_hand_over(size_t extra, mx_prof_alloc_fn* on_alloc, mx_prof_free_fn* on_free);
bool mx_prof_is_handed_over(void);
void mx_prof_tell_resize(const mx_note_t* note);
void mx_prof_tell_free(const mx_note_t* note);

// ---- triggers.c --------------------------------------------------------------------------------
void mx_prof_read_file_name(void);
// At the end of the process.
void mx_prof_finish(void);
// Writes a profile of what is live, to the file that the environment names.
void mx_prof_dump_now(void);
// The same, if an option wants one: when a sample was taken, and when memory ran out.
void mx_prof_sample_taken(void);
void mx_prof_no_memory(void);
// The same when the memory limit is passed: written when the next sample is taken.
void mx_prof_limit_passed(void);

// ---- trace.c -----------------------------------------------------------------------------------
// Tell a tracer, if one listens, of a sample that was taken, and of its end.
void mx_prof_trace_alloc(mx_note_t* note);
void mx_prof_trace_free(mx_note_t* note);
void mx_prof_trace_after_fork(void);

// ---- scratch.c ---------------------------------------------------------------------------------
// Memory for the time of a dump, zeroed; NULL: there is none.
void* mx_prof_map(size_t size);
void mx_prof_unmap(void* p, size_t size);
// Keeps some for one dump when the system has no more.
void mx_prof_keep_reserve(void);
void mx_prof_scratch_after_fork(void);

// ---- control.c ---------------------------------------------------------------------------------
// Starts, or goes on with another mean distance in bytes; 0: what the option says. False: there is
// no memory for it.
bool mx_prof_start(size_t rate);
void mx_prof_stop(void);
bool mx_prof_is_on(void);
// At start: what the environment says.
void mx_prof_init(void);
// An option has changed.
void mx_prof_apply(void);
bool mx_prof_visit_control_locks(mx_lock_visit_fn* visit);  // those of the records, too
void mx_prof_after_fork(bool had_threads);
MX_END_DECLS

#endif
