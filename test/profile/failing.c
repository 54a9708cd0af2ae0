// SPDX-License-Identifier: MIT
// Profiles under hard conditions, each in a process of its own: names that are odd, files that cannot
// be written, no memory left, no stacks, profiles of nothing, two profilers at a time, and a start in
// a heap that goes away.
#include <dirent.h>
#include <dlfcn.h>
#include <mimalloc-prof.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define BLOCK ((size_t)1 << 20)
#define RATE ((size_t)16 << 10)  // a block of this size is always sampled

static char folder[] = "/tmp/mimalloc-failing-XXXXXX";
static char text[1 << 22];
static size_t length;

static void mi_cdecl take_text(void* arg, const char* buf, size_t len) {
  (void)arg;
  if (len < sizeof(text) - length) memcpy(text + length, buf, len);
  length += len;
  text[length < sizeof(text) ? length : 0] = 0;
}

static bool writes(mi_prof_kind_t kind, mi_prof_format_t format) {
  length = 0;
  return mi_prof_write(kind, format, take_text, NULL) && length > 0;
}

static int files_in(const char* path) {
  int count = 0;
  DIR* const all = opendir(path);
  for (struct dirent* e; all != NULL && (e = readdir(all)) != NULL;) count += (e->d_name[0] != '.');
  if (all != NULL) closedir(all);
  return count;
}

static bool is_there(const char* name) { return access(name, F_OK) == 0; }

// ---- files -------------------------------------------------------------------------------------

static void odd_names(void) {
  char name[64];
  EXPECT(mi_prof_dump("a%%b") && is_there("a%b"));
  EXPECT(mi_prof_dump("c%") && is_there("c%"));
  EXPECT(mi_prof_dump("d%xe") && is_there("d%xe"));
  EXPECT(mi_prof_dump("%p.folded"));
  snprintf(name, sizeof(name), "%ld.folded", (long)getpid());
  EXPECT(is_there(name));
  EXPECT(mi_prof_dump("f") && mi_prof_dump("x.gperf") && mi_prof_dump_proto("b"));
  static char longer[6000];
  memset(longer, 'n', sizeof(longer) - 1);
  const int before = files_in(".");
  EXPECT(!mi_prof_dump(longer));
  longer[300] = 0;  // longer than the file system's names may be
  EXPECT(!mi_prof_dump(longer));
  EXPECT(files_in(".") == before);
}

// Nothing stays behind of a profile that could not be written as a whole.
static void no_room(void) {
  EXPECT(mkdir("taken", 0700) == 0 && mkdir("taken/by", 0700) == 0);
  EXPECT(!mi_prof_dump("taken"));
  const int before = files_in(".");
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {100, 100};
  void* const p = mi_malloc(RATE);
  if (setrlimit(RLIMIT_FSIZE, &small) != 0) return;
  fflush(stdout);
  EXPECT(!mi_prof_dump("too-large.heap") && !mi_prof_dump_proto("too-large.pb"));
  EXPECT(files_in(".") == before);
  mi_free(p);
}

// ---- the end of the process --------------------------------------------------------------------

static volatile useconds_t a_write_takes;
static volatile bool is_writing;

ssize_t write(int file, const void* data, size_t size) {
  if (file > STDERR_FILENO && a_write_takes > 0) {
    is_writing = true;
    usleep(a_write_takes);
  }
  return syscall(SYS_write, file, data, size);
}

static void* dump_on_and_on(void* arg) {
  while (mi_prof_dump((const char*)arg)) continue;
  return NULL;
}

// The process exits while another thread writes a profile again and again, each of which takes so
// long.
static void exit_meanwhile(const char* name, useconds_t usecs) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    pthread_t thread;
    a_write_takes = usecs;
    if (pthread_create(&thread, NULL, &dump_on_and_on, (void*)(uintptr_t)name) != 0) _exit(1);
    while (!is_writing) usleep(100);
    exit(0);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

// It is finished, or not left behind where that takes long.
static void ends_meanwhile(void) {
  exit_meanwhile("finished.heap", 30000);
  EXPECT(is_there("finished.heap") && files_in(".") == 1);
  exit_meanwhile("unfinished.heap", 3000000);
  EXPECT(files_in(".") == 1);
  for (int i = 0; i < 20; i++) exit_meanwhile("finished.heap", 1);
  EXPECT(files_in(".") == 1);
}

// ---- no memory ---------------------------------------------------------------------------------

static void* blocks[2000];

static bool take_all_addresses(void) {
  unsigned long pages = 0;
  FILE* const f = fopen("/proc/self/statm", "r");
  if (f == NULL || fscanf(f, "%lu", &pages) != 1) return false;
  fclose(f);
  const rlim_t all = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
  const struct rlimit limit = {all, all};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
  for (size_t size = BLOCK; size >= 4096; size /= 4) {
    while (mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) continue;
  }
  return true;
}

static void* write_too(void* arg) {
  (void)arg;
  length = 0;
  mi_prof_dump_writer(take_text, NULL);  // there is no memory for it, or there is: it ends
  return NULL;
}

