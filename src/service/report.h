// SPDX-License-Identifier: MIT
// The report: where the resident memory of the process is, each byte of it in one row, and
// what would make it less.
//
// A report is taken while other threads go on: it reads records, bitmaps and what the system says
// of each OS page, but no block, and takes no lock for longer than a look at a list. So its rows
// are of about one moment. It allocates nothing and needs less than 32 KiB of stack.
//
// Rows are made from OS pages that are present. Inside of a page of blocks the records say how many
// are live; what of the page's carved part is not present is taken to be free blocks', since holes
// are.
#ifndef MX_SERVICE_REPORT_H
#define MX_SERVICE_REPORT_H

#include "../base/fmt.h"
#include "../heap/heap.h"
#include "../host/residence.h"
#include "log.h"

MX_BEGIN_DECLS

typedef enum mx_report_group_e {
  MX_GROUP_USED,     // by the program
  MX_GROUP_FREE,     // free blocks, in pages that have others
  MX_GROUP_SLICES,   // free memory outside of such pages
  MX_GROUP_OWN,      // the library's
  MX_GROUP_REST,     // what is not the library's to tell
  MX_GROUP_COUNT
} mx_report_group_t;

// X(name, group, label, what it is): in the order of the print-outs. Names are those of JSON and of
// the metrics, and stay.
#define MX_REPORT_ROWS(X)                                                                        \
  X(live, USED, "live blocks", "in pages of equal blocks")                                       \
  X(live_huge, USED, "live huge blocks", "alone in their page")                                  \
  X(live_guarded, USED, "live guarded blocks", "with the OS page that each has for itself")      \
  X(rounding, USED, "lost to rounding", "ends of pages, canaries, places that fit no block")     \
  X(free_current, FREE, "in current pages", "pages that threads allocate from")                  \
  X(free_partial, FREE, "of threads that run", "pages that wait with their thread")              \
  X(free_sleeping, FREE, "of threads that sleep", "the same of a thread that waits")             \
  X(free_abandoned, FREE, "abandoned", "pages that no thread owns, for any to take over")        \
  X(free_pinned, FREE, "pinned by live blocks", "around holes: beside a live block each")        \
  X(free_empty, FREE, "in empty pages", "kept for a while for the next block of their size")     \
  X(uncarved, FREE, "no blocks yet", "the part of pages that has not become blocks")             \
  X(waiting, SLICES, "waiting to be given back", "until purge_delay is over, or asked for")      \
  X(huge_kept, SLICES, "a huge block kept", "the last that was freed, for the next of its size") \
  X(kept, SLICES, "kept for good", "free memory that is never given back: as options say")       \
  X(fresh, SLICES, "present but never used", "large OS pages, and memory that came present")     \
  X(guarded_freed, SLICES, "freed guarded blocks", "inaccessible until their place is needed")   \
  X(records, OWN, "records", "of pages, arenas, heaps and threads")                              \
  X(page_map, OWN, "page map", "leads from addresses to pages")                                  \
  X(profiler, OWN, "profiler", "stacks and samples")                                             \
  X(code, OWN, "code and data", "of the shared library")                                         \
  X(files, REST, "programs and files", "code and data of programs and libraries, mapped files")  \
  X(stacks, REST, "stacks", "of all threads")                                                    \
  X(brk, REST, "brk", "memory of another allocator, or of the program's own making")             \
  X(shared, REST, "shared memory", "of several processes")                                       \
  X(anonymous, REST, "other mappings", "anonymous memory that is not this library's")            \
  X(system, REST, "the system's", "code that the kernel lends to programs")

#define MX_REPORT_ENUM(name, group, label, help) MX_ROW_##name,
typedef enum mx_report_row_e { MX_REPORT_ROWS(MX_REPORT_ENUM) MX_ROW_COUNT } mx_report_row_t;

typedef struct mx_report_field_s {
  const char *name, *label;
  mx_report_group_t group;
} mx_report_field_t;

extern mx_hidden const mx_report_field_t mx_report_fields[MX_ROW_COUNT];
// Titles of the groups, and their names in JSON.
extern mx_hidden const char* const mx_report_titles[MX_GROUP_COUNT];
extern mx_hidden const char* const mx_report_groups[MX_GROUP_COUNT];

// Blocks of one size.
typedef struct mx_report_bin_s {
  size_t blocks;       // live
  size_t live, free;   // resident bytes of the rows `live` (or `live_huge`) and free_*
} mx_report_bin_t;

#define MX_REPORT_HEAPS 16
typedef struct mx_report_heap_s {
  const mx_heap_t* heap;  // NULL: all that have no entry of their own
  uint64_t id;
  int tag;
  size_t live, free;
} mx_report_heap_t;

typedef struct mx_report_s {
  bool is_exact;       // the system says what is present; else rows are what was touched
  bool is_resident_known;  // else the system does not tell, and `resident` is the sum of the rows
  size_t resident;     // the sum of all rows, as the system counts
  mx_present_t rows[MX_ROW_COUNT];
  mx_report_bin_t bins[MX_BIN_COUNT];
  mx_report_heap_t heaps[MX_REPORT_HEAPS + 1];
  size_t heap_count;
  size_t slack_most;   // what sizes were rounded up by in live blocks at the most
  size_t huge_os;      // in huge OS pages, which are no part of the resident size
  size_t swapped;
} mx_report_t;

// Takes a report of all sub-processes.
void mx_report_take(mx_report_t* report);
// Follows the options report_signal and prof_signal, once at the start.
void mx_report_init(void);

// ---- advice (report_advice.c) ------------------------------------------------------------------

typedef struct mx_advice_s {
  const char* name;     // stays; for programs
  size_t bytes;         // what led to it, and by how much it would be less at the most
  const char* because;  // a sentence with %s for that amount
  const char* change;   // the option or call
} mx_advice_t;

#define MX_ADVICE_MAX 12
// What would lower the resident size, the most first; how many.
size_t mx_report_advise(const mx_report_t* report, mx_advice_t* advice);

// ---- print-outs --------------------------------------------------------------------------------
void mx_report_text(mx_out_t* out, const mx_report_t* report);
void mx_report_json(mx_out_t* out, const mx_report_t* report);
void mx_report_metrics(mx_out_t* out, const mx_report_t* report);

MX_END_DECLS

#endif
