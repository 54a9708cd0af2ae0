// SPDX-License-Identifier: MIT
// The walk over a thread's stack on Linux and other Unix systems.
//
// A frame pointer leads to the caller's frame in a few instructions, where the code keeps one; the
// unwinder of the C run-time takes a hundred times as long, and is right everywhere. So the
// unwinder is believed, and what it finds is learned from: at a return address whose frame's
// pointer led where the unwinder went, it always does, for that is a property of the code there. A
// walk begins at the program's frame if its caller knows where that is, else with the unwinder,
// which leaves the library's own frames behind; it follows frame pointers as long as it is in code
// that is known to keep them, and begins anew with the unwinder alone at an address that is not.
//
// The frames that started the thread, in the C library, keep none. They are the same as long as the
// thread runs: the address where the last frame pointer led, and what the unwinder found from there
// on, are remembered, if these are few.
//
// On x86-64 code without frame pointers is learned from, too: its frame has one size at a return
// address, since nothing else says where the caller's is. A size counts when two walks have found
// the same one; it is never used for code that keeps a frame pointer, whose frames may vary. So
// most walks need no unwinder at all. A return address that is not known sends the walk to it, and
// so does each so many'th walk, which finds out what has changed.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../os/system.h"
#include "process.h"

#if MX_UNIX

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__GLIBC__) || defined(__APPLE__)
#include <execinfo.h>
#endif

#include "../base/atomic.h"
#if defined(__linux__)
#include "../os/linux_syscall.h"
#endif

#if defined(__x86_64__) || defined(__aarch64__)
#define WALK_FRAME_POINTERS 1
#else
#define WALK_FRAME_POINTERS 0
#endif
#if defined(__x86_64__) && defined(__LP64__)
#define WALK_SIZES 1
#else
#define WALK_SIZES 0
#endif
#if defined(__aarch64__)
#define FRAME_REGISTER 29
#else
#define FRAME_REGISTER 6
#endif

struct _Unwind_Context;
typedef int(unwind_step_fn)(struct _Unwind_Context* context, void* arg);
typedef int(unwind_fn)(unwind_step_fn* step, void* arg);
typedef uintptr_t(unwind_get_fn)(struct _Unwind_Context* context);
typedef uintptr_t(unwind_register_fn)(struct _Unwind_Context* context, int number);

#define UNWIND_GO_ON 0
#define UNWIND_STOP 4

static unwind_fn* unwind;
static unwind_get_fn* unwind_ip;
static unwind_get_fn* unwind_cfa;
static unwind_register_fn* unwind_register;
static bool unwinds_freely;  // it takes no lock
static mx_atomic(int) walk_state;

enum { WALK_UNPREPARED, WALK_READY, WALK_BARRED };

// ---- what is known of code ---------------------------------------------------------------------

// A hash table of return addresses, and what is known of each in the bits below.
#if WALK_SIZES
#define CODE_BITS 13
#define CODE_SHIFT 17  // addresses of programs have 47 bits
#define CODE_SIZE_SHIFT 4
#define CODE_SIZE_END ((uintptr_t)0x1FFF)  // instead of a size: nobody called it
#else
#define CODE_BITS 11
#define CODE_SHIFT 1
#endif
#define CODE_WAYS 4
#define CODE_KEEPS ((uintptr_t)1)   // frame pointers lead on
#define CODE_SURE ((uintptr_t)2)    // the frame's size, in words, was found twice
#define CODE_EXACT ((uintptr_t)4)   // with CODE_KEEPS: the caller's frame is right behind that
#define CODE_VARIES ((uintptr_t)8)  // it has no one size
static mx_atomic(uintptr_t) known_code[(1 << CODE_BITS) + CODE_WAYS];

static size_t code_slot(uintptr_t ip) {
  return (size_t)((uint64_t)ip * 0x9E3779B97F4A7C15u >> (64 - CODE_BITS));
}

// What is known of an address: 0 if nothing is.
static uintptr_t find_code(uintptr_t ip) {
  const size_t slot = code_slot(ip);
  for (size_t i = 0; i < CODE_WAYS; i++) {
    const uintptr_t there = mx_load_relaxed(&known_code[slot + i]);
    if (there >> CODE_SHIFT == ip) return there - (ip << CODE_SHIFT);
  }
  return 0;
}

static bool keeps_pointer(uintptr_t ip) { return (find_code(ip) & CODE_KEEPS) != 0; }

