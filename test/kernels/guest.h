// SPDX-License-Identifier: MIT
// What the programs of this folder share: what the kernel says of memory. They run in guests
// of tools/kernels.py that have what they look for; where it is missing they fail.
#ifndef MI_TEST_GUEST_H
#define MI_TEST_GUEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../api/api_check.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

// A number that stands alone in a file; fails without the file.
__attribute__((unused)) static long file_number(const char* path) {
  FILE* const f = fopen(path, "r");
  long n = -1;
  if (f == NULL || fscanf(f, "%ld", &n) != 1) {
    fprintf(stderr, "no number in %s\n", path);
    exit(1);
  }
  fclose(f);
  return n;
}

// The number after `key` in the entry of /proc/self/smaps that holds the address, in KiB; -1 if
// there is no such entry.
__attribute__((unused)) static long mapping_kib(const void* at, const char* key) {
  char line[512];
  uintptr_t from, to;
  int inside = 0;
  long found = -1;
  FILE* const f = fopen("/proc/self/smaps", "r");
  CHECK(f != NULL);
  while (found < 0 && fgets(line, sizeof(line), f) != NULL) {
    if (sscanf(line, "%zx-%zx ", &from, &to) == 2) {
      inside = (uintptr_t)at >= from && (uintptr_t)at < to;
    } else if (inside && strncmp(line, key, strlen(key)) == 0) {
      found = atol(line + strlen(key) + 1);
    }
  }
  fclose(f);
  return found;
}

// What is resident of the process, in KiB.
__attribute__((unused)) static long resident_kib(void) {
  char line[256];
  long found = -1;
  FILE* const f = fopen("/proc/self/smaps_rollup", "r");
  CHECK(f != NULL);
  while (found < 0 && fgets(line, sizeof(line), f) != NULL) {
    if (strncmp(line, "Rss:", 4) == 0) found = atol(line + 4);
  }
  fclose(f);
  return found;
}

// The NUMA node of the memory at an address that has been touched, or -errno.
__attribute__((unused)) static int node_of(void* at) {
  int node = -1;
  CHECK(syscall(SYS_move_pages, 0, 1UL, &at, NULL, &node, 0) == 0);
  return node;
}

__attribute__((unused)) static long free_huge(int node, size_t kib) {
  char path[128];
  snprintf(path, sizeof(path),
           "/sys/devices/system/node/node%d/hugepages/hugepages-%zukB/free_hugepages", node, kib);
  return file_number(path);
}

#endif