// With prof_at_limit memory for one profile is kept back from the start.
static void no_memory(void) {
  const bool keeps = (mi_option_get(mi_option_prof_at_limit) != 0);
  for (int i = 0; i < 2000; i++) blocks[i] = mi_malloc(RATE + (size_t)i);
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  EXPECT(writes(MI_PROF_LIVE, MI_PROF_HEAP_V2));
  const size_t whole = length;
  if (!take_all_addresses()) return;
  for (int round = 0; round < 3; round++) {
    EXPECT(writes(MI_PROF_LIVE, MI_PROF_HEAP_V2) == keeps);
    EXPECT(!keeps || length + 4096 > whole);
    EXPECT(writes(MI_PROF_LIVE, MI_PROF_FOLDED) == keeps);
    EXPECT(mi_prof_dump("full.heap") == keeps);
  }
  const bool has_pprof = mi_prof_dump_proto("full.pb");  // its tables are larger
  EXPECT(is_there("full.pb") == has_pprof && is_there("full.heap") == keeps);
  if (pthread_create(&thread, &attr, &write_too, NULL) == 0) pthread_join(thread, NULL);
  for (int i = 0; i < 2000; i++) mi_free(blocks[i]);
}

static void no_memory_kept(void) {
  mi_option_set(mi_option_prof_at_limit, 1);
  EXPECT(mi_prof_start(RATE));
  no_memory();
}

// ---- what there is to tell ---------------------------------------------------------------------

static void all_formats(void) {
  mi_heap_t* const heap = mi_heap_new();
  mi_option_set(mi_option_prof_pins, 1);
  EXPECT(mi_prof_start(RATE));
  void* const small = mi_malloc(RATE);
  void* const large = mi_malloc(8 * BLOCK);
  void* const other = mi_heap_malloc(heap, RATE);
  for (int i = 0; i < 100; i++) mi_free(mi_malloc(RATE));
  for (int kind = MI_PROF_LIVE; kind <= MI_PROF_PINNED; kind++) {
    for (int format = MI_PROF_PPROF; format <= MI_PROF_GPERF; format++) {
      const bool done = writes((mi_prof_kind_t)kind, (mi_prof_format_t)format);
      const bool has_rows = (kind != MI_PROF_PINNED && kind != MI_PROF_LIFETIMES);
      EXPECT(done || !has_rows || format == MI_PROF_FOLDED);
    }
  }
  // What was sampled before is forgotten, with what stands in for it.
  mi_prof_reset();
  EXPECT(writes(MI_PROF_PINNED, MI_PROF_PPROF));
  EXPECT(mi_prof_write(MI_PROF_LIVE, MI_PROF_FOLDED, take_text, (length = 0, NULL)) && length == 0);
  mi_free(small), mi_free(large), mi_free(other);
  mi_heap_destroy(heap);
  EXPECT(mi_prof_write(MI_PROF_LIVE, MI_PROF_FOLDED, take_text, NULL) && length == 0);
}

static void no_stacks(void) {
  mi_option_set(mi_option_prof_depth, 0);
  void* const p = mi_malloc(BLOCK);
  EXPECT(writes(MI_PROF_LIVE, MI_PROF_FOLDED) && strcmp(text, "(unknown) 1048576\n") == 0);
  EXPECT(writes(MI_PROF_LIVE, MI_PROF_HEAP_V2) && strstr(text, "\n@\n") != NULL);
  mi_free(p);
}

// Names of code may hold what ends a name in a folded stack.
static void tell_stacks(void) {
  void* const p = mi_malloc(BLOCK);
  EXPECT(writes(MI_PROF_LIVE, MI_PROF_FOLDED));
  for (const char* line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    const char* const first = strchr(line, ' ');
    EXPECT(first != NULL && first == strrchr(line, ' ') && strtol(first, NULL, 10) > 0);
    EXPECT(strstr(line, "b;c") == NULL);
  }
  mi_free(p);
}

static void odd_program(void) {
  for (int i = 0; i < 2; i++) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", i == 0 ? "a b;c" : "/tmp/a b;c", "stacks", (char*)NULL);
      _exit(9);
    }
    int status = 1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
}

// ---- what is profiled, and when ------------------------------------------------------------------

static size_t mi_cdecl on_alloc(void* user, void* p, size_t requested, size_t usable,
                                size_t threshold, size_t since, uint8_t tag) {
  (void)user, (void)p, (void)requested, (void)usable, (void)threshold, (void)since, (void)tag;
  return RATE;
}

static void mi_cdecl on_free(void* user, void* p) { (void)user, (void)p; }

static int warnings;
static void mi_cdecl count_warnings(const char* said, void* arg) {
  (void)arg;
  warnings += (strstr(said, "profiler cannot start") != NULL);
}

