// SPDX-License-Identifier: MIT
// The formats of text: heap_v2 as jemalloc and as gperftools write it, and folded stacks.
#include <string.h>

#include "../alloc/poisson.h"
#include "../host/process.h"
#include "profile.h"

// ---- heap_v2 -----------------------------------------------------------------------------------

// Readers of this format divide both numbers by 1 - exp(-size/rate), size being the mean. So that
// they come to what was estimated, whatever the sizes were, both are multiplied by that here. Of
// blocks of one size these are the samples themselves.
static void as_sampled(int64_t objects, int64_t bytes, size_t rate, long long* numbers) {
  numbers[0] = numbers[1] = 0;
  if (objects <= 0 || bytes <= 0) return;
  const double mean = (double)bytes / (double)objects;
  const double share = mx_poisson_share((size_t)(mean + 0.5), (double)rate);
  numbers[0] = (long long)((double)objects * share + 0.5);
  numbers[1] = (long long)((double)bytes * share + 0.5);
  if (numbers[0] == 0) numbers[0] = 1;
}

typedef struct sampled_s {
  long long live[2], all[2];
} sampled_t;

static sampled_t row_as_sampled(const mx_prof_row_t* row, size_t rate) {
  sampled_t s;
  as_sampled(row->values[2], row->values[3], rate, s.live);
  as_sampled(row->values[0], row->values[1], rate, s.all);
  return s;
}

static void print_sampled(mx_prof_out_t* out, const sampled_t* s) {
  mx_prof_out_print(out, "%lld: %lld [%lld: %lld]", s->live[0], s->live[1], s->all[0], s->all[1]);
}

static void copy_maps(void* arg, const void* data, size_t size) {
  mx_prof_out_add((mx_prof_out_t*)arg, data, size);
}

// google-pprof takes the innermost address for one inside of the call, and others for those behind.
static void print_stack(mx_prof_out_t* out, const mx_site_t* site, bool is_gperf) {
  mx_prof_out_print(out, "@");
  for (size_t k = 0; k < site->depth; k++) {
    mx_prof_out_print(out, " %p", (void*)((char*)site->frames[k] - (is_gperf && k == 0)));
  }
}

void mx_prof_write_heap_v2(mx_prof_out_t* out, const mx_prof_table_t* table, bool is_gperf) {
  sampled_t sum = {{0, 0}, {0, 0}};
  const size_t rate = mx_max(table->state.rate, 1);
  for (size_t i = 0; i < table->count; i++) {
    const sampled_t s = row_as_sampled(&table->rows[i], rate);
    for (size_t k = 0; k < 2; k++) {
      sum.live[k] += s.live[k];
      sum.all[k] += s.all[k];
    }
  }
  if (is_gperf) mx_prof_out_print(out, "heap profile: ");
  else mx_prof_out_print(out, "heap_v2/%zu\n  t*: ", rate);
  print_sampled(out, &sum);
  if (is_gperf) mx_prof_out_print(out, " @ heap_v2/%zu", rate);
  for (size_t i = 0; i < table->count; i++) {
    const sampled_t s = row_as_sampled(&table->rows[i], rate);
    mx_prof_out_print(out, "\n");
    if (!is_gperf) {
      print_stack(out, table->rows[i].site, false);
      mx_prof_out_print(out, "\n  t*: ");
    }
    print_sampled(out, &s);
    if (is_gperf) {
      mx_prof_out_print(out, " ");
      print_stack(out, table->rows[i].site, true);
    }
  }
  mx_prof_out_print(out, "\n\nMAPPED_LIBRARIES:\n");
  mx_host_file_read("/proc/self/maps", &copy_maps, out);
}

// ---- folded ------------------------------------------------------------------------------------

// The column of a kind that a flame graph shows.
static size_t column_of(mx_prof_kind_t kind) {
  if (kind == MX_PROF_PINNED) return 0;
  return kind == MX_PROF_LIFETIMES ? 1 : 3;
}

// In a name these two would end a frame or a stack.
static void print_name(mx_prof_out_t* out, const void* frame) {
  char name[256];
  const size_t length = mx_host_name_code((const char*)frame - 1, name, sizeof(name));
  for (size_t i = 0; i < length; i++) {
    if (name[i] == ';' || name[i] == ' ') name[i] = '_';
  }
  mx_prof_out_add(out, name, length);
}

void mx_prof_write_folded(mx_prof_out_t* out, const mx_prof_table_t* table) {
  const size_t column = column_of(table->kind);
  for (size_t i = 0; i < table->count; i++) {
    const mx_site_t* const site = table->rows[i].site;
    const int64_t value = table->rows[i].values[column];
    if (value == 0) continue;
    for (size_t k = site->depth; k-- > 0;) {
      print_name(out, site->frames[k]);
      if (k > 0) mx_prof_out_add(out, ";", 1);
    }
    if (site->depth == 0) mx_prof_out_print(out, "(unknown)");
    mx_prof_out_print(out, " %lld\n", (long long)value);
  }
}