static void learn_code(uintptr_t ip, uintptr_t known) {
  if (ip << CODE_SHIFT >> CODE_SHIFT != ip) return;
  const size_t slot = code_slot(ip);
  size_t at = slot + ip / 16 % CODE_WAYS;
  for (size_t i = CODE_WAYS; i-- > 0;) {
    const uintptr_t there = mx_load_relaxed(&known_code[slot + i]);
    if (there == 0 || there >> CODE_SHIFT == ip) at = slot + i;
  }
  mx_store_relaxed(&known_code[at], (ip << CODE_SHIFT) + known);
}

// ---- walking -----------------------------------------------------------------------------------

#define TAIL_MAX 3
#define FRAME_SIZE_MAX ((uintptr_t)1 << 20)

// The frames that started this thread, and what else is known of it.
typedef struct tail_s {
  uintptr_t top;     // the highest place that a walk has come to; 0: there was none
  uint32_t walks;
  uintptr_t record;  // where the frame pointer lies that leads to the first of them
  uintptr_t ip;      // of that one
  int count;
  void* frames[TAIL_MAX];
} tail_t;

mx_used static mx_thread_local tail_t thread_tail;

#define MAPPED_PAGES 61
static mx_atomic(uintptr_t) mapped_pages[MAPPED_PAGES];

typedef struct walk_s {
  void** frames;
  int most, count;
  bool learns;       // else it stops where frame pointers can go on
  bool is_cut;
  uintptr_t ip, sp, fp;  // of the latest frame
  int tail_from;         // frames from this one on were not reached by frame pointers
  uintptr_t tail_record;
} walk_t;

// Whether a frame's pointer led to the frame of the caller, which the unwinder found.
static bool led_there(const walk_t* w, uintptr_t ip, uintptr_t sp) {
  if (w->fp % sizeof(void*) != 0 || w->fp < w->sp || w->fp >= sp) return false;
  if (sp - w->fp < 2 * sizeof(void*)) return false;
  return ((const uintptr_t*)w->fp)[1] == ip;
}

// What is known of a frame whose caller the unwinder found.
static uintptr_t known_of_step(const walk_t* w, uintptr_t ip, uintptr_t sp, bool keeps) {
#if WALK_SIZES
  if (keeps) return CODE_KEEPS | (sp == w->fp + 2 * sizeof(void*) ? CODE_EXACT : 0);
  const uintptr_t before = find_code(w->ip), words = (sp - w->sp) / sizeof(void*);
  if ((before & (CODE_VARIES | CODE_KEEPS)) != 0) return CODE_VARIES;
  if (sp <= w->sp || words >= CODE_SIZE_END || ((const uintptr_t*)sp)[-1] != ip) return CODE_VARIES;
  const uintptr_t now = words << CODE_SIZE_SHIFT;
  if (before == 0) return now;
  return (before & ~CODE_SURE) == now ? now | CODE_SURE : CODE_VARIES;
#else
  (void)w, (void)ip, (void)sp;
  return keeps;
#endif
}

static void learn_step(walk_t* w, uintptr_t ip, uintptr_t sp) {
  if (w->ip == 0) return;
  const bool keeps = led_there(w, ip, sp);
  learn_code(w->ip, known_of_step(w, ip, sp, keeps));
  if (!keeps || w->count == 0) return;
  w->tail_from = w->count;
  w->tail_record = w->fp;
}

// Whether there is memory at an address. OS pages that were there are not asked for again.
static bool is_mapped(uintptr_t at) {
  const uintptr_t page = at / mx_facts.os_page;
  mx_atomic(uintptr_t)* const seen = &mapped_pages[page % MAPPED_PAGES];
  if (page == 0 || mx_load_relaxed(seen) == page) return page != 0;
  // It does nothing but look whether the page is mapped.
#if defined(__linux__)
  if (mx_syscall3(SYS_msync, page * mx_facts.os_page, 1, MS_ASYNC) == -ENOMEM) return false;
#else
  if (msync((void*)(page * mx_facts.os_page), 1, MS_ASYNC) != 0 && errno == ENOMEM) return false;
#endif
  mx_store_relaxed(seen, page);
  return true;
}

// Whether a frame's pointer may be one.
static bool is_plausible(const walk_t* w) {
  return w->fp % sizeof(void*) == 0 && w->fp >= w->sp && w->fp - w->sp < FRAME_SIZE_MAX;
}

