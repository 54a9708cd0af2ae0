// SPDX-License-Identifier: MIT
// What a look at the process asks of the system (Linux): kinds of mappings, threads that sleep,
// signals that somebody has, names of code that nothing describes, modules with odd notes, stacks
// cut short.
#include <stdio.h>

#if defined(__linux__)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/mimalloc.h"
#include "../../src/host/process.h"
#include "../../src/host/residence.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

// ---- mappings ----------------------------------------------------------------------------------

typedef struct look_s {
  const void* at;
  mx_mapping_kind_t kind;
  size_t resident;
  bool is_found;
} look_t;

static void look_at(const mx_mapping_t* mapping, void* arg) {
  look_t* const look = (look_t*)arg;
  if ((uintptr_t)look->at - mapping->start >= mapping->end - mapping->start) return;
  look->kind = mapping->kind;
  look->resident = mapping->resident;
  look->is_found = true;
}

static bool is_of(const void* at, mx_mapping_kind_t kind) {
  look_t look = {at, MX_MAPPING_PLAIN, 0, false};
  if (!mx_host_visit_mappings(true, &look_at, &look)) return true;  // a kernel without smaps
  return look.is_found && look.kind == kind && look.resident > 0;
}

static void* map_file(const char* path, int flags) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0) return NULL;
  if (flags == MAP_SHARED && ftruncate(file, 65536) != 0) return NULL;
  void* const p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, file, 0);
  close(file);
  if (p == MAP_FAILED) return NULL;
  *(volatile char*)p = 1;
  return p;
}

typedef struct named_s {
  const void* at;
  const char* name;
  bool is_right;
} named_t;

static void look_at_name(const mx_mapping_t* mapping, void* arg) {
  named_t* const named = (named_t*)arg;
  if ((uintptr_t)named->at - mapping->start >= mapping->end - mapping->start) return;
  named->is_right = (strcmp(mapping->name, named->name) == 0 && mapping->resident == 0);
}

static bool is_named(const void* at, const char* name) {
  named_t named = {at, name, false};
  return !mx_host_visit_mappings(false, &look_at_name, &named) || named.is_right;
}

// A file is named however long its path is; of a long name the beginning is told.
static void test_names(void) {
  char folder[300], path[400], name[MX_MAPPING_NAME + 1], told[MX_MAPPING_NAME];
  snprintf(folder, sizeof(folder), "/tmp/mimalloc-host-%ld-%0230d", (long)getpid(), 0);
  if (mkdir(folder, 0700) != 0) return;
  for (int size = 1; size <= MX_MAPPING_NAME; size++) {
    snprintf(name, sizeof(name), "%0*d", size, 0);
    snprintf(told, sizeof(told), "%.*s", MX_MAPPING_NAME - 1, name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    void* const p = map_file(path, MAP_SHARED);
    EXPECT(p != NULL && is_named(p, told));
    if (p != NULL) munmap(p, 4096);
    unlink(path);
  }
  rmdir(folder);
  void* const p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(p == MAP_FAILED || is_named(p, ""));
}

static void test_mappings(void) {
  char path[64];
  char on_stack = 1;
  EXPECT(is_of(&on_stack, MX_MAPPING_STACK));
  EXPECT(is_of((const void*)(uintptr_t)&is_of, MX_MAPPING_FILE));
  snprintf(path, sizeof(path), "/tmp/mimalloc-host-%ld", (long)getpid());
  void* p = map_file(path, MAP_SHARED);
  EXPECT(p == NULL || is_of(p, MX_MAPPING_FILE));
  unlink(path);
  snprintf(path, sizeof(path), "/dev/shm/mimalloc-host-%ld", (long)getpid());
  p = map_file(path, MAP_SHARED);
  EXPECT(p == NULL || is_of(p, MX_MAPPING_SHARED));
  unlink(path);
  p = map_file("/dev/zero", MAP_PRIVATE);
  EXPECT(p == NULL || is_of(p, MX_MAPPING_SHARED));
  p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(p == MAP_FAILED || (*(volatile char*)p = 1, is_of(p, MX_MAPPING_SHARED)));
#if defined(PR_SET_VMA)
  if (p != MAP_FAILED) prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, 4096, "a shared one");
  EXPECT(p == MAP_FAILED || is_of(p, MX_MAPPING_SHARED));
#endif
  p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(p == MAP_FAILED || (*(volatile char*)p = 1, is_of(p, MX_MAPPING_PLAIN)));
#if defined(PR_SET_VMA)
  if (p != MAP_FAILED) prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, 4096, "a name");
  EXPECT(p == MAP_FAILED || is_of(p, MX_MAPPING_PLAIN));
