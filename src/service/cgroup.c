// SPDX-License-Identifier: MIT
// The reading of control groups: the memory limit and the pressure of the group that this
// process is in, of either version. Files are only read, and none is kept open.
//
// /proc/self/cgroup names the group: "0::/path" (version 2) or "N:...memory...:/path" (version 1).
// In a container that path may be one outside of what is mounted; then the mounted root is the
// container's own group. Limits of the groups above count as well.
#include "../base/fmt.h"
#include "../os/os.h"
#include "give_back.h"

#define TEXT_MAX 4096
#define PATH_SIZE 512

// Version 1 says "no limit" by a number near 2^63.
#define UNLIMITED ((size_t)1 << (sizeof(size_t) * 8 - 2))

typedef struct files_s {
  const char* below_root;  // where the file system is mounted
  const char* limits[2];
  const char* usage;
  const char* pressure;
} files_t;

static const files_t version_2 = {"", {"memory.max", "memory.high"}, "memory.current",
                                  "memory.pressure"};
static const files_t version_2_beside_1 = {"/unified", {"memory.max", "memory.high"},
                                           "memory.current", "memory.pressure"};
static const files_t version_1 = {"/memory", {"memory.limit_in_bytes", NULL},
                                  "memory.usage_in_bytes", NULL};

static long read_file(const char* root, const files_t* files, const char* group, size_t length,
                      const char* file, char* text, size_t size) {
  char path[PATH_SIZE];
  const size_t n = mx_format(path, sizeof(path), "%s%s%.*s/%s", root, files->below_root,
                             (int)length, group, file);
  if (n + 1 >= sizeof(path)) return -1;
  return mx_os_read_file(path, text, size);
}

// A number of bytes; SIZE_MAX for "max" and whatever else is no limit.
static size_t to_bytes(const char* text) {
  size_t value = 0;
  if (*text < '0' || *text > '9') return SIZE_MAX;
  for (; *text >= '0' && *text <= '9'; text++) {
    if (value > (SIZE_MAX - 9) / 10) return SIZE_MAX;
    value = value * 10 + (size_t)(*text - '0');
  }
  return value >= UNLIMITED ? SIZE_MAX : value;
}

static const char* find(const char* text, const char* word) {
  for (; *text != 0; text++) {
    size_t i = 0;
    while (word[i] != 0 && text[i] == word[i]) i++;
    if (word[i] == 0) return text;
  }
  return NULL;
}

// "some avg10=1.23 avg60=..."
static double to_pressure(const char* text) {
  const char* p = find(text, "avg10=");
  if (p == NULL) return 0;
  double value = 0, unit = 1;
  for (p += 6; *p >= '0' && *p <= '9'; p++) value = value * 10 + (*p - '0');
  if (*p != '.') return value;
  for (p++; *p >= '0' && *p <= '9'; p++) value += (*p - '0') * (unit /= 10);
  return value;
}

static bool read_group(const char* root, const files_t* files, const char* group, size_t length,
                       mx_cgroup_t* out) {
  char text[256];
  if (read_file(root, files, group, length, files->usage, text, sizeof(text)) <= 0) return false;
  out->usage = to_bytes(text);
  out->limit = SIZE_MAX;
  out->pressure = 0;
  // From the group up to the root: the smallest limit counts.
  for (;;) {
    for (size_t i = 0; i < 2 && files->limits[i] != NULL; i++) {
      if (read_file(root, files, group, length, files->limits[i], text, sizeof(text)) > 0) {
        out->limit = mx_min(out->limit, to_bytes(text));
      }
    }
    if (length == 0) break;
    while (length > 0 && group[--length] != '/') {}
  }
  return true;
}

static void read_pressure(const char* root, const files_t* files, const char* group, size_t length,
                          mx_cgroup_t* out) {
  char text[256];
  if (files->pressure == NULL) return;
  if (read_file(root, files, group, length, files->pressure, text, sizeof(text)) > 0) {
    out->pressure = to_pressure(text);
  }
}

static bool try_line(const char* root, const char* line, mx_cgroup_t* out) {
  const char* names = line;
  while (*names != 0 && *names != '\n' && *names != ':') names++;
  if (*names != ':') return false;
  const char* path = ++names;
  bool has_memory = false;
  while (*path != 0 && *path != '\n' && *path != ':') {
    if (path[0] == 'm' && find(path, "memory") == path) has_memory = true;
    path++;
  }
  if (*path != ':') return false;
  const bool is_2 = (path == names);
  if (!is_2 && !has_memory) return false;
  size_t length = 0;
  if (*++path != '/') return false;
  while (path[length] != 0 && path[length] != '\n') length++;
  if (length == 1) length = 0;  // "/" is the root itself
  const files_t* const kinds[2] = {is_2 ? &version_2 : &version_1,
                                   is_2 ? &version_2_beside_1 : &version_1};
  for (size_t i = 0; i < 2; i++) {
    for (size_t n = length;; n = 0) {
      if (read_group(root, kinds[i], path, n, out)) {
        read_pressure(root, kinds[i], path, n, out);
        return true;
      }
      if (n == 0) break;
    }
  }
  return false;
}

bool mx_cgroup_read(const char* root, const char* self, mx_cgroup_t* group) {
  char text[TEXT_MAX];
  if (mx_os_read_file(self, text, sizeof(text)) <= 0) return false;
  for (const char* line = text; *line != 0;) {
    if (try_line(root, line, group)) return true;
    while (*line != 0 && *line != '\n') line++;
    if (*line == '\n') line++;
  }
  return false;
}
