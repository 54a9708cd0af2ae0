// SPDX-License-Identifier: MIT
// The answers about what is present in memory: on Linux by /proc/self/pagemap, or mincore
// where that cannot be read, and /proc/self/smaps; elsewhere there are none, but that the mappings
// are told where there is /proc/self/maps.
#include "residence.h"

#include <string.h>

#include "../base/facts.h"
#include "../base/fmt.h"
#include "../os/os.h"
#include "../os/system.h"
#include "process.h"

#if MX_SYSTEM == MX_LINUX

#include <fcntl.h>

#include "../os/linux.h"
#include "../os/linux_syscall.h"

// ---- pages -------------------------------------------------------------------------------------

enum { ABSENT_PAGE, OWN_PAGE, SHARED_PAGE, UNKNOWN_PAGE };

// Bits of an entry of /proc/PID/pagemap.
#define PM_PRESENT ((uint64_t)1 << 63)
#define PM_FILE ((uint64_t)1 << 61)
#define PM_EXCLUSIVE ((uint64_t)1 << 56)

// Entries that are read at a time.
#define ENTRIES 64

static long open_to_read(const char* path) {
  return mx_syscall4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

void mx_residence_open(mx_residence_t* r) {
  r->file = open_to_read("/proc/self/pagemap");
  r->from = r->count = 0;
}

void mx_residence_close(mx_residence_t* r) {
  if (r->file >= 0) mx_syscall1(SYS_close, r->file);
  r->file = -1;
}

// Moves the place of the next read. A 32-bit system has another call for offsets of 64 bits.
static bool seek_to(long fd, uint64_t offset) {
#if defined(SYS__llseek)
  uint64_t result = 0;
  return mx_syscall6(SYS__llseek, fd, (long)(offset >> 32), (long)(uint32_t)offset,
                     (long)(uintptr_t)&result, 0 /* SEEK_SET */, 0) == 0;
#else
  return mx_syscall3(SYS_lseek, fd, offset, 0 /* SEEK_SET */) >= 0;
#endif
}

static uint8_t state_of(uint64_t entry) {
  if ((entry & PM_PRESENT) == 0) return ABSENT_PAGE;
  return (entry & (PM_FILE | PM_EXCLUSIVE)) != 0 ? OWN_PAGE : SHARED_PAGE;
}

// Since Linux 6.7 the kernel tells which pages are the one of zeros, which takes no memory.
typedef struct scan_s {  // its struct pm_scan_arg
  uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
  uint64_t inverted, mask, any_of, wanted;
} scan_t;

typedef struct scan_region_s {
  uint64_t start, end, categories;
} scan_region_t;

#define PAGE_IS_PFNZERO ((uint64_t)1 << 5)
#define SCAN_REGIONS 16
#define SCAN_REQUEST (3UL << 30 | sizeof(scan_t) << 16 | 'f' << 8 | 16)  // _IOWR('f', 16, ...)

static void leave_zeros_out(mx_residence_t* r, uintptr_t page, size_t count) {
  const size_t unit = MX_KERNEL_PAGE;
  scan_region_t regions[SCAN_REGIONS];
  scan_t scan;
  memset(&scan, 0, sizeof(scan));
  scan.size = sizeof(scan);
  scan.walk_end = (uint64_t)page * unit;
  scan.end = (uint64_t)(page + count) * unit;
  scan.regions = (uint64_t)(uintptr_t)regions;
  scan.region_count = SCAN_REGIONS;
  scan.mask = scan.wanted = PAGE_IS_PFNZERO;
  while (scan.walk_end < scan.end) {
    scan.start = scan.walk_end;
    const long found = mx_syscall3(SYS_ioctl, r->file, SCAN_REQUEST, &scan);
    if (found < 0 || scan.walk_end <= scan.start) return;
    for (long i = 0; i < found; i++) {
      const uintptr_t end = (uintptr_t)(regions[i].end / unit);
      for (uintptr_t at = (uintptr_t)(regions[i].start / unit); at < end; at++) {
        r->state[at - page] = ABSENT_PAGE;
      }
    }
  }
}

static size_t read_entries(mx_residence_t* r, uintptr_t page) {
  uint64_t entries[ENTRIES];
  size_t done = 0;
  bool has_shared = false;
  if (!seek_to(r->file, (uint64_t)page * sizeof(uint64_t))) return 0;
  while (done < MX_RESIDENCE_PAGES) {
    const long n = mx_syscall3(SYS_read, r->file, entries, sizeof(entries));
    if (n < (long)sizeof(uint64_t)) break;
    const size_t count = (size_t)n / sizeof(uint64_t);
    for (size_t i = 0; i < count && done < MX_RESIDENCE_PAGES; i++) {
      r->state[done++] = state_of(entries[i]);
      has_shared = has_shared || r->state[done - 1] == SHARED_PAGE;
    }
  }
  if (has_shared) leave_zeros_out(r, page, done);
  return done;
}

// The kernel refuses a range that is not mapped as a whole; then it is asked page by page.
static size_t ask_mincore(mx_residence_t* r, uintptr_t page) {
  const size_t size = MX_KERNEL_PAGE;
  const uintptr_t start = page * size;
  long code = mx_syscall3(SYS_mincore, start, MX_RESIDENCE_PAGES * size, r->state);
  for (size_t i = 0; i < MX_RESIDENCE_PAGES; i++) {
    uint8_t state = r->state[i];
    if (code != 0) {
      const long one = mx_syscall3(SYS_mincore, start + i * size, size, &state);
      if (one != 0) state = (one == -38 /* ENOSYS */ ? 2 : 0);
    }
    r->state[i] = ((state & 2) != 0 ? UNKNOWN_PAGE : (state & 1) != 0 ? OWN_PAGE : ABSENT_PAGE);
  }
  return MX_RESIDENCE_PAGES;
}

static bool look_at_window(mx_residence_t* r, uintptr_t page) {
  if (page - r->from < r->count) return true;
  r->from = page;
  r->count = (r->file >= 0 ? read_entries(r, page) : 0);
  // A kernel may have the file and answer nothing.
  if (r->count == 0) r->count = ask_mincore(r, page);
  return r->state[0] != UNKNOWN_PAGE;
}

bool mx_residence_add(mx_residence_t* r, const void* start, size_t size, mx_present_t* sum) {
  const size_t unit = MX_KERNEL_PAGE;
  const uintptr_t end = (uintptr_t)start + size;
  for (uintptr_t at = (uintptr_t)start; at < end;) {
    const uintptr_t page = at / unit, next = mx_min((page + 1) * unit, end);
    if (!look_at_window(r, page)) return false;
    const uint8_t state = r->state[page - r->from];
    if (state != ABSENT_PAGE) sum->bytes += next - at;
    if (state == SHARED_PAGE) sum->shared += next - at;
    at = next;
  }
  return true;
}

// ---- files -------------------------------------------------------------------------------------

bool mx_host_file_read(const char* path, void (*out)(void* arg, const void* data, size_t size),
                       void* arg) {
  char buf[1024];
  const long file = open_to_read(path);
  if (file < 0) return false;
  for (long n; (n = mx_syscall3(SYS_read, file, buf, sizeof(buf))) > 0;) out(arg, buf, (size_t)n);
  mx_syscall1(SYS_close, file);
  return true;
}

// ---- threads -----------------------------------------------------------------------------------

uint32_t mx_host_main_thread_number(void) { return (uint32_t)mx_syscall1(SYS_getpid, 0); }

bool mx_host_thread_sleeps(uint32_t number) {
  char path[48], text[128];
  mx_format(path, sizeof(path), "/proc/self/task/%u/stat", number);
  if (number == 0 || mx_os_read_file(path, text, sizeof(text)) <= 0) return false;
  // "number (name) S ...": the name may hold anything.
  const char* at = NULL;
  for (const char* c = text; *c != 0; c++) at = (*c == ')' ? c : at);
  return at != NULL && at[1] == ' ' && at[2] != 'R';
}

#else

void mx_residence_open(mx_residence_t* r) {
  r->file = -1;
  r->from = r->count = 0;
}

void mx_residence_close(mx_residence_t* r) { (void)r; }

bool mx_residence_add(mx_residence_t* r, const void* start, size_t size, mx_present_t* sum) {
  (void)r, (void)start, (void)size, (void)sum;
  return false;
}

uint32_t mx_host_main_thread_number(void) { return 0; }

bool mx_host_thread_sleeps(uint32_t number) {
  (void)number;
  return false;
}

#if MX_UNIX

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool mx_host_file_read(const char* path, void (*out)(void* arg, const void* data, size_t size),
                       void* arg) {
  char buf[2048];
  const int saved = errno;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    for (ssize_t n; (n = read(file, buf, sizeof(buf))) > 0;) out(arg, buf, (size_t)n);
    close(file);
  }
  errno = saved;
  return file >= 0;
}

