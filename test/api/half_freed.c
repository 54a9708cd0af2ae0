// SPDX-License-Identifier: MIT
// In builds with canaries: a collection by the thread of a page verifies it while another thread,
// stopped for as long as it takes, is in the midst of freeing or growing one of its blocks. It must
// not take what that thread has done so far for an overflow.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mitigations.h"
#include "expect.h"

#define SIZE 5210
#define BLOCKS 400

enum { FREE, FREE_ZEROED, GROW, WAYS };

static unsigned char* front;  // the OS page in front of the block, with the canary
static size_t os_page;
static atomic_int is_stopped, may_go_on;

// The canary is written: what came before it is done, what comes behind it is not.
static void stop_here(int signal_number) {
  (void)signal_number;
  atomic_store(&is_stopped, 1);
  while (!atomic_load(&may_go_on)) sched_yield();
  if (mprotect(front, os_page, PROT_READ | PROT_WRITE) != 0) abort();
}

typedef struct task_s {
  unsigned char* block;
  int way;
} task_t;

static void* works(void* argument) {
  const task_t* const task = (const task_t*)argument;
  if (task->way == GROW) EXPECT(mi_rezalloc(task->block, SIZE + 40) != NULL);
  else mi_free(task->block);
  atomic_store(&is_stopped, 1);  // at the latest
  return NULL;
}

static unsigned char* blocks[BLOCKS];

// Takes a block out that begins with an OS page, whose neighbour in front is one of ours, and frees
// others of its page, so that the page is this thread's: a full one is nobody's.
static unsigned char* take_one(void) {
  for (int i = 1; i < BLOCKS; i++) {
    unsigned char* const p = blocks[i];
    int before = 0, behind = 0;
    for (int k = 0; k < BLOCKS; k++) {
      if (blocks[k] < p && p - blocks[k] < 2 * SIZE) before++;
      if (blocks[k] > p + 2 * SIZE && blocks[k] - p < 5 * SIZE) behind = k;
    }
    if ((uintptr_t)p % os_page != 0 || before != 1 || behind == 0) continue;
    mi_free(blocks[behind]);
    blocks[i] = blocks[behind] = NULL;
    return p;
  }
  return NULL;
}

static void stop_in(unsigned char* block, int way) {
  const task_t task = {block, way};
  front = block - os_page;
  atomic_store(&is_stopped, 0);
  atomic_store(&may_go_on, 0);
  if (way == FREE_ZEROED) mi_option_enable(mi_option_zero_on_free);
  if (mprotect(front, os_page, PROT_READ) != 0) abort();
  pthread_t thread;
  if (pthread_create(&thread, NULL, works, (void*)(uintptr_t)&task) != 0) abort();
  while (!atomic_load(&is_stopped)) sched_yield();
  mi_collect(true);
  if (!EXPECT(error_count == 0)) fprintf(stderr, "    way %d\n", way);
  error_count = 0;
  atomic_store(&may_go_on, 1);
  pthread_join(thread, NULL);
  mi_option_disable(mi_option_zero_on_free);
}

static void test(int way) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = (unsigned char*)mi_malloc(SIZE);
    if (!EXPECT(blocks[i] != NULL)) return;
    memset(blocks[i], 0xA5, SIZE);
  }
  unsigned char* const block = take_one();
  if (block == NULL) printf("no block of %d is at the start of an OS page\n", SIZE);
  else stop_in(block, way);
  for (int i = 0; i < BLOCKS; i++) mi_free(blocks[i]);
  mi_collect(true);
  EXPECT(error_count == 0);
}

int main(void) {
  if (!MX_PADDING || MX_TRACK != 0) {
    printf("no build with canaries\n");
    return 77;
  }
  os_page = (size_t)sysconf(_SC_PAGESIZE);
  struct sigaction action = {.sa_handler = stop_here};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  expect_errors();
  for (int way = 0; way < WAYS; way++) test(way);
  return expect_end("half-freed");
}
