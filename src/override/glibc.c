// SPDX-License-Identifier: MIT
// What glibc has beside allocation: its second names of malloc, and the questions and settings
// of <malloc.h>, which would otherwise reach glibc's own malloc, where nothing is.
//
// The answers are true of this library. glibc's words for them: an arena is what holds the blocks
// that share pages, with `uordblks` bytes in live ones and `fordblks` bytes in free ones; blocks
// alone in their page count as mapped.
#include "override.h"

#if MX_OVERRIDE_ELF && defined(__linux__)

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../alloc/spare.h"
#include "../base/options.h"
#include "../heap/subproc.h"
#include "../mem/vmem.h"

// ---- second names ------------------------------------------------------------------------------

MX_EXPORT void* __libc_malloc(size_t size);
MX_EXPORT void* __libc_calloc(size_t count, size_t size);
MX_EXPORT void* __libc_realloc(void* p, size_t size);
MX_EXPORT void __libc_free(void* p);
MX_EXPORT void __libc_cfree(void* p);
MX_EXPORT void* __libc_valloc(size_t size);
MX_EXPORT void* __libc_pvalloc(size_t size);
MX_EXPORT void* __libc_memalign(size_t alignment, size_t size);
MX_EXPORT int __posix_memalign(void** p, size_t alignment, size_t size);

void* __libc_malloc(size_t size) { return mi_malloc(size); }
void* __libc_calloc(size_t count, size_t size) { return mi_calloc(count, size); }
void* __libc_realloc(void* p, size_t size) { return mi_realloc(p, size); }
void __libc_free(void* p) { mi_free(p); }
void __libc_cfree(void* p) { mi_cfree(p); }
void* __libc_valloc(size_t size) { return mi_valloc(size); }
void* __libc_pvalloc(size_t size) { return mi_pvalloc(size); }
void* __libc_memalign(size_t alignment, size_t size) { return mi_memalign(alignment, size); }
int __posix_memalign(void** p, size_t alignment, size_t size) {
  return mi_posix_memalign(p, alignment, size);
}

// ---- a tally of all pages ----------------------------------------------------------------------

typedef struct tally_s {
  size_t live_count[MX_BIN_COUNT];  // blocks; the last bin is that of blocks alone in their page
  size_t free_count[MX_BIN_COUNT];
  size_t huge_bytes;
  size_t empty_bytes;               // in pages that hold no live block
} tally_t;

// Other threads may be at work in the page, so its numbers are read one by one and held to each
// other. A block that another thread freed counts as live until its page's owner takes it in.
static void tally_page(tally_t* tally, const mx_page_t* page) {
  const size_t bin = page->bin;
  if (mx_page_is_huge(page)) {
    tally->live_count[MX_BIN_HUGE]++;
    tally->huge_bytes += page->block_size;
    return;
  }
  const size_t carved = page->capacity;
  size_t used = page->used;
  // A current page counts itself as well. Records of theaps never go away, so this one is there.
  const mx_theap_t* const theap = mx_page_theap(page);
  if (theap != NULL && theap->bins.current[bin] == page && used > 0) used--;
  if (used > carved) used = carved;
  tally->live_count[bin] += used;
  tally->free_count[bin] += carved - used;
  if (used == 0) tally->empty_bytes += carved * page->block_size;
}

static void tally_subproc(tally_t* tally, mx_subproc_t* subproc) {
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    size_t index = 0;
    for (mx_page_t* page; arena != NULL && (page = mx_page_next_in(arena, &index)) != NULL;) {
      tally_page(tally, page);
    }
  }
  mx_lock_acquire(&subproc->lock);
  for (const mx_page_t* page = subproc->os_pages; page != NULL; page = page->next) {
    tally_page(tally, page);
  }
  mx_lock_release(&subproc->lock);
}

static void take_tally(tally_t* tally) {
  memset(tally, 0, sizeof(*tally));
  mx_spare_flush(mx_tls_theap);
  for (mx_subproc_t* s = NULL; (s = mx_subproc_step(s)) != NULL;) tally_subproc(tally, s);
}

static size_t bytes_of(const size_t count[MX_BIN_COUNT]) {
  size_t bytes = 0;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) bytes += count[bin] * mx_bin_size(bin);
  return bytes;
}

static size_t blocks_of(const size_t count[MX_BIN_COUNT]) {
  size_t blocks = 0;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) blocks += count[bin];
  return blocks;
}

// ---- mallinfo ----------------------------------------------------------------------------------

