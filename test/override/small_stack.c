// SPDX-License-Identifier: MIT
// Coroutines on stacks of STACK_SIZE bytes, with an inaccessible OS page below:
// what malloc and its kin call of others does not need a stack to be found on. The program's own
// calls are bound at its start.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define COROUTINES 20
#define TURNS 60
#define BLOCKS 8

static ucontext_t back, coroutines[COROUTINES];

static void* make(size_t i, size_t size) {
  if (i % 5 == 0) return calloc(1, size);
  if (i % 5 == 1) return aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
  void* const p = malloc(size);
  return i % 7 == 0 ? realloc(p, 2 * size + 100) : p;
}

static void run(int number) {
  void* blocks[BLOCKS];
  for (size_t turn = 0; turn < TURNS; turn++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      const size_t size = ((size_t)1 << (i * 3 + (size_t)number + turn) % 23) + i * 37 + turn;
      blocks[i] = make(i, size);
      if (blocks[i] == NULL) abort();
      memset(blocks[i], 1, size < 4096 ? size : 4096);
    }
    swapcontext(&coroutines[number], &back);
    for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
  }
}

static void begin(int number, size_t size) {
  const size_t unit = (size_t)sysconf(_SC_PAGESIZE), whole = (size + unit - 1) / unit * unit;
  char* const p =
      mmap(NULL, unit + whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p, unit, PROT_NONE) != 0) abort();
  ucontext_t* const context = &coroutines[number];
  getcontext(context);
  context->uc_stack.ss_sp = p + unit;
  context->uc_stack.ss_size = size;
  context->uc_link = &back;
  makecontext(context, (void (*)(void))run, 1, number);
}

int main(void) {
  for (int n = 0; n < COROUTINES; n++) begin(n, STACK_SIZE);
  for (int turn = 0; turn <= TURNS; turn++) {
    for (int n = 0; n < COROUTINES; n++) swapcontext(&back, &coroutines[n]);
  }
  puts("ok");
  return 0;
}
