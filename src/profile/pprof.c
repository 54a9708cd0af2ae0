// SPDX-License-Identifier: MIT
// The format of pprof: the message perftools.profiles.Profile, encoded by hand.
//
// Its parts may come in any order, so each is written as soon as it is known. Strings are numbered
// in the order in which they are written; the first ones are constant.
#include <string.h>

#include "../base/fmt.h"
#include "../host/process.h"
#include "profile.h"

enum { PB_SAMPLE_TYPE = 1, PB_SAMPLE = 2, PB_MAPPING = 3, PB_LOCATION = 4, PB_STRING = 6,
       PB_DROP_FRAMES = 7, PB_TIME = 9, PB_PERIOD_TYPE = 11, PB_PERIOD = 12, PB_COMMENT = 13,
       PB_DEFAULT_TYPE = 14 };

enum { STR_EMPTY, STR_ALLOC_OBJECTS, STR_COUNT, STR_ALLOC_SPACE, STR_BYTES, STR_INUSE_OBJECTS,
       STR_INUSE_SPACE, STR_SPACE, STR_FREED, STR_LIFETIME, STR_NANOSECONDS, STR_ELSEWHERE,
       STR_PINNED, STR_ALONE, STR_DROP, STR_KNOWN };

// Frames of an allocator that is a part of the program cannot be told by their address.
static const char* const known_strings[STR_KNOWN] = {
    "", "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space", "space",
    "freed_objects", "lifetime", "nanoseconds", "freed_elsewhere", "pinned_space", "pinned_alone",
    ("mi_.*|mx_.*|malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|memalign|"
     "operator new.*")};

typedef struct column_s {
  int type, unit;
} column_t;

typedef struct columns_s {
  size_t count;
  int shown;  // by default
  column_t columns[MX_PROF_COLUMNS];
} columns_t;

static const columns_t of_lifetimes = {
    3, STR_LIFETIME,
    {{STR_FREED, STR_COUNT}, {STR_LIFETIME, STR_NANOSECONDS}, {STR_ELSEWHERE, STR_COUNT}}};
static const columns_t of_pinned = {
    2, STR_PINNED, {{STR_PINNED, STR_BYTES}, {STR_ALONE, STR_BYTES}}};
static const columns_t of_memory = {4, STR_INUSE_SPACE,
                                    {{STR_ALLOC_OBJECTS, STR_COUNT},
                                     {STR_ALLOC_SPACE, STR_BYTES},
                                     {STR_INUSE_OBJECTS, STR_COUNT},
                                     {STR_INUSE_SPACE, STR_BYTES}}};

static const columns_t* columns_of(mx_prof_kind_t kind) {
  if (kind == MX_PROF_LIFETIMES) return &of_lifetimes;
  return kind == MX_PROF_PINNED ? &of_pinned : &of_memory;
}

// ---- messages ----------------------------------------------------------------------------------

// A message inside of another one begins with its length, so it is built first.
typedef struct message_s {
  size_t size;
  uint8_t bytes[MX_PROF_DEPTH_MAX * 5 + MX_PROF_COLUMNS * 10 + 32];
} message_t;

static size_t put_varint(uint8_t* at, uint64_t value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) at[n++] = (uint8_t)(value | 0x80);
  at[n++] = (uint8_t)value;
  return n;
}

static void add_varint(message_t* m, uint64_t value) {
  m->size += put_varint(m->bytes + m->size, value);
}

static void add_number(message_t* m, int field, uint64_t value) {
  if (value == 0) return;
  add_varint(m, (uint64_t)field << 3);
  add_varint(m, value);
}

static void write_bytes(mx_prof_out_t* out, int field, const void* data, size_t size) {
  uint8_t head[20];
  size_t n = put_varint(head, (uint64_t)field << 3 | 2);
  n += put_varint(head + n, size);
  mx_prof_out_add(out, head, n);
  mx_prof_out_add(out, data, size);
}

static void write_message(mx_prof_out_t* out, int field, const message_t* m) {
  write_bytes(out, field, m->bytes, m->size);
}

static void write_number(mx_prof_out_t* out, int field, uint64_t value) {
  message_t m;
  m.size = 0;
  add_number(&m, field, value);
  mx_prof_out_add(out, m.bytes, m.size);
}

static void write_type(mx_prof_out_t* out, int field, int type, int unit) {
  message_t m;
  m.size = 0;
  add_number(&m, 1, (uint64_t)type);
  add_number(&m, 2, (uint64_t)unit);
  write_message(out, field, &m);
}

static void write_string(mx_prof_out_t* out, const char* text) {
  write_bytes(out, PB_STRING, text, strlen(text));
}

// ---- modules -----------------------------------------------------------------------------------

// From here on, the number of each is where it lies in the table.
typedef struct module_range_s {
  uintptr_t start, end;
} module_range_t;

#define MODULES_MAX 1024

typedef struct location_slot_s {
  uintptr_t address;
  uint64_t id;
} location_slot_t;

typedef struct pprof_s {
  mx_prof_out_t* out;
  uint64_t strings;
  size_t module_count;
  module_range_t modules[MODULES_MAX];
  // An open hash table of the addresses that have a location.
  size_t slots, mapped, addresses;
  location_slot_t* table;
} pprof_t;

