// SPDX-License-Identifier: MIT
// A fuzz target: each input is a program of calls, a few bytes for each, run next to a model that
// knows every live block, its size, its alignment, its heap and its contents.
//
// What must hold after every call is in the checks of this file; what must hold inside is checked
// by a library built with MI_DEBUG=3. Builds that find misuse are also given some: a second free,
// a free inside of a block, a byte behind the end; each must be reported, and do no harm.
//
// Invariant: an input leaves nothing behind: at its end all blocks are freed, all heaps gone and
// all options as they were, so that inputs run one after another as they do alone.
#include <errno.h>
#include <mimalloc.h>
#include <mimalloc-stats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#if (defined(MI_DEBUG) && MI_DEBUG > 0) || (defined(MI_SECURE) && MI_SECURE >= 4)
#define FINDS_MISUSE 1
#else
#define FINDS_MISUSE 0
#endif

// Secure builds do not watch the slack behind small blocks, but what lies behind blocks without any.
#if defined(MI_DEBUG) && MI_DEBUG > 0
#define WATCHES_SLACK 1
#else
#define WATCHES_SLACK 0
#endif

#define SLOTS 64
#define HEAPS 4
#define LIVE_MAX ((size_t)96 << 20)
#define ARENA_SIZE ((size_t)64 << 20)

typedef struct block {
  unsigned char* p;
  size_t size;
  size_t align;   // of p + offset
  size_t offset;
  int heap;       // in heaps[], or -1 for the main heap
  unsigned char mark;
} block_t;

static block_t blocks[SLOTS];
static mi_heap_t* heaps[HEAPS];
static mi_arena_id_t arena;
static size_t live;
static int errors_seen, error_allowed;
// A page with a block of an alignment at an offset takes any pointer into a block for the block.
static bool has_shifted;
static bool traces;  // FUZZ_TRACE=1 in the environment: every call is printed

// ---- input -------------------------------------------------------------------------------------

typedef struct input {
  const uint8_t* at;
  const uint8_t* end;
} input_t;

static uint8_t byte(input_t* in) { return in->at < in->end ? *in->at++ : 0; }

// Sizes of all magnitudes, those around the borders of size classes above all.
static size_t size_of(input_t* in) {
  const uint8_t kind = byte(in);
  const size_t fine = byte(in);
  if (kind < 96) return fine;
  if (kind < 224) return ((size_t)1 << (4 + kind % 19)) + fine - 128 + (kind % 3) * 8;
  if (kind < 248) return fine * 1021 * (kind % 8);
  if (kind < 252) return fine << 16;
  return kind == 252 ? (size_t)PTRDIFF_MAX - fine : SIZE_MAX - fine;
}

static size_t align_of(input_t* in) {
  const uint8_t b = byte(in);
  return (size_t)1 << (b < 200 ? b % 13 : b % 23);
}

// ---- contents ----------------------------------------------------------------------------------

// Large blocks are looked at near both ends and once in each OS page.
static size_t step(size_t i, size_t size) {
  return (size <= 4096 || i < 256 || i + 320 > size) ? 1 : (i + 4096 + 320 < size ? 4096 : 64);
}

static unsigned char value(unsigned char mark, size_t i) {
  return (unsigned char)(mark + i * 31 + (i >> 8));
}

static void fill(const block_t* b) {
  for (size_t i = 0; i < b->size; i += step(i, b->size)) b->p[i] = value(b->mark, i);
}

static void check_contents(const block_t* b, size_t size) {
  for (size_t i = 0; i < size; i += step(i, b->size)) REQUIRE(b->p[i] == value(b->mark, i));
}

static void check_zero(const unsigned char* p, size_t from, size_t to) {
  for (size_t i = from; i < to; i += step(i, to)) REQUIRE(p[i] == 0);
}

// ---- the model ---------------------------------------------------------------------------------

static bool fits(size_t size) {
  return size > (size_t)PTRDIFF_MAX / 2 || (size < LIVE_MAX && live + size < LIVE_MAX);
}

