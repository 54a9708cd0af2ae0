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
#include "../host/residence.h"
#include "../mem/pagemap.h"
#include "../page/page.h"
#include "profile.h"

#define FRAMES_TOLD 16

typedef struct told_module_s {
  uintptr_t base;  // 0: not known
  char name[MX_MAPPING_NAME];
} told_module_t;

typedef struct told_stack_s {
  void* frames[FRAMES_TOLD];
  size_t count;
  told_module_t modules[FRAMES_TOLD];  // of each frame
  told_module_t latest;                // of the mappings that were visited
} told_stack_t;

// The mappings of a module follow each other, the first of its file in front.
static void enter_mapping(const mx_mapping_t* m, void* arg) {
  told_stack_t* const origin = (told_stack_t*)arg;
  if (m->name[0] == 0) return;
  if (memcmp(m->name, origin->latest.name, strlen(m->name) + 1) != 0) {
    memcpy(origin->latest.name, m->name, MX_MAPPING_NAME);
    origin->latest.base = m->start;
  }
  for (size_t i = 0; i < origin->count; i++) {
    const uintptr_t frame = (uintptr_t)origin->frames[i];
    if (frame - m->start < m->end - m->start) origin->modules[i] = origin->latest;
  }
}

// A report is no place where a thread ends because another one cancelled it.
static void find_modules(told_stack_t* origin) {
  const bool might = mx_host_let_cancel(false);
  mx_host_visit_mappings(false, &enter_mapping, origin);
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
