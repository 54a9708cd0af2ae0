// SPDX-License-Identifier: MIT
// The ground floor on Linux: every promise of os.h, kept by direct system calls. What needs a
// libc (the environment, a clock without a system call, threads in unix_thread.c) has its
// counterpart for programs without one in linux_nolibc.c.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os.h"
#include "system.h"

#if MX_SYSTEM == MX_LINUX

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#if MX_HAS_LIBC
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#endif

#include "../base/atomic.h"
#include "linux.h"
#include "linux_syscall.h"
#include "probes.h"
#include "tags.h"
#include "thread.h"
#include "track.h"

#if MX_HAS_LIBC
MX_BEGIN_DECLS
extern char** environ;
// Sanitizers have functions of libc in front of its own, which lead nowhere until they have looked
// those up; for that they allocate.
extern void __tsan_init(void) __attribute__((weak));
extern void __asan_init(void) __attribute__((weak));
extern int seccomp_load(void* filter) __attribute__((weak));
MX_END_DECLS
#endif

// Values that older system headers lack; the kernel answers EINVAL where it does not know them.
#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#define MX_MPOL_PREFERRED 1

// Addresses below 8 GiB are given when asked for. Those in their upper half are seldom asked for:
// programs and their libraries lie elsewhere, and most that want low addresses want those of 32
// bits. The table for them is 1 MiB of addresses, which count against limits of the process.
#define MX_LINUX_NEAR_BITS 33
#define SCARCE_NEAR_BITS 31

// A process that may have so little of addresses begins with a small table for them; one that has
// only so much left takes each piece as late as it can, and gives it back as soon. That is looked
// at again after so much was mapped.
#define LITTLE_SPACE ((uint64_t)MX_GIB)
#define LITTLE_ROOM ((uint64_t)64 * MX_MIB)
#define LOOK_EVERY ((uint64_t)16 * MX_MIB)

// System calls that a signal interrupted are made again, so many times.
#define INTERRUPTED_MAX 1000

#if defined(MI_OS_PAGE_SIZE)
size_t mx_linux_page_size(void) { return MI_OS_PAGE_SIZE; }
#elif MX_HAS_LIBC && (defined(__x86_64__) || defined(__i386__))
size_t mx_linux_page_size(void) { return 4096; }
#elif MX_HAS_LIBC
size_t mx_linux_page_size(void) {
  const unsigned long page = getauxval(AT_PAGESZ);
  return page == 0 ? 4096 : (size_t)page;
}
#endif

static uint64_t soft_limit(int resource) {
  uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};  // struct rlimit64, as it is where the call fails
  mx_syscall4(SYS_prlimit64, 0, resource, NULL, limit);
  return limit[0];
}

// A number of bytes that /proc/self/statm has in pages; 0 where it cannot be read.
static uint64_t bytes_in_statm(unsigned field) {
  char text[128];
  if (mx_os_read_file("/proc/self/statm", text, sizeof(text)) <= 0) return 0;
  const char* at = text;
  for (; field > 0 && *at != 0; at++) field -= (*at == ' ');
  uint64_t pages = 0;
  for (; *at >= '0' && *at <= '9'; at++) pages = pages * 10 + (uint64_t)(*at - '0');
  return pages * MX_KERNEL_PAGE;
}

mx_at_start mx_atomic(bool) mx_os_scarce;
static mx_at_start mx_atomic(bool) overcommits;
static mx_at_start mx_atomic(intptr_t) until_look;  // bytes to be mapped before; 0: no limit counts
static mx_at_start mx_atomic(uint64_t) locked_most;  // the limit of locked memory that was met
static mx_at_start bool gives_large;                 // without being asked for

static bool keeps_account(void) {
  char mode[2];
  return mx_os_read_file("/proc/sys/vm/overcommit_memory", mode, sizeof(mode)) > 0 && *mode == '2';
}

static uint64_t least_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

// What a limit leaves, of what a field of statm counts: where that is not asked for or unknown, a
// low one leaves nothing.
static uint64_t room_left(uint64_t limit, unsigned field, bool may_ask) {
  if (limit == UINT64_MAX) return limit;
  const uint64_t used = (may_ask ? bytes_in_statm(field) : 0);
  if (used == 0) return limit <= LITTLE_SPACE ? 0 : limit;
  return limit - least_of(limit, used);
}