#endif
  const int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  p = (id < 0 ? (void*)-1 : shmat(id, NULL, 0));
  EXPECT(p == (void*)-1 || (*(volatile char*)p = 1, is_of(p, MX_MAPPING_SHARED)));
  if (id >= 0) shmctl(id, IPC_RMID, NULL);
  const int memory = (int)syscall(SYS_memfd_create, "some memory", 0u);
  if (memory < 0 || ftruncate(memory, 4096) != 0) return;
  p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  EXPECT(p == MAP_FAILED || (*(volatile char*)p = 1, is_of(p, MX_MAPPING_SHARED)));
}

// Memory of which one OS page in two was touched, also where nothing is mapped behind it.
static void test_present(void) {
  const size_t page = mx_facts.os_page, count = 40;
  char* const p = mmap(NULL, (count + 1) * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return;
  madvise(p, count * page, MADV_NOHUGEPAGE);  // also folios, where they are given unasked
  munmap(p + count * page, page);
  int ends[2] = {-1, -1};
  EXPECT(pipe(ends) == 0);
  for (size_t i = 0; i < count; i += 2) p[i * page] = 1;
  const volatile char zero = p[page];  // the page of zeros, which takes no memory
  for (int way = 0; way < 3; way++) {
    mx_residence_t r;
    mx_present_t sum = {0, 0};
    mx_residence_open(&r);
    if (way != 0) {  // the file is there and tells nothing, as in a sandbox
      mx_residence_close(&r);
      r.file = (way == 1 ? open("/dev/null", O_RDONLY) : dup(ends[0]));
    }
    EXPECT(mx_residence_add(&r, p, count * page, &sum));
    EXPECT(sum.bytes >= count / 2 * page && sum.bytes <= (count / 2 + 1) * page && zero == 0);
    mx_residence_close(&r);
  }
  // With nothing mapped in the middle, too.
  munmap(p + 4 * page, page);
  mx_residence_t r;
  mx_present_t sum = {0, 0};
  mx_residence_open(&r);
  mx_residence_close(&r);
  EXPECT(mx_residence_add(&r, p, count * page, &sum) && sum.bytes >= (count / 2 - 1) * page);
  close(ends[0]), close(ends[1]);
  munmap(p, count * page);
}

// In a sandbox in which nobody answers, nothing is told rather than something wrong.
static void test_sandbox(void) {
  const pid_t child = fork();
  if (child == 0) {
    struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      _exit(0);
    }
    mx_residence_t r;
    mx_present_t sum = {0, 0};
    memset(&r, 0, sizeof(r));
    r.file = -1;
    _exit(mx_residence_add(&r, rules, sizeof(rules), &sum) || sum.bytes != 0);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

// ---- files -------------------------------------------------------------------------------------

static void add_size(void* arg, const void* data, size_t size) {
  EXPECT(data != NULL);
  *(size_t*)arg += size;
}

static void on_alarm(int number) { (void)number; }

static void* read_slowly(void* arg) {
  const int from = *(int*)arg;
  char buf[4096];
  size_t all = 0;
  for (ssize_t n; (n = read(from, buf, sizeof(buf))) != 0;) {
    if (n > 0) all += (size_t)n;
    usleep(500);
  }
  return (void*)all;
}

// What is written arrives as a whole, though signals that restart nothing interrupt the writer.
static void test_files(void) {
  enum { SIZE = 1 << 20 };
  static char data[SIZE];
  size_t sum = 0;
  EXPECT(!mx_host_file_read("/proc/self/no such file", &add_size, &sum) && sum == 0);
  EXPECT(mx_host_file_read("/proc/self/exe", &add_size, &sum) && sum > 4096);
  EXPECT(mx_host_file_is_lasting("/proc/self/exe") && mx_host_file_is_lasting("/dev/null"));
  EXPECT(!mx_host_file_is_lasting("/proc") && !mx_host_file_is_lasting("/proc/self/no such file"));
  EXPECT(!mx_host_file_is_lasting("/proc/self/status"));
  EXPECT(mx_host_file_make("/proc/self/exe", false) < 0);
  int ends[2];
  pthread_t reader;
  sigset_t alarms;
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, NULL);  // of the reader
  if (pipe(ends) != 0 || pthread_create(&reader, NULL, &read_slowly, &ends[0]) != 0) return;
  pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
  const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  EXPECT(mx_host_file_write(ends[1], data, sizeof(data)));
  setitimer(ITIMER_REAL, &never, NULL);
  EXPECT(mx_host_file_close(ends[1]) && !mx_host_file_close(ends[1]));
  void* arrived = NULL;
  pthread_join(reader, &arrived);
  EXPECT((size_t)arrived == SIZE);
  signal(SIGPIPE, SIG_IGN);
  EXPECT(!mx_host_file_write(ends[1], data, 1));
  close(ends[0]);
}

static bool waits(int number) {
  sigset_t pending;
  sigemptyset(&pending);
  return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

// A reader that has ended is an error, and not the program's end. The signal for it is taken back, unless
// one waited before that.
static void test_broken_pipe(void) {
  int ends[2];
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  signal(SIGPIPE, SIG_DFL);
  if (pipe(ends) != 0) return;
  close(ends[0]);
  EXPECT(!mx_host_file_write(ends[1], "x", 1) && errno == EPIPE);
  pthread_sigmask(SIG_BLOCK, &only, NULL);
  EXPECT(!mx_host_file_write(ends[1], "x", 1) && errno == EPIPE && !waits(SIGPIPE));
  raise(SIGPIPE);
  EXPECT(!mx_host_file_write(ends[1], "x", 1) && errno == EPIPE && waits(SIGPIPE));
  EXPECT(!mx_host_file_write(-1, "x", 1) && errno == EBADF && waits(SIGPIPE));
  signal(SIGPIPE, SIG_IGN);  // which takes what waits
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
  EXPECT(!mx_host_file_write(-1, "x", 1) && errno == EBADF && !waits(SIGPIPE));
  close(ends[1]);
}

// ---- threads -----------------------------------------------------------------------------------

static uint32_t sleeper;
static pthread_barrier_t barrier;

static void* sleep_for_long(void* arg) {
  sleeper = (uint32_t)syscall(SYS_gettid);
  pthread_setname_np(pthread_self(), "a) R (b");  // as the line's end looks
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return arg;
}

// Within a second.
static bool comes_to_sleep(bool wanted) {
  for (int i = 0; i < 1000; i++) {
    if (mx_host_thread_sleeps(sleeper) == wanted) return true;
    usleep(1000);
  }
  return false;
}

static void test_threads(void) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  EXPECT(!mx_host_thread_sleeps(0));
  EXPECT(!mx_host_thread_sleeps((uint32_t)syscall(SYS_gettid)));
  if (pthread_create(&thread, NULL, &sleep_for_long, NULL) != 0) return;
  pthread_barrier_wait(&barrier);
  EXPECT(comes_to_sleep(true) || access("/proc/self/stat", R_OK) != 0);
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  EXPECT(comes_to_sleep(false));  // joined before the system has taken it from the list
}

// ---- signals -----------------------------------------------------------------------------------

static int asked;
static void on_wish(int number) { asked = number; }
static void on_plain(int number) { (void)number; }
static void on_informed(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
}

static bool is_free_for_wishes(int number, void (*handler)(int), bool is_informed) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  if (is_informed) {
    action.sa_sigaction = on_informed;
    action.sa_flags = SA_SIGINFO;
  }
  sigaction(number, &action, NULL);
  errno = 4711;
  const bool done = mx_host_on_wish_signal(number, &on_wish);
  EXPECT(errno == 4711);
  return done;
}

