// SPDX-License-Identifier: MIT
/// @file mimalloc-prof.h
/// The heap profiler of the mimalloc allocator: which call stacks hold memory, and which allocate.
///
/// It samples: of so many bytes that are allocated about one is noted, with the call stack and what
/// it stands for, so that the sums are right in the mean for blocks of every size. Off it costs
/// nothing. docs/profiling.md tells how to use it, also without a change to the program
/// (`MIMALLOC_PROF=1`).
#ifndef MIMALLOC_PROF_H
#define MIMALLOC_PROF_H

#include "mimalloc.h"

#include <stdint.h>

/// @defgroup prof Heap profiles
/// Any thread may call, at any time but in a signal handler. Calls that write profiles may run in
/// several threads at once; what their writers allocate is not sampled. All threads of the process
/// are profiled, and all heaps.
/// @{

#ifdef __cplusplus
extern "C" {
#endif

/// What a profile tells of each call stack.
///
/// ::MI_PROF_PINNED has two numbers: bytes of free blocks in the OS pages in which the blocks of the
/// stack lie, divided by the live blocks that keep them; and of these the bytes in OS pages where
/// there is no other live block, which would be given back without that one. Only of blocks that were
/// sampled with ::mi_option_prof_pins, of the main heap, and not of pages that threads allocate from
/// at the moment; nothing in builds that check the contents of free blocks.
typedef enum mi_prof_kind_e {
  MI_PROF_LIVE,        ///< allocated since the start, and live now
  MI_PROF_SINCE_MARK,  ///< allocated since mi_prof_mark(), and how much more is live than then
  MI_PROF_PEAK,        ///< allocated since the start, and live when most was (to 1 %)
  MI_PROF_LIFETIMES,   ///< blocks freed, their summed lifetimes, those freed by another thread
  MI_PROF_PINNED       ///< free memory that cannot go back for the sake of live blocks, see below
} mi_prof_kind_t;

/// How a profile is written.
typedef enum mi_prof_format_e {
  MI_PROF_PPROF,     ///< pprof's message
  MI_PROF_PPROF_GZ,  ///< the same in a gzip file
  MI_PROF_HEAP_V2,   ///< jemalloc's text, for jeprof
  MI_PROF_FOLDED,    ///< a line for each call stack, for flame graphs
  MI_PROF_GPERF      ///< gperftools' text, for google-pprof
} mi_prof_format_t;

/// Receives a piece of a profile.
typedef void(mi_cdecl mi_prof_writer_fun)(void* arg, const char* buf, size_t len);

/// The state of the profiler. Bytes and objects are estimates, but for those of its own records.
typedef struct mi_prof_stats_s {
  size_t sample_rate;       ///< mean bytes between samples, also when it is stopped
  uint64_t samples;         ///< taken since the start or mi_prof_reset()
  uint64_t samples_live;    ///< of these, blocks that are not freed
  uint64_t samples_dropped; ///< not taken for want of memory for records
  uint64_t bytes_allocated; ///< since the start or mi_prof_reset()
  uint64_t bytes_live;      ///< in blocks allocated since then
  uint64_t bytes_peak;      ///< the most of that
  size_t stacks;            ///< different call stacks that were seen
  size_t memory;            ///< bytes of records
  size_t memory_limit;      ///< their bound
} mi_prof_stats_t;

/// A call stack in a profile.
typedef struct mi_prof_stack_s {
  void* const* frames;        ///< return addresses, the innermost first
  size_t depth;               ///< how many
  int64_t objects_allocated;  ///< estimates, by the kind of the profile
  int64_t bytes_allocated;    ///< the same in bytes
  int64_t objects_live;       ///< blocks that are live, by the kind of the profile
  int64_t bytes_live;         ///< the same in bytes
} mi_prof_stack_t;

/// Sees a call stack; false ends the visit.
typedef bool(mi_cdecl mi_prof_visit_fun)(const mi_prof_stack_t* stack, void* arg);

/// Starts the profiler, or changes the mean number of bytes between two samples; 0: what the option
/// ::mi_option_prof_rate says (512 KiB). Other threads begin at their next slow allocation. May
/// load the C run-time's unwinder. False: there is no memory for its records, or the samples were
/// handed over by mi_profiler_enable().
mi_decl_export bool mi_prof_start(size_t sample_rate) mi_attr_noexcept;

/// Takes no more samples. Those of live blocks stay until these are freed. No effect when off.
mi_decl_export void mi_prof_stop(void) mi_attr_noexcept;

/// Whether samples are taken.
mi_decl_nodiscard mi_decl_export bool mi_prof_is_enabled(void) mi_attr_noexcept;

/// Forgets all that was sampled so far, also of live blocks.
mi_decl_export void mi_prof_reset(void) mi_attr_noexcept;

/// Begins the time that ::MI_PROF_SINCE_MARK looks at.
mi_decl_export void mi_prof_mark(void) mi_attr_noexcept;

/// Writes ::MI_PROF_LIVE to a file, in the format that the name's ending says: `.pb`, `.pb.gz`,
/// `.folded`, `.gperf`, else jemalloc's text. `%p` in the name stands for the process id, `%n` for a number
/// that counts. The file appears when it is whole. False, with a message: it cannot be written.
mi_decl_export bool mi_prof_dump(const char* path) mi_attr_noexcept;

/// The same as pprof's message whatever the name is.
mi_decl_export bool mi_prof_dump_proto(const char* path) mi_attr_noexcept;

/// Writes ::MI_PROF_LIVE as jemalloc's text to `writer`. False: out of memory.
mi_decl_export bool mi_prof_dump_writer(mi_prof_writer_fun* writer, void* arg);

/// The same as pprof's message.
mi_decl_export bool mi_prof_dump_proto_writer(mi_prof_writer_fun* writer, void* arg);

/// Writes a profile of any kind in any format to `writer`. False: out of memory, or no such kind
/// or format, or `writer` is NULL.
mi_decl_export bool mi_prof_write(mi_prof_kind_t kind, mi_prof_format_t format,
                                  mi_prof_writer_fun* writer, void* arg);

/// As mi_prof_dump(), of any kind.
mi_decl_export bool mi_prof_write_file(mi_prof_kind_t kind, const char* path) mi_attr_noexcept;

/// Shows each call stack of a profile (not of ::MI_PROF_LIFETIMES and ::MI_PROF_PINNED) to `visitor`,
/// which may allocate. False: it ended the visit, or out of memory, or no such kind.
mi_decl_export bool mi_prof_visit(mi_prof_kind_t kind, mi_prof_visit_fun* visitor, void* arg);

/// Reads the state.
mi_decl_export void mi_prof_stats_get(mi_prof_stats_t* stats) mi_attr_noexcept;

/// Told of a sampled block, by the thread that allocates it, before its caller has it.
/// `user_data` is memory of the receiver's own that stays with the block, zeroed; `threshold` the
/// bytes after which a sample was due, `bytes_since_last_sample` those that this thread's heap has
/// handed out since the last one, these included; `heap_tag` that of the heap. Answers the bytes
/// to the next sample of this thread's heap; 0: the next allocation is one. May allocate, which is
/// not sampled. A block that is resized where it is was freed and is told of again; `threshold` is
/// 0 then, and the answer does not count.
typedef size_t(mi_cdecl mi_profiler_alloc_fun)(void* user_data, void* ptr, size_t requested_size,
                                               size_t usable_size, size_t threshold,
                                               size_t bytes_since_last_sample, uint8_t heap_tag);

/// Told of the end of a block that was sampled, by the thread that frees it, while it can be read.
typedef void(mi_cdecl mi_profiler_free_fun)(void* user_data, void* ptr);

/// Hands the samples to a profiler of the program's own, for as long as the process lives.
/// `record_extra_bytes` (at most 64 KiB) are what `user_data` has for each sampled block, aligned for
/// any type. The first samples are drawn with ::mi_option_prof_rate. False, and nothing has changed:
/// this was called before, mi_prof_start() is in effect, a function is NULL, too many bytes, or
/// there is no memory for records. From then on mi_prof_start() answers false.
mi_decl_export bool mi_profiler_enable(size_t record_extra_bytes, mi_profiler_alloc_fun* on_alloc,
                                       mi_profiler_free_fun* on_free) mi_attr_noexcept;

#ifdef __cplusplus
}
#endif

/// @}

#endif