// A limit of locked memory counts for as long as it is the same.
static bool is_locked_out(bool is_met) {
  if (is_met) mx_store_relaxed(&locked_most, soft_limit(8 /* RLIMIT_MEMLOCK */));
  const uint64_t most = mx_load_relaxed(&locked_most);
  return is_met || (most != 0 && most == soft_limit(8));
}

// What a process has of its memory counts only when it is touched, unless a limit counts it, or the
// system keeps account of all that could be. Looked for at the start, since a filter that the
// program enters later may end it for these calls. Answers the limit.
static uint64_t look_at_space(bool is_locked, bool may_ask) {
  const uint64_t space = soft_limit(9 /* RLIMIT_AS */), data = soft_limit(2 /* RLIMIT_DATA */);
  const uint64_t limit = least_of(space, data);
  const uint64_t room = least_of(room_left(space, 0, may_ask), room_left(data, 5, may_ask));
  const uint64_t little = (mx_os_is_scarce() ? 2 * LITTLE_ROOM : LITTLE_ROOM);
  const bool is_scarce = (room <= little || is_locked_out(is_locked));
  uint64_t until = LOOK_EVERY;
  if (!is_scarce) until = (limit == UINT64_MAX ? 0 : least_of(room - LITTLE_ROOM, MX_GIB));
  mx_store_relaxed(&mx_os_scarce, is_scarce);
  mx_store_relaxed(&overcommits, limit == UINT64_MAX && !keeps_account());
  mx_store_relaxed(&until_look, (intptr_t)until);
  return limit;
}

// So it is assumed where that is not known. Asked before a program enters a filter of its own.
static bool gives_large_unasked(void) {
  char text[32];
  const long n =
      mx_os_read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text));
  return n <= 0 || text[0] == '[';  // [always] comes first
}

void mx_os_init(void) {
  mx_facts.os_page = mx_linux_page_size();
  gives_large = gives_large_unasked();
  const uint64_t limit = look_at_space(false, true);
  mx_facts.large_page = (mx_facts.os_page == 4096 ? 2 * MX_MIB : 32 * MX_MIB);
  mx_facts.va_bits = MX_UNIX_VA_BITS;
  const uint32_t near = (limit <= LITTLE_SPACE ? SCARCE_NEAR_BITS : MX_LINUX_NEAR_BITS);
  mx_facts.near_bits = mx_min(MX_UNIX_VA_BITS, near);
  mx_facts.purge_keeps_guards = true;
#if MX_HAS_LIBC
  if (MX_TAGS) mx_linux_choose_tags();
  // It maps its own there, and ends the process where it finds something; it may begin after us.
  mx_facts.keeps_off = (&__asan_init != NULL);
  mx_facts.makes_filters = (&seccomp_load != NULL);
#endif
}

bool mx_os_overcommits(void) { return mx_load_relaxed(&overcommits); }

// A limit may have been set since it was looked for, and memory may have been locked (EAGAIN).
static bool refused(long error) {
  look_at_space(error == -11, false);
  return false;
}

// A filter may end the process for a call that it does not know, later also for this one.
static bool has_filter(void) { return mx_syscall1(SYS_prctl, PR_GET_SECCOMP) != 0; }
static bool may_have_filter(void) { return mx_facts.makes_filters || has_filter(); }

// Where a limit counts, by the bytes that come or go here: others' are found by a look. Where that
// might end the process, the next refusal tells.
static void count_mapped(size_t size, bool comes) {
  if (mx_likely(mx_load_relaxed(&until_look) == 0)) return;
  if (!comes && mx_os_is_scarce()) return;
  const intptr_t bytes = (intptr_t)mx_min(size, (size_t)MX_GIB);
  if (mx_add_relaxed(&until_look, comes ? -bytes : bytes) > bytes || !comes) return;
  if (!may_have_filter()) look_at_space(false, true);
  else mx_store_relaxed(&until_look, (intptr_t)LOOK_EVERY);
}

// ---- address space -----------------------------------------------------------------------------

// Addresses that one thread gives up may be another's next. The kernel orders the two; the thread
// sanitizer has to be told, as it does not see these calls.
#if defined(MX_TSAN)
MX_BEGIN_DECLS
void __tsan_acquire(void* p);
void __tsan_release(void* p);
MX_END_DECLS
static char mx_mappings;
#define mx_mapped() __tsan_acquire(&mx_mappings)
#define mx_unmapping() __tsan_release(&mx_mappings)
#else
#define mx_mapped() ((void)0)
#define mx_unmapping() ((void)0)
#endif

