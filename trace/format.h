// SPDX-License-Identifier: MIT
// What recorder, packer and replayer agree on.
//
// The recorder writes raw files, one a process: a header in the first TRACE_HEADER bytes and then one
// trace_event_t for each call, in the order in which the calls took effect. The packer makes a trace
// of it: a trace_file_t and then the columns one behind the other. A block has the number of its
// allocation, counted from 0, and calls name it by how many allocations ago it was. Numbers are
// little-endian, seven bits a byte, the eighth of all but the last byte set; the header's are of
// 64 bits. The front compresses traces with xz.
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stdint.h>

#define TRACE_RAW_MAGIC UINT64_C(0x315741524543414d)  // MACERAW1
#define TRACE_MAGIC UINT64_C(0x3145434152544d4d)      // MMTRACE1
#define TRACE_HEADER 4096u
// Blocks of this size have their OS pages looked at, smaller ones their first and last word.
#define TRACE_LARGE ((uint64_t)64 * 1024)
#define TRACE_OS_PAGE 4096u

typedef enum trace_kind_e {
  TRACE_MALLOC,
  TRACE_CALLOC,
  TRACE_ALIGNED,
  TRACE_REALLOC,  // raw: a TRACE_LEAVES of the same thread stands just before it
  TRACE_FREE,
  TRACE_USABLE,
  TRACE_END,     // the thread ends
  TRACE_LEAVES,  // raw only: the block that the next TRACE_REALLOC resizes
  TRACE_KINDS
} trace_kind_t;

// What is known of the writes to a block when it is freed or resized.
#define TRACE_WROTE_FIRST 1u
#define TRACE_WROTE_LAST 2u

typedef struct trace_event_s {
  uint8_t kind;
  uint8_t align_log2;
  uint8_t wrote;  // of the block that goes
  uint8_t pad;
  uint32_t thread;
  uint64_t block;  // the address that comes, or goes
  uint64_t size;   // of what comes; of a large block that goes: OS pages in use, less first and last
} trace_event_t;

typedef struct trace_raw_s {
  uint64_t magic;
  uint64_t events;  // complete ones
  uint64_t full;    // the limit was reached, or there was no room
  uint64_t pid;
  char program[256];
} trace_raw_t;

typedef enum trace_column_e {
  COLUMN_CALLS,    // a byte each: kind, and in bits 4 and 5 what was written to the block that comes
  COLUMN_THREADS,  // pairs: thread, calls in a row
  COLUMN_SIZES,    // of each allocation
  COLUMN_BLOCKS,   // of each call that names a block: allocations since its own, less one
  COLUMN_PAGES,    // of each large block: OS pages that were used
  COLUMN_ALIGNS,   // a byte for each aligned allocation: the logarithm
  COLUMNS
} trace_column_t;

typedef struct trace_file_s {
  uint64_t magic;
  uint64_t calls;
  uint64_t blocks;
  uint64_t threads;
  uint64_t unknown;     // calls left out: they name blocks from before the recording
  uint64_t cut;         // the recording stopped before the program did
  uint64_t peak_bytes;  // most that was asked for at once
  uint64_t column_bytes[COLUMNS];
  char program[256];
} trace_file_t;

#endif
