// SPDX-License-Identifier: MIT
// The recorder: a library to preload that serves malloc's family by the C library's own functions
// (real.h) and writes down each call.
//
// Each process maps a file of its own and appends events under one lock, so their order is the order
// in which they took effect, and what was written is there however the process ends. A call that
// allocates is written down after, one that frees before its block goes. The mark that recording is
// on lies in memory that a fork wipes, so a child is served and not recorded until it starts a
// program, which has this library preloaded again.
//
// Blocks are eight bytes longer than asked for: the last word of what the C library gives holds the
// size, mixed with the address. The first and the last word of a block that fit hold a mark (0 for
// calloc) until the program writes there. Blocks above TRACE_LARGE are mappings of their own, whose
// OS pages the kernel tells apart by whether they were used.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))
#define WINDOW_EVENTS ((size_t)TRACE_OS_PAGE * 43)
#define WINDOW (WINDOW_EVENTS * sizeof(trace_event_t))
#define MARK UINT64_C(0x5bd1e9955bd1e995)
#define SIZE_BITS 47

static atomic_int* recording;  // in memory that a fork wipes
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trace_raw_t* head;
static trace_event_t* window;
static uint64_t limit;
static int file = -1;
static pthread_key_t ends;
static uint32_t thread_count;
static __thread uint32_t my_thread __attribute__((tls_model("initial-exec")));

static void say(const char* text) {
  char line[256];
  const int n = snprintf(line, sizeof(line), "mimalloc-trace: %s\n", text);
  if (write(STDERR_FILENO, line, (size_t)n) < 0) return;
}

// ---- the file -------------------------------------------------------------------------------------

static void stop(void) {
  head->full = 1;
  atomic_store(recording, 0);
}

static bool next_window(void) {
  const off_t at = (off_t)(TRACE_HEADER + head->events * sizeof(trace_event_t));
  if (window != NULL) munmap(window, WINDOW);
  window = NULL;
  // A file with holes would end the program by SIGBUS when the disk is full.
  const int error = posix_fallocate(file, at, (off_t)WINDOW);
  void* map = error != 0 ? MAP_FAILED
                         : mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
  if (map == MAP_FAILED) {
    say("no room for more events; the rest of the program is not recorded");
    return false;
  }
  window = map;
  return true;
}

// Under the lock.
static void append(const trace_event_t* event) {
  const size_t at = (size_t)(head->events % WINDOW_EVENTS);
  if (head->events >= limit) {
    say("the limit of calls is reached; the rest of the program is not recorded");
    stop();
    return;
  }
  if (at == 0 && !next_window()) {
    stop();
    return;
  }
  window[at] = *event;
  atomic_signal_fence(memory_order_release);
  head->events++;
}

static bool is_on(void) {
  return recording != NULL && atomic_load_explicit(recording, memory_order_relaxed) != 0;
}

static uint32_t self(void) {
  if (my_thread == 0) {
    pthread_mutex_lock(&lock);
    my_thread = ++thread_count;
    pthread_mutex_unlock(&lock);
    // May allocate: the number is there by now.
    pthread_setspecific(ends, &my_thread);
  }
  return my_thread - 1;
}

static void record(trace_event_t event) {
  event.thread = self();
  pthread_mutex_lock(&lock);
  if (is_on()) append(&event);
  pthread_mutex_unlock(&lock);
}

static void thread_ends(void* unused) {
  (void)unused;
  if (is_on()) record((trace_event_t){.kind = TRACE_END});
}

// ---- blocks ---------------------------------------------------------------------------------------

static uint64_t hash(const void* block) {
  return ((uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15)) >> SIZE_BITS;
}

static uint64_t* trailer(void* block) {
  return (uint64_t*)((char*)block + (real_usable(block) & ~(size_t)7)) - 1;
}

// The size that was asked for; of a block that is not ours, or whose end was overwritten: all of it.
static size_t asked(void* block, bool* known) {
  const size_t all = real_usable(block);
  const uint64_t word = all < 8 ? 0 : *trailer(block);
  const size_t n = (size_t)(word & ((UINT64_C(1) << SIZE_BITS) - 1));
  *known = word >> SIZE_BITS == hash(block) && n <= (all & ~(size_t)7) - 8;
  return *known ? n : all;
}

