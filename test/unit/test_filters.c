// SPDX-License-Identifier: MIT
// The ground floor of Linux where the kernel refuses: each row is a child in which a filter lets some
// system calls fail, as an old kernel, a sandbox or a limit does. What is answered then, what memory is
// like afterwards, and that errno stays as it was.
#include <stdio.h>

#if defined(__linux__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__))

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/os/linux.h"
#include "../../src/os/os.h"

static int failures;
static size_t unit;
static int into[2];  // a pipe

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define ANY UINT32_MAX

// From now on the call fails with that error, or ends the process (0): with `value` as its argument
// number `argument` only, unless that is ANY. Filters add up.
static void filter(long call, int error, uint32_t argument, uint32_t value) {
  const uint32_t fails = SECCOMP_RET_ERRNO | (uint32_t)error;
  const uint32_t action = (error == 0 ? SECCOMP_RET_KILL_PROCESS : fails);
  const uint32_t at = (argument == ANY ? offsetof(struct seccomp_data, nr)
                                       : offsetof(struct seccomp_data, args) + 8 * argument);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument == ANY ? (uint32_t)call : value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    exit(77);
  }
}

static void refuse(long call, int error) { filter(call, error, ANY, 0); }

// Stands in for libseccomp: the linker finds it as it finds the library's.
int seccomp_load(void* filter);
int seccomp_load(void* filter) { return filter != NULL; }

// A process that begins without it.
static void begin(void) {
  mx_os_init();
  mx_facts.makes_filters = false;
}

static unsigned char* memory(size_t pages) {
  unsigned char* const p = (unsigned char*)mmap(NULL, pages * unit, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 7, pages * unit);
  return p;
}

// Whether a byte can be read, asked of the kernel.
static bool can_read(const void* p) {
  char byte;
  const int saved = errno;
  const bool can = (write(into[1], p, 1) == 1);
  if (can && read(into[0], &byte, 1) != 1) return false;
  errno = saved;
  return can;
}

static bool can_write(void* p) {
  const int saved = errno;
  const bool can = (write(into[1], "x", 1) == 1 && read(into[0], p, 1) == 1);
  char byte;
  if (!can && read(into[0], &byte, 1) != 1) return false;
  errno = saved;
  return can;
}

// ---- contents ----------------------------------------------------------------------------------

static void no_advice(void) {
  unsigned char* const p = memory(8);
  refuse(SYS_madvise, EINVAL);
  EXPECT(!mx_os_purge(p, 8 * unit) && !mx_os_reset(p, 8 * unit) && !mx_os_decommit(p, 8 * unit));
  EXPECT(p[0] == 7 && p[8 * unit - 1] == 7);
  mx_os_advise_large(p, 8 * unit, true);
  mx_os_advise_large(p, 8 * unit, false);
  EXPECT(p[0] == 7);
}

static void busy(void) {
  unsigned char* const p = memory(2);
  refuse(SYS_madvise, EAGAIN);
  EXPECT(!mx_os_purge(p, unit) && p[0] == 7);
}

// An old kernel drops the contents at once.
static void no_lazy_free(void) {
  unsigned char* const p = memory(8);
  filter(SYS_madvise, EINVAL, 2, MADV_FREE);
  EXPECT(mx_os_reset(p, 4 * unit) && p[0] == 0 && p[4 * unit] == 7);
  EXPECT(mx_os_reset(p + 4 * unit, 4 * unit) && p[4 * unit] == 0);
}

static void no_protection(void) {
  unsigned char* const p = memory(4);
  refuse(SYS_mprotect, ENOMEM);
  EXPECT(!mx_os_commit(p, unit) && !mx_os_protect(p, unit, false) && can_read(p));
  EXPECT(!mx_os_protect_writes(p, unit, true) && can_write(p));
  EXPECT(!mx_os_decommit(p, 2 * unit) && p[0] == 0 && p[2 * unit] == 7);
}

// ---- guards ------------------------------------------------------------------------------------

#define GUARDS_MOST 16000

// Without guards in page tables another protection does it, for so many of them.
static void guards_by_protection(void) {
  filter(SYS_madvise, EINVAL, 2, 102 /* MADV_GUARD_INSTALL */);
  filter(SYS_madvise, EINVAL, 2, 103 /* MADV_GUARD_REMOVE */);
  unsigned char* const p = memory(2 * GUARDS_MOST + 2);
  size_t count = 0;
  while (count <= GUARDS_MOST && mx_os_guard(p + 2 * count * unit, unit, true)) count++;
  EXPECT(count == GUARDS_MOST);
  EXPECT(!can_read(p) && can_read(p + unit) && can_read(p + 2 * count * unit));
  EXPECT(mx_os_guard(p, unit, false) && can_write(p) && p[1] == 7);
  EXPECT(mx_os_guard(p + 2 * count * unit, unit, true) && !can_read(p + 2 * count * unit));
  EXPECT(!mx_os_guard(p, unit, true) && can_read(p));
}