// Enters a new block; a call that failed must have been one that may.
static void enter(block_t* b, void* p, size_t size, size_t align, size_t offset, int heap,
                  bool zero) {
  memset(b, 0, sizeof(*b));
  if (p == NULL) {
    REQUIRE(size > ((size_t)1 << 40) || heap >= 0 || align > ((size_t)1 << 16));
    return;
  }
  static unsigned char next_mark;
  REQUIRE(align == 0 || ((uintptr_t)p + offset) % align == 0);
  REQUIRE(mi_usable_size(p) >= size);
  if (size > 0) REQUIRE(mi_is_in_heap_region(p));
  if (zero) check_zero((unsigned char*)p, 0, size);
  if (traces) fprintf(stderr, "  %p size %zu align %zu heap %d\n", p, size, align, heap);
  *b = (block_t){(unsigned char*)p, size, align, offset, heap, next_mark += 7};
  fill(b);
  live += size;
}

static void leave(block_t* b) {
  live -= b->size;
  memset(b, 0, sizeof(*b));
}

static void release(block_t* b) {
  if (b->p == NULL) return;
  check_contents(b, b->size);
  mi_free(b->p);
  leave(b);
}

// A block that was p became q (NULL: the call failed).
static void change(block_t* b, void* q, size_t size, size_t align, size_t offset, int heap) {
  block_t old = *b;
  if (q == NULL) {
    REQUIRE(size > ((size_t)1 << 40) || heap >= 0 || align > ((size_t)1 << 16));
    if (old.p != NULL) check_contents(&old, old.size);
    return;
  }
  old.p = (unsigned char*)q;
  check_contents(&old, old.size < size ? old.size : size);
  live -= old.size;
  enter(b, q, size, align, offset, heap, false);
}

// ---- calls -------------------------------------------------------------------------------------

static mi_heap_t* heap_at(int i) { return i < 0 ? mi_heap_main() : heaps[i]; }

static int pick_heap(input_t* in) {
  const int i = byte(in) % (HEAPS + 1) - 1;
  return i >= 0 && heaps[i] == NULL ? -1 : i;
}

static void call_new(input_t* in, block_t* b, int kind) {
  release(b);
  const size_t size = size_of(in);
  if (!fits(size)) return;
  const int heap = pick_heap(in);
  switch (kind) {
    case 0: enter(b, mi_malloc(size), size, 0, 0, -1, false); break;
    case 1: enter(b, mi_zalloc(size), size, 0, 0, -1, true); break;
    case 2: {
      const size_t count = byte(in);
      if (count > 0 && size > LIVE_MAX / count && size < SIZE_MAX / count) break;
      void* const p = mi_calloc(count, size);
      const bool overflows = (count > 0 && size > SIZE_MAX / count);
      REQUIRE(!overflows || p == NULL);
      enter(b, p, overflows ? SIZE_MAX : count * size, 0, 0, -1, true);
      break;
    }
    case 3: enter(b, mi_heap_malloc(heap_at(heap), size), size, 0, 0, heap, false); break;
    case 4: enter(b, mi_heap_zalloc(heap_at(heap), size), size, 0, 0, heap, true); break;
    case 5: {
      size_t whole = 0;
      void* const p = mi_umalloc(size, &whole);
      if (p != NULL) REQUIRE(whole >= size);
      enter(b, p, size, 0, 0, -1, false);
      break;
    }
    case 6: {
      if (size > 100000) break;
      char text[64];
      memset(text, 'x', sizeof(text));
      text[size % 63] = 0;
      char* const copy = mi_heap_strndup(heap_at(heap), text, size % 80);
      REQUIRE(copy != NULL && strlen(copy) == (size % 80 < size % 63 ? size % 80 : size % 63));
      enter(b, copy, strlen(copy) + 1, 0, 0, heap, false);
      break;
    }
    default: {
      void* p = NULL;
      const size_t align = align_of(in);
      const int error = mi_posix_memalign(&p, align, size);
      REQUIRE((p == NULL) == (error != 0));
      if (align < sizeof(void*)) REQUIRE(error == EINVAL);
      else enter(b, p, size, align, 0, -1, false);
    }
  }
}

