// SPDX-License-Identifier: MIT
// What a report of a damaged block tells of its sample: the stack that allocated it.
//
// A report is made in the middle of anything: in a signal's handler, under locks, while another
// thread is inside of the loader and waits for what this one holds. So frames are told as places in
// modules, which the system's own list of mappings names; the loader and its lock are not asked for
// functions. Nothing is allocated. Where there is no such list, addresses are all that is told.
#include <string.h>

#include "../base/fmt.h"
#include "../host/process.h"
#include "../mem/pagemap.h"
#include "../page/page.h"
#include "profile.h"

#define FRAMES_TOLD 16
#define MODULE_SIZE 64

typedef struct told_stack_s {
  void* frames[FRAMES_TOLD];
  size_t count;
  struct {
    uintptr_t base;  // of its module; 0: not known
    char name[MODULE_SIZE];
  } modules[FRAMES_TOLD];  // of each frame
} told_stack_t;

enum { PART_START, PART_END, PART_REST, PART_NAME };

// The list of mappings, which is read byte by byte: "START-END ... /FOLDERS/NAME\n" each.
typedef struct mapping_reader_s {
  told_stack_t* origin;
  int part;
  uintptr_t start, end;
  char name[MODULE_SIZE];
  size_t length;
  uintptr_t base;               // where the latest module begins
  char module[MODULE_SIZE];
} mapping_reader_t;

static void enter_module(const mapping_reader_t* r) {
  told_stack_t* const origin = r->origin;
  for (size_t i = 0; i < origin->count; i++) {
    const uintptr_t frame = (uintptr_t)origin->frames[i];
    if (frame < r->start || frame >= r->end) continue;
    origin->modules[i].base = r->base;
    memcpy(origin->modules[i].name, r->name, MODULE_SIZE);
  }
}

// The mappings of a module follow each other, the first of its file in front.
static void end_module_line(mapping_reader_t* r) {
  r->name[r->length] = 0;
  if (r->part == PART_NAME) {
    if (memcmp(r->name, r->module, r->length + 1) != 0) {
      memcpy(r->module, r->name, MODULE_SIZE);
      r->base = r->start;
    }
    enter_module(r);
  }
  r->part = PART_START;
  r->start = r->end = 0;
  r->length = 0;
}

static uintptr_t digit_of(char c) { return (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void read_char(mapping_reader_t* r, char c) {
  if (c == '\n') {
    end_module_line(r);
  } else if (r->part == PART_START) {
    if (c == '-') r->part = PART_END;
    else r->start = r->start * 16 + digit_of(c);
  } else if (r->part == PART_END) {
    if (c == ' ') r->part = PART_REST;
    else r->end = r->end * 16 + digit_of(c);
  } else if (c == '/') {
    r->part = PART_NAME;
    r->length = 0;
  } else if (r->part == PART_NAME && r->length + 1 < MODULE_SIZE) {
    r->name[r->length++] = c;
  }
}

static void read_piece(void* arg, const void* data, size_t size) {
  for (size_t i = 0; i < size; i++) read_char((mapping_reader_t*)arg, ((const char*)data)[i]);
}

// A report is no place where a thread ends because another one cancelled it.
static void find_modules(told_stack_t* origin) {
  mapping_reader_t reader;
  memset(&reader, 0, sizeof(reader));
  reader.origin = origin;
  const bool might = mx_host_let_cancel(false);
  mx_host_file_read("/proc/self/maps", &read_piece, &reader);
  mx_host_let_cancel(might);
}

static size_t format_frame(char* line, size_t size, const told_stack_t* origin, size_t i) {
  void* const frame = origin->frames[i];
  const uintptr_t base = origin->modules[i].base;
  if (base == 0) return mx_format(line, size, "    #%zu %p\n", i, frame);
  return mx_format(line, size, "    #%zu %p %s+0x%zx\n", i, frame, origin->modules[i].name,
                   (size_t)((uintptr_t)frame - base));
}

// Of ordinary blocks, which have no note, none is told that an earlier one there may have had.
static const void* sampled_block_at(const void* p) {
  const mx_page_t* const page = mx_pagemap_find(p);
  if (page == NULL) return p;
  if (!mx_page_is_huge(page)) return NULL;
  const bool is_live = (mx_load_relaxed(&page->owner) != 0);
  return is_live && !mx_page_has_note(page) ? NULL : page->start;
}

void mx_prof_tell_origin(const void* p, void (*say)(const char* text, size_t length)) {
  char line[160];
  bool is_live = false;
  told_stack_t origin;
  memset(&origin, 0, sizeof(origin));
  const void* const block = sampled_block_at(p);
  if (block == NULL) return;
  origin.count = mx_prof_frames_at(block, origin.frames, FRAMES_TOLD, &is_live);
  if (origin.count == 0) return;
  find_modules(&origin);
  say(line, mx_format(line, sizeof(line), is_live ? "  allocated by:\n" : "  a sampled block that "
                      "was there, and is freed, was allocated by:\n"));
  for (size_t i = 0; i < origin.count; i++) say(line, format_frame(line, sizeof(line), &origin, i));
}