// The records of <malloc.h>, under names of our own: other C libraries have no such header.
#define MALLINFO_FIELDS(type) \
  type arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost

typedef struct mx_mallinfo_s {
  MALLINFO_FIELDS(int);
} mx_mallinfo_t;

typedef struct mx_mallinfo2_s {
  MALLINFO_FIELDS(size_t);
} mx_mallinfo2_t;

MX_EXPORT mx_mallinfo_t mallinfo(void) MX_NOTHROW;
MX_EXPORT mx_mallinfo2_t mallinfo2(void) MX_NOTHROW;

mx_mallinfo2_t mallinfo2(void) MX_NOTHROW {
  tally_t tally;
  take_tally(&tally);
  mx_mallinfo2_t info;
  memset(&info, 0, sizeof(info));
  info.uordblks = bytes_of(tally.live_count);
  info.fordblks = bytes_of(tally.free_count);
  info.arena = info.uordblks + info.fordblks;
  info.ordblks = blocks_of(tally.free_count);
  info.hblks = tally.live_count[MX_BIN_HUGE];
  info.hblkhd = tally.huge_bytes;
  info.keepcost = tally.empty_bytes;
  return info;
}

static int clamped(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

mx_mallinfo_t mallinfo(void) MX_NOTHROW {
  const mx_mallinfo2_t all = mallinfo2();
  mx_mallinfo_t info;
  memset(&info, 0, sizeof(info));
  info.arena = clamped(all.arena);
  info.ordblks = clamped(all.ordblks);
  info.hblks = clamped(all.hblks);
  info.hblkhd = clamped(all.hblkhd);
  info.uordblks = clamped(all.uordblks);
  info.fordblks = clamped(all.fordblks);
  info.keepcost = clamped(all.keepcost);
  return info;
}

// ---- malloc_info -------------------------------------------------------------------------------

MX_EXPORT int malloc_info(int options, FILE* stream) MX_NOTHROW;

static int64_t now_of(mx_count_t* count) {
  const int64_t now = mx_load_relaxed(&count->current);
  return now < 0 ? 0 : now;
}

static int64_t peak_of(mx_count_t* count) {
  const int64_t now = now_of(count), peak = mx_load_relaxed(&count->peak);
  return peak < now ? now : peak;
}

// The elements that glibc writes for free and for mapped blocks, and for memory of the system.
static void print_totals(FILE* stream, const tally_t* tally) {
  fprintf(stream,
          "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
          "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
          "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n",
          blocks_of(tally->free_count), bytes_of(tally->free_count),
          tally->live_count[MX_BIN_HUGE], tally->huge_bytes);
}

static void print_system(FILE* stream) {
  mx_count_t* const committed = &mx_process_counters.committed;
  mx_count_t* const reserved = &mx_process_counters.reserved;
  fprintf(stream,
          "<system type=\"current\" size=\"%lld\"/>\n<system type=\"max\" size=\"%lld\"/>\n"
          "<aspace type=\"total\" size=\"%lld\"/>\n<aspace type=\"mprotect\" size=\"%lld\"/>\n",
          (long long)now_of(committed), (long long)peak_of(committed),
          (long long)now_of(reserved), (long long)now_of(committed));
}

static void print_sizes(FILE* stream, const tally_t* tally) {
  fputs("<sizes>\n", stream);
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    if (tally->free_count[bin] == 0) continue;
    const size_t size = mx_bin_size(bin);
    fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
            mx_bin_size(bin - 1) + 1, size, size * tally->free_count[bin], tally->free_count[bin]);
  }
  fputs("</sizes>\n", stream);
}

// The tally comes first: the stream may allocate its buffer.
int malloc_info(int options, FILE* stream) MX_NOTHROW {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  tally_t tally;
  take_tally(&tally);
  fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n", stream);
  print_sizes(stream, &tally);
  print_totals(stream, &tally);
  print_system(stream);
  fputs("</heap>\n", stream);
  print_totals(stream, &tally);
  print_system(stream);
  fputs("</malloc>\n", stream);
  return 0;
}

// ---- the rest ----------------------------------------------------------------------------------

MX_EXPORT int malloc_trim(size_t pad) MX_NOTHROW;
MX_EXPORT int mallopt(int parameter, int value) MX_NOTHROW;
MX_EXPORT void malloc_stats(void) MX_NOTHROW;

// 1 when memory was given back to the system. What others gave back meanwhile counts as well.
int malloc_trim(size_t pad) MX_NOTHROW {
  (void)pad;
  mx_atomic(int64_t)* const purged = &mx_process_counters.purged;
  const int64_t before = mx_load_relaxed(purged);
  mi_collect(true);
  return mx_load_relaxed(purged) > before;
}

