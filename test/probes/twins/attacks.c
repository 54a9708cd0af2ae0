// SPDX-License-Identifier: MIT
// Attacks: what the misuse of the other twins is good for. Each works on an allocator that trusts
// its own links, sizes and order; `done` without a `gone` means that it worked.
#include <pthread.h>
#include <sys/mman.h>

#include "twin.h"

// Where the attacker wants a block, or a pointer of the victim's to lead.
static _Alignas(64) uint64_t target[512];

enum { TRIES = 256 };
static unsigned char* got[TRIES];

static void store(unsigned char* p, size_t word, uint64_t value) {
  ((volatile uint64_t*)(void*)p)[word] = value;
}

static uint64_t load(const unsigned char* p, size_t word) {
  return ((const volatile uint64_t*)(const void*)p)[word];
}

static void take(size_t size, size_t tries) {
  for (size_t i = 0; i < tries; i++) got[i] = twin_malloc(size);
}

static bool is_in_target(const unsigned char* p) {
  return p >= (unsigned char*)target && p < (unsigned char*)target + sizeof(target);
}

static bool took_target(size_t tries) {
  for (size_t i = 0; i < tries; i++) {
    if (is_in_target(got[i])) return true;
  }
  return false;
}

// Whether two of the blocks, all in use, share memory.
static bool took_twice(size_t size, size_t tries) {
  for (size_t i = 0; i < tries; i++) {
    for (size_t j = 0; j < i; j++) {
      const unsigned char* low = got[i] < got[j] ? got[i] : got[j];
      const unsigned char* high = got[i] < got[j] ? got[j] : got[i];
      if ((size_t)(high - low) < size) return true;
    }
  }
  return false;
}

static void verdict(bool works, bool wrong) {
  if (works && !wrong) twin_broken();
  twin_done();
  if (!works && wrong) twin_gone("the attack comes to nothing");
}

// ---- links -------------------------------------------------------------------------------------

static void poison(size_t size, bool wrong, bool mangled) {
  unsigned char* a = twin_malloc(size);
  unsigned char* b = twin_malloc(size);
  free(a);
  free(b);
  const uint64_t plain = (uint64_t)(uintptr_t)(target + 64);
  twin_ready();
  if (wrong) store(b, 0, mangled ? plain ^ ((uint64_t)(uintptr_t)b >> 12) : plain);
  take(size, 16);
  verdict(took_target(16), wrong);
}

static void poison_plain(size_t size, bool wrong) { poison(size, wrong, false); }
static void poison_mangled(size_t size, bool wrong) { poison(size, wrong, true); }

static void* free_in_thread(void* p) {
  free(p);
  return NULL;
}

// The same with blocks that another thread freed.
static void poison_remote(size_t size, bool wrong) {
  pthread_t thread;
  unsigned char* blocks[32];
  for (size_t i = 0; i < 32; i++) blocks[i] = twin_malloc(size);
  for (size_t i = 0; i < 32; i++) {
    if (pthread_create(&thread, NULL, free_in_thread, blocks[i]) != 0) twin_broken();
    pthread_join(thread, NULL);
  }
  twin_ready();
  for (size_t i = 0; wrong && i < 32; i++) {
    store(blocks[i], 0, (uint64_t)(uintptr_t)(target + 64));
  }
  take(size, TRIES);
  verdict(took_target(TRIES), wrong);
}

// One byte of a link, so that it leads 16 bytes beside the block it led to: no address is known.
static void partial_link(size_t size, bool wrong) {
  unsigned char* blocks[8];
  for (size_t i = 0; i < 8; i++) blocks[i] = twin_malloc(size);
  for (size_t i = 0; i < 8; i++) free(blocks[i]);
  twin_ready();
  if (wrong) twin_fill(blocks[7], 1, (unsigned char)(load(blocks[7], 0) ^ 0x10));
  take(size, 64);
  verdict(took_twice(size, 64), wrong);
}