static void call_aligned(input_t* in, block_t* b, int kind) {
  release(b);
  const size_t size = size_of(in), align = align_of(in);
  const size_t offset = (kind == 1 || kind == 3 ? byte(in) * (size_t)8 : 0);
  if (!fits(size)) return;
  if (offset != 0) has_shifted = true;
  const int heap = (kind >= 2 ? pick_heap(in) : -1);
  void* p;
  if (kind == 0) p = mi_malloc_aligned(size, align);
  else if (kind == 1) p = mi_zalloc_aligned_at(size, align, offset);
  else if (kind == 2) p = mi_heap_zalloc_aligned(heap_at(heap), size, align);
  else p = mi_heap_malloc_aligned_at(heap_at(heap), size, align, offset);
  // Large alignments at an offset may be refused.
  if (p == NULL && offset % align != 0) return;
  enter(b, p, size, align, offset, heap, kind == 1 || kind == 2);
}

static void call_resize(input_t* in, block_t* b, int kind) {
  const size_t size = size_of(in);
  if (!fits(size)) return;
  const size_t before = (b->p == NULL ? 0 : mi_usable_size(b->p));
  switch (kind) {
    case 0: change(b, mi_realloc(b->p, size), size, 0, 0, -1); break;
    case 1: {
      const int heap = pick_heap(in);
      change(b, mi_heap_realloc(heap_at(heap), b->p, size), size, 0, 0, heap);
      break;
    }
    case 2: {
      void* const q = mi_rezalloc(b->p, size);
      if (q != NULL && size > before) check_zero((unsigned char*)q, before, size);
      change(b, q, size, 0, 0, -1);
      break;
    }
    case 3: {
      const size_t align = align_of(in);
      void* const q = mi_realloc_aligned(b->p, size, align);
      change(b, q, size, align, 0, -1);
      break;
    }
    case 4: {
      block_t old = *b;
      void* const q = mi_reallocf(b->p, size);
      if (q == NULL && old.p != NULL) leave(b);
      else change(b, q, size, 0, 0, -1);
      break;
    }
    case 5: {
      const size_t count = byte(in);
      const bool overflows = (count > 0 && size > SIZE_MAX / count);
      if (!overflows && count > 0 && size > LIVE_MAX / count) break;
      void* const q = mi_reallocarray(b->p, count, size);
      REQUIRE(!overflows || q == NULL);
      change(b, q, overflows ? SIZE_MAX : count * size, 0, 0, -1);
      break;
    }
    default:
      if (b->p != NULL && size < ((size_t)1 << 40)) {
        void* const q = mi_expand(b->p, size);
        REQUIRE(q == NULL || q == b->p);
        if (q != NULL) REQUIRE(size <= mi_usable_size(q));
        check_contents(b, b->size < size ? b->size : size);
        if (q != NULL) {
          const block_t old = *b;
          live -= old.size;
          enter(b, q, size, old.align, old.offset, old.heap, false);
        }
      }
  }
}

static void call_free(block_t* b, int kind) {
  if (b->p == NULL) return;
  check_contents(b, b->size);
  REQUIRE(mi_usable_size(b->p) >= b->size);
  if (kind == 0) {
    mi_free(b->p);
  } else if (kind == 1 && b->offset == 0) {
    mi_free_size(b->p, b->size);
  } else if (kind == 2 && b->align > 0 && b->offset == 0) {
    mi_free_size_aligned(b->p, b->size, b->align);
  } else {
    size_t whole = 0;
    mi_ufree(b->p, &whole);
  }
  leave(b);
}

// ---- heaps -------------------------------------------------------------------------------------

static void call_heap(int i, int kind) {
  if (heaps[i] == NULL) {
    heaps[i] = (kind == 3 && arena != NULL ? mi_heap_new_in_arena(arena) : mi_heap_new());
    REQUIRE(heaps[i] != NULL);
    return;
  }
  for (int k = 0; k < SLOTS; k++) {
    if (blocks[k].p == NULL || blocks[k].heap != i) continue;
    check_contents(&blocks[k], blocks[k].size);
    if (kind == 0) leave(&blocks[k]);
    else if (kind == 1) blocks[k].heap = -1;
  }
  if (kind == 0) mi_heap_destroy(heaps[i]);
  else if (kind == 1) mi_heap_delete(heaps[i]);
  else mi_heap_collect(heaps[i], kind == 2);
  if (kind < 2) heaps[i] = NULL;
}

typedef struct visit {
  size_t count;
  int heap;
} visit_t;

