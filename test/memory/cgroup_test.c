// SPDX-License-Identifier: MIT
// The test of how control groups are read, on files that it writes itself in a new folder.
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "os/os.h"
#include "service/give_back.h"

static char root[64] = "/tmp/mimalloc-cgroup-XXXXXX";
static int failed;

static void put(const char* path, const char* text) {
  char full[256];
  snprintf(full, sizeof(full), "%s/%s", root, path);
  for (char* p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
    *p = 0;
    mkdir(full, 0700);
    *p = '/';
  }
  FILE* f = fopen(full, "w");
  if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) exit(2);
}

static void expect(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "cgroup_test: %s\n", what);
  failed = 1;
}

static bool read_group(const char* self, mx_cgroup_t* group) {
  char path[256];
  put("self", self);
  snprintf(path, sizeof(path), "%s/self", root);
  memset(group, 0xEE, sizeof(*group));
  return mx_cgroup_read(root, path, group);
}

static int take_away(const char* path, const struct stat* s, int kind, struct FTW* where) {
  (void)s, (void)kind, (void)where;
  return remove(path);
}

// What the files of the root's own group may hold. With 0 as limit: none.
static void read_texts(void) {
  static const struct {
    const char *text;
    size_t limit;
    const char* pressure_text;
    double pressure;
  } table[] = {
      {"5000000", 5000000, "some avg10=7 avg60=1.00\n", 7},
      {"5000000x", 5000000, "some avg10=7:", 7},
      {"", 0, "some avg10=0.5x\n", 0.5},
      {"max", 0, "some avg10=x\n", 0},
      {"-1\n", 0, "some avg60=9.00\n", 0},
      {":\n", 0, "avg10", 0},
      {"18446744073709551616\n", 0, "", 0},
      {"99999999999999999999999999\n", 0, "some avg10=100.00\n", 100},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    mx_cgroup_t g;
    put("memory.max", table[i].text);
    put("memory.pressure", table[i].pressure_text);
    const size_t limit = (table[i].limit == 0 ? SIZE_MAX : table[i].limit);
    expect(read_group("0::/\n", &g) && g.limit == limit, table[i].text);
    expect(g.pressure > table[i].pressure - 0.001 && g.pressure < table[i].pressure + 0.001,
           table[i].pressure_text);
  }
}

// Longer than any path that is looked for: the root's group answers, which ours is below.
static void read_long_path(void) {
  static char line[3000];
  mx_cgroup_t g;
  memcpy(line, "0::/", 4);
  for (size_t i = 4; i < 600; i++) line[i] = (i % 50 == 0 ? '/' : 'a');
  put("memory.max", "4321\n");
  expect(read_group(line, &g) && g.limit == 4321, "a path that is too long");
}

int main(void) {
  mx_cgroup_t g;
  mx_os_init();
  if (mkdtemp(root) == NULL) return 77;
  expect(!read_group("0::/none\n", &g), "no group, no answer");

  put("a/b/memory.current", "1000000\n");
  put("a/b/memory.max", "max\n");
  put("a/b/memory.high", "5000000\n");
  put("a/memory.max", "4000000\n");
  put("a/b/memory.pressure", "some avg10=12.50 avg60=1.00 avg300=0.00 total=99\n");
  expect(read_group("0::/a/b\n", &g), "version 2");
  expect(g.usage == 1000000 && g.limit == 4000000, "the group above has the smallest limit");
  expect(g.pressure > 12.4 && g.pressure < 12.6, "pressure");

  put("a/memory.max", "9000000\n");
  expect(read_group("0::/a/b\n", &g) && g.limit == 5000000, "memory.high counts");

  put("memory.current", "77\n");
  put("memory.max", "88\n");
  expect(read_group("0::/outside/of/this/container\n", &g) && g.limit == 88 && g.usage == 77,
         "in a container the mounted root is the group");

  put("memory/x/memory.usage_in_bytes", "123\n");
  put("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect(read_group("3:cpu:/\n4:memory:/x\n", &g), "version 1");
  expect(g.usage == 123 && g.limit == SIZE_MAX, "a number near 2^63 is no limit");
  put("memory/x/memory.limit_in_bytes", "654321\n");
  expect(read_group("4:cpu,memory:/x\n0::/\n", &g) && g.limit == 654321, "version 1 with a limit");
  expect(!read_group("", &g) && !read_group("nonsense\n:::\n7:memory\n", &g), "no group at all");
  expect(!read_group("5", &g) && !read_group("5:memor\n5:memory", &g) && !read_group("0::a/b", &g) &&
             !read_group("5:m:/x\n5:memo:/x\n\n", &g),
         "lines that are none");
  expect(read_group("0::/", &g) && g.limit == 88 && g.pressure < 0.01,
         "the root, no pressure, and no end of the line");
  read_texts();
  read_long_path();

  return nftw(root, take_away, 10, FTW_DEPTH | FTW_PHYS) == 0 ? failed : 2;
}
