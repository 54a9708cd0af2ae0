// SPDX-License-Identifier: MIT
// Reports of blocks that the profiler has a note of tell the stack that allocated them: of damaged
// ones, of those that are freed twice or with a wrong pointer. Of others they say nothing more.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/mitigations.h"
#include "mimalloc-prof.h"
#include "mimalloc.h"
#include "profile/profile.h"
#include "../child.h"
#include "expect.h"

#define LIVE "  allocated by:\n"
#define FREED "  a sampled block that was there, and is freed, was allocated by:\n"

typedef struct misuse_s {
  const char* name;
  void (*commit)(unsigned char* p, size_t size);
  const char* report;
  const char* title;
} misuse_t;

typedef struct scene_s {
  const misuse_t* misuse;
  size_t size;
  bool is_sampled, is_guarded;
} scene_t;

// Unknown to the compiler, which must not think that it knows what free does.
static unsigned char* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return (unsigned char*)p;
}

static void write_behind(unsigned char* p, size_t size) {
  p[size] ^= 0x55;
  mi_free(p);
}

static void resize_damaged(unsigned char* p, size_t size) {
  p[size] ^= 0x55;
  hidden(mi_realloc(p, size - 1));
}

static void ask_damaged(unsigned char* p, size_t size) {
  p[size] ^= 0x55;
  hidden((void*)mi_usable_size(p));
}

static void verify_damaged(unsigned char* p, size_t size) {
  p[size] ^= 0x55;
  mi_heap_verify(mi_heap_main());
}

static void free_twice(unsigned char* p, size_t size) {
  (void)size;
  mi_free(p);
  mi_free(hidden(p));
}

static bool hold_lock(mx_lock_t* lock) {
  mx_lock_acquire(lock);
  return true;
}

// As a signal's handler would that interrupted the profiler.
static void free_twice_within(unsigned char* p, size_t size) {
  (void)size;
  mi_free(p);
  mx_prof_visit_locks(&hold_lock);
  mi_free(hidden(p));
  _exit(0);
}

static void say_marked(const char* text, void* arg) {
  (void)arg;
  if (write(2, "> ", 2) != 2 || write(2, text, strlen(text)) < 0) abort();
}

static void free_twice_told(unsigned char* p, size_t size) {
  mi_register_output(&say_marked, NULL);
  free_twice(p, size);
}

static void free_inside(unsigned char* p, size_t size) { mi_free(p + size / 32 * 16 + 1); }

static void free_as_other(unsigned char* p, size_t size) { mi_free_size(p, size + 100); }

static const misuse_t damages[] = {
  {"overflow, free", &write_behind, "buffer overflow", LIVE},
  {"overflow, realloc", &resize_damaged, "buffer overflow", LIVE},
  {"overflow, usable size", &ask_damaged, "buffer overflow", LIVE},
  {"overflow, verified", &verify_damaged, "buffer overflow", LIVE},
};
static const misuse_t resized = {"another size", &free_as_other, "has size", LIVE};
static const misuse_t twice = {"double free", &free_twice, "free: ", FREED};
static const misuse_t inside = {"interior pointer", &free_inside, "invalid (unaligned) pointer",
                                LIVE};

// Whose stack is expected; its place in memory is the same in the child.
__attribute__((noinline)) static unsigned char* make_block(size_t size) {
  unsigned char* const p = hidden(mi_malloc(size));
  __asm__ volatile("" : : : "memory");
  return p;
}
#define MAKE_SIZE 64  // bytes of its code, about

static void act(const void* argument) {
  const scene_t* const s = (const scene_t*)argument;
  if (s->is_guarded) mi_option_set(mi_option_guarded_sample_rate, 1);
  if (s->is_sampled && !mi_prof_start(1)) exit(3);
  mi_option_set(mi_option_show_errors, 1);
  unsigned char* const p = make_block(s->size);
  mi_prof_stop();
  s->misuse->commit(p, s->size);
}

// Each line is a frame, with its place in a module as the loader knows it; one is our function's.
static void check_frames(const char* at) {
  bool has_ours = false;
  int count = 0;
  for (; strncmp(at, "    #", 5) == 0; count++) {
    char name[100];
    uintptr_t address, offset;
    Dl_info info;
    const int found = sscanf(at, "    #%*d 0x%zx %99[^+]+0x%zx", &address, name, &offset);
    EXPECT(found == 3);
    EXPECT(dladdr((void*)address, &info) != 0 && address - (uintptr_t)info.dli_fbase == offset);
    EXPECT(strstr(info.dli_fname, name) != NULL);
    has_ours = has_ours || address - (uintptr_t)&make_block < MAKE_SIZE;
    at = strchr(at, '\n') + 1;
  }
  EXPECT(count >= 2 && count <= 16);
  EXPECT(has_ours);
}

static void check(const misuse_t* misuse, size_t size, bool is_guarded) {
  const int before = failures;
  for (int is_sampled = 0; is_sampled < 2; is_sampled++) {
    const scene_t scene = {misuse, size, is_sampled != 0, is_guarded};
    run_child(&act, &scene);
    const char* const report = strstr(said, misuse->report);
    const char* const told = (is_guarded ? FREED : misuse->title);
    const char* const title = (report == NULL ? NULL : strstr(report, told));
    // Of ordinary blocks builds report it in other words, or not at all, but for secure ones.
    EXPECT(report != NULL || (is_sampled == 0 && (!MX_PADDING || MX_DEBUG > 0)));
    EXPECT((title != NULL) == scene.is_sampled);
    EXPECT(scene.is_sampled || strstr(said, "    #") == NULL);
    if (scene.is_sampled && title != NULL) check_frames(strchr(title, '\n') + 1);
    if (failures > before) {
      printf("%s, %zu bytes, sampled %d, guarded %d, said:\n%s\n", misuse->name, size, is_sampled,
             is_guarded, said);
      return;
    }
  }
}

// A report waits for no lock; it goes where all messages go.
static void check_ways(void) {
  static const misuse_t within = {"within the profiler", &free_twice_within, NULL, NULL};
  static const misuse_t told = {"output handler", &free_twice_told, NULL, NULL};
  const scene_t held = {&within, 104, true, false}, handled = {&told, 104, true, false};
  run_child(&act, &held);
  EXPECT(strstr(said, "free: ") != NULL && strstr(said, "allocated by") == NULL);
  run_child(&act, &handled);
  EXPECT(strstr(said, "> " FREED) != NULL);
  EXPECT(strstr(said, ">     #0 0x") != NULL);
}

int main(void) {
  static const size_t sizes[] = {104, 1500, 20001, 300001, 3000001};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    for (size_t k = 0; MX_PADDING && k < sizeof(damages) / sizeof(damages[0]); k++) {
      check(&damages[k], sizes[i], false);
    }
    if (MX_CHECK_SIZED) check(&resized, sizes[i], false);
    check(&twice, sizes[i], false);
    check(&inside, sizes[i], false);
  }
  if (MX_PADDING) check(&damages[0], 104, true);
  check_ways();
  return failures != 0;
}