static bool visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                  void* arg) {
  (void)heap, (void)area;
  if (block == NULL) return true;
  visit_t* const v = (visit_t*)arg;
  for (int k = 0; k < SLOTS; k++) {
    unsigned char* const p = blocks[k].p;
    // A block of no bytes at an offset lies at the end of what was allocated for it, which may be the
    // start of another heap's page as well.
    const size_t inside = size + (blocks[k].size == 0 && blocks[k].heap == v->heap);
    if (p == NULL || p < (unsigned char*)block || p >= (unsigned char*)block + inside) continue;
    REQUIRE(blocks[k].heap == v->heap);
    v->count++;
    return true;
  }
  REQUIRE(!"a block that nobody has");
  return false;
}

// Every live block of a heap, and no other, is seen. Blocks of no bytes may lie in no heap.
static void call_visit(int heap) {
  if (heap >= 0 && heaps[heap] == NULL) return;
  visit_t v = {0, heap};
  REQUIRE(mi_heap_visit_blocks(heap_at(heap), true, visit, &v));
  size_t least = 0, most = 0;
  for (int k = 0; k < SLOTS; k++) {
    if (blocks[k].p == NULL || blocks[k].heap != heap) continue;
    if (traces) fprintf(stderr, "block %d: %p %zu\n", k, (void*)blocks[k].p, blocks[k].size);
    most++;
    if (blocks[k].size > 0) least++;
  }
  REQUIRE(v.count >= least && v.count <= most);
}

// ---- other threads -----------------------------------------------------------------------------

typedef struct errand {
  int kind;
  size_t size;
  int first, last;
} errand_t;

static void* run_errand(void* arg) {
  const errand_t* const e = (const errand_t*)arg;
  for (int k = e->first; k < e->last; k++) {
    block_t* const b = &blocks[k];
    if (e->kind == 0) release(b);
    else if (b->p == NULL && fits(e->size)) enter(b, mi_malloc(e->size), e->size, 0, 0, -1, false);
  }
  if (e->kind == 2) mi_collect(true);
  return NULL;
}

static void call_thread(input_t* in, int kind) {
  errand_t e = {kind, size_of(in) % 20000, byte(in) % SLOTS, 0};
  e.last = e.first + byte(in) % 16;
  if (e.last > SLOTS) e.last = SLOTS;
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, run_errand, &e) == 0);
  pthread_join(thread, NULL);
}

// ---- options and statistics --------------------------------------------------------------------