static void write_module(void* arg, const mx_module_t* module) {
  pprof_t* const p = (pprof_t*)arg;
  static const char digits[] = "0123456789abcdef";
  char id[2 * MX_BUILD_ID_MAX + 1];
  message_t m;
  if (p->module_count == MODULES_MAX) return;
  for (size_t i = 0; i < module->build_id_size; i++) {
    id[2 * i] = digits[module->build_id[i] >> 4];
    id[2 * i + 1] = digits[module->build_id[i] & 15];
  }
  id[2 * module->build_id_size] = 0;
  const module_range_t range = {module->start, module->end};
  p->modules[p->module_count++] = range;
  m.size = 0;
  add_number(&m, 1, p->module_count);
  add_number(&m, 2, module->start);
  add_number(&m, 3, module->end);
  add_number(&m, 4, module->offset);
  write_string(p->out, module->path);
  add_number(&m, 5, p->strings++);
  if (module->build_id_size > 0) {
    write_string(p->out, id);
    add_number(&m, 6, p->strings++);
  }
  write_message(p->out, PB_MAPPING, &m);
}

static uint64_t mapping_of(const pprof_t* p, uintptr_t address) {
  for (size_t i = 0; i < p->module_count; i++) {
    if (address - p->modules[i].start < p->modules[i].end - p->modules[i].start) return i + 1;
  }
  return 0;
}

// ---- locations and samples ---------------------------------------------------------------------

// What an address has returned to lies behind the call; the byte before belongs to it.
static uint64_t location_of(pprof_t* p, const void* frame) {
  const uintptr_t address = (uintptr_t)frame - 1;
  size_t i = (size_t)((uint64_t)address * 0x9E3779B97F4A7C15u >> 32) % p->slots;
  while (p->table[i].id != 0 && p->table[i].address != address) i = (i + 1) % p->slots;
  if (p->table[i].id != 0) return p->table[i].id;
  p->table[i].address = address;
  p->table[i].id = ++p->addresses;
  message_t m;
  m.size = 0;
  add_number(&m, 1, p->addresses);
  add_number(&m, 2, mapping_of(p, address));
  add_number(&m, 3, address);
  write_message(p->out, PB_LOCATION, &m);
  return p->addresses;
}

// A field of packed numbers, whose length comes first: it is put in front when it is known.
static void pack(message_t* m, int field, size_t from) {
  uint8_t head[20];
  const size_t length = m->size - from;
  size_t n = put_varint(head, (uint64_t)field << 3 | 2);
  n += put_varint(head + n, length);
  memmove(m->bytes + from + n, m->bytes + from, length);
  memcpy(m->bytes + from, head, n);
  m->size += n;
}

static void write_sample(pprof_t* p, const mx_prof_row_t* row, size_t columns) {
  message_t m;
  m.size = 0;
  for (size_t i = 0; i < row->site->depth; i++) {
    add_varint(&m, location_of(p, row->site->frames[i]));
  }
  pack(&m, 1, 0);
  const size_t from = m.size;
  for (size_t i = 0; i < columns; i++) add_varint(&m, (uint64_t)row->values[i]);
  pack(&m, 2, from);
  write_message(p->out, PB_SAMPLE, &m);
}

static bool make_slots(pprof_t* p, const mx_prof_table_t* table) {
  size_t frames = 0;
  for (size_t i = 0; i < table->count; i++) frames += table->rows[i].site->depth;
  p->slots = 2 * frames + 1;
  p->addresses = 0;
  p->mapped = p->slots * sizeof(*p->table);
  p->table = (location_slot_t*)mx_prof_map(p->mapped);
  return p->table != NULL;
}

static void write_dropped(pprof_t* p, const mx_prof_state_t* state) {
  mx_text_t text;
  char line[128];
  mx_text_init(&text, line, sizeof(line));
  mx_text_add(&text, "%llu samples were dropped: no memory within prof_memory\n",
              (unsigned long long)state->dropped);
  write_string(p->out, line);
  write_number(p->out, PB_COMMENT, p->strings++);
}

static void write_pprof(pprof_t* p, const mx_prof_table_t* table) {
  const columns_t* const columns = columns_of(table->kind);
  for (int i = 0; i < STR_KNOWN; i++) write_string(p->out, known_strings[i]);
  p->strings = STR_KNOWN;
  for (size_t i = 0; i < columns->count; i++) {
    write_type(p->out, PB_SAMPLE_TYPE, columns->columns[i].type, columns->columns[i].unit);
  }
  write_type(p->out, PB_PERIOD_TYPE, STR_SPACE, STR_BYTES);
  write_number(p->out, PB_PERIOD, table->state.rate);
  write_number(p->out, PB_DEFAULT_TYPE, (uint64_t)columns->shown);
  write_number(p->out, PB_TIME, mx_host_wall_nsecs());
  write_number(p->out, PB_DROP_FRAMES, STR_DROP);
  if (table->state.dropped > 0) write_dropped(p, &table->state);
  mx_host_each_module(&write_module, p);
  for (size_t i = 0; i < table->count; i++) write_sample(p, &table->rows[i], columns->count);
}

bool mx_prof_write_pprof(mx_prof_out_t* out, const mx_prof_table_t* table) {
  pprof_t* const p = (pprof_t*)mx_prof_map(sizeof(*p));
  if (p == NULL) return false;
  p->out = out;
  const bool done = make_slots(p, table);
  if (done) {
    write_pprof(p, table);
    mx_prof_unmap(p->table, p->mapped);
  }
  mx_prof_unmap(p, sizeof(*p));
  return done;
}