#else

bool mx_host_file_read(const char* path, void (*out)(void* arg, const void* data, size_t size),
                       void* arg) {
  (void)path, (void)out, (void)arg;
  return false;
}

#endif
#endif

// ---- mappings ----------------------------------------------------------------------------------

// What begins a line of maps or smaps: a longer one is cut off, but for the end of its path.
#define LINE_MAX_ 128

typedef struct mapping_reader_s {
  mx_mapping_fn* visit;
  void* arg;
  mx_mapping_t mapping;
  size_t length;
  char line[LINE_MAX_];
  size_t name_length;           // all that there is room for while no path has begun
  char name[MX_MAPPING_NAME];
} mapping_reader_t;

static uintptr_t parse_hex(const char** text) {
  uintptr_t value = 0;
  for (;; (*text)++) {
    const char c = **text;
    const int digit = (c >= 'a' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : 16);
    if (digit >= 16) return value;
    value = value * 16 + (uintptr_t)digit;
  }
}

static bool begins(const char* text, const char* with) {
  while (*with != 0 && *text == *with) text++, with++;
  return *with == 0;
}

static const char* after_words(const char* text, int words) {
  for (; words > 0; words--) {
    while (*text != 0 && *text != ' ') text++;
    while (*text == ' ') text++;
  }
  return text;
}

