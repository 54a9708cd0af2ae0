// SPDX-License-Identifier: MIT
// Statistics: from the counters that all floors add to, to the public record (mi_stats_t), and
// from the record to text, JSON and the Prometheus format.
//
// A record is a sum of counters at about one moment. Counting needs no lock and a record is taken
// under short ones, so numbers in it may differ by what happened meanwhile; a count that is read in
// the middle of a change never shows as negative, nor a peak as less than what is there.
#ifndef MX_SERVICE_STATS_H
#define MX_SERVICE_STATS_H

#include "../../include/mimalloc-stats.h"
#include "../base/fmt.h"
#include "../heap/heap.h"
#include "log.h"

MX_BEGIN_DECLS

// ---- records -----------------------------------------------------------------------------------

// The library's own counts, in places of the record that are reserved for later use.
#define mx_stat_metadata _stat_reserved[0]
#define mx_stat_waiting _stat_reserved[1]
#define mx_stat_holes_purged _stat_counter_reserved[0]

// The numbers of one heap.
void mx_stats_of_heap(mx_heap_t* heap, mi_stats_t* stats);
// All heaps of a sub-process, those that are gone included, and the memory that it holds.
void mx_stats_of_subproc(mx_subproc_t* subproc, mi_stats_t* stats);
// All sub-processes together.
void mx_stats_of_process(mi_stats_t* stats);
// One sub-process without its live heaps.
void mx_stats_of_subproc_alone(mx_subproc_t* subproc, mi_stats_t* stats);
// What the calling thread owns now.
void mx_stats_of_thread(mi_stats_t* stats);

// The largest block counted under a bin of the record, 0 when there is no such bin.
size_t mx_stats_bin_size(size_t stat_bin);
// The bin of the record for blocks of a size.
size_t mx_stats_bin_of(size_t block_size);

// A count is a mi_stat_count_t, a counter a mi_stat_counter_t. A level is a mi_stat_count_t whose
// past nobody keeps: only what is there now means something.
typedef enum mx_stat_kind_e { MX_STAT_COUNT, MX_STAT_COUNTER, MX_STAT_LEVEL } mx_stat_kind_t;

// One number of the record.
typedef struct mx_stat_field_s {
  const char* name;  // in JSON and, by and large, in Prometheus
  const char* help;
  size_t offset;     // in mi_stats_t
  mx_stat_kind_t kind;
  bool is_bytes;
} mx_stat_field_t;

extern const mx_stat_field_t mx_stat_fields[];  // in the order of the record
extern const size_t mx_stat_field_count;

// ---- the process -------------------------------------------------------------------------------

typedef struct mx_process_stats_s {
  uint64_t elapsed_msecs, user_msecs, system_msecs;
  size_t current_rss, peak_rss;        // as the OS counts them
  size_t current_commit, peak_commit;  // as this library does
  size_t page_faults;                  // that needed I/O
} mx_process_stats_t;

// Starts the clock of elapsed time. Any number of calls; the first counts.
void mx_stats_init(void);
void mx_process_stats(mx_process_stats_t* info);

// ---- print-outs --------------------------------------------------------------------------------

// The tables, under a line "<kind> <number>".
void mx_stats_print(mx_out_t* out, const char* kind, uint64_t number, const mi_stats_t* stats);
void mx_stats_print_process(mx_out_t* out);
void mx_stats_json(mx_text_t* text, const mi_stats_t* stats);
void mx_stats_prometheus(mx_out_t* out, const mi_stats_t* stats);

MX_END_DECLS

#endif
