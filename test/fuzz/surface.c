// SPDX-License-Identifier: MIT
// A fuzz target: each input is a program of calls of <malloc.h> and <stdlib.h>, every one of them made
// twice, of the C library's malloc, which is this program's own, and of the library's by the same
// name (FUZZ_LIBRARY in the environment; opened apart, so that both are there).
//
// What must agree: whether there is a block, errno and other codes of failure, alignment, contents. Where
// the library differs on purpose, or glibc from its manual, a comment says so. Sizes between 64 MiB
// and 2^48 are left out: whether they fail depends on the machine.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define SLOTS 32
#define SIZE_MOST ((size_t)8 << 20)
#define FAILS_FROM ((size_t)1 << 48)
#define ERRNO_BEFORE 4711

typedef void* one_fun(size_t size);
typedef void* two_fun(size_t a, size_t b);

enum { THEIRS, OURS, SIDES };
enum { MALLOC, VALLOC, PVALLOC, LIBC_MALLOC, LIBC_VALLOC, LIBC_PVALLOC, ONES };
enum { CALLOC, MEMALIGN, ALIGNED_ALLOC, LIBC_CALLOC, LIBC_MEMALIGN, TWOS };

static const char* const one_names[ONES] = {"malloc",        "valloc",        "pvalloc",
                                            "__libc_malloc", "__libc_valloc", "__libc_pvalloc"};
static const char* const two_names[TWOS] = {"calloc", "memalign", "aligned_alloc", "__libc_calloc",
                                            "__libc_memalign"};

typedef struct surface {
  one_fun* one[ONES];
  two_fun* two[TWOS];
  int (*posix_memalign)(void** p, size_t align, size_t size);
  void* (*realloc)(void* p, size_t size);
  void* (*libc_realloc)(void* p, size_t size);
  void (*free)(void* p);
  void (*libc_free)(void* p);
  size_t (*usable)(void* p);
  int (*trim)(size_t pad);
  int (*info)(int options, FILE* stream);
  struct mallinfo2 (*mallinfo2)(void);
} surface_t;

typedef struct block {
  unsigned char* p[SIDES];
  size_t size;
  unsigned char mark;
} block_t;

// What a call did on one side.
typedef struct outcome {
  void* p;
  int code;
  int error;
} outcome_t;

static surface_t sides[SIDES];
static block_t blocks[SLOTS];
static size_t live;

// ---- both sides --------------------------------------------------------------------------------

static void find(void* at, void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "no %s\n", name);
    abort();
  }
  memcpy(at, &found, sizeof(found));
}

static void bind(surface_t* s, void* library) {
  for (int i = 0; i < ONES; i++) find(&s->one[i], library, one_names[i]);
  for (int i = 0; i < TWOS; i++) find(&s->two[i], library, two_names[i]);
  find(&s->posix_memalign, library, "posix_memalign");
  find(&s->realloc, library, "realloc");
  find(&s->libc_realloc, library, "__libc_realloc");
  find(&s->free, library, "free");
  find(&s->libc_free, library, "__libc_free");
  find(&s->usable, library, "malloc_usable_size");
  find(&s->trim, library, "malloc_trim");
  find(&s->info, library, "malloc_info");
  find(&s->mallinfo2, library, "mallinfo2");
}

static void start(void) {
  if (sides[OURS].free != NULL) return;
  const char* const path = getenv("FUZZ_LIBRARY");
  REQUIRE(path != NULL);
  void* const ours = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (ours == NULL) fprintf(stderr, "%s\n", dlerror());
  REQUIRE(ours != NULL);
  bind(&sides[THEIRS], RTLD_DEFAULT);
  bind(&sides[OURS], ours);
  REQUIRE(sides[THEIRS].free != sides[OURS].free);
}

// ---- input -------------------------------------------------------------------------------------

typedef struct input {
  const uint8_t* at;
  const uint8_t* end;
} input_t;

static uint8_t byte(input_t* in) { return in->at < in->end ? *in->at++ : 0; }

// To 8 MiB, or what no machine has: from 2^48 on, the borders of PTRDIFF_MAX and SIZE_MAX above all.
static size_t size_of(input_t* in) {
  const uint8_t kind = byte(in);
  const size_t fine = byte(in);
  if (kind < 100) return fine;
  if (kind < 200) return ((size_t)1 << (5 + kind % 18)) + fine - (kind % 2) * 32;
  if (kind < 230) return fine << 15;
  if (kind < 238) return ((size_t)1 << (48 + fine % 16)) + (fine % 3) - 1 + (fine % 16 == 0);
  return (kind < 246 ? (size_t)PTRDIFF_MAX + 128 : SIZE_MAX) - fine;
}

// Mostly powers of two to 1 MiB; some that are none, and some that nothing is aligned to.
static size_t align_of(input_t* in) {
  const uint8_t b = byte(in);
  if (b < 200) return (size_t)1 << (b % 21);
  if (b < 220) return b % 100;
  if (b < 240) return (size_t)1 << (48 + b % 16);
  return SIZE_MAX - b % 3;
}