// By access and name: "rw-p 00000000 00:00 0   /path".
static mx_mapping_kind_t kind_of_mapping(const char* text) {
  const char* const name = after_words(text, 4);
  if (begins(name, "[stack")) return MX_MAPPING_STACK;
  if (begins(name, "[heap]")) return MX_MAPPING_BREAK;
  if (begins(name, "[v") || begins(name, "[uprobes")) return MX_MAPPING_SYSTEM;
  if (*name == 0 || *name == '[') return text[3] == 's' ? MX_MAPPING_SHARED : MX_MAPPING_PLAIN;
  if (begins(name, "/memfd:") || begins(name, "/SYSV") || begins(name, "/dev/shm/") ||
      begins(name, "/dev/zero")) {
    return MX_MAPPING_SHARED;
  }
  return MX_MAPPING_FILE;
}

// The amount of a line "Name:   12 kB", if it is of that name.
static void take_amount(const char* line, const char* name, size_t* sum) {
  if (!begins(line, name)) return;
  size_t kib = 0;
  for (line += strlen(name); *line != 0; line++) {
    if (*line >= '0' && *line <= '9') kib = kib * 10 + (size_t)(*line - '0');
  }
  *sum += kib * MX_KIB;
}

static void end_mapping(mapping_reader_t* r) {
  if (r->mapping.end != 0) r->visit(&r->mapping, r->arg);
}

static void take_line(mapping_reader_t* r) {
  const char* at = r->line;
  mx_mapping_t* const m = &r->mapping;
  const uintptr_t start = parse_hex(&at);
  if (*at == '-') {
    end_mapping(r);
    memset(m, 0, sizeof(*m));
    m->start = start;
    at++;
    m->end = parse_hex(&at);
    m->kind = kind_of_mapping(at + (*at == ' '));
    memcpy(m->name, r->name, MX_MAPPING_NAME);
    return;
  }
  take_amount(r->line, "Rss:", &m->resident);
  take_amount(r->line, "Shared_Clean:", &m->shared);
  take_amount(r->line, "Shared_Dirty:", &m->shared);
  take_amount(r->line, "Shared_Hugetlb:", &m->huge);
  take_amount(r->line, "Private_Hugetlb:", &m->huge);
  take_amount(r->line, "Swap:", &m->swapped);
}

static void end_line(mapping_reader_t* r) {
  r->line[r->length] = r->name[r->name_length] = 0;
  take_line(r);
  r->length = 0;
  r->name_length = MX_MAPPING_NAME - 1;
  r->name[0] = 0;
}

static void read_char(mapping_reader_t* r, char c) {
  if (c == '\n') {
    end_line(r);
    return;
  }
  if (r->length < LINE_MAX_ - 1) r->line[r->length++] = c;
  if (c == '/') r->name_length = 0;
  else if (r->name_length < MX_MAPPING_NAME - 1) r->name[r->name_length++] = c;
}

static void read_piece(void* arg, const void* data, size_t size) {
  for (size_t i = 0; i < size; i++) read_char((mapping_reader_t*)arg, ((const char*)data)[i]);
}

bool mx_host_visit_mappings(bool has_amounts, mx_mapping_fn* visit, void* arg) {
  if (has_amounts && MX_SYSTEM != MX_LINUX) return false;
  mapping_reader_t r;
  memset(&r, 0, sizeof(r));
  r.visit = visit;
  r.arg = arg;
  r.name_length = MX_MAPPING_NAME - 1;
  mx_host_file_read(has_amounts ? "/proc/self/smaps" : "/proc/self/maps", &read_piece, &r);
  end_mapping(&r);
  return r.mapping.end != 0;
}
