// SPDX-License-Identifier: MIT
// The packer: makes a trace of the recorder's raw file.
//
//   mimalloc-trace-pack RAW TRACE     exit status 0; 1: with a message
//   mimalloc-trace-pack --about RAW   prints process, events and program, tab-separated
//
// A first pass gives each block its number and finds what was written to it by the time it went; a
// second one writes the columns. A block that is still there at the end counts as written. A call that
// names an address from before the recording is left out and counted; so is malloc_usable_size by a
// thread that neither allocated nor frees the block, since the replay keeps no order there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"

#define NONE UINT64_MAX

typedef struct block_s {
  uint64_t size;
  uint64_t pages;
  uint32_t maker;
  uint32_t freer;
  uint8_t wrote;
} block_t;

typedef struct column_s {
  uint8_t* bytes;
  size_t count;
  size_t room;
} column_t;

typedef struct slot_s {
  uint64_t address;  // 0: empty
  uint64_t number;   // NONE: the block went
} slot_t;

static slot_t* table;
static size_t table_room, table_used;
static block_t* blocks;
static uint64_t block_count;
static column_t columns[COLUMNS];
static trace_file_t out = {.magic = TRACE_MAGIC};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "mimalloc-trace: %s: %s\n", what, why);
  exit(1);
}

static void* must(void* p) {
  if (p == NULL) fail("packing", "no memory");
  return p;
}

// ---- which block has an address ---------------------------------------------------------------------

static slot_t* find(uint64_t address) {
  size_t at = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (table_room - 1);
  while (table[at].address != 0 && table[at].address != address) at = (at + 1) & (table_room - 1);
  return &table[at];
}

static void grow(void) {
  slot_t* old = table;
  const size_t room = table_room;
  size_t live = 0;
  for (size_t i = 0; i < room; i++) live += old[i].address != 0 && old[i].number != NONE;
  while (table_room < 4 * live || table_room < 1024) table_room = table_room * 2 + 1024;
  while ((table_room & (table_room - 1)) != 0) table_room &= table_room - 1;
  table = must(calloc(table_room, sizeof(slot_t)));
  table_used = 0;
  for (size_t i = 0; i < room; i++) {
    if (old[i].address == 0 || old[i].number == NONE) continue;
    *find(old[i].address) = old[i];
    table_used++;
  }
  free(old);
}

static void enter(uint64_t address, uint64_t number) {
  if (table_used * 2 >= table_room) grow();
  slot_t* slot = find(address);
  if (slot->address == 0) table_used++;
  *slot = (slot_t){address, number};
}

static uint64_t look_up(uint64_t address, bool leaves) {
  slot_t* slot = find(address);
  const uint64_t number = slot->address == 0 ? NONE : slot->number;
  if (leaves && number != NONE) slot->number = NONE;
  return number;
}

static void forget_all(void) {
  memset(table, 0, table_room * sizeof(slot_t));
  table_used = 0;
}

// ---- columns ----------------------------------------------------------------------------------------

static void put_byte(trace_column_t which, uint8_t byte) {
  column_t* column = &columns[which];
  if (column->count == column->room) {
    column->room = column->room * 2 + 4096;
    column->bytes = must(realloc(column->bytes, column->room));
  }
  column->bytes[column->count++] = byte;
}

static void put(trace_column_t which, uint64_t n) {
  for (; n >= 128; n >>= 7) put_byte(which, (uint8_t)(n | 128));
  put_byte(which, (uint8_t)n);
}

static void put_thread(uint32_t thread) {
  static uint64_t last = NONE, run;
  if (thread == last) {
    run++;
    return;
  }
  if (last != NONE) put(COLUMN_THREADS, last), put(COLUMN_THREADS, run);
  last = thread;
  run = 1;
}

// ---- the two passes ---------------------------------------------------------------------------------

static bool makes(const trace_event_t* e) {
  return e->kind <= TRACE_REALLOC;
}

static bool ends_block(const trace_event_t* e) {
  return e->kind == TRACE_FREE || e->kind == TRACE_LEAVES;
}

static void learn(const trace_event_t* events, uint64_t count) {
  uint64_t live = 0;
  for (uint64_t i = 0; i < count; i++) {
    const trace_event_t* e = &events[i];
    if (e->kind >= TRACE_KINDS) fail("packing", "the recording is damaged");
    if (e->thread >= out.threads) out.threads = (uint64_t)e->thread + 1;
    if (makes(e)) {
      blocks[block_count] = (block_t){e->size, e->size / TRACE_OS_PAGE, e->thread, e->thread,
                                      TRACE_WROTE_FIRST | TRACE_WROTE_LAST};
      enter(e->block, block_count++);
      live += e->size;
    } else if (ends_block(e)) {
      const uint64_t number = look_up(e->block, true);
      if (number == NONE) continue;
      block_t* block = &blocks[number];
      block->freer = e->thread;
      block->wrote = e->wrote;
      if (block->size >= TRACE_LARGE) block->pages = e->size;
      live -= block->size;
    }
    if (live > out.peak_bytes) out.peak_bytes = live;
  }
}

