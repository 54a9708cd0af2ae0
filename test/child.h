// SPDX-License-Identifier: MIT
// Runs a part of a test in a child of its own and keeps what it wrote to stderr and how it ended.
#ifndef MIMALLOC_TEST_CHILD_H
#define MIMALLOC_TEST_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[64 * 1024];  // by the last child
static int status;            // of it, as waitpid has it

// A body that returns ends the child by exit, with 0.
static void run_child(void (*body)(const void*), const void* argument) {
  int ends[2];
  fflush(stdout);
  if (pipe(ends) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    body(argument);
    exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; (n = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0;) {
    length += (size_t)n;
  }
  said[length] = 0;
  // The user-mode emulation of qemu adds a line of its own when its program aborts.
  char* const added = strstr(said, "qemu: uncaught target signal");
  if (added != NULL) *added = 0;
  close(ends[0]);
  status = 0;
  waitpid(child, &status, 0);
}

#endif