// A kernel that is short of resources for a moment answers EAGAIN, but some also where they are
// exhausted for good (vm.max_map_count).
#define ADVISE_TRIES 4

static bool advise(void* p, size_t size, int advice) {
  long r = -11;
  for (int i = 0; i < ADVISE_TRIES && r == -11; i++) r = mx_syscall3(SYS_madvise, p, size, advice);
  return r == 0;
}

// How memory is mapped that blocks may lie in.
#define USABLE (PROT_READ | PROT_WRITE | (MX_TAGS && mx_facts.has_tags ? MX_PROT_TAGS : 0))

// What the program brought may be of a file, which has no tags.
static bool set_access(void* p, size_t size, int prot) {
  return mx_syscall3(SYS_mprotect, p, size, prot) == 0 ||
         (MX_TAGS && (prot & MX_PROT_TAGS) != 0 &&
          mx_syscall3(SYS_mprotect, p, size, prot & ~MX_PROT_TAGS) == 0);
}

#if defined(MI_OS_PAGE_SIZE)
// A test build that pretends OS pages of this size: mappings begin at a multiple of it.
void* mx_os_map(void* hint, size_t size, bool commit) {
  const int prot = (commit ? USABLE : PROT_READ);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (commit ? 0 : MAP_NORESERVE);
  if (hint != NULL) {
    const long at = mx_syscall_mmap(hint, size, prot, flags);
    if (at == (long)hint) return hint;
    if (!mx_syscall_failed(at)) mx_syscall2(SYS_munmap, at, size);
  }
  if (size > SIZE_MAX - MI_OS_PAGE_SIZE) return NULL;
  const long r = mx_syscall_mmap(hint, size + MI_OS_PAGE_SIZE, prot, flags);
  if (mx_syscall_failed(r)) return NULL;
  const size_t start = mx_align_up((size_t)r, MI_OS_PAGE_SIZE);
  const size_t before = start - (size_t)r;
  if (before > 0) mx_syscall2(SYS_munmap, r, before);
  mx_syscall2(SYS_munmap, start + size, MI_OS_PAGE_SIZE - before);
  mx_probe_mmap(start, size);
  return (void*)start;
}
#else
// What is asked for as memory is not mapped as MAP_NORESERVE: the kernel then refuses what exceeds
// all memory and swap, which no program could ever write.
void* mx_os_map(void* hint, size_t size, bool commit) {
  const int prot = (commit ? USABLE : PROT_READ);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (commit ? 0 : MAP_NORESERVE);
  const long r = mx_syscall_mmap(hint, size, prot, flags);
  mx_mapped();
  if (mx_syscall_failed(r) && !refused(r)) return NULL;
  count_mapped(size, true);
  mx_probe_mmap(r, size);
  return (void*)r;
}
#endif

// The mapping before grows in place, which kernels before 7 do not count as another one where the
// limit of mappings is reached (vm.max_map_count). What the program set for it is not for the new.
bool mx_os_map_behind(void* p, size_t size) {
  const size_t unit = mx_facts.os_page;
  const uintptr_t last = (uintptr_t)p - unit;
  const long r = mx_syscall6(SYS_mremap, (long)last, (long)unit, (long)(unit + size), 0, 0, 0);
  mx_mapped();
  if (r != (long)last) return false;
  if (set_access(p, size, USABLE) && advise(p, size, MADV_DOFORK) &&
      advise(p, size, MADV_KEEPONFORK) && advise(p, size, MADV_DODUMP)) {
    count_mapped(size, true);
    mx_probe_mmap(p, size);
    return true;
  }
  mx_unmapping();
  mx_syscall2(SYS_munmap, p, size);
  return false;
}

void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
  flags |= (int)(mx_bit_high(page_size) << MAP_HUGE_SHIFT);
  const long r = mx_syscall_mmap(hint, size, PROT_READ | PROT_WRITE, flags);
  if (mx_syscall_failed(r)) return NULL;
  mx_os_advise_numa((void*)r, size, numa_node);
  mx_probe_mmap(r, size);
  return (void*)r;
}

bool mx_os_unmap(void* p, size_t size) {
  mx_track_open(p, size);  // the addresses may be anybody's next
  mx_unmapping();
  if (mx_syscall2(SYS_munmap, p, size) == 0) {
    count_mapped(size, false);
    mx_probe_munmap(p, size);
    return true;
  }
  mx_syscall3(SYS_madvise, p, size, MADV_DONTNEED);
  return false;
}