// Links are read while blocks are free, and put back into the same blocks when these are free again and
// the blocks that they lead to are in use.
static void replay_link(size_t size, bool wrong) {
  unsigned char* blocks[32];
  uint64_t links[32];
  for (size_t i = 0; i < 32; i++) blocks[i] = twin_malloc(size);
  for (size_t i = 0; i < 32; i++) free(blocks[i]);
  for (size_t i = 0; i < 32; i++) links[i] = load(blocks[i], 0);
  take(size, 64);
  for (size_t i = 0; i < 64; i++) {
    for (size_t k = 0; k < 32; k += 2) {
      if (got[i] != blocks[k]) continue;
      free(got[i]);
      got[i] = NULL;
      break;
    }
  }
  twin_ready();
  for (size_t k = 0; wrong && k < 32; k += 2) store(blocks[k], 0, links[k]);
  size_t kept = 0;
  for (size_t i = 0; i < 64; i++) {
    if (got[i] != NULL) got[kept++] = got[i];
  }
  for (; kept < 128; kept++) got[kept] = twin_malloc(size);
  verdict(took_twice(size, 128), wrong);
}

// A link read from a freed block tells where the heap is.
static void leak(size_t size, bool wrong) {
  unsigned char* blocks[8];
  for (size_t i = 0; i < 8; i++) {
    blocks[i] = twin_malloc(size);
    twin_fill(blocks[i], size, 0x41);
  }
  for (size_t i = 0; wrong && i < 8; i++) free(blocks[i]);
  twin_ready();
  bool found = false;
  for (size_t i = 0; i < 8; i++) {
    for (size_t w = 0; w < 2; w++) {
      for (size_t k = 0; k < 8; k++) {
        found |= load(blocks[i], w) - ((uintptr_t)blocks[k] - 16 * KIB) < 32 * KIB;
      }
    }
  }
  verdict(found, wrong);
}

// ---- double frees and forged blocks ------------------------------------------------------------

// Marks inside the freed block are wiped before it is freed again.
static void alias(size_t size, bool wrong) {
  unsigned char* a = twin_malloc(size);
  unsigned char* b = twin_malloc(size);
  free(a);
  twin_ready();
  if (wrong) twin_fill(a, 16, 0);
  if (wrong) free(a);
  free(b);
  take(size, 64);
  verdict(took_twice(size, 64), wrong);
}

// Another block is freed between, so that a look at the last one does not help.
static void alias_between(size_t size, bool wrong) {
  unsigned char* a = twin_malloc(size);
  unsigned char* b = twin_malloc(size);
  free(a);
  free(b);
  twin_ready();
  if (wrong) free(a);
  take(size, 64);
  verdict(took_twice(size, 64), wrong);
}

// The block is somebody else's by the time that it is freed again, and then everybody's.
static void alias_stolen(size_t size, bool wrong) {
  unsigned char* a = twin_malloc(size);
  free(a);
  take(size, 64);
  twin_ready();
  if (wrong) free(a);
  unsigned char* first[64];
  memcpy(first, got, sizeof(first));
  take(size, 64);
  bool works = false;
  for (size_t i = 0; i < 64; i++) {
    for (size_t j = 0; j < 64; j++) works |= first[i] == got[j];
  }
  verdict(works, wrong);
}

// A piece of a static array, dressed up as a block of an allocator with sizes in front of blocks.
static void spirit(size_t size, bool wrong) {
  const size_t chunk = (size + 8 + 15) / 16 * 16;
  memset(target, 0, sizeof(target));
  target[65] = chunk | 1;
  if (66 + chunk / 8 < 512) target[65 + chunk / 8] = 0x1001;
  twin_ready();
  if (wrong) free(twin_hide(target + 66));
  take(size, 16);
  verdict(took_target(16), wrong);
}