static void test_signals(void) {
  EXPECT(is_free_for_wishes(SIGUSR2, SIG_DFL, false));
  EXPECT(mx_host_on_wish_signal(SIGUSR2, &on_wish));  // its own
  raise(SIGUSR2);
  EXPECT(asked == SIGUSR2);
  EXPECT(!is_free_for_wishes(SIGUSR2, SIG_IGN, false));
  EXPECT(!is_free_for_wishes(SIGUSR2, on_plain, false));
  EXPECT(!is_free_for_wishes(SIGUSR2, NULL, true));
  EXPECT(!mx_host_on_wish_signal(SIGKILL, &on_wish) && !mx_host_on_wish_signal(65, &on_wish));
}

// ---- code --------------------------------------------------------------------------------------

// Notes of this program as tools write them: another owner's, one of a long name, and one that
// claims more than there is, behind which nothing is read. It is linked without a build id.
__asm__(".pushsection .note.zz_test,\"a\",%note\n"
        ".balign 4\n.long 4\n.long 4\n.long 3\n.asciz \"XYZ\"\n.long 7\n"
        ".long 6\n.long 2\n.long 9\n.asciz \"Other\"\n.balign 4\n.short 1\n.balign 4\n"
        ".long 4\n.long 0x7FFFFFFF\n.long 3\n.asciz \"GNU\"\n"
        ".popsection");

