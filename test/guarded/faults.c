// SPDX-License-Identifier: MIT
// The crimes that guarded blocks are made for: `faults CRIME` commits one at a block of 100
// bytes and, if it lives on, says so. It calls malloc and free alone: the library is preloaded.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 100

static volatile char sink;

// Functions of their own, so that the stacks that are reported have their names.
__attribute__((noinline)) char* make_block(void) {
  char* volatile p = (char*)malloc(SIZE);
  if (p != NULL) memset(p, 1, SIZE);
  return p;
}

__attribute__((noinline)) void give_up_block(char* p) {
  free(p);
  sink = 0;
}

int main(int argc, char** argv) {
  const char* const crime = (argc > 1 ? argv[1] : "none");
  char* volatile p = make_block();
  if (p == NULL) return 3;
  const int is_freed = (strstr(crime, "after-free") != NULL);
  if (is_freed) give_up_block(p);
  volatile char* const at = p;
  if (strcmp(crime, "overrun-read") == 0) sink = at[SIZE];
  if (strcmp(crime, "overrun-write") == 0) at[SIZE + 6] = 2;
  if (strcmp(crime, "underrun-write") == 0) at[-5000] = 2;
  if (strcmp(crime, "read-after-free") == 0) sink = at[10];
  if (strcmp(crime, "write-after-free") == 0) at[99] = 2;
  if (strcmp(crime, "small-underrun") == 0) at[-3] = 2;  // in the same OS page: found by free
  if (!is_freed) give_up_block(p);
  puts("lived on");
  return 0;
}
