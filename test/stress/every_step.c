// SPDX-License-Identifier: MIT
// A fork in a signal's handler at each instruction of malloc, free, realloc and the like, of a
// thread's start and of its end: the processor's trap flag interrupts the calls of each scene
// behind every instruction. The parent goes on; the child returns from the handler, ends the call,
// and lives on: no block may be lost, handed out twice or changed. Each scene runs twice, alone and
// beside a thread that does not exist in the child.
//
// Instructions of the library that a scene passes more than once are interrupted the first times.
// In less than a minute only one in sixty is, chosen by the seed, and a scene is over after so many
// instructions: builds that fill blocks take millions.
#include "stress.h"

// A sanitizer's malloc is not the library's.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#if !defined(__linux__) || !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || \
    defined(HAS_ASAN)
int main(void) { return 77; }
#else

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100
#define VISITS 2           // of one instruction in one scene that are interrupted
#define SHARE 60           // of the instructions, when there is little time
#define STEPS_MOST 40000   // of a scene, then
#define SEEN (1u << 15)    // places of a table by address
#define KEPT 200
#define CHILD_SECONDS 60
#define CHILDREN 16        // at a time

typedef struct mi_heap_s mi_heap_t;
__attribute__((weak)) mi_heap_t* mi_heap_new(void);
__attribute__((weak)) void* mi_heap_malloc(mi_heap_t* heap, size_t size);
__attribute__((weak)) void mi_heap_delete(mi_heap_t* heap);
__attribute__((weak)) void mi_heap_destroy(mi_heap_t* heap);
__attribute__((weak)) void mi_collect(bool force);
__attribute__((weak)) void mi_register_error(void (*fn)(int, void*), void* arg);

static const char* scene_name;
static bool is_beside;
static unsigned long steps, steps_before, forks;
static volatile bool in_child;
static bool is_left_to_others;  // what is live in a child, by the scene
static bool is_short;           // the scene: each of its instructions is interrupted
static block_t* kept[KEPT];    // live while a scene runs
static block_t* theirs[KEPT];  // of the thread beside

// ---- the handler -------------------------------------------------------------------------------

static uintptr_t text_begin, text_end, interrupted_at;
static struct { uintptr_t at; unsigned visits; } seen[SEEN];

// Of malloc's own mapping: the library's, or the program's, if that has it.
static void find_text(void) {
  const uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
  char line[512];
  FILE* const f = fopen("/proc/self/maps", "r");
  while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    if (begin > address || address >= end) continue;
    text_begin = begin;
    text_end = end;
  }
  if (f != NULL) fclose(f);
  check(text_begin != 0);
}

static bool is_due(uintptr_t at) {
  if (at < text_begin || at >= text_end) return false;
  size_t i = (at * 0x9e3779b97f4a7c15u) >> 49;
  while (seen[i].at != 0 && seen[i].at != at) i = (i + 1) % SEEN;
  seen[i].at = at;
  if (seen[i].visits++ >= VISITS) return false;
  random_t r = random_of(at + seen[i].visits);
  return stress_seconds >= 60 || is_short || random_below(&r, SHARE) == 0;
}

// Some at a time: on a busy machine each waits for its turn.
static struct { pid_t child; unsigned long step; uintptr_t at; } outstanding[CHILDREN];
static size_t children;

static void reap(size_t most) {
  while (children > most) {
    int status = -1;
    const pid_t child = waitpid(-1, &status, 0);
    size_t i = 0;
    while (i < children && outstanding[i].child != child) i++;
    check(i < children);
    if (status != 0) {
      fail("%s, %s: the child of step %lu at %#lx: %#x", scene_name, is_beside ? "beside" : "alone",
           outstanding[i].step, (unsigned long)(outstanding[i].at - text_begin), (unsigned)status);
    }
    outstanding[i] = outstanding[--children];
  }
}

