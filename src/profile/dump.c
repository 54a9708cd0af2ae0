// SPDX-License-Identifier: MIT
// The dumps: a table of numbers becomes a stream or a file.
//
// A file is written under another name in the same folder and renamed when it is whole, so that
// nobody ever finds half of one. Several threads may dump at a time, each its own. The thread that
// ends the process waits a little for the others, and removes what they have not finished. A
// device, a pipe and a link are written to: /dev/stdout is no file to be replaced.
#include <errno.h>
#include <string.h>

#include "../alloc/sample.h"
#include "../base/fmt.h"
#include "../base/hooks.h"
#include "../host/process.h"
#include "../os/thread.h"
#include "profile.h"

#define PROF_PATH_MAX 4096
#define UNFINISHED_MAX 16
#define END_MSECS 200  // that the end of the process waits for other threads' dumps

static mx_atomic(uint32_t) dump_number;  // of this process
static mx_at_start mx_atomic(bool) has_finished;
static mx_at_start mx_atomic(uintptr_t) finished_by;  // the thread that ends the process

// ---- streams -----------------------------------------------------------------------------------

static bool write_table(const mx_prof_table_t* table, mx_prof_format_t format,
                        mx_prof_out_t* out) {
  bool done = true;
  switch (format) {
    case MX_PROF_HEAP_V2: mx_prof_write_heap_v2(out, table, false); break;
    case MX_PROF_GPERF: mx_prof_write_heap_v2(out, table, true); break;
    case MX_PROF_FOLDED: mx_prof_write_folded(out, table); break;
    default: done = mx_prof_write_pprof(out, table); break;
  }
  mx_prof_out_close(out);
  return done;
}

bool mx_prof_dump_to(mx_prof_kind_t kind, mx_prof_format_t format, mx_prof_write_fn* write,
                     void* arg) {
  mx_prof_table_t table;
  mx_prof_out_t* const out = (mx_prof_out_t*)mx_prof_map(sizeof(*out));
  if (out == NULL) return false;
  // What the receiver allocates is no part of the program's profile, and takes no part in locks.
  const bool was_paused = mx_sample_pause(true);
  bool done = mx_prof_take_table(kind, &table);
  if (done) {
    mx_prof_out_open(out, write, arg, format == MX_PROF_PPROF_GZ);
    done = write_table(&table, format, out);
    mx_prof_drop_table(&table);
  }
  mx_sample_pause(was_paused);
  mx_prof_unmap(out, sizeof(*out));
  return done;
}

// ---- names -------------------------------------------------------------------------------------

static bool ends_with(const char* text, const char* end) {
  const size_t length = strlen(text), of_end = strlen(end);
  return length >= of_end && memcmp(text + length - of_end, end, of_end) == 0;
}

mx_prof_format_t mx_prof_format_of(const char* path) {
  if (ends_with(path, ".pb.gz")) return MX_PROF_PPROF_GZ;
  if (ends_with(path, ".pb")) return MX_PROF_PPROF;
  if (ends_with(path, ".gperf")) return MX_PROF_GPERF;
  return ends_with(path, ".folded") ? MX_PROF_FOLDED : MX_PROF_HEAP_V2;
}

static void expand_path(mx_text_t* text, const char* path, uint32_t number) {
  for (; *path != 0; path++) {
    if (*path != '%') {
      mx_text_char(text, *path);
      continue;
    }
    switch (*++path) {
      case 'p': mx_text_add(text, "%lu", mx_host_pid()); break;
      case 'n': mx_text_add(text, "%u", number); break;
      case '%': mx_text_char(text, '%'); break;
      case 0: mx_text_char(text, '%'); return;
      default:
        mx_text_char(text, '%');
        mx_text_char(text, *path);
        break;
    }
  }
}

// ---- files -------------------------------------------------------------------------------------

typedef struct prof_file_s {
  int file;
  int error;  // the first
} prof_file_t;

static void write_file(void* arg, const char* data, size_t size) {
  prof_file_t* const f = (prof_file_t*)arg;
  if (f->error == 0 && !mx_host_file_write(f->file, data, size)) f->error = errno;
}

typedef struct prof_paths_s {
  char path[PROF_PATH_MAX], aside[PROF_PATH_MAX + 64];
} prof_paths_t;

// What is being written. Whoever takes the paths out may read them. The child of a fork has entries
// of its parent's.
typedef struct unfinished_s {
  mx_atomic(prof_paths_t*) paths;
  mx_atomic(uintptr_t) process;
} unfinished_t;

static unfinished_t unfinished[UNFINISHED_MAX];

static unfinished_t* enter_unfinished(prof_paths_t* paths) {
  for (size_t i = 0; i < UNFINISHED_MAX; i++) {
    prof_paths_t* none = NULL;
    if (!mx_cas_strong_acq_rel(&unfinished[i].paths, &none, paths)) continue;
    mx_store_relaxed(&unfinished[i].process, (uintptr_t)mx_host_pid());
    return &unfinished[i];
  }
  return NULL;
}