static void count_module(void* arg, const mx_module_t* module) {
  const uintptr_t here = (uintptr_t)&count_module;
  if (here - module->start >= module->end - module->start) return;
  ++*(int*)arg;
  EXPECT(module->build_id_size == 0 && module->path[0] == '/');
}

static void test_code(void) {
  char text[300];
  int local = 0, count = 0;
  mx_host_describe_code(&local, text, sizeof(text));
  EXPECT(strcmp(text, "(unknown)") == 0);
  EXPECT(mx_host_name_code(&local, text, sizeof(text)) > 2 && strncmp(text, "0x", 2) == 0);
  mx_host_each_module(&count_module, &count);
  EXPECT(count == 1);
  Dl_info info;
  const void* const named = dlsym(RTLD_DEFAULT, "puts");
  if (named == NULL || dladdr(named, &info) == 0) return;  // a static program
  mx_host_describe_code(named, text, sizeof(text));
  EXPECT(strstr(text, "puts") != NULL);
  // A function that no table of names has is told by its file.
  mx_host_describe_code((const void*)(uintptr_t)&count_module, text, sizeof(text));
  EXPECT(strstr(text, "+0x") != NULL && strcmp(text, "(unknown)") != 0);
  EXPECT(mx_host_name_code((const void*)(uintptr_t)&count_module, text, sizeof(text)) > 0);
}

static mx_noinline int deep(int depth, void** frames, int most, const void* frame) {
  volatile int result = (depth == 0 ? mx_host_walk_stack(frames, most, frame)
                                    : deep(depth - 1, frames, most, frame));
  return result;
}

// Whether frames are the first of a stack; how many of the library's own go before, which cannot be
// told from those of a program that is linked with it, depends on the way.
static bool is_part(void** some, int count, void** all, int depth) {
  for (int skip = -2; skip <= 2; skip++) {
    int same = 0;
    for (int i = 0; i < count; i++) {
      const int at = i + skip;
      same += (at >= 0 && at < depth && some[i] == all[at]);
    }
    if (same >= count - 2) return true;
  }
  return false;
}

// However few frames are wanted, they are those of the whole stack.
static void test_stacks(void) {
  void *all[64], *some[64];
  EXPECT(mx_host_walk_stack(all, 64, NULL) == 0);  // nobody has prepared it
  mx_host_walk_prepare();
  mx_host_walk_prepare();
  for (int round = 0; round < 200; round++) {
    const int depth = deep(20, all, 64, NULL);
    if (depth == 0) return;  // nobody unwinds here
    EXPECT(depth > 20);
    for (int most = 0; most < 24; most++) {
      for (int k = 0; k < 2; k++) {
        const int count = deep(20, some, most, k == 0 ? NULL : __builtin_frame_address(0));
        EXPECT(count <= most);
        EXPECT(k == 1 || (count == most && is_part(some, count, all, depth)));
      }
    }
  }
}

// A child of a process with threads walks only where the unwinder takes no lock.
static void test_stack_after_fork(void) {
  void* frames[8];
  const pid_t child = fork();
  if (child == 0) {
    mx_host_walk_after_fork();
    alarm(20);
    _exit(mx_host_walk_stack(frames, 8, NULL) < 0);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  mi_free(mi_malloc(1));  // all is prepared
  test_mappings();
  test_names();
  test_present();
  test_sandbox();
  test_files();
  test_broken_pipe();
  test_threads();
  test_signals();
  test_code();
  test_stacks();
  test_stack_after_fork();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

#else

int main(void) {
  printf("nothing to look at here\n");
  return 77;
}

#endif