static void no_guards(void) {
  unsigned char* const p = memory(4);
  refuse(SYS_madvise, EINVAL);
  refuse(SYS_mprotect, ENOMEM);
  EXPECT(!mx_os_guard(p, unit, true) && can_read(p));
}

// What the kernel can do it may refuse for some memory: that has none then.
static void guards_of_some(void) {
  unsigned char* const p = memory(4);
  const int saved = errno;
  const bool in_tables = (madvise(p, unit, 102 /* MADV_GUARD_INSTALL */) == 0);
  errno = saved;
  if (!in_tables) return;  // Linux before 6.13
  EXPECT(mx_os_guard(p, unit, true));
  refuse(SYS_madvise, EINVAL);
  refuse(SYS_mprotect, 0);  // nobody asks for that
  EXPECT(!mx_os_guard(p + unit, unit, true) && can_read(p + unit));
}

// ---- addresses ---------------------------------------------------------------------------------

static void no_mappings(void) {
  refuse(SYS_mmap, ENOMEM);
  EXPECT(mx_os_map(NULL, unit, true) == NULL && mx_os_map(NULL, unit, false) == NULL);
  EXPECT(mx_os_map_large(NULL, 2 * MX_MIB, 2 * MX_MIB, 0) == NULL);
}

// A limit that was set meanwhile is seen when something is refused.
static void late_limit(void) {
  const struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
  const bool before = mx_os_overcommits();
  if (!before || setrlimit(RLIMIT_DATA, &limit) != 0) return;
  EXPECT(mx_os_overcommits());
  refuse(SYS_mmap, ENOMEM);
  EXPECT(mx_os_map(NULL, unit, true) == NULL && !mx_os_overcommits());
}

static void late_limit_of_commits(void) {
  const struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
  const bool before = mx_os_overcommits();
  if (!before || setrlimit(RLIMIT_AS, &limit) != 0) return;
  unsigned char* const p = memory(1);
  EXPECT(mx_os_commit(p, unit) && mx_os_overcommits());
  refuse(SYS_mprotect, ENOMEM);
  EXPECT(!mx_os_commit(p, unit) && !mx_os_overcommits());
}

static void unknown_limits(void) {
  const struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) errno = 4711;  // it has one already
  refuse(SYS_prlimit64, EPERM);
  refuse(SYS_openat, EACCES);
  EXPECT(mx_os_overcommits());
  begin();
  EXPECT(mx_facts.os_page == unit && mx_facts.near_bits == 33 && !mx_os_is_scarce());
}

// Of which limit (9: of addresses, 2: of data) so much is left.
static void limit_to(int resource, size_t field, rlim_t left) {
  char text[128];
  mx_os_read_file("/proc/self/statm", text, sizeof(text));
  const char* at = text;
  for (; field > 0; at++) field -= (*at == ' ');
  const rlim_t bytes = (rlim_t)strtoul(at, NULL, 10) * unit + left;
  const struct rlimit limit = {bytes, RLIM_INFINITY};
  EXPECT(setrlimit(resource, &limit) == 0);
}

static void begin_with(int resource, size_t field, size_t mib, bool is_scarce) {
  limit_to(resource, field, (rlim_t)mib << 20);
  begin();
  EXPECT(mx_facts.near_bits == 31 && mx_os_is_scarce() == is_scarce && !mx_os_overcommits());
}

static void little_space(void) { begin_with(RLIMIT_AS, 0, 40, true); }
static void little_data(void) { begin_with(RLIMIT_DATA, 5, 40, true); }
static void some_space(void) { begin_with(RLIMIT_AS, 0, 200, false); }
static void some_data(void) { begin_with(RLIMIT_DATA, 5, 200, false); }

// What the process has cannot be read: then every low limit counts.
static void hidden_space(void) {
  limit_to(RLIMIT_AS, 0, (rlim_t)200 << 20);
  refuse(SYS_openat, EACCES);
  begin();
  EXPECT(mx_os_is_scarce());
}

