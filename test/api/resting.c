// SPDX-License-Identifier: MIT
// In builds with canaries the option check_every finds writes between blocks of pages that no
// thread verifies as its own: those of a thread that does nothing more, those of one that has
// ended; by the slow allocations of another thread, and by the background thread.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "../child.h"
#include "base/mitigations.h"
#include "expect.h"

#define BYTES ((size_t)6 << 20)

typedef struct crime_s {
  size_t size;
  bool has_ended;      // the thread whose block it is
  bool in_background;
  bool is_guilty;
} crime_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_done = PTHREAD_COND_INITIALIZER;
static unsigned char* volatile victim;

static void* allocate(void* argument) {
  const crime_t* const crime = (const crime_t*)argument;
  const size_t count = BYTES / crime->size;
  unsigned char* chosen = NULL;
  for (size_t i = 0; i < count; i++) {
    unsigned char* volatile p = (unsigned char*)mi_malloc(crime->size);
    if (p == NULL) abort();
    p[0] = 1;
    if (i == count / 2) chosen = p;
  }
  pthread_mutex_lock(&lock);
  victim = chosen;
  pthread_cond_signal(&is_done);
  pthread_mutex_unlock(&lock);
  while (!crime->has_ended) pause();
  return NULL;
}

static void wait_msecs(long msecs) {
  const struct timespec time = {msecs / 1000, msecs % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void look(const crime_t* crime) {
  if (crime->in_background) {
    wait_msecs(crime->is_guilty ? 10000 : 1500);
    return;
  }
  for (size_t n = 1; n < 1000; n++) {
    void* volatile other = mi_malloc(16 * n);
    if (other == NULL) abort();
  }
}

static void commit(const void* argument) {
  const crime_t* const crime = (const crime_t*)argument;
  pthread_t thread;
  mi_option_set(mi_option_check_every, crime->in_background ? 1000000000 : 3);
  mi_option_set(mi_option_background_purge, crime->in_background);
  if (pthread_create(&thread, NULL, &allocate, (void*)(uintptr_t)argument) != 0) abort();
  pthread_mutex_lock(&lock);
  while (victim == NULL) pthread_cond_wait(&is_done, &lock);
  pthread_mutex_unlock(&lock);
  if (crime->has_ended) pthread_join(thread, NULL);
  if (crime->is_guilty) victim[crime->size] ^= 0x41;
  look(crime);
  fprintf(stderr, "went on\n");
  _exit(0);
}

static bool is_as_expected(const crime_t* crime) {
  const bool went_on = (strstr(said, "went on") != NULL);
  if (!crime->is_guilty) return went_on && status == 0 && strstr(said, "error") == NULL;
  return strstr(said, "buffer overflow") != NULL && strstr(said, "the bytes") != NULL &&
         WIFSIGNALED(status) && !went_on;
}

int main(void) {
  static const size_t sizes[] = {24, 1000, 4088};
  for (size_t s = 0; MX_PADDING && s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    for (int i = 0; i < 8; i++) {
      const crime_t crime = {sizes[s], i % 2 != 0, i / 2 % 2 != 0, i / 4 != 0};
      if (crime.in_background && s != 1) continue;
      run_child(&commit, &crime);
      if (EXPECT(is_as_expected(&crime))) continue;
      fprintf(stderr, "    size %zu, ended %d, background %d, guilty %d: %s\n", crime.size,
              crime.has_ended, crime.in_background, crime.is_guilty, said);
    }
  }
  return expect_end("resting");
}
