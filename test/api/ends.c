// SPDX-License-Identifier: MIT
// In builds with canaries: a write past the end or before the start of a block is told of although
// the block is never freed: by the end of the program or of the thread, by a collection, by a call
// that asks for the block's size or for a look at all blocks, by the option check_every. The report
// has the bytes that were written. So is a write into a freed block that nobody uses again.
#include <pthread.h>
#include <signal.h>

#include "../child.h"
#include "base/mitigations.h"
#include "expect.h"

enum { PAST_END, BEFORE_START, INTO_FREED, WRITES };
enum { EXIT, THREAD_END, COLLECT, USABLE_SIZE, VERIFY, CHECK_EVERY, COLLECT_EMPTY, MOMENTS };

typedef struct crime_s {
  size_t size, by;
  int write, moment;
  bool is_guilty;
} crime_t;

// Unknown to the compiler, which must not think that it knows what these calls do.
static void* hidden(void* p) {
  __asm__ volatile("" : "+r"(p) : : "memory");
  return p;
}

static void* commit_in_thread(void* argument) {
  const crime_t* const crime = (const crime_t*)argument;
  unsigned char* blocks[4];
  for (int i = 0; i < 4; i++) blocks[i] = (unsigned char*)hidden(mi_malloc(crime->size));
  unsigned char* const p = blocks[1];
  if (crime->write == INTO_FREED) mi_free(p);
  for (int i = 0; crime->moment == COLLECT_EMPTY && i < 4; i++) {
    if (i != 1) mi_free(blocks[i]);
  }
  unsigned char* const at = (crime->write == PAST_END       ? p + crime->size
                             : crime->write == BEFORE_START ? p - crime->by
                                                            : p);
  for (size_t i = 0; crime->is_guilty && i < crime->by; i++) at[i] ^= 0x41;
  if (crime->moment == COLLECT) mi_collect(true);
  if (crime->moment == COLLECT_EMPTY) mi_collect(false);
  if (crime->moment == VERIFY && !mi_heap_verify(NULL)) fprintf(stderr, "not sound\n");
  if (crime->moment == CHECK_EVERY) {
    mi_option_set(mi_option_check_every, 3);
    for (size_t n = 1; n < 1000; n++) {
      void* volatile other = mi_malloc(16 * n);
      if (other == NULL) abort();
    }
  }
  if (crime->moment == USABLE_SIZE && crime->write != INTO_FREED) {
    if (mi_usable_size(hidden(p)) != crime->size) fprintf(stderr, "another size\n");
  }
  return NULL;
}

static void commit(const void* argument) {
  pthread_t thread;
  const bool in_thread = (((const crime_t*)argument)->moment == THREAD_END);
  if (!in_thread) {
    commit_in_thread((void*)(uintptr_t)argument);
  } else {
    if (pthread_create(&thread, NULL, commit_in_thread, (void*)(uintptr_t)argument) != 0) abort();
    pthread_join(thread, NULL);
  }
  fprintf(stderr, "went on\n");
  if (((const crime_t*)argument)->moment != EXIT) _exit(0);
}

static bool is_apart(const crime_t* crime) { return MX_LARGE_APART && crime->size > 192 * 1024; }

static bool is_told(const crime_t* crime) {
  const bool went_on = (strstr(said, "went on") != NULL);
  if (!crime->is_guilty) return went_on && status == 0 && strstr(said, "error") == NULL;
  // Before the first block of a page and around a large one may lie what nobody may touch.
  const bool faulted = (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  if ((crime->write == BEFORE_START || is_apart(crime)) && faulted) return true;
  const bool told = (strstr(said, "buffer overflow") != NULL ||
                     strstr(said, "buffer underflow") != NULL ||
                     strstr(said, "corrupted free list") != NULL);
  const bool shown = (strstr(said, "the bytes") != NULL || strstr(said, "corrupted free") != NULL);
  return told && shown && WIFSIGNALED(status) && went_on == (crime->moment == EXIT);
}

int main(void) {
  static const size_t sizes[] = {24, 1000, 4000, 200000};
  if (!MX_PADDING || MX_SECURE < 4) {
    printf("no secure build\n");
    return 77;
  }
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (int i = 0; i < WRITES * MOMENTS * 2 * 2; i++) {
      const crime_t crime = {sizes[s], i % 2 == 0 ? 1 : 32, i / 4 % WRITES, i / 4 / WRITES,
                             i / 2 % 2 == 0};
      if (crime.write == INTO_FREED && crime.moment == USABLE_SIZE) continue;
      if (crime.write == INTO_FREED && crime.by == 1) continue;
      if (crime.write != INTO_FREED && crime.moment == COLLECT_EMPTY) continue;
      // A page with one block is no thread's, so what one of them does verifies none.
      const bool is_of_thread = (crime.moment == THREAD_END || crime.moment == COLLECT ||
                                 crime.moment == COLLECT_EMPTY || crime.moment == CHECK_EVERY);
      if (is_apart(&crime) && crime.write == BEFORE_START && is_of_thread) continue;
      run_child(commit, &crime);
      if (!EXPECT(is_told(&crime))) {
        fprintf(stderr, "    size %zu, write %d by %zu, moment %d, guilty %d: %s\n", crime.size,
                crime.write, crime.by, crime.moment, crime.is_guilty, said);
      }
    }
  }
  return expect_end("ends");
}