static bool fits(size_t size) {
  return size >= FAILS_FROM || (size <= SIZE_MOST && live + size <= 8 * SIZE_MOST);
}

// ---- contents ----------------------------------------------------------------------------------

static size_t step(size_t i, size_t size) {
  return i < 300 || i + 300 > size ? 1 : (i + 4096 + 300 < size ? 4096 : 64);
}

static unsigned char value(const block_t* b, size_t i) {
  return (unsigned char)(b->mark + i * 29 + (i >> 8));
}

static void fill(block_t* b) {
  static unsigned char mark;
  b->mark = mark += 7;
  for (int s = 0; s < SIDES; s++) {
    for (size_t i = 0; i < b->size; i += step(i, b->size)) b->p[s][i] = value(b, i);
  }
}

static void check(const block_t* b, unsigned char* const p[SIDES], size_t size) {
  for (int s = 0; s < SIDES; s++) {
    for (size_t i = 0; i < size; i += step(i, b->size)) REQUIRE(p[s][i] == value(b, i));
  }
}

// ---- the model ---------------------------------------------------------------------------------

static void enter(block_t* b, const outcome_t got[SIDES], size_t size, size_t align) {
  memset(b, 0, sizeof(*b));
  if (got[OURS].p == NULL) return;
  for (int s = 0; s < SIDES; s++) {
    b->p[s] = got[s].p;
    REQUIRE(((uintptr_t)got[s].p & (align - 1)) == 0);
    REQUIRE(sides[s].usable(got[s].p) >= size);
  }
  b->size = size;
  live += size;
  fill(b);
}

static void release(block_t* b, bool by_libc_name) {
  if (b->p[OURS] == NULL) return;
  check(b, b->p, b->size);
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    (by_libc_name ? sides[s].libc_free : sides[s].free)(b->p[s]);
    REQUIRE(errno == ERRNO_BEFORE);
  }
  live -= b->size;
  memset(b, 0, sizeof(*b));
}

// glibc may leave a word in errno when it answers a block.
static void agree(const char* name, size_t a, size_t b, const outcome_t got[SIDES]) {
  const outcome_t *const theirs = &got[THEIRS], *const ours = &got[OURS];
  const bool same = (theirs->p == NULL) == (ours->p == NULL) && theirs->code == ours->code &&
                    (ours->p != NULL ? ours->error == ERRNO_BEFORE : ours->error == theirs->error);
  if (same) return;
  fprintf(stderr, "%s(%#zx, %#zx): glibc %p code %d errno %d, here %p code %d errno %d\n", name, a, b,
          theirs->p, theirs->code, theirs->error, ours->p, ours->code, ours->error);
  abort();
}

// ---- calls -------------------------------------------------------------------------------------

static void call_one(input_t* in, block_t* b, int which) {
  const size_t size = size_of(in);
  if (!fits(size)) return;
  release(b, false);
  outcome_t got[SIDES] = {{0}};
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    got[s].p = sides[s].one[which](size);
    got[s].error = errno;
  }
  agree(one_names[which], size, 0, got);
  const bool is_plain = which == MALLOC || which == LIBC_MALLOC;
  enter(b, got, size, is_plain ? (size <= 8 ? 8 : 16) : 4096);
}

static void call_calloc(input_t* in, block_t* b, int which) {
  const size_t size = size_of(in), count = byte(in) % 128 == 127 ? size_of(in) : byte(in) % 20;
  const bool overflows = count > 0 && size > SIZE_MAX / count;
  if (!overflows && !fits(count * size)) return;
  release(b, false);
  outcome_t got[SIDES] = {{0}};
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    got[s].p = sides[s].two[which](count, size);
    got[s].error = errno;
  }
  agree(two_names[which], count, size, got);
  for (int s = 0; s < SIDES && got[OURS].p != NULL; s++) {
    const unsigned char* const p = got[s].p;
    for (size_t i = 0; i < count * size; i += step(i, count * size)) REQUIRE(p[i] == 0);
  }
  enter(b, got, count * size, 8);
}

// glibc takes any alignment and rounds it up, before 2.38 also that of aligned_alloc: here one that
// is no power of two is an error, as in the manual.
static void call_memalign(input_t* in, block_t* b, int which) {
  const size_t align = align_of(in), size = size_of(in);
  if (!fits(size)) return;
  release(b, false);
  const bool is_pow2 = align != 0 && (align & (align - 1)) == 0;
  outcome_t got[SIDES] = {{0}};
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    got[s].p = sides[s].two[which](align, size);
    got[s].error = errno;
  }
  if (!is_pow2) {
    REQUIRE(got[OURS].p == NULL && got[OURS].error == EINVAL);
    sides[THEIRS].free(got[THEIRS].p);
    return;
  }
  agree(two_names[which], align, size, got);
  enter(b, got, size, align);
}