static uint64_t* last_word(void* block, size_t n) {
  return (uint64_t*)((char*)block + (n & ~(size_t)7)) - 1;
}

// Prepares a new block; `is_zero`: its words are zero and stay so.
static void* dress(void* block, size_t n, bool is_zero) {
  if (block == NULL) return NULL;
  *trailer(block) = (hash(block) << SIZE_BITS) | n;
  if (!is_zero && n >= 8) {
    *(uint64_t*)block = MARK;
    *last_word(block, n) = MARK;
  }
  return block;
}

static uint64_t pages_used(void* block, size_t n) {
  enum { STEP = 1024 };
  unsigned char seen[STEP];
  const uintptr_t first = ((uintptr_t)block / TRACE_OS_PAGE + 1) * TRACE_OS_PAGE;
  const uintptr_t end = ((uintptr_t)block + n) / TRACE_OS_PAGE * TRACE_OS_PAGE;
  uint64_t used = 0;
  for (uintptr_t at = first; at < end; at += (uintptr_t)STEP * TRACE_OS_PAGE) {
    const size_t left = (end - at) / TRACE_OS_PAGE;
    const size_t count = left < STEP ? left : STEP;
    if (mincore((void*)at, count * TRACE_OS_PAGE, seen) != 0) return (end - first) / TRACE_OS_PAGE;
    for (size_t i = 0; i < count; i++) used += seen[i] & 1;
  }
  return used;
}

// What is known of the writes to a block that goes.
static trace_event_t farewell(trace_kind_t kind, void* block) {
  trace_event_t event = {.kind = (uint8_t)kind, .block = (uintptr_t)block};
  bool known;
  const int error = errno;
  const size_t n = asked(block, &known);
  event.wrote = TRACE_WROTE_FIRST | TRACE_WROTE_LAST;
  if (known && n >= 8) {
    const uint64_t first = *(uint64_t*)block, last = *last_word(block, n);
    event.wrote = (uint8_t)((first != MARK && first != 0 ? TRACE_WROTE_FIRST : 0) |
                            (last != MARK && last != 0 ? TRACE_WROTE_LAST : 0));
  }
  if (known && n >= TRACE_LARGE) {
    event.size = pages_used(block, n);
  }
  errno = error;
  return event;
}

static void* arrived(trace_kind_t kind, void* block, size_t n, unsigned align_log2) {
  if (block == NULL || !is_on()) return block;
  record((trace_event_t){.kind = (uint8_t)kind, .align_log2 = (uint8_t)align_log2,
                         .block = (uintptr_t)block, .size = n});
  return block;
}

static bool too_large(size_t n) {
  if (n <= PTRDIFF_MAX - 64) return false;
  errno = ENOMEM;
  return true;
}

// ---- the calls ------------------------------------------------------------------------------------

EXPORT void* malloc(size_t n) {
  if (recording == NULL) return real_malloc(n);
  if (too_large(n)) return NULL;
  return arrived(TRACE_MALLOC, dress(real_malloc(n + 16), n, false), n, 0);
}

EXPORT void* calloc(size_t count, size_t size) {
  if (recording == NULL) return real_calloc(count, size);
  size_t n;
  if (__builtin_mul_overflow(count, size, &n) || too_large(n)) {
    errno = ENOMEM;
    return NULL;
  }
  return arrived(TRACE_CALLOC, dress(real_calloc(1, n + 16), n, true), n, 0);
}

EXPORT void free(void* block) {
  if (block == NULL) return;
  if (is_on()) record(farewell(TRACE_FREE, block));
  real_free(block);
}

static void* resized(void* block, size_t n) {
  trace_event_t leaves = farewell(TRACE_LEAVES, block);
  leaves.thread = self();
  // The old address must not come back in another thread before this is written down.
  pthread_mutex_lock(&lock);
  void* fresh = real_realloc(block, n + 16);
  if (fresh != NULL) {
    *trailer(fresh) = (hash(fresh) << SIZE_BITS) | n;
    const trace_event_t comes = {.kind = TRACE_REALLOC, .thread = leaves.thread,
                                 .block = (uintptr_t)fresh, .size = n};
    if (is_on()) append(&leaves);
    if (is_on()) append(&comes);
  }
  pthread_mutex_unlock(&lock);
  return fresh;
}

