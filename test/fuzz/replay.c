// SPDX-License-Identifier: MIT
// Runs a fuzz target on kept inputs, for compilers without a fuzzer, and on random ones.
//
//   replay FOLDER|FILE... [--random COUNT SEED] [--minutes N SEED]
//
// COUNT random inputs, or as many as there is time for. The one that ends the run is kept in the file
// fuzz-found, to be replayed by its name.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static uint8_t random_bytes[2048];
static size_t random_size;

static void keep_random(int sig) {
  const int file = open("fuzz-found", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file >= 0 && write(file, random_bytes, random_size) == (ssize_t)random_size) {
    static const char text[] = "The input is in fuzz-found\n";
    if (write(2, text, sizeof(text) - 1) < 0) _exit(3);
  }
  signal(sig, SIG_DFL);
  raise(sig);
}

static void run_random(unsigned count, double seconds, uint64_t seed) {
  signal(SIGABRT, keep_random);
  signal(SIGSEGV, keep_random);
  const time_t end = time(NULL) + (time_t)seconds;
  for (unsigned n = 0; count > 0 ? n < count : time(NULL) < end; n++) {
    const size_t size = 64u << (n % 6);
    for (size_t i = 0; i < size; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      random_bytes[i] = (uint8_t)(seed >> 56);
    }
    random_size = size;
    LLVMFuzzerTestOneInput(random_bytes, size);
    runs++;
  }
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const bool by_time = strcmp(argv[i], "--minutes") == 0;
    if ((by_time || strcmp(argv[i], "--random") == 0) && i + 2 < argc) {
      run_random(by_time ? 0 : (unsigned)atoi(argv[i + 1]), by_time ? 60 * atof(argv[i + 1]) : 0,
                 (uint64_t)atoll(argv[i + 2]));
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