static void two_profilers(void) {
  EXPECT(!mi_profiler_enable(0, on_alloc, on_free));  // ours is at work
  mi_prof_stop();
  mi_option_set(mi_option_prof, 0);  // it stands already
  EXPECT(!mi_profiler_enable((size_t)1 << 30, on_alloc, on_free));
  EXPECT(mi_profiler_enable(0, on_alloc, on_free));
  EXPECT(!mi_profiler_enable(0, on_alloc, on_free));
  for (int i = 0; i < 100; i++) mi_free(mi_realloc(mi_malloc(BLOCK), 2 * BLOCK));
  EXPECT(!mi_prof_start(RATE) && !mi_prof_is_enabled());
  mi_option_set(mi_option_show_errors, 1);
  mi_register_output(count_warnings, NULL);
  mi_option_set(mi_option_prof, 1);
  EXPECT(warnings == 1 && !mi_prof_is_enabled());
}

// Files by themselves, so many bytes after one another; a reset begins anew.
static void intervals(void) {
  mi_option_set(mi_option_prof_interval, (long)(16 * BLOCK));
  mi_option_set(mi_option_prof_peak, (long)(64 * BLOCK));
  for (int i = 0; i < 40; i++) mi_free(mi_malloc(BLOCK));
  const int first = files_in(".");
  EXPECT(first >= 1 && first <= 4);
  mi_prof_reset();
  for (int i = 0; i < 4; i++) mi_free(mi_malloc(BLOCK));
  EXPECT(files_in(".") == first);
  for (int i = 0; i < 40; i++) mi_free(mi_malloc(BLOCK));
  EXPECT(files_in(".") > first);
  const int second = files_in(".");
  void* kept[80];
  mi_option_set(mi_option_prof_interval, 0);
  for (int i = 0; i < 80; i++) kept[i] = mi_malloc(BLOCK);
  EXPECT(files_in(".") > second);
  for (int i = 0; i < 80; i++) mi_free(kept[i]);
}

// The unwinder may have to be loaded, whose records the loader keeps: in no heap that goes away.
static mi_heap_t* home;

void* dlopen(const char* name, int flags) {
  void* (*next)(const char*, int);
  *(void**)(void*)&next = dlsym(RTLD_NEXT, "dlopen");
  void* const block = mi_malloc(100);  // as the loader does, where malloc is the library's
  home = mi_heap_of(block);
  mi_free(block);
  return next(name, flags);
}

static void* start_in_subproc(void* id) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t*)id);
  EXPECT(mi_prof_start(RATE));
  void* const block = mi_malloc(100);
  EXPECT(mi_heap_of(block) == mi_heap_main());
  mi_free(block);
  return NULL;
}

static void test_loading(void) {
  mi_heap_t* const main_heap = mi_heap_main();
  fflush(stdout);
  for (int way = 0; way < 2; way++) {
    const pid_t child = fork();
    if (child == 0) {
      failures = 0;
      if (way == 0) {
        mi_heap_t* const heap = mi_heap_new();
        mi_heap_t* const before = mi_heap_set_default(heap);
        EXPECT(mi_prof_start(RATE));
        EXPECT(mi_heap_set_default(before) == heap);
        mi_heap_destroy(heap);
      } else {
        mi_subproc_id_t id = mi_subproc_new();
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, &start_in_subproc, &id) == 0);
        pthread_join(thread, NULL);
        mi_subproc_destroy(id);
      }
      EXPECT(home == NULL || home == main_heap);  // NULL: it was loaded already
      fflush(stdout);
      _exit(failures != 0);
    }
    int status = 1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
}

// Asked for where memory runs out, by options, while nothing was ever sampled: there is no profile.
static void test_not_started(void) {
  mi_option_set(mi_option_prof_at_limit, 1);
  EXPECT(mi_malloc((size_t)PTRDIFF_MAX - (1 << 20)) == NULL && !mi_prof_is_enabled());
  EXPECT(files_in(folder) == 0);
  mi_option_set(mi_option_prof_at_limit, 0);
}

// ---- each in a process -------------------------------------------------------------------------

static void run(const char* name, void (*scene)(void)) {
  char place[80], command[120];
  snprintf(place, sizeof(place), "%s/%s", folder, name);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    EXPECT(mkdir(place, 0700) == 0 && chdir(place) == 0);
    EXPECT(mi_prof_start(RATE));
    scene();
    fflush(stdout);
    exit(failures != 0);
  }
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    printf("FAIL %s: status %x\n", name, (unsigned)status);
    failures++;
  }
  snprintf(command, sizeof(command), "rm -rf %s", place);
  EXPECT(system(command) == 0);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "stacks") == 0) {
    EXPECT(mi_prof_start(RATE));
    tell_stacks();
    return failures != 0;
  }
  test_loading();
  EXPECT(mkdtemp(folder) != NULL && chdir(folder) == 0);
  test_not_started();
  run("odd-names", &odd_names);
  run("no-room", &no_room);
  run("ends-meanwhile", &ends_meanwhile);
  run("no-memory", &no_memory);
  run("no-memory-kept", &no_memory_kept);
  run("all-formats", &all_formats);
  run("no-stacks", &no_stacks);
  run("odd-program", &odd_program);
  run("two-profilers", &two_profilers);
  run("intervals", &intervals);
  EXPECT(rmdir(folder) == 0);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