// Maps pieces of a MiB, and keeps them where that makes addresses scarce: how many until it is as
// asked, 500 if never.
static size_t until_scarce(bool is_scarce) {
  size_t count = 0;
  for (; count < 500 && mx_os_is_scarce() != is_scarce; count++) {
    unsigned char* const p = (unsigned char*)mx_os_map(NULL, MX_MIB, true);
    EXPECT(p != NULL);
    if (!is_scarce) mx_os_unmap(p, MX_MIB);
    else mx_os_map_behind(p + MX_MIB, MX_MIB);
  }
  return count;
}

static void dwindling_space(void) {
  begin_with(RLIMIT_AS, 0, 200, false);
  const size_t count = until_scarce(true);
  EXPECT(count > 60 && count < 140);
  // It stays so until there is twice as much, and ends some time after the limit is gone.
  limit_to(RLIMIT_AS, 0, (rlim_t)100 << 20);
  EXPECT(until_scarce(false) == 500);
  limit_to(RLIMIT_AS, 0, RLIM_INFINITY / 2);
  EXPECT(until_scarce(false) < 40);
}

// What goes does not count, and nobody looks where that may end the process: the limit is met then.
static void steady_space(void) {
  begin_with(RLIMIT_AS, 0, 200, false);
  for (int i = 0; i < 1000; i++) mx_os_unmap(mx_os_map(NULL, MX_MIB, true), MX_MIB);
  EXPECT(!mx_os_is_scarce());
  refuse(SYS_openat, 0);
  size_t count = 0;
  for (; mx_os_map(NULL, MX_MIB, true) != NULL; count++) EXPECT(!mx_os_is_scarce());
  EXPECT(count > 150 && mx_os_is_scarce());
}

// A refusal for want of memory that may be locked counts until that limit is another one.
static void locked_space(void) {
  const struct rlimit most = {1 << 20, 1 << 20};
  EXPECT(setrlimit(RLIMIT_MEMLOCK, &most) == 0);
  begin();
  EXPECT(!mx_os_is_scarce());
  filter(SYS_mmap, EAGAIN, 1, 3 * MX_MIB);
  filter(SYS_mmap, ENOMEM, 1, 5 * MX_MIB);
  EXPECT(mx_os_map(NULL, 5 * MX_MIB, true) == NULL && !mx_os_is_scarce());
  EXPECT(mx_os_map(NULL, 3 * MX_MIB, true) == NULL && mx_os_is_scarce());
  EXPECT(mx_os_map(NULL, 5 * MX_MIB, true) == NULL && mx_os_is_scarce());
  const struct rlimit less = {1 << 19, 1 << 20};
  EXPECT(setrlimit(RLIMIT_MEMLOCK, &less) == 0);
  EXPECT(mx_os_map(NULL, 5 * MX_MIB, true) == NULL && !mx_os_is_scarce());
}

static void no_unmapping(void) {
  unsigned char* const p = memory(4);
  refuse(SYS_munmap, ENOMEM);
  EXPECT(!mx_os_unmap(p, 2 * unit));
  EXPECT(p[0] == 0 && p[2 * unit - 1] == 0 && p[2 * unit] == 7);  // memory comes back at least
}

// What grows behind a mapping, and cannot be as it should, is nobody's again.
static void nothing_behind(long call, int error, uint32_t argument, uint32_t value) {
  unsigned char* const p = memory(8);
  munmap(p + 4 * unit, 4 * unit);
  filter(call, error, argument, value);
  EXPECT(!mx_os_map_behind(p + 4 * unit, 2 * unit) && !can_read(p + 4 * unit) && p[0] == 7);
}

static void no_growth(void) { nothing_behind(SYS_mremap, ENOMEM, ANY, 0); }
static void no_access_behind(void) { nothing_behind(SYS_mprotect, ENOMEM, ANY, 0); }
static void no_fork_behind(void) { nothing_behind(SYS_madvise, EINVAL, 2, MADV_DOFORK); }
static void no_wipe_behind(void) { nothing_behind(SYS_madvise, EINVAL, 2, MADV_KEEPONFORK); }
static void no_dump_behind(void) { nothing_behind(SYS_madvise, EINVAL, 2, MADV_DODUMP); }

static void no_moves(void) {
  unsigned char *const p = memory(4), *const q = memory(4);
  refuse(SYS_mremap, ENOSYS);
  q[0] = 9;
  EXPECT(mx_os_move(p, q, 4 * unit) == MX_MOVE_REFUSED && p[0] == 7 && q[0] == 9);
  EXPECT(mx_os_movable(p, 4 * unit) == unit);
}