// ---- contents ----------------------------------------------------------------------------------

bool mx_os_commit(void* p, size_t size) {
  return set_access(p, size, USABLE) || refused(0);
}

bool mx_os_decommit(void* p, size_t size) {
  return advise(p, size, MADV_DONTNEED) && set_access(p, size, PROT_NONE);
}

bool mx_os_purge(void* p, size_t size) { return advise(p, size, MADV_DONTNEED); }

bool mx_os_reset(void* p, size_t size) {
  static mx_atomic(int) advice;  // MADV_FREE until a kernel refuses it
  if (mx_load_relaxed(&advice) == 0 && advise(p, size, MADV_FREE)) return true;
  mx_store_relaxed(&advice, 1);
  return advise(p, size, MADV_DONTNEED);
}

// Whether a range lies in one mapping, asked of the kernel: it refuses a growth in place that no
// address space has room for with EFAULT when it does not, and for want of room when it does.
static bool is_one_mapping(void* p, size_t size) {
  const size_t too_much = (size_t)1 << (MX_64BIT ? 46 : 30);
  const long r = mx_syscall6(SYS_mremap, (long)p, (long)size, (long)too_much, 0, 0, 0);
  return r == -12 || r == -11;  // ENOMEM, or EAGAIN beyond a limit of locked memory
}

size_t mx_os_movable(void* p, size_t size) {
  if (!MX_64BIT) return 0;
  if (is_one_mapping(p, size)) return size;
  // Of OS pages: so many lie in one, and so many do not.
  size_t in_one = 1, beyond = size / mx_facts.os_page;
  while (beyond - in_one > 1) {
    const size_t middle = in_one + (beyond - in_one) / 2;
    if (is_one_mapping(p, middle * mx_facts.os_page)) in_one = middle;
    else beyond = middle;
  }
  return in_one * mx_facts.os_page;
}

// Before Linux 6.17 a move to a fixed place unmaps what is there, and only then finds that what is
// to be moved lies in two mappings. That is asked before; after any other failure nothing is moved
// any more.
mx_move_t mx_os_move(void* from, void* to, size_t size) {
  static mx_atomic(bool) has_failed;
  if (!MX_64BIT || mx_load_relaxed(&has_failed) || !is_one_mapping(from, size)) {
    return MX_MOVE_REFUSED;
  }
  const long flags = MREMAP_MAYMOVE | MREMAP_FIXED;
  const long r = mx_syscall6(SYS_mremap, (long)from, (long)size, (long)size, flags, (long)to, 0);
  if (r == (long)to) {
    mx_probe_munmap(from, size);
    return MX_MOVE_DONE;
  }
  mx_store_relaxed(&has_failed, true);
  return MX_MOVE_TORN;
}

bool mx_os_protect(void* p, size_t size, bool accessible) {
  return set_access(p, size, accessible ? USABLE : PROT_NONE);
}