static void put_call(const trace_event_t* e, uint8_t wrote) {
  put_byte(COLUMN_CALLS, (uint8_t)(e->kind | wrote << 4));
  put_thread(e->thread);
  out.calls++;
}

static void put_new(const trace_event_t* e) {
  const block_t* block = &blocks[block_count];
  put(COLUMN_SIZES, block->size);
  if (block->size >= TRACE_LARGE) put(COLUMN_PAGES, block->pages);
  if (e->kind == TRACE_ALIGNED) put_byte(COLUMN_ALIGNS, e->align_log2);
  enter(e->block, block_count++);
}

static void put_named(uint64_t number) {
  put(COLUMN_BLOCKS, block_count - number - 1);
}

static bool is_ordered(const trace_event_t* e, const block_t* block) {
  return e->thread == block->freer || (block->freer == block->maker && e->thread == block->maker);
}

static void write_columns(const trace_event_t* events, uint64_t count) {
  uint64_t resized = NONE;
  for (uint64_t i = 0; i < count; i++) {
    const trace_event_t* e = &events[i];
    const uint64_t named = makes(e) || e->kind == TRACE_END ? NONE
                                                            : look_up(e->block, ends_block(e));
    if (e->kind == TRACE_END) {
      put_call(e, 0);
    } else if (e->kind == TRACE_LEAVES) {
      resized = named;
    } else if (makes(e)) {
      trace_event_t call = *e;
      if (call.kind == TRACE_REALLOC && resized == NONE) call.kind = TRACE_MALLOC, out.unknown++;
      put_call(&call, blocks[block_count].wrote);
      if (call.kind == TRACE_REALLOC) put_named(resized);
      put_new(&call);
    } else if (named == NONE || (e->kind == TRACE_USABLE && !is_ordered(e, &blocks[named]))) {
      out.unknown++;
    } else {
      put_call(e, 0);
      put_named(named);
    }
  }
  put_thread(UINT32_MAX);
}

// ---- files ------------------------------------------------------------------------------------------

static const trace_raw_t* open_raw(const char* path, uint64_t* count) {
  const int file = open(path, O_RDONLY);
  struct stat told;
  if (file < 0 || fstat(file, &told) != 0) fail(path, strerror(errno));
  const size_t size = (size_t)told.st_size;
  if (size < TRACE_HEADER) fail(path, "not a recording");
  const trace_raw_t* raw = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (raw == MAP_FAILED) fail(path, strerror(errno));
  close(file);
  if (raw->magic != TRACE_RAW_MAGIC) fail(path, "not a recording");
  const uint64_t room = (size - TRACE_HEADER) / sizeof(trace_event_t);
  *count = raw->events < room ? raw->events : room;
  return raw;
}

static void write_all(const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) fail(path, strerror(errno));
  for (int i = 0; i < COLUMNS; i++) out.column_bytes[i] = columns[i].count;
  bool well = fwrite(&out, sizeof(out), 1, file) == 1;
  for (int i = 0; i < COLUMNS; i++) {
    well = fwrite(columns[i].bytes, 1, columns[i].count, file) == columns[i].count && well;
  }
  if (fclose(file) != 0 || !well) fail(path, "it cannot be written");
}

int main(int argc, char** argv) {
  uint64_t count = 0;
  if (argc != 3) fail("usage", "mimalloc-trace-pack RAW TRACE | --about RAW");
  const bool about = strcmp(argv[1], "--about") == 0;
  const trace_raw_t* raw = open_raw(argv[about ? 2 : 1], &count);
  if (about) {
    printf("%" PRIu64 "\t%" PRIu64 "\t%.255s\n", raw->pid, count, raw->program);
    return 0;
  }
  const trace_event_t* events = (const trace_event_t*)((const char*)raw + TRACE_HEADER);
  memcpy(out.program, raw->program, sizeof(out.program) - 1);
  out.cut = raw->full;
  blocks = must(calloc(count + 1, sizeof(block_t)));
  grow();
  learn(events, count);
  out.blocks = block_count;
  block_count = 0;
  forget_all();
  write_columns(events, count);
  write_all(argv[2]);
  return 0;
}