// After a failure that should not be nothing is moved any more.
static void torn_move(void) {
  unsigned char *const p = memory(4), *const q = memory(4);
  EXPECT(mx_os_movable(p, 4 * unit) == 4 * unit);
  filter(SYS_mremap, EFAULT, 3, MREMAP_MAYMOVE | MREMAP_FIXED);
  EXPECT(mx_os_move(p, q, 4 * unit) == MX_MOVE_TORN && p[0] == 7);
  EXPECT(mx_os_move(p, q, 4 * unit) == MX_MOVE_REFUSED && p[0] == 7);
}

// Of several mappings the first one moves: found by halves.
static void movable_part(void) {
  for (size_t first = 1; first <= 12; first++) {
    unsigned char *const p = memory(13), *const q = memory(13);
    EXPECT(mprotect(p + first * unit, unit, PROT_READ) == 0);
    EXPECT(mx_os_movable(p, 13 * unit) == first * unit);
    EXPECT(mx_os_move(p, q, 13 * unit) == MX_MOVE_REFUSED && p[0] == 7);
    EXPECT(mx_os_move(p, q, first * unit) == MX_MOVE_DONE && !can_read(p) && q[0] == 7);
  }
}

// ---- process and machine -----------------------------------------------------------------------

static void no_files(void) {
  char text[16];
  refuse(SYS_openat, EACCES);
  EXPECT(mx_os_read_file("/proc/self/statm", text, sizeof(text)) == -1);
  EXPECT(mx_linux_resident() == 0 && mx_os_numa_count() == 1);
  unsigned char* const p = memory(1);
  mx_os_advise_large(p, unit, false);
  EXPECT(p[0] == 7);
}

// Signals without end are not waited for.
static void interrupted(void) {
  char text[16] = "before";
  refuse(SYS_read, EINTR);
  refuse(SYS_write, EINTR);
  EXPECT(mx_os_read_file("/proc/self/statm", text, sizeof(text)) == 0 && text[0] == 0);
  EXPECT(mx_linux_resident() == 0);
  mx_os_write_stderr("not to be seen\n", 15);
}

static void nothing_written(void) {
  refuse(SYS_write, EIO);
  mx_os_write_stderr("not to be seen\n", 15);
}

static void no_random_numbers(void) {
  unsigned char bytes[8];
  refuse(SYS_getrandom, ENOSYS);
  EXPECT(!mx_os_random(bytes, sizeof(bytes)));
}

static void no_node(void) {
  refuse(SYS_getcpu, ENOSYS);
  EXPECT(mx_os_numa_node() == 0);
  unsigned char* const p = memory(1);
  mx_os_advise_numa(p, unit, -1);
  mx_os_advise_numa(p, unit, 64);
  EXPECT(p[0] == 7);
}

static void never_run(void) { abort(); }

static void no_threads(void) {
  sigset_t before, after;
  sigprocmask(SIG_SETMASK, NULL, &before);
  refuse(SYS_clone, EAGAIN);
#if defined(SYS_clone3)
  refuse(SYS_clone3, EAGAIN);
#endif
  EXPECT(!mx_os_thread_start(&never_run));
  sigprocmask(SIG_SETMASK, NULL, &after);
  EXPECT(sigismember(&before, SIGINT) == sigismember(&after, SIGINT));
}

// A filter may end the process for what it does not know: then it is not asked for.
static void deadly(void) {
  unsigned char* const p = memory(64);
  EXPECT(mx_os_seems_present(p, 64 * unit));
  EXPECT(!mx_os_seems_present(p, 15));
  // One is looked at in each sixteenth.
  EXPECT(madvise(p, 44 * unit, MADV_DONTNEED) == 0);
  EXPECT(!mx_os_seems_absent(p, 64 * unit) && !mx_os_seems_present(p, 64 * unit));
  EXPECT(madvise(p, 48 * unit, MADV_DONTNEED) == 0);
  EXPECT(mx_os_seems_absent(p, 64 * unit) && !mx_os_seems_absent(p, 15));
  EXPECT(mx_os_seems_present(p + 48 * unit, 16 * unit));
  refuse(462 /* mseal */, 0);
  refuse(SYS_mincore, 0);
  EXPECT(!mx_os_seems_present(p + 48 * unit, 16 * unit) && !mx_os_seems_absent(p, 64 * unit));
  EXPECT(!mx_os_is_sparse(p, 64 * unit, 4) && !mx_os_fill_large(p, 64 * unit));
  mx_os_seal(p, 64 * unit);
  EXPECT(can_write(p) && munmap(p, 64 * unit) == 0);
}