// What it leaves in errno is glibc's own affair; here errno is not used, as the manual says.
static void call_posix_memalign(input_t* in, block_t* b) {
  static char untouched;
  const size_t align = align_of(in), size = size_of(in);
  if (!fits(size)) return;
  release(b, false);
  outcome_t got[SIDES] = {{0}};
  for (int s = 0; s < SIDES; s++) {
    void* p = &untouched;
    errno = ERRNO_BEFORE;
    got[s].code = sides[s].posix_memalign(&p, align, size);
    REQUIRE(s == THEIRS || errno == ERRNO_BEFORE);
    got[s].error = ERRNO_BEFORE;
    REQUIRE((got[s].code != 0) == (p == &untouched));
    got[s].p = (p == &untouched ? NULL : p);
  }
  agree("posix_memalign", align, size, got);
  enter(b, got, size, align);
}

// glibc frees for a size of 0; here a new block of no bytes is the answer.
static void call_realloc(input_t* in, block_t* b, bool by_libc_name) {
  const size_t size = size_of(in);
  if (!fits(size)) return;
  const block_t old = *b;
  outcome_t got[SIDES] = {{0}};
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    got[s].p = (by_libc_name ? sides[s].libc_realloc : sides[s].realloc)(old.p[s], size);
    got[s].error = errno;
  }
  if (size == 0 && old.p[OURS] != NULL) {
    REQUIRE(got[OURS].p != NULL && got[OURS].error == ERRNO_BEFORE);
    sides[OURS].free(got[OURS].p);
    live -= old.size;
    memset(b, 0, sizeof(*b));
    return;
  }
  agree("realloc", old.size, size, got);
  if (got[OURS].p == NULL) {
    if (old.p[OURS] != NULL) check(&old, old.p, old.size);
    return;
  }
  unsigned char* const now[SIDES] = {got[THEIRS].p, got[OURS].p};
  if (old.p[OURS] != NULL) check(&old, now, old.size < size ? old.size : size);
  live -= old.size;
  enter(b, got, size, 8);
}

// Any text is well formed that begins and ends as glibc's; a wrong option is an error, which glibc
// returns although its manual says -1 and errno.
static void call_info(int options) {
  for (int s = 0; s < SIDES; s++) {
    static char text[1 << 16];
    FILE* const stream = fmemopen(text, sizeof(text), "w");
    REQUIRE(stream != NULL);
    errno = ERRNO_BEFORE;
    const int code = sides[s].info(options, stream);
    const int error = errno;
    fclose(stream);
    if (options != 0) {
      REQUIRE(s == THEIRS ? code == EINVAL || code == -1 : code == -1 && error == EINVAL);
      continue;
    }
    REQUIRE(code == 0);
    REQUIRE(strncmp(text, "<malloc version=\"1\">\n", 21) == 0);
    REQUIRE(strstr(text, "</malloc>\n") != NULL);
  }
}

static void call_questions(input_t* in, const block_t* b) {
  const int kind = byte(in) % 8;
  if (kind == 0) call_info(byte(in) % 2);
  for (int s = 0; s < SIDES; s++) {
    errno = ERRNO_BEFORE;
    REQUIRE(sides[s].usable(NULL) == 0);
    if (b->p[s] != NULL) REQUIRE(sides[s].usable(b->p[s]) >= b->size);
    sides[s].free(NULL);
    REQUIRE(errno == ERRNO_BEFORE);
    if (kind == 1) {
      const int trimmed = sides[s].trim(byte(in));
      REQUIRE(trimmed == 0 || trimmed == 1);
      REQUIRE(s == THEIRS || errno == ERRNO_BEFORE);
    } else if (kind < 4) {
      const struct mallinfo2 info = sides[s].mallinfo2();
      REQUIRE(info.uordblks + info.hblkhd >= live);
      REQUIRE(info.arena >= info.uordblks && info.arena >= info.fordblks);
    }
  }
}

// ---- the program -------------------------------------------------------------------------------

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  start();
  input_t in = {data, data + size};
  while (in.at < in.end) {
    const uint8_t verb = byte(&in) % 24;
    block_t* const b = &blocks[byte(&in) % SLOTS];
    switch (verb) {
      case 0: case 1: case 2: case 3: case 4: case 5: call_one(&in, b, verb % ONES); break;
      case 6: case 7: call_calloc(&in, b, verb == 6 ? CALLOC : LIBC_CALLOC); break;
      case 8: call_memalign(&in, b, MEMALIGN); break;
      case 9: call_memalign(&in, b, ALIGNED_ALLOC); break;
      case 10: call_memalign(&in, b, LIBC_MEMALIGN); break;
      case 11: case 12: call_posix_memalign(&in, b); break;
      case 13: case 14: case 15: case 16: call_realloc(&in, b, false); break;
      case 17: call_realloc(&in, b, true); break;
      case 18: call_questions(&in, b); break;
      default: release(b, verb == 19);
    }
  }
  for (int i = 0; i < SLOTS; i++) release(&blocks[i], false);
  REQUIRE(live == 0);
  return 0;
}