// Whether the latest frame leads to another one, as far as that is known. The unwinder would read
// where a frame pointer leads, and code at the return address, if it does not know it: a program
// that wrote over its stack shall survive that.
static bool leads_on(const walk_t* w) {
  const uintptr_t known = find_code(w->ip);
  uintptr_t place = w->fp + sizeof(void*);
  if ((known & CODE_KEEPS) == 0) {
#if WALK_SIZES
    if ((known & CODE_SURE) == 0) return true;
    place = w->sp + ((known >> CODE_SIZE_SHIFT) - 1) * sizeof(void*);
#else
    return true;
#endif
  } else if (!is_plausible(w)) {
    return false;
  }
  return is_mapped(place) && is_mapped(*(const uintptr_t*)place);
}

static int take_frame(struct _Unwind_Context* context, void* arg) {
  walk_t* const w = (walk_t*)arg;
  const uintptr_t ip = unwind_ip(context), sp = unwind_cfa(context);
  if (ip == 0) return UNWIND_STOP;
  if (WALK_FRAME_POINTERS && w->learns) learn_step(w, ip, sp);
  if (w->count == 0 && mx_host_is_own_code((const void*)ip)) {
    w->ip = ip;
    w->sp = sp;
    if (WALK_SIZES) w->fp = unwind_register(context, FRAME_REGISTER);
    return UNWIND_GO_ON;
  }
  if (w->count == w->most) {
    w->is_cut = true;
    return UNWIND_STOP;
  }
  w->frames[w->count++] = (void*)ip;
  if (!WALK_FRAME_POINTERS) return UNWIND_GO_ON;
  w->ip = ip;
  w->sp = sp;
  w->fp = unwind_register(context, FRAME_REGISTER);
  if (!leads_on(w)) {
    w->is_cut = true;
    return UNWIND_STOP;
  }
  return w->learns ? UNWIND_GO_ON : UNWIND_STOP;
}

// Remembers the frames that started the thread, if frame pointers lead up to them.
static void learn_tail(const walk_t* w) {
  tail_t* const tail = &mx_tls(thread_tail);
  const int count = w->count - w->tail_from;
  if (w->is_cut || w->tail_from < 0 || count <= 0 || count > TAIL_MAX) return;
  tail->record = w->tail_record;
  tail->ip = (uintptr_t)w->frames[w->tail_from];
  tail->count = count;
  memcpy(tail->frames, w->frames + w->tail_from, (size_t)count * sizeof(void*));
}

// Remembers where the thread's stack begins.
static void learn_end(const walk_t* w) {
#if WALK_SIZES
  tail_t* const tail = &mx_tls(thread_tail);
  if (w->sp > tail->top) tail->top = w->sp;
  if (w->is_cut || w->count == 0 || find_code(w->ip) != 0) return;
  learn_code(w->ip, CODE_SIZE_END << CODE_SIZE_SHIFT);
#else
  (void)w;
#endif
}

// From the latest frame on by frame pointers; false: into code that is not known.
static bool follow_pointers(walk_t* w) {
  const tail_t* const tail = &mx_tls(thread_tail);
  while (keeps_pointer(w->ip)) {
    const uintptr_t* const record = (const uintptr_t*)w->fp;
    if (!is_plausible(w) || w->fp > tail->record) return false;
    const bool is_last = (w->fp == tail->record && record[1] == tail->ip);
    w->ip = record[1];
    w->sp = w->fp + 2 * sizeof(void*);
    w->fp = record[0];
    if (w->count == w->most) return true;
    w->frames[w->count++] = (void*)w->ip;
    if (is_last) {
      for (int i = 1; i < tail->count && w->count < w->most; i++) {
        w->frames[w->count++] = tail->frames[i];
      }
      return true;
    }
  }
  return false;
}

// Begins at a frame that is known: false when the library called that function itself.
static bool begin_at(walk_t* w, const void* frame) {
  const uintptr_t* const record = (const uintptr_t*)frame;
  if (frame == NULL || w->most == 0 || mx_host_is_own_code((const void*)record[1])) return false;
  w->ip = record[1];
  w->sp = (uintptr_t)(record + 2);
  w->fp = record[0];
  w->frames[w->count++] = (void*)w->ip;
  return true;
}

#if WALK_SIZES
#define OWN_FRAMES_MAX 32
#define WALKS_UNWOUND 64  // of so many one is the unwinder's

// Where the caller's frame begins, which *has_fp and w->fp are then those of; 0: not known.
static uintptr_t known_caller(walk_t* w, uintptr_t known, bool* has_fp) {
  if ((known & CODE_KEEPS) == 0) {
    *has_fp = false;  // it may have been put anywhere
    return (known & CODE_SURE) == 0 ? 0 : w->sp + (known >> CODE_SIZE_SHIFT) * sizeof(void*);
  }
  if ((known & CODE_EXACT) == 0 || !*has_fp || !is_plausible(w)) return 0;
  const uintptr_t* const record = (const uintptr_t*)w->fp;
  if ((uintptr_t)(record + 2) > mx_tls(thread_tail).top) return 0;
  w->fp = record[0];
  return (uintptr_t)(record + 2);
}