EXPORT void* realloc(void* block, size_t n) {
  if (recording == NULL) return real_realloc(block, n);
  if (block == NULL) return malloc(n);
  if (n == 0) {
    free(block);
    return NULL;
  }
  if (too_large(n)) return NULL;
  if (is_on()) return resized(block, n);
  return dress(real_realloc(block, n + 16), n, true);
}

EXPORT void* reallocarray(void* block, size_t count, size_t size) {
  size_t n;
  if (__builtin_mul_overflow(count, size, &n)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, n);
}

static void* aligned(size_t alignment, size_t n) {
  if (recording == NULL) return real_memalign(alignment, n);
  if (too_large(n)) return NULL;
  const unsigned log2 = alignment <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(alignment - 1);
  return arrived(TRACE_ALIGNED, dress(real_memalign(alignment, n + 16), n, false), n, log2);
}

EXPORT void* memalign(size_t alignment, size_t n) {
  return aligned(alignment, n);
}

EXPORT void* aligned_alloc(size_t alignment, size_t n) {
  return aligned(alignment, n);
}

EXPORT int posix_memalign(void** result, size_t alignment, size_t n) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int error = errno;
  void* block = aligned(alignment, n);
  errno = error;
  if (block == NULL) return ENOMEM;
  *result = block;
  return 0;
}

EXPORT void* valloc(size_t n) {
  return aligned(TRACE_OS_PAGE, n);
}

EXPORT void* pvalloc(size_t n) {
  if (too_large(n)) return NULL;
  return aligned(TRACE_OS_PAGE, (n + TRACE_OS_PAGE - 1) / TRACE_OS_PAGE * TRACE_OS_PAGE);
}

EXPORT size_t malloc_usable_size(void* block) {
  if (block == NULL) return 0;
  bool known;
  const size_t n = asked(block, &known);
  if (known && is_on()) {
    record((trace_event_t){.kind = TRACE_USABLE, .block = (uintptr_t)block});
  }
  return n;
}

// ---- the start ------------------------------------------------------------------------------------

static const char* variable(char** environment, const char* name) {
  const size_t length = strlen(name);
  for (; environment != NULL && *environment != NULL; environment++) {
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      return *environment + length + 1;
    }
  }
  return NULL;
}

// A process may start one program after another: each gets the next number.
static bool open_file(const char* folder) {
  char path[PATH_MAX];
  for (int n = 0; n < 10000; n++) {
    snprintf(path, sizeof(path), "%s/%d.%d", folder, (int)getpid(), n);
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) break;
  }
  return file >= 0 && posix_fallocate(file, 0, TRACE_HEADER) == 0;
}

static void* map_head(void) {
  void* map = mmap(NULL, TRACE_HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return map == MAP_FAILED ? NULL : map;
}

static atomic_int* map_mark(void) {
  void* map = mmap(NULL, TRACE_OS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  if (madvise(map, TRACE_OS_PAGE, MADV_WIPEONFORK) != 0) return NULL;
  return map;
}

static void warn_of(const char* library) {
  if (library == NULL) return;
  char text[200];
  snprintf(text, sizeof(text), "new and delete of C++ are those of %.120s, and are not recorded",
           library);
  say(text);
}

__attribute__((constructor)) static void start(int argc, char** argv, char** environment) {
  const char* folder = variable(environment, "MIMALLOC_TRACE_INTO");
  const char* most = variable(environment, "MIMALLOC_TRACE_LIMIT");
  if (folder == NULL) return;
  limit = most != NULL ? strtoull(most, NULL, 10) : 0;
  atomic_int* mark = map_mark();
  if (!real_find() || mark == NULL || pthread_key_create(&ends, thread_ends) != 0 ||
      !open_file(folder) || (head = map_head()) == NULL) {
    say("this process cannot be recorded");
    return;
  }
  // Each large block is a mapping of its own, so that its OS pages are new.
  real_option(M_MMAP_THRESHOLD, (int)TRACE_LARGE);
  real_option(M_MMAP_MAX, 1 << 20);
  head->magic = TRACE_RAW_MAGIC;
  head->pid = (uint64_t)getpid();
  snprintf(head->program, sizeof(head->program), "%s", argc > 0 ? argv[0] : "");
  atomic_store(mark, 1);
  recording = mark;
  warn_of(real_rival());
}