static const struct {
  mi_option_t option;
  long values[4];
} settings[] = {
  {mi_option_purge_delay, {0, 10, -1, 1000}},
  {mi_option_purge_decommits, {0, 1, 1, 0}},
  {mi_option_page_full_retain, {0, 1, 8, 2}},
  {mi_option_page_max_candidates, {1, 2, 16, 4}},
  {mi_option_page_reclaim_on_free, {-1, 0, 1, 0}},
  {mi_option_page_cross_thread_max_reclaim, {0, 1, 32, 4}},
  {mi_option_generic_collect, {1, 7, 100, 10000}},
  {mi_option_purge_holes, {0, 1, 1, 0}},
  {mi_option_zero_on_free, {0, 1, 1, 0}},
  {mi_option_allow_thp, {0, 1, 2, 0}},
  {mi_option_guarded_sample_rate, {0, 1, 3, 100}},
  {mi_option_arena_max_object_size, {1024, 65536, 0, 2097152}},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static long defaults[SETTINGS];

static void swallow(const char* text, void* arg) { *(size_t*)arg += strlen(text); }

static void call_report(int kind) {
  size_t length = 0;
  static char small[200];
  switch (kind) {
    case 0: mi_stats_print_out(swallow, &length); break;
    case 1: {
      // Into a buffer that is too small, and into one of its own.
      mi_stats_get_json(sizeof(small), small);
      REQUIRE(strlen(small) < sizeof(small));
      char* const json = mi_stats_get_json(0, NULL);
      REQUIRE(json != NULL && json[0] == '{');
      mi_free(json);
      length = 1;
      break;
    }
    case 2: mi_stats_print_prometheus(swallow, &length); break;
    case 3: REQUIRE(mi_report((mi_report_format_t)(kind & 1), swallow, &length)); break;
    default: mi_stats_merge(), length = 1;
  }
  REQUIRE(length > 0);
}

// ---- misuse ------------------------------------------------------------------------------------

static void on_error(int code, void* arg) {
  (void)arg;
  errors_seen++;
  // Requests that cannot be met are part of the game.
  REQUIRE(code == ENOMEM || code == EOVERFLOW || code == EINVAL || error_allowed > 0);
}

static void call_misuse(block_t* b, int kind) {
  if (!FINDS_MISUSE) return;
  const bool is_filled = (b->align <= 16 && mi_good_size(b->size) == b->size);
  if (kind == 2 && !WATCHES_SLACK && !is_filled) return;
  if (b->p == NULL || b->size < 32 || b->size > 30000 || b->offset != 0 ||
      mi_option_get(mi_option_guarded_sample_rate) != 0) {
    return;
  }
  error_allowed++;
  const int before = errors_seen;
  unsigned char* const p = b->p;
  if (kind == 0) {
    release(b);
    mi_free(p);
  } else if (kind == 1) {
    if (has_shifted) {
      error_allowed--;
      return;
    }
    mi_free(p + 16);
    check_contents(b, b->size);
  } else {
    // At most the bytes of a canary behind which the state of its block still stands.
    for (int i = 0; i <= b->mark % 3; i++) p[b->size + (size_t)i] ^= 0x55;
    release(b);
  }
  REQUIRE(errors_seen > before);
  error_allowed--;
}

// ---- the program -------------------------------------------------------------------------------

static void start(void) {
  static bool started;
  if (started) return;
  started = true;
  traces = (getenv("FUZZ_TRACE") != NULL);
  mi_register_error(on_error, NULL);
  mi_register_output(swallow, &(size_t){0});
  mi_option_set(mi_option_abort_on_error, 0);
  mi_option_set(mi_option_max_errors, 0);
  mi_option_set(mi_option_max_warnings, 0);
  void* const memory = mi_malloc_aligned(1, 1);  // starts the library
  mi_free(memory);
  if (mi_reserve_os_memory_ex(ARENA_SIZE, true, false, true, &arena) != 0) arena = NULL;
  for (size_t i = 0; i < SETTINGS; i++) defaults[i] = mi_option_get(settings[i].option);
}

static void one_call(input_t* in) {
  const uint8_t verb = byte(in);
  const uint8_t where = byte(in);
  if (traces) fprintf(stderr, "verb %d where %d\n", verb % 32, where);
  block_t* const b = &blocks[where % SLOTS];
  switch (verb % 32) {
    case 0: case 1: case 2: call_new(in, b, 0); break;
    case 3: case 4: case 5: case 6: case 7: case 8: case 9:
      call_new(in, b, verb % 32 - 2); break;
    case 10: case 11: case 12: case 13: call_aligned(in, b, verb % 32 - 10); break;
    case 14: case 15: case 16: case 17: case 18: case 19: case 20:
      call_resize(in, b, verb % 32 - 14); break;
    case 21: case 22: case 23: case 24: call_free(b, verb % 32 - 21); break;
    case 25: call_heap(where % HEAPS, where / HEAPS % 4); break;
    case 26: call_visit(where % (HEAPS + 1) - 1); break;
    case 27: call_thread(in, where % 3); break;
    case 28: {
      const size_t i = where % SETTINGS;
      mi_option_set(settings[i].option, settings[i].values[where / SETTINGS % 4]);
      break;
    }
    case 29:
      if (where % 8 < 4) mi_collect(where % 2 != 0);
      else if (where % 8 == 4) mi_purge_holes();
      else if (where % 8 == 5) mi_collect_reduce(0);
      else call_report(where / 8 % 4);
      break;
    case 30: call_misuse(b, where / SLOTS % 3); break;
    default: {
      const int first = where % SLOTS;
      for (int k = first; k < SLOTS && k < first + 16; k++) release(&blocks[k]);
    }
  }
}

static void finish(void) {
  for (size_t i = 0; i < SETTINGS; i++) mi_option_set(settings[i].option, defaults[i]);
  for (int i = -1; i < HEAPS; i++) call_visit(i);
  for (int k = 0; k < SLOTS; k++) release(&blocks[k]);
  for (int i = 0; i < HEAPS; i++) {
    if (heaps[i] != NULL) call_heap(i, i % 2);
  }
  mi_collect(true);
  call_visit(-1);
  REQUIRE(live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  start();
  input_t in = {data, data + size};
  while (in.at < in.end) one_call(&in);
  finish();
  return 0;
}
