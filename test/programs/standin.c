// SPDX-License-Identifier: MIT
// A plain allocator with a defect on demand: what the tests of this folder must not let pass.
//
// Owns: the malloc family as a preloadable library, used only by prove.py and selftest.py. It has
// one lock, power-of-two blocks behind a 16-byte head that keeps the class, and one system mapping
// for each large block. STANDIN_DEFECT chooses what it does wrong:
//   none     nothing: the tests must pass on it, so that a failure below is the defect's doing
//   overlap  now and then two live blocks are the same memory
//   dirty    calloc does not clear what was used before
//   short    realloc copies only half of a block that it moves
// It prints a `mimalloc:` line, so that tests cannot be satisfied by the message alone. Compiled
// with STANDIN_IDLE it prints the line and serves nothing: the bindings must give that away.
//
// Invariants: a block starts 16 bytes after its head; an aligned block's head, directly before it
// as well, keeps the distance to the head of the block that it lies in.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// One write for each process image, on standard error, as the library does in verbose mode.
__attribute__((constructor)) static void speak(void) {
  static const char text[] = "mimalloc: the stand-in speaking\n";
  if (getenv("MIMALLOC_VERBOSE") != NULL && write(2, text, sizeof text - 1) < 0) return;
}

#ifndef STANDIN_IDLE

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

enum { HEAD = 16, CLASSES = 18, LARGE = CLASSES, SMALLEST = 32, CHUNK = 4 << 20 };

typedef struct head_s {
  size_t size;       // bytes of the whole block, head included
  uint32_t bin;      // LARGE: a mapping of its own
  uint32_t distance; // from the head of the block around it, for an aligned block
} head_t;

typedef struct node_s {
  struct node_s* next;
} node_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static node_t* lists[CLASSES];
static char *chunk, *chunk_end;
static head_t* last_blocks[CLASSES + 1];
static unsigned long calls[CLASSES + 1];

static int defect(const char* name) {
  static char chosen;
  if (chosen == 0) {
    const char* value = getenv("STANDIN_DEFECT");
    chosen = value != NULL ? value[0] : 'n';
  }
  return chosen == name[0];
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

// A child must not inherit a lock that a thread of the parent held.
__attribute__((constructor)) static void watch_fork(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}

static void* map(size_t size) {
  void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

// The next block of a class: a freed one, or a piece of the chunk. The caller holds the lock.
static head_t* take(unsigned bin) {
  size_t size = (size_t)SMALLEST << bin;
  if (lists[bin] != NULL) {
    node_t* node = lists[bin];
    lists[bin] = node->next;
    return (head_t*)((char*)node - HEAD);
  }
  if ((size_t)(chunk_end - chunk) < size) {
    chunk = map(CHUNK);
    chunk_end = chunk != NULL ? chunk + CHUNK : NULL;
    if (chunk == NULL) return NULL;
  }
  head_t* head = (head_t*)chunk;
  chunk += size;
  return head;
}

static head_t* large(size_t size) {
  size_t whole = (size + 4095) & ~(size_t)4095;
  head_t* head = whole < size ? NULL : map(whole);
  if (head != NULL) *head = (head_t){ .size = whole, .bin = LARGE };
  return head;
}

void* malloc(size_t size) {
  if (size > PTRDIFF_MAX - 8192) {
    errno = ENOMEM;
    return NULL;
  }
  unsigned bin = 0;
  while (bin < CLASSES && ((size_t)SMALLEST << bin) < size + HEAD) bin++;
  pthread_mutex_lock(&lock);
  head_t* head = last_blocks[bin];
  // With the defect the last block of this class, still in use, now and then has two owners.
  const unsigned long turn = bin == LARGE ? 3 : 301;
  if (head == NULL || head->size < size + HEAD || !defect("overlap") || ++calls[bin] % turn != 0) {
    head = bin == LARGE ? large(size + HEAD) : take(bin);
    if (head != NULL && bin < LARGE) {
      *head = (head_t){ .size = (size_t)SMALLEST << bin, .bin = bin };
    }
  }
  last_blocks[bin] = head;
  pthread_mutex_unlock(&lock);
  if (head == NULL) errno = ENOMEM;
  return head == NULL ? NULL : (char*)head + HEAD;
}

static head_t* head_of(void* p, size_t* offset) {
  head_t* head = (head_t*)((char*)p - HEAD);
  *offset = head->distance;
  return (head_t*)((char*)head - head->distance);
}

void free(void* p) {
  if (p == NULL) return;
  size_t offset;
  head_t* head = head_of(p, &offset);
  pthread_mutex_lock(&lock);
  if (last_blocks[head->bin] == head) last_blocks[head->bin] = NULL;
  if (head->bin == LARGE) {
    int kept = errno;
    munmap(head, head->size);
    errno = kept;
  }
  else {
    node_t* node = (node_t*)((char*)head + HEAD);
    node->next = lists[head->bin];
    lists[head->bin] = node;
  }
  pthread_mutex_unlock(&lock);
}

size_t malloc_usable_size(void* p) {
  if (p == NULL) return 0;
  size_t offset;
  head_t* head = head_of(p, &offset);
  return head->size - HEAD - offset;
}

void* calloc(size_t count, size_t size) {
  size_t total;
  if (__builtin_mul_overflow(count, size, &total)) {
    errno = ENOMEM;
    return NULL;
  }
  void* p = malloc(total);
  if (p != NULL && !defect("dirty")) memset(p, 0, total);
  return p;
}

void* realloc(void* p, size_t size) {
  if (p == NULL) return malloc(size);
  if (size == 0) {
    free(p);
    return NULL;
  }
  size_t usable = malloc_usable_size(p);
  if (size <= usable && size >= usable / 4) return p;
  void* q = malloc(size);
  if (q == NULL) return NULL;
  size_t kept = usable < size ? usable : size;
  memcpy(q, p, defect("short") ? kept / 2 : kept);
  free(p);
  return q;
}

void* memalign(size_t alignment, size_t size) {
  if (alignment <= HEAD) return malloc(size);
  if (size > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) {
    errno = ENOMEM;
    return NULL;
  }
  char* p = malloc(size + alignment + HEAD);
  if (p == NULL || ((uintptr_t)p & (alignment - 1)) == 0) return p;
  char* q = (char*)(((uintptr_t)p + HEAD + alignment - 1) & ~(uintptr_t)(alignment - 1));
  head_t* head = (head_t*)(q - HEAD);
  *head = (head_t){ .distance = (uint32_t)(q - p) };
  return q;
}

int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* p = memalign(alignment, size);
  if (p == NULL) return ENOMEM;
  *result = p;
  return 0;
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void* valloc(size_t size) { return memalign(4096, size); }
void* pvalloc(size_t size) { return memalign(4096, (size + 4095) & ~(size_t)4095); }

#endif