static bool leave_unfinished(unfinished_t* entry, prof_paths_t* paths) {
  return entry == NULL || mx_cas_strong_acq_rel(&entry->paths, &paths, (prof_paths_t*)NULL);
}

void mx_prof_end_unfinished(void) {
  mx_fence_seq_cst();
  const uint64_t begin = mx_os_clock_msecs();
  for (size_t i = 0; i < UNFINISHED_MAX; i++) {
    unfinished_t* const entry = &unfinished[i];
    // A filter that the program entered may end it for asking who it is.
    if (mx_load_acquire(&entry->paths) == NULL) continue;
    while (mx_load_acquire(&entry->paths) != NULL && mx_os_clock_msecs() - begin <= END_MSECS) {
      if (mx_load_relaxed(&entry->process) != (uintptr_t)mx_host_pid()) break;
      mx_os_yield();
    }
    if (mx_load_relaxed(&entry->process) != (uintptr_t)mx_host_pid()) continue;
    const prof_paths_t* const left = mx_exchange_acq_rel(&entry->paths, (prof_paths_t*)NULL);
    if (left != NULL) mx_host_file_remove(left->aside);
  }
}

void mx_prof_no_more_files(void) {
  mx_store_relaxed(&finished_by, mx_thread_id());
  mx_store_release(&has_finished, true);
}

bool mx_prof_has_finished(void) { return mx_load_relaxed(&has_finished); }

static bool may_begin(void) {
  return !mx_load_acquire(&has_finished) || mx_load_relaxed(&finished_by) == mx_thread_id();
}

// 0, or an error of the system.
static int dump_as(mx_prof_kind_t kind, mx_prof_format_t format, const char* path,
                   const char* aside) {
  // Against its opposite in mx_prof_end_unfinished: either this sees the end, or that the entry.
  mx_fence_seq_cst();
  if (!may_begin()) return EAGAIN;
  const bool is_lasting = mx_host_file_is_lasting(path);
  prof_file_t f = {mx_host_file_make(is_lasting ? path : aside, is_lasting), 0};
  if (f.file < 0) return errno != 0 ? errno : ENOSYS;
  if (!mx_prof_dump_to(kind, format, &write_file, &f) && f.error == 0) f.error = ENOMEM;
  if (!mx_host_file_close(f.file) && f.error == 0) f.error = errno;
  if (is_lasting) return f.error;
  if (f.error == 0 && !mx_host_file_rename(aside, path)) f.error = errno;
  if (f.error != 0) mx_host_file_remove(aside);
  return f.error;
}

// *is_mine: nobody else reads the paths any more.
static bool dump_named(mx_prof_kind_t kind, const mx_prof_format_t* format, prof_paths_t* paths,
                       uint32_t number, bool* is_mine) {
  const char* const path = paths->path;
  char* const aside = paths->aside;
  mx_text_t text;
  mx_text_init(&text, aside, sizeof(paths->aside));
  mx_text_add(&text, "%s.%lu-%u.part", path, mx_host_pid(), number);
  const int saved = errno;
  errno = 0;
  unfinished_t* const entry = enter_unfinished(paths);
  const int error = dump_as(kind, format != NULL ? *format : mx_prof_format_of(path), path, aside);
  *is_mine = leave_unfinished(entry, paths);
  errno = saved;
  // After the end of the process there is nobody to be told.
  if (error != 0 && !may_begin()) return false;
  if (error != 0) mx_warning("unable to write the profile \"%s\" (error %d)\n", path, error);
  else mx_verbose("wrote the profile \"%s\"\n", path);
  return error == 0;
}

bool mx_prof_dump_file(mx_prof_kind_t kind, const mx_prof_format_t* format, const char* path) {
  mx_text_t text;
  const uint32_t number = mx_add_relaxed(&dump_number, (uint32_t)1);
  prof_paths_t* const paths = (prof_paths_t*)mx_prof_map(sizeof(*paths));
  if (paths == NULL) {
    mx_warning("there is no memory to write a profile\n");
    return false;
  }
  mx_text_init(&text, paths->path, sizeof(paths->path));
  expand_path(&text, path, number);
  bool done = (text.length > 0 && text.length + 1 < sizeof(paths->path));
  if (!done) mx_warning("the name of a profile is %s\n", text.length == 0 ? "empty" : "too long");
  const bool was_paused = mx_sample_pause(true);
  const bool could_cancel = mx_host_let_cancel(false);
  bool is_mine = true;
  done = done && dump_named(kind, format, paths, number, &is_mine);
  mx_host_let_cancel(could_cancel);
  mx_sample_pause(was_paused);
  if (is_mine) mx_prof_unmap(paths, sizeof(*paths));
  return done;
}
