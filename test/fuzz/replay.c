// SPDX-License-Identifier: MIT
// Runs a fuzz target on kept inputs, for compilers without a fuzzer, and on random ones.
//
//   replay FOLDER|FILE... [--random COUNT SEED]
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX 65536

static unsigned runs;

static void run_file(const char* path) {
  static uint8_t bytes[INPUT_MAX];
  FILE* const file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  const size_t size = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  // An exact copy, so that a tool sees a read past the end.
  uint8_t* const copy = (uint8_t*)malloc(size + 1);
  memcpy(copy, bytes, size);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  runs++;
}

static void run_folder(DIR* folder, const char* path) {
  char name[4096];
  for (struct dirent* e; (e = readdir(folder)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
    run_file(name);
  }
}

static void run_random(unsigned count, uint64_t seed) {
  static uint8_t bytes[2048];
  for (unsigned n = 0; n < count; n++) {
    size_t size = 0;
    for (size_t most = 64u << (n % 6); size < most; size++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      bytes[size] = (uint8_t)(seed >> 56);
    }
    LLVMFuzzerTestOneInput(bytes, size);
    runs++;
  }
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--random") == 0 && i + 2 < argc) {
      run_random((unsigned)atoi(argv[i + 1]), (uint64_t)atoll(argv[i + 2]));
      i += 2;
      continue;
    }
    DIR* const folder = opendir(argv[i]);
    if (folder == NULL) {
      run_file(argv[i]);
      continue;
    }
    run_folder(folder, argv[i]);
    closedir(folder);
  }
  printf("%u inputs\n", runs);
  return runs > 0 ? 0 : 1;
}