// The parameters of glibc, under names of our own as above, and those of Android that have a
// meaning here. docs/guide.md has the table of what they do.
enum {
  SET_FASTEST = 1,  // M_MXFAST: the largest request for glibc's fast bins
  SET_BLOCKS = 2,   // M_NLBLKS, M_GRAIN, M_KEEP: of System V, without effect in glibc, too
  SET_GRAIN = 3,
  SET_KEEP = 4,
  SET_TRIM_THRESHOLD = -1,
  SET_TOP_PAD = -2,
  SET_MMAP_THRESHOLD = -3,
  SET_MMAP_MAX = -4,
  SET_CHECK_ACTION = -5,
  SET_PERTURB = -6,
  SET_ARENA_TEST = -7,
  SET_ARENA_MAX = -8,
  SET_DECAY_TIME = -100,
  SET_PURGE = -101,
  SET_PURGE_ALL = -104
};

#define FASTEST_MAX ((int)(80 * sizeof(size_t) / 4))  // what glibc accepts

// Sizes come as int but are meant as size_t: a negative one is more than there is.
static long kib_of(int bytes) {
  return bytes < 0 ? MX_KIB_MAX : bytes / (int)MX_KIB + (bytes % (int)MX_KIB != 0);
}

// Freed memory goes back in runs of at least so many bytes, or not by itself.
static void set_trim_threshold(int bytes) {
  if (bytes < 0) {
    mi_option_set(mi_option_purge_delay, -1);
    return;
  }
  if (mi_option_get(mi_option_purge_delay) < 0) {
    mi_option_set(mi_option_purge_delay, MI_DEFAULT_PURGE_DELAY);
  }
  mi_option_set(mi_option_minimal_purge_size, kib_of(bytes));
}

// glibc's heap grows by more than was asked for; ours by whole arenas, which never become smaller
// for it.
static void set_top_pad(int bytes) {
  const long kib = kib_of(bytes < 0 ? INT_MAX : bytes);
  if (kib > mi_option_get(mi_option_arena_reserve)) mi_option_set(mi_option_arena_reserve, kib);
}

// Mappings of single blocks are not counted: they are allowed or not.
static void set_mmap_max(int count) {
  if (count <= 0) {
    mi_option_set(mi_option_arena_max_object_size, MX_KIB_MAX);
  } else if (mi_option_get(mi_option_arena_max_object_size) == MX_KIB_MAX) {
    mi_option_set(mi_option_arena_max_object_size, MI_DEFAULT_ARENA_MAX_OBJECT_SIZE);
  }
}

// Bit 0 prints, bit 1 ends the process. What a build ends by itself it goes on to end.
static void set_check_action(int bits) {
  mi_option_set(mi_option_show_errors, bits & 1);
  mi_option_set(mi_option_abort_on_error, (bits & 2) != 0 ? 1 : -1);
}

// Few arenas are wanted for less memory that single threads keep.
static void set_arena_max(int count) {
  const long most = MI_DEFAULT_PAGE_FULL_RETAIN;
  mi_option_set(mi_option_page_full_retain, count > 0 && count <= most ? count - 1 : most);
}

int mallopt(int parameter, int value) MX_NOTHROW {
  switch (parameter) {
    case SET_FASTEST: return value >= 0 && value <= FASTEST_MAX;
    case SET_BLOCKS:
    case SET_GRAIN:
    case SET_KEEP:
    case SET_ARENA_TEST: return 1;
    case SET_TRIM_THRESHOLD: set_trim_threshold(value); return 1;
    case SET_TOP_PAD: set_top_pad(value); return 1;
    case SET_MMAP_THRESHOLD:
      mi_option_set(mi_option_arena_max_object_size, kib_of(value));
      return 1;
    case SET_MMAP_MAX: set_mmap_max(value); return 1;
    case SET_CHECK_ACTION: set_check_action(value); return 1;
    case SET_PERTURB: mi_option_set(mi_option_zero_on_free, value != 0); return 1;
    case SET_ARENA_MAX: set_arena_max(value); return 1;
    case SET_DECAY_TIME:
      mi_option_set(mi_option_purge_delay, value > 0 ? 1000 : (value < 0 ? -1 : 0));
      return 1;
    case SET_PURGE:
    case SET_PURGE_ALL: mi_collect(true); return 1;
    default: return 0;
  }
}

void malloc_stats(void) MX_NOTHROW { mi_stats_print(NULL); }

#endif