bool mx_os_protect_writes(void* p, size_t size, bool read_only) {
  return set_access(p, size, read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

// It writes lines about a call that it does not know, among what the program's tests compare.
static bool is_in_valgrind(void) {
#if MX_HAS_LIBC
  for (char** entry = environ; entry != NULL && *entry != NULL; entry++) {
    if (strncmp(*entry, "LD_PRELOAD=", 11) == 0) return strstr(*entry, "/vgpreload_") != NULL;
  }
#endif
  return false;
}

// Linux 6.10, for processes of 64 bits; the number is the same on all processors.
void mx_os_seal(void* p, size_t size) {
  static mx_atomic(bool) is_refused;
  if (!MX_64BIT || mx_load_relaxed(&is_refused) || has_filter() || is_in_valgrind()) return;
  const long r = mx_syscall3(462, p, size, 0);
  if (r == -38 || r == -1) mx_store_relaxed(&is_refused, true);  // ENOSYS, EPERM
}

// Guards of Linux 6.13 lie in the page tables and cost no mapping; without them the range gets
// another protection, which splits a mapping: of those a process may have only so many
// (vm.max_map_count, 65530 by default), so guards stop at a quarter.
#define GUARDS_BY_PROTECTION_MAX 16000

bool mx_os_guard(void* p, size_t size, bool install) {
  enum { UNKNOWN, KNOWN, LACKING };
  static mx_atomic(int) support;
  static mx_atomic(int) count;
  if (mx_load_relaxed(&support) != LACKING) {
    const bool done = advise(p, size, install ? MADV_GUARD_INSTALL : MADV_GUARD_REMOVE);
    if (done) mx_store_relaxed(&support, (int)KNOWN);
    // Some memory cannot have guards: what the user mapped from a file, large OS pages.
    if (done || mx_load_relaxed(&support) == KNOWN) return done;
    mx_store_relaxed(&support, (int)LACKING);
  }
  if (install && mx_load_relaxed(&count) >= GUARDS_BY_PROTECTION_MAX) return false;
  if (!set_access(p, size, install ? PROT_NONE : USABLE)) return false;
  mx_add_relaxed(&count, install ? 1 : -1);
  return true;
}

// Mappings that were advised differently are not joined, and count one by one.
void mx_os_advise_large(void* p, size_t size, bool want) {
  if (want) advise(p, size, MADV_HUGEPAGE);
  else if (gives_large) mx_os_refuse_large(p, size);
}

// Once it is there it needs no advice any more, and is not filled up again when a part of it was
// given back. Those that lie side by side are one mapping: it joins the one before while nothing of
// it is there, and a part of a mapping that is advised otherwise for a while can join it again.
bool mx_os_fill_large(void* p, size_t size) {
  const size_t unit = MX_KERNEL_PAGE;
  uint8_t state = 0;
  if (may_have_filter()) return false;
  mx_os_refuse_large(p, size);
  if (!advise(p, size, MADV_HUGEPAGE)) return false;
  *(volatile uint8_t*)p = 0;
  mx_os_refuse_large(p, size);
  const uintptr_t last = (uintptr_t)p + size - unit;
  return mx_syscall3(SYS_mincore, last, unit, &state) == 0 && (state & 1) != 0;
}

#define PAGES_LOOKED_AT 16

// Some sandboxes (gVisor) say of all that is mapped that it is present. Asked once, of what nobody
// can have touched.
static bool tells_presence(void) {
  static mx_atomic(int) answer;  // 0: not known, 1: yes, 2: no
  if (mx_load_relaxed(&answer) == 0) {
    const size_t unit = MX_KERNEL_PAGE;
    uint8_t state = 0;
    const long r = mx_syscall_mmap(NULL, unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (mx_syscall_failed(r)) return true;
    const bool is_told = (mx_syscall3(SYS_mincore, r, unit, &state) != 0 || (state & 1) == 0);
    mx_syscall2(SYS_munmap, r, unit);
    mx_store_relaxed(&answer, is_told ? 1 : 2);
  }
  return mx_load_relaxed(&answer) == 1;
}

// How many of so many OS pages all over a range are absent, counted until there are more than
// `most`; -1 where that cannot be told.
static int count_absent(const void* p, size_t size, int most) {
  const size_t unit = MX_KERNEL_PAGE, step = size / PAGES_LOOKED_AT;
  if (step == 0 || may_have_filter() || !tells_presence()) return -1;
  int absent = 0;
  for (size_t i = 0; i < PAGES_LOOKED_AT && absent <= most; i++) {
    uint8_t state = 0;
    const uintptr_t at = mx_align_down((uintptr_t)p + mx_look_at(i, step, unit), unit);
    if (mx_syscall3(SYS_mincore, at, unit, &state) != 0) return -1;
    absent += (state & 1) == 0;
  }
  return absent;
}

bool mx_os_seems_present(const void* p, size_t size) { return count_absent(p, size, 0) == 0; }

bool mx_os_seems_absent(const void* p, size_t size) {
  return count_absent(p, size, PAGES_LOOKED_AT) >= PAGES_LOOKED_AT / 4 * 3;
}

bool mx_os_is_sparse(const void* p, size_t size, size_t quarters) {
  uint8_t state[256];
  const size_t unit = MX_KERNEL_PAGE, pages = size / unit;
  size_t present = 0;
  if (may_have_filter()) return false;
  if (!tells_presence()) return true;  // to read what is absent makes it present there
  for (size_t done = 0, n; done < pages; done += n) {
    n = mx_min(pages - done, sizeof(state));
    const uintptr_t at = (uintptr_t)p + done * unit;
    if (mx_syscall3(SYS_mincore, at, n * unit, state) != 0) return false;
    for (size_t i = 0; i < n; i++) present += state[i] & 1;
  }
  return present < pages / 4 * quarters;
}

void mx_os_refuse_large(void* p, size_t size) { advise(p, size, MADV_NOHUGEPAGE); }

void mx_os_advise_numa(void* p, size_t size, int node) {
  if (node < 0 || node >= (int)(8 * sizeof(unsigned long))) return;
  const unsigned long mask = 1UL << node;
  mx_syscall6(SYS_mbind, (long)p, (long)size, MX_MPOL_PREFERRED, (long)&mask, 8 * sizeof(mask), 0);
}

// ---- process and machine -----------------------------------------------------------------------

long mx_os_read_file(const char* path, char* buf, size_t size) {
  const long fd = mx_syscall4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  long total = 0;
  // Files of containers may be those of a program (lxcfs), whose reads signals interrupt.
  for (int interrupted = 0; (size_t)total + 1 < size;) {
    const long n = mx_syscall3(SYS_read, fd, buf + total, size - 1 - (size_t)total);
    if (n == -4 && interrupted++ < INTERRUPTED_MAX) continue;  // EINTR
    if (n <= 0) break;
    total += n;
  }
  mx_syscall1(SYS_close, fd);
  buf[total] = 0;
  return total;
}

size_t mx_linux_resident(void) { return (size_t)bytes_in_statm(1); }

unsigned mx_os_numa_count(void) {
  char text[256];
  const long n = mx_os_read_file("/sys/devices/system/node/online", text, sizeof(text));
  unsigned highest = 0, value = 0;
  for (long i = 0; i < n; i++) {
    if (text[i] >= '0' && text[i] <= '9') {
      value = value * 10 + (unsigned)(text[i] - '0');
      if (value > highest) highest = value;
    } else {
      value = 0;
    }
  }
  return highest + 1;
}

unsigned mx_os_numa_node(void) {
  unsigned cpu = 0, node = 0;
  mx_syscall3(SYS_getcpu, &cpu, &node, NULL);
  return node;
}

bool mx_os_random(void* buf, size_t size) {
#if defined(SYS_getrandom)
  const long n = mx_syscall3(SYS_getrandom, buf, size, 1 /* GRND_NONBLOCK */);
  return n == (long)size;
#else
  return false;
#endif
}

void mx_os_write_stderr(const char* text, size_t length) {
  for (int interrupted = 0; length > 0;) {
    const long n = mx_syscall3(SYS_write, 2, text, length);
    if (n == -4 && interrupted++ < INTERRUPTED_MAX) continue;  // EINTR
    if (n <= 0) return;
    text += n;
    length -= (size_t)n;
  }
}

void mx_os_yield(void) { mx_syscall6(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

#if MX_HAS_LIBC
// The number is in the name of the thread's processor clock, for which nobody asks the system: each
// thread begins with this, also where a filter ends the process for what it does not know.
uint32_t mx_os_thread_number(void) {
  clockid_t clock;
  if (&__tsan_init != NULL || &__asan_init != NULL) return (uint32_t)mx_syscall1(SYS_gettid, 0);
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(uint32_t)clock >> 3 : 0;
}
#else
uint32_t mx_os_thread_number(void) { return (uint32_t)mx_syscall1(SYS_gettid, 0); }
#endif

// ---- background --------------------------------------------------------------------------------

bool mx_os_barrier_all(void) {
#if defined(__x86_64__) || defined(__i386__)
  // Stores become visible in program order here, so what is seen was preceded by all before it.
  mx_fence_seq_cst();
  return true;
#elif defined(SYS_membarrier)
  static mx_atomic(int) registered;  // 1 yes, 2 refused
  if (mx_load_acquire(&registered) == 0) {
    const long r = mx_syscall3(SYS_membarrier, 16 /* REGISTER_PRIVATE_EXPEDITED */, 0, 0);
    mx_store_release(&registered, r == 0 ? 1 : 2);
  }
  return mx_load_relaxed(&registered) == 1 &&
         mx_syscall3(SYS_membarrier, 8 /* PRIVATE_EXPEDITED */, 0, 0) == 0;
#else
  return false;
#endif
}

void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  // As the call has it, whatever the libc's time_t.
  const long time[2] = {(long)(msecs / 1000), (long)(msecs % 1000) * 1000000};
  mx_syscall6(SYS_futex, (long)word, 128 /* FUTEX_WAIT | PRIVATE */, (long)value,
              msecs == 0 ? 0 : (long)time, 0, 0);
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  mx_syscall6(SYS_futex, (long)word, 129 /* FUTEX_WAKE | PRIVATE */, 1, 0, 0, 0);
}

#endif
