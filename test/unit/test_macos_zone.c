// SPDX-License-Identifier: MIT
// The functions of macOS' malloc zone, on any system.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../src/override/macos_zone.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define COUNT 100

int main(void) {
  int zone = 0;
  char* p = (char*)mx_zone_malloc(&zone, 100);
  EXPECT(p != NULL && mx_zone_size(&zone, p) >= 100);
  memset(p, 1, 100);
  EXPECT(mx_zone_size(&zone, &zone) == 0 && mx_zone_size(&zone, NULL) == 0);
  p = (char*)mx_zone_realloc(&zone, p, 5000);
  EXPECT(p != NULL && p[0] == 1 && p[99] == 1 && mx_zone_size(&zone, p) >= 5000);
  mx_zone_free_definite_size(&zone, p, 5000);
  p = (char*)mx_zone_calloc(&zone, 10, 30);
  EXPECT(p != NULL && p[0] == 0 && p[299] == 0);
  mx_zone_free(&zone, p);
  EXPECT(mx_zone_calloc(&zone, SIZE_MAX / 2, 3) == NULL);
  p = (char*)mx_zone_memalign(&zone, 4096, 10);
  EXPECT(p != NULL && (uintptr_t)p % 4096 == 0);
  mx_zone_free(&zone, p);
  p = (char*)mx_zone_valloc(&zone, 10);
  EXPECT(p != NULL && (uintptr_t)p % 4096 == 0);
  mx_zone_free(&zone, p);
  void* blocks[COUNT];
  EXPECT(mx_zone_batch_malloc(&zone, 48, blocks, COUNT) == COUNT);
  for (int i = 0; i < COUNT; i++) memset(blocks[i], i, 48);
  for (int i = 0; i < COUNT; i++) EXPECT(((char*)blocks[i])[47] == (char)i);
  mx_zone_batch_free(&zone, blocks, COUNT);
  EXPECT(blocks[0] == NULL && blocks[COUNT - 1] == NULL);
  EXPECT(mx_zone_batch_malloc(&zone, SIZE_MAX - 10, blocks, COUNT) == 0);
  EXPECT(mx_zone_good_size(&zone, 100) >= 100 && mx_zone_pressure_relief(&zone, 0) == 0);
  mx_zone_destroy(&zone);
  if (failures == 0) printf("zone: ok\n");
  return failures != 0;
}