// A program that makes filters may enter one that does not know the question for a filter, either.
static void unaskable(void) {
  unsigned char* const p = memory(64);
  mx_os_init();
  EXPECT(mx_facts.makes_filters);
  refuse(SYS_mincore, 0);
  refuse(SYS_prlimit64, 0);
  refuse(SYS_prctl, 0);
  EXPECT(!mx_os_seems_present(p, 64 * unit) && !mx_os_seems_absent(p, 64 * unit));
  EXPECT(!mx_os_is_sparse(p, 64 * unit, 4) && !mx_os_fill_large(p, 64 * unit));
  EXPECT(can_write(p) && munmap(p, 64 * unit) == 0);
}

// Where a limit counts, it is looked at at the start and where memory is refused.
static void unaskable_limit(void) {
  const struct rlimit limit = {8 * MX_GIB, 8 * MX_GIB};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  mx_os_init();
  refuse(SYS_prlimit64, 0);
  refuse(SYS_prctl, 0);
  for (int i = 0; i < 8; i++) {
    void* const p = mx_os_map(NULL, MX_GIB / 2, false);
    EXPECT(p != NULL);
  }
}

// What is sealed cannot be unmapped: asked of memory that is sealed here, as far as the system can.
static void seal_with(char** with, bool may_seal) {
  unsigned char *const p = memory(1), *const q = memory(1);
  const int saved = errno;
  const bool can = (syscall(462 /* mseal */, q, unit, 0) == 0 && prctl(PR_GET_SECCOMP) == 0);
  char** const before = environ;
  environ = with;
  mx_os_seal(p, unit);
  environ = before;
  EXPECT((munmap(p, unit) != 0) == (can && may_seal));
  errno = saved;
}

static void under_valgrind(void) {
  static char preload[] = "LD_PRELOAD=/usr/libexec/valgrind/vgpreload_core-amd64-linux.so";
  static char other[] = "HOME=/";
  char* with[] = {other, preload, NULL};
  seal_with(with, false);
}

static void without_environment(void) {
  static char preload[] = "LD_PRELOAD=/lib/libother.so";
  char *none[] = {NULL}, *with[] = {preload, NULL};
  seal_with(NULL, true);
  seal_with(none, true);
  seal_with(with, true);
}

static const struct {
  const char* name;
  void (*run)(void);
} rows[] = {
    {"no advice", no_advice}, {"busy", busy}, {"no lazy free", no_lazy_free},
    {"no protection", no_protection}, {"guards by protection", guards_by_protection},
    {"no guards", no_guards}, {"guards of some", guards_of_some}, {"no mappings", no_mappings},
    {"late limit", late_limit}, {"late limit of commits", late_limit_of_commits},
    {"unknown limits", unknown_limits}, {"little space", little_space}, {"little data", little_data},
    {"some space", some_space}, {"some data", some_data}, {"hidden space", hidden_space},
    {"dwindling space", dwindling_space}, {"steady space", steady_space},
    {"locked space", locked_space},
    {"no unmapping", no_unmapping}, {"no growth", no_growth},
    {"no access behind", no_access_behind}, {"no fork behind", no_fork_behind},
    {"no wipe behind", no_wipe_behind}, {"no dump behind", no_dump_behind},
    {"no moves", no_moves}, {"torn move", torn_move}, {"movable part", movable_part},
    {"no files", no_files}, {"interrupted", interrupted}, {"nothing written", nothing_written},
    {"no random numbers", no_random_numbers}, {"no node", no_node}, {"no threads", no_threads},
    {"deadly", deadly}, {"unaskable", unaskable}, {"unaskable limit", unaskable_limit},
    {"under valgrind", under_valgrind},
    {"without environment", without_environment},
};

// Whether a filter can be had at all.
static void probe(void) { filter(SYS_getppid, EPERM, ANY, 0); }

static int in_child(void (*run)(void)) {
  int status = -1;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    errno = 4711;
    run();
    EXPECT(errno == 4711);
    exit(failures != 0);
  }
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  begin();
  unit = mx_facts.os_page;
  if (pipe(into) != 0 || in_child(&probe) != 0) {
    printf("filters: the system has none\n");
    return 77;
  }
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (in_child(rows[i].run) == 0) continue;
    printf("FAIL: %s\n", rows[i].name);
    failures++;
  }
  printf("filters: %d failures\n", failures);
  return failures != 0;
}

#else
int main(void) {
  printf("filters: not on this system\n");
  return 77;
}
#endif
