// SPDX-License-Identifier: MIT
// Libraries that come while a program runs, and go.
//
//   late reload LIBRARY COUNT [MODULE]   dlopen and dlclose, so often, of a library with malloc (or
//                                        of the module); nothing may grow
//   late copies LIBRARY                  a second copy of it in a name space of its own (dlmopen),
//                                        beside what serves this program
//   late deep MODULE                     a module opened with RTLD_DEEPBIND, whose blocks this
//                                        program frees, and the other way round
//
// Prints key=value. Exit status 0; 1 where something grew; 75 where it cannot be tried.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMPOSSIBLE 75

typedef struct verbs_s {
  void* (*make)(size_t size);
  void (*drop)(void* p);
} verbs_t;

static void* find(void* library, const char* name, const char* otherwise) {
  void* found = dlsym(library, name);
  if (found == NULL) found = dlsym(library, otherwise);
  if (found == NULL) {
    fprintf(stderr, "late: no %s: %s\n", name, dlerror());
    exit(IMPOSSIBLE);
  }
  return found;
}

static verbs_t verbs_of(void* library, const char* make, const char* drop) {
  verbs_t verbs;
  void* const at_make = find(library, make, "module_make");
  void* const at_drop = find(library, drop, "module_drop");
  memcpy(&verbs.make, &at_make, sizeof(at_make));
  memcpy(&verbs.drop, &at_drop, sizeof(at_drop));
  return verbs;
}

static void* opened(void* library, const char* name) {
  if (library != NULL) return library;
  fprintf(stderr, "late: %s: %s\n", name, dlerror());
  exit(IMPOSSIBLE);
}

// ---- work --------------------------------------------------------------------------------------

#define BLOCKS 500

static void* use(void* arg) {
  const verbs_t* const verbs = arg;
  unsigned char* blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = verbs->make(16 + i * 3);
    if (blocks[i] == NULL) abort();
    memset(blocks[i], (int)i, 16 + i * 3);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i][15 + i * 3] != (unsigned char)i) abort();
    verbs->drop(blocks[i]);
  }
  return NULL;
}

static void use_in_threads(verbs_t* verbs) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    if (pthread_create(&threads[i], NULL, use, verbs) != 0) abort();
  }
  use(verbs);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

// ---- what may not grow -------------------------------------------------------------------------

typedef struct sizes_s {
  size_t address_space, resident, threads, maps, keys;
} sizes_t;

static size_t status_of(const char* key) {
  static char text[8192];
  FILE* const file = fopen("/proc/self/status", "r");
  if (file == NULL) exit(IMPOSSIBLE);
  text[fread(text, 1, sizeof(text) - 1, file)] = 0;
  fclose(file);
  const char* const at = strstr(text, key);
  return at == NULL ? 0 : strtoul(at + strlen(key) + 1, NULL, 10);
}

static size_t count_maps(void) {
  size_t count = 0;
  FILE* const file = fopen("/proc/self/maps", "r");
  if (file == NULL) exit(IMPOSSIBLE);
  for (int c; (c = getc(file)) != EOF;) count += (c == '\n');
  fclose(file);
  return count;
}

static size_t free_keys(void) {
  static pthread_key_t keys[2000];
  size_t count = 0;
  while (count < 2000 && pthread_key_create(&keys[count], NULL) == 0) count++;
  for (size_t i = 0; i < count; i++) pthread_key_delete(keys[i]);
  return count;
}

static sizes_t measure(void) {
  const sizes_t sizes = {status_of("VmSize"), status_of("VmRSS"), status_of("Threads"),
                         count_maps(), free_keys()};
  return sizes;
}

static int grew(const char* what, size_t before, size_t after, size_t slack) {
  printf("%s=%zu..%zu\n", what, before, after);
  return after > before + slack;
}

static int reload(const char* name, int count, const char* module) {
  const char* const path = (module != NULL ? module : name);
  sizes_t before = {0, 0, 0, 0, 0};
  for (int i = 0; i < count; i++) {
    if (i == count / 4) before = measure();
    void* const library = opened(dlopen(path, RTLD_NOW | RTLD_LOCAL), path);
    verbs_t verbs = verbs_of(library, "mi_malloc", "mi_free");
    use_in_threads(&verbs);
    if (dlclose(library) != 0) abort();
  }
  const sizes_t after = measure();
  // An arena of glibc's more or less is chance.
  int bad = grew("VmSize", before.address_space, after.address_space, 200 * 1024);
  bad |= grew("VmRSS", before.resident, after.resident, 4096);
  bad |= grew("Threads", before.threads, after.threads, 0);
  bad |= grew("maps", before.maps, after.maps, 10);
  bad |= grew("lost keys", 0, before.keys - after.keys, 0);
  return bad;
}

// ---- copies ------------------------------------------------------------------------------------

static int copies(const char* path) {
  void* const library = opened(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL), path);
  verbs_t theirs = verbs_of(library, "malloc", "free");
  verbs_t ours = {malloc, free};
  if (theirs.make == ours.make) {
    fprintf(stderr, "late: the copy is the original\n");
    return 1;
  }
  for (int i = 0; i < 5; i++) {
    use_in_threads(&theirs);
    use_in_threads(&ours);
  }
  void* const a = theirs.make(100);
  void* const b = ours.make(100);
  theirs.drop(a);
  ours.drop(b);
  return dlclose(library) != 0;
}

// ---- a module that is bound to the C library first -----------------------------------------------

static int deep(const char* path) {
  void* const library = opened(dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), path);
  verbs_t verbs = verbs_of(library, "module_make", "module_drop");
  char* (*copy)(const char*);
  void* const at_copy = find(library, "module_copy", "module_copy");
  memcpy(&copy, &at_copy, sizeof(at_copy));
  use_in_threads(&verbs);
  free(verbs.make(1000));
  free(copy("freed by the program"));
  verbs.drop(malloc(1000));
  verbs.drop(strdup("freed by the module"));
  return 0;
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  if (argc == 3 && strcmp(argv[1], "copies") == 0) return copies(argv[2]);
  if (argc == 3 && strcmp(argv[1], "deep") == 0) return deep(argv[2]);
  if (argc >= 4 && strcmp(argv[1], "reload") == 0) {
    return reload(argv[2], atoi(argv[3]), argc > 4 ? argv[4] : NULL);
  }
  return 2;
}