// A piece of the victim's mapping, dressed up as a block that has pages to itself: they are unmapped.
static void spirit_pages(size_t size, bool wrong) {
  unsigned char* map = (unsigned char*)mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == (unsigned char*)MAP_FAILED) twin_broken();
  twin_fill(map, 64 * KIB, 0x41);
  store(map + 32 * KIB, 0, 0);
  store(map + 32 * KIB, 1, 8 * KIB | 2);
  twin_ready();
  if (wrong) free(twin_hide(map + 32 * KIB + 16));
  take(size, 16);
  unsigned char resident[2];
  verdict(mincore(map + 32 * KIB, 8 * KIB, resident) != 0, wrong);
}

// The word in front of a block is taken for its size, which grows over the blocks behind it.
static void overlap(size_t size, bool wrong) {
  unsigned char* blocks[8];
  for (size_t i = 0; i < 8; i++) blocks[i] = twin_malloc(size);
  const size_t chunk = (size + 8 + 15) / 16 * 16;
  twin_ready();
  if (wrong) store(blocks[3] - 8, 0, (3 * chunk) | 1);
  free(blocks[3]);
  unsigned char* large = twin_malloc(3 * chunk - 8);
  bool works = false;
  for (size_t i = 0; i < 8; i++) {
    works |= i != 3 && (size_t)(blocks[i] - large) < 3 * chunk - 8;
  }
  verdict(works, wrong);
}

// A forged free block, whose neighbours' links are written when it is merged with the next one.
static void unlink_forged(size_t size, bool wrong) {
  unsigned char* filler[8];
  for (size_t i = 0; i < 8; i++) filler[i] = twin_malloc(size);
  unsigned char* a = twin_malloc(size);
  unsigned char* b = twin_malloc(size);
  twin_malloc(size);
  for (size_t i = 0; i < 8; i++) free(filler[i]);
  volatile uint64_t* known = target + 64;
  *known = (uint64_t)(uintptr_t)a;
  const size_t forged = (size_t)(b - a) - 16;
  twin_ready();
  if (wrong) {
    store(a, 0, 0);
    store(a, 1, forged);
    store(a, 2, (uint64_t)(uintptr_t)(target + 64 - 3));
    store(a, 3, (uint64_t)(uintptr_t)(target + 64 - 2));
    store(a, 4, 0);
    store(a, 5, 0);
    store(b - 16, 0, forged);
    store(b - 16, 1, load(b - 16, 1) & ~(uint64_t)1);
  }
  free(b);
  verdict(*known != (uint64_t)(uintptr_t)a, wrong);
}

// ---- canaries ----------------------------------------------------------------------------------

// What stands behind one block is put behind another of its size.
static void copy_end(size_t size, bool wrong) {
  unsigned char* a = twin_malloc(size);
  unsigned char* b = twin_malloc(size);
  const uint64_t seen = load(a + size, 0);
  twin_ready();
  if (wrong) store(b + size, 0, seen);
  free(b);
  twin_cycle(size);
  verdict(wrong, wrong);
}

// What stood behind a block in its last life is put there in the next.
static void old_end(size_t size, bool wrong) {
  unsigned char* a = twin_malloc(size);
  const uint64_t seen = load(a + size, 0);
  free(a);
  unsigned char* b = NULL;
  for (size_t i = 0; i < 20000 && b != a; i++) b = twin_malloc(size);
  twin_ready();
  if (b != a && wrong) {
    twin_gone("the block does not come back");
    return;
  }
  if (wrong) store(b + size, 0, seen);
  free(b);
  twin_cycle(size);
  verdict(wrong, wrong);
}

// ---- order and place ---------------------------------------------------------------------------

// A freed object's pointer is the attacker's, once a block of his lies there.
static void replace(size_t size, size_t tries, bool wrong) {
  unsigned char* victim = twin_malloc(size);
  store(victim, 0, 1);
  if (wrong) free(victim);
  twin_ready();
  bool works = false;
  for (size_t i = 0; i < tries && !works; i++) {
    store(twin_malloc(size), 0, UINT64_C(0x4141414141414141));
    works = load(victim, 0) == UINT64_C(0x4141414141414141);
  }
  verdict(works, wrong);
}