static void on_trap(int number, siginfo_t* info, void* context) {
  ucontext_t* const c = (ucontext_t*)context;
  const int saved = errno;
  (void)number;
  (void)info;
  steps++;
  interrupted_at = (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
  if (stress_seconds < 60 && steps - steps_before > STEPS_MOST) {
    c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  }
  if (!is_due(interrupted_at)) return;
  forks++;
  reap(CHILDREN - 1);
  const pid_t child = fork();
  if (child == 0) {
    in_child = true;
    alarm(CHILD_SECONDS);
    c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  }
  check(child >= 0);
  outstanding[children].child = child;
  outstanding[children].step = steps;
  outstanding[children++].at = interrupted_at;
  errno = saved;
}

static void set_trap_flag(bool on) {
  unsigned long flags;
  __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
  flags = (on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG);
  __asm__ volatile("pushq %0\n\tpopfq" : : "r"(flags) : "memory", "cc");
}

// ---- the child ---------------------------------------------------------------------------------

static void on_error(int code, void* arg) {
  (void)arg;
  fail("%s: error %d in the child of step %lu at %#lx", scene_name, code, steps,
       (unsigned long)(interrupted_at - text_begin));
}

static void exchange_all(void) {
  static const size_t sizes[] = {32, 48, 320, 1000, 5000, 30000, 200000, 1500000};
  block_t* blocks[160];
  for (size_t i = 0; i < 160; i++) {
    const size_t kind = i % 8;
    blocks[i] = (kind > 5 && i > 16 ? NULL : block_new(sizes[kind] + i, 1000 + i));
  }
  for (size_t i = 0; i < KEPT; i++) {
    block_free(kept[i]);
    block_free(theirs[i]);
    kept[i] = theirs[i] = NULL;
  }
  for (size_t i = 0; i < 160; i++) block_free(blocks[i]);
}

static void* child_thread(void* arg) {
  exchange_all();
  return arg;
}

static void live_in_child(void) {
  if (is_left_to_others) pthread_join(start(child_thread, NULL), NULL);
  exchange_all();
  pthread_join(start(child_thread, NULL), NULL);
  if (mi_collect != NULL) mi_collect(true);
  exchange_all();
  _exit(0);
}

static void begin_steps(void) { set_trap_flag(true); }

static void end_steps(void) {
  set_trap_flag(false);
  if (in_child) live_in_child();
}

// ---- scenes ------------------------------------------------------------------------------------

static size_t fresh_size;  // of blocks whose bin has no page yet
static pthread_key_t last_key;

static void keep_some(size_t size) {
  for (size_t i = 0; i < KEPT; i++) {
    if (kept[i] == NULL) kept[i] = block_new(size, i);
  }
}

static void free_kept(void) {
  for (size_t i = 0; i < KEPT; i++) block_free(kept[i]);
  memset(kept, 0, sizeof(kept));
}

static void allocate_and_free(void) {
  free(malloc(48));
  void* volatile p[12];
  begin_steps();
  for (size_t i = 0; i < 12; i++) p[i] = malloc(48);
  for (size_t i = 0; i < 12; i++) free(p[i]);
  end_steps();
}

// Where they are sampled, the first large one most likely is, and those behind it are only counted.
static void few(void) {
  void* volatile p[3];
  free(malloc(16));
  free(malloc(4000));
  is_short = true;
  begin_steps();
  for (size_t i = 0; i < 3; i++) p[i] = malloc(16);
  end_steps();
  is_short = false;
  for (size_t i = 0; i < 3; i++) free(p[i]);
}

static void fresh_pages(void) {
  fresh_size += 1100;
  begin_steps();
  void* volatile p = malloc(fresh_size);
  void* volatile q = calloc(3, fresh_size);
  free(p);
  free(q);
  end_steps();
}

static void fill_pages(void) {
  begin_steps();
  for (size_t i = 0; i < KEPT; i++) kept[i] = block_new(1000, i);
  end_steps();
  free_kept();
}

static void empty_pages(void) {
  void* volatile p[KEPT];
  for (size_t i = 0; i < KEPT; i++) p[i] = malloc(1000);
  begin_steps();
  for (size_t i = 0; i < KEPT; i++) free(p[i]);
  end_steps();
}

static void visit(int times) {
  for (int i = 0; i < times; i++) {
    void* volatile p = malloc((size_t)2 << 20);
    free(p);
  }
}

// Rounds of housekeeping shut pages that are empty, the next requests open some, others go.
static void empty_rounds(void) {
  static const size_t sizes[] = {40, 320, 5000, 30000};
  void* volatile p[4 * KEPT];
  for (size_t i = 0; i < 4 * KEPT; i++) p[i] = malloc(sizes[i % 4]);
  for (size_t i = 0; i < 4 * KEPT; i++) free(p[i]);
  visit(32);
  is_short = true;
  begin_steps();
  p[0] = malloc(sizes[1]);
  is_short = false;
  free(p[0]);
  visit(32);
  end_steps();
}

static void aligned(void) {
  void* q = NULL;
  begin_steps();
  void* volatile p = memalign(4096, 10000);
  const int failed = posix_memalign(&q, 1 << 21, 3000000);
  free(p);
  free(q);
  end_steps();
  check(failed == 0);
}

static void resize_by(size_t first, const size_t* sizes, size_t count) {
  char* volatile p = (char*)malloc(first);
  memcpy(p, "0123456789abcde", 16);
  begin_steps();
  for (size_t i = 0; i < count; i++) p = (char*)realloc(p, sizes[i]);
  end_steps();
  check(memcmp(p, "0123456789abcde", 16) == 0);
  free(p);
}

static void resize(void) {
  static const size_t sizes[] = {100, 120, 40, 3000, 1000, 90000, 48};
  resize_by(16, sizes, 7);
}

static void resize_huge(void) {
  static const size_t sizes[] = {20000000, 9000000, 800000, 48};
  resize_by(3000000, sizes, 4);
}

static void huge_of(size_t size) {
  begin_steps();
  void* volatile p = malloc(size);
  free(p);
  end_steps();
}

static void huge(void) {
  huge_of(700000);
  huge_of(40000000);
  huge_of(650000);
}

static void free_theirs(void) {
  begin_steps();
  for (size_t i = 0; i < KEPT; i += 3) {
    block_t* const block = theirs[i];
    theirs[i] = NULL;
    free(block);
  }
  end_steps();
}

static void* leaves_blocks(void* arg) {
  for (size_t i = 0; i < KEPT; i++) kept[i] = block_new(i % 2 == 0 ? 700 : 9000, i);
  return arg;
}

static void free_of_dead(void) {
  pthread_join(start(leaves_blocks, NULL), NULL);
  begin_steps();
  for (size_t i = 0; i < KEPT; i++) {
    block_t* const block = kept[i];
    kept[i] = NULL;
    free(block);
  }
  end_steps();
}

// Into a page that nobody owns; those of a parked heap are owned.
static void free_abandoned(void) {
  pthread_join(start(leaves_blocks, NULL), NULL);
  if (mi_collect != NULL) mi_collect(true);
  is_left_to_others = is_short = true;
  block_t* const block = kept[0];
  kept[0] = NULL;
  begin_steps();
  free(block);
  end_steps();
  is_left_to_others = is_short = false;
  free_kept();
}

static void at_last(void* value) {
  (void)value;
  end_steps();
}

// The flag ends behind the library's own call at the end of the thread: its key is older.
static void* short_life(void* arg) {
  pthread_setspecific(last_key, &last_key);
  begin_steps();
  void* volatile p = malloc(48);
  void* volatile q = malloc(300);
  free(q);
  if (arg == NULL) free(p);
  return p;
}

static void thread_life(void) {
  void* p = NULL;
  pthread_join(start(short_life, NULL), NULL);
  pthread_join(start(short_life, &last_key), &p);
  free(p);
}

static void first_class_heaps(void) {
  if (mi_heap_new == NULL) return;
  void* volatile p[40];
  begin_steps();
  mi_heap_t* const gone = mi_heap_new();
  mi_heap_t* const left = mi_heap_new();
  for (size_t i = 0; i < 40; i++) p[i] = mi_heap_malloc(i % 2 == 0 ? gone : left, 100 + i * 100);
  mi_heap_destroy(gone);
  mi_heap_delete(left);
  for (size_t i = 1; i < 40; i += 2) free(p[i]);
  end_steps();
}

static void collect(void) {
  keep_some(3000);
  for (size_t i = 0; i < KEPT; i++) {
    if (i % 5 == 0) continue;
    block_free(kept[i]);
    kept[i] = NULL;
  }
  begin_steps();
  if (mi_collect != NULL) mi_collect(true);
  malloc_trim(0);
  end_steps();
  free_kept();
}

static const struct { const char* name; void (*run)(void); } scenes[] = {
    {"allocate and free", allocate_and_free},
    {"few", few},
    {"fresh pages", fresh_pages},
    {"fill pages", fill_pages},
    {"empty pages", empty_pages},
    {"empty rounds", empty_rounds},
    {"aligned", aligned},
    {"resize", resize},
    {"resize huge", resize_huge},
    {"huge", huge},
    {"free of another thread's", free_theirs},
    {"free of a dead thread's", free_of_dead},
    {"free into an abandoned page", free_abandoned},
    {"a thread's life", thread_life},
    {"first-class heaps", first_class_heaps},
    {"collect", collect},
};

// ---- main --------------------------------------------------------------------------------------

static sem_t is_ready, may_end;

static void* lives_beside(void* arg) {
  for (size_t i = 0; i < KEPT; i++) {
    theirs[i] = block_new(i % 3 == 0 ? 48 : i % 3 == 1 ? 1000 : 20000, i);
  }
  for (size_t i = 0; i < KEPT; i += 4) {
    block_free(theirs[i]);
    theirs[i] = NULL;
  }
  sem_post(&is_ready);
  while (sem_wait(&may_end) != 0) continue;
  return arg;
}

static void run_scenes(const char* only) {
  for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
    scene_name = scenes[i].name;
    if (only != NULL && strstr(scene_name, only) == NULL) continue;
    memset(seen, 0, sizeof(seen));
    const unsigned long forks_before = forks;
    steps_before = steps;
    scenes[i].run();
    reap(0);
    printf("%s, %s: %lu steps, %lu forks\n", scene_name, is_beside ? "beside" : "alone",
           steps - steps_before, forks - forks_before);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  if (STRESS_TSAN) return 77;  // skipped
  setvbuf(stdout, NULL, _IONBF, 0);
  if (mi_register_error != NULL) mi_register_error(on_error, NULL);
  find_text();
  pthread_key_create(&last_key, at_last);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, NULL);

  const char* const only = (argc > 4 ? argv[4] : NULL);
  run_scenes(only);
  is_beside = true;
  sem_init(&is_ready, 0, 0);
  sem_init(&may_end, 0, 0);
  const pthread_t thread = start(lives_beside, NULL);
  while (sem_wait(&is_ready) != 0) continue;
  run_scenes(only);
  sem_post(&may_end);
  pthread_join(thread, NULL);
  printf("%.1f seconds\n", stress_time());
  return 0;
}
#endif