// By what is known of code alone, from a frame that keeps a pointer; false: it is not enough.
static bool walk_known(walk_t* w, const void* frame) {
  const uintptr_t* const record = (const uintptr_t*)frame;
  const uintptr_t top = mx_tls(thread_tail).top;
  bool has_fp = true;
  w->ip = record[1];
  w->sp = (uintptr_t)(record + 2);
  w->fp = record[0];
  w->count = 0;
  for (int own = 0; own < OWN_FRAMES_MAX;) {
    if (w->count == 0 && mx_host_is_own_code((const void*)w->ip)) own++;
    else if (w->count == w->most) return true;
    else w->frames[w->count++] = (void*)w->ip;
    const uintptr_t known = find_code(w->ip);
    if (known >> CODE_SIZE_SHIFT == CODE_SIZE_END) return w->count > 0;
    const uintptr_t sp = known_caller(w, known, &has_fp);
    if (sp <= w->sp || sp > top) return false;
    w->ip = ((const uintptr_t*)sp)[-1];
    w->sp = sp;
  }
  return false;
}
#endif

mx_noinline int mx_host_walk_stack(void** frames, int most, const void* frame) {
  if (mx_load_acquire(&walk_state) != WALK_READY) return 0;
  const int saved = errno;
  walk_t w;
  memset(&w, 0, sizeof(w));
  w.frames = frames;
  w.most = most;
#if WALK_SIZES
  if (++mx_tls(thread_tail).walks % WALKS_UNWOUND != 0) {
    if (frame != NULL && walk_known(&w, frame)) return w.count;
    if (walk_known(&w, __builtin_frame_address(0))) return w.count;
    w.count = 0;
    w.ip = 0;  // where that stopped is no callee of what follows
  }
#endif
  if (WALK_FRAME_POINTERS && mx_tls(thread_tail).count > 0) {
    if (!begin_at(&w, frame)) unwind(&take_frame, &w);
    if (w.count > 0 && follow_pointers(&w)) {
      errno = saved;
      return w.count;
    }
    w.count = 0;
    w.ip = 0;
  }
  w.learns = true;
  w.tail_from = -1;
  unwind(&take_frame, &w);
  if (WALK_FRAME_POINTERS) learn_tail(&w);
  if (WALK_SIZES) learn_end(&w);
  errno = saved;
  return w.count;
}

// ---- the unwinder ------------------------------------------------------------------------------

#pragma weak dlopen
#pragma weak dlsym

static bool find_in(void* library) {
  unwind = (unwind_fn*)(uintptr_t)dlsym(library, "_Unwind_Backtrace");
  unwind_ip = (unwind_get_fn*)(uintptr_t)dlsym(library, "_Unwind_GetIP");
  unwind_cfa = (unwind_get_fn*)(uintptr_t)dlsym(library, "_Unwind_GetCFA");
  unwind_register = (unwind_register_fn*)(uintptr_t)dlsym(library, "_Unwind_GetGR");
  return unwind != NULL && unwind_ip != NULL && unwind_cfa != NULL && unwind_register != NULL;
}

void mx_host_walk_prepare(void) {
  if (mx_load_acquire(&walk_state) != WALK_UNPREPARED || dlsym == NULL) return;
  bool found = find_in(RTLD_DEFAULT);
  if (!found && dlopen != NULL) {
    void* const library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
    found = (library != NULL && find_in(library));
  }
  if (!found) return;
  unwinds_freely = (dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL);
  void* frames[4];
  mx_store_release(&walk_state, WALK_READY);
  // Its first use prepares what later ones need.
  mx_host_walk_stack(frames, 4, NULL);
}

// With the library's own frames, for reports.
int mx_host_backtrace(void** frames, int most) {
#if defined(__GLIBC__) && defined(__i386__)
  // Where the unwinder ends its backtrace follows a register that code without a frame pointer uses
  // otherwise.
  mx_host_walk_prepare();
  return mx_host_walk_stack(frames, most, NULL);
#elif defined(__GLIBC__) || defined(__APPLE__)
  return backtrace(frames, most);
#else
  (void)frames;
  (void)most;
  return 0;
#endif
}

void mx_host_walk_after_fork(void) {
  if (unwinds_freely) return;
  if (mx_load_relaxed(&walk_state) == WALK_READY) mx_store_release(&walk_state, WALK_BARRED);
}

#endif