static void replace_now(size_t size, bool wrong) { replace(size, 1, wrong); }
static void replace_soon(size_t size, bool wrong) { replace(size, 64, wrong); }
static void replace_spray(size_t size, bool wrong) { replace(size, size < KIB ? 100000 : 5000, wrong); }

// A block that lies where two others let it be expected is overwritten, and nothing between.
static void neighbour(size_t size, bool wrong) {
  unsigned char* blocks[32];
  for (size_t i = 0; i < 32; i++) {
    blocks[i] = twin_malloc(size);
    store(blocks[i], 0, i);
  }
  const ptrdiff_t step = blocks[11] - blocks[10];
  twin_ready();
  if (wrong) store(blocks[20] + step, 0, UINT64_C(0x4141414141414141));
  verdict(load(blocks[21], 0) != 21, wrong);
}

// A string runs over into whatever lies behind it, and that is used before anything is freed.
static void run_over(size_t size, bool wrong) {
  unsigned char* blocks[32];
  for (size_t i = 0; i < 32; i++) {
    blocks[i] = twin_malloc(size);
    store(blocks[i], 0, i);
  }
  twin_ready();
  twin_fill(blocks[15] + 8, wrong ? size + size / 2 + 64 : size - 8, 0x41);
  bool works = false;
  for (size_t i = 0; i < 32; i++) works |= load(blocks[i], 0) != i;
  verdict(works, wrong);
}

#define LINKS "attack: links of free lists"
#define BLOCKS "attack: double frees, forged blocks and sizes"
#define CANARIES "attack: forged ends of blocks"
#define PLACES "attack: the order and the place of blocks"
#define SIZES "24,4000"

static const twin_case_t cases[] = {
  {"poison-plain", LINKS, "a freed block's link leads where the attacker wants", poison_plain, SIZES},
  {"poison-mangled", LINKS, "the same for links that are mixed with their address",
   poison_mangled, SIZES},
  {"poison-remote", LINKS, "the links of blocks that another thread freed", poison_remote, SIZES},
  {"partial-link", LINKS, "one byte of a link: two blocks overlap", partial_link, SIZES},
  {"replay-link", LINKS, "links of an earlier time are put back: two owners", replay_link, SIZES},
  {"leak", LINKS, "a freed block tells an address of the heap", leak, SIZES},
  {"alias", BLOCKS, "freed twice, with the marks wiped: two owners", alias, SIZES},
  {"alias-between", BLOCKS, "freed twice, another one between", alias_between, SIZES},
  {"alias-stolen", BLOCKS, "freed again when it is somebody else's", alias_stolen, SIZES},
  {"spirit", BLOCKS, "a forged block of a static array is freed and allocated", spirit, SIZES},
  {"spirit-pages", BLOCKS, "a forged block of whole pages is unmapped", spirit_pages, SIZES},
  {"overlap", BLOCKS, "a forged size: a block over its neighbours", overlap, SIZES},
  {"unlink", BLOCKS, "a forged free block is merged", unlink_forged, "4000"},
  {"copy-end", CANARIES, "what stands behind one block is put behind another", copy_end, SIZES},
  {"old-end", CANARIES, "what stood behind a block in its last life is put there again", old_end, SIZES},
  {"replace-now", PLACES, "the next block lies where a freed object was", replace_now, SIZES},
  {"replace-soon", PLACES, "one of the next 64 does", replace_soon, SIZES},
  {"replace-spray", PLACES, "one of the next 100,000 does (5,000 of 4,000 bytes)", replace_spray,
   SIZES},
  {"neighbour", PLACES, "a block where two others let it be expected is overwritten", neighbour,
   SIZES},
  {"run-over", PLACES, "a string over what lies behind, used before anything is freed", run_over,
   SIZES},
};

TWINS(cases)
