// SPDX-License-Identifier: MIT
// A program that opens a library with RTLD_DEEPBIND and exchanges blocks with it. Without the option
// ignore_deepbind the flag does what it says; with it the library has the program's malloc. In both
// cases dlopen sees its caller: by whose RUNPATH a name is found, what $ORIGIN is, and in which
// namespace the caller is.
//
//   deepbind HELPER LIBRARY kept|ignored
//
// HELPER opens libraries of the folder `sub` beside it, of which only its own RUNPATH knows.
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int holds, int line, const char* text) {
  if (holds) return;
  fprintf(stderr, "deepbind.c:%d: not so: %s\n", line, text);
  failures++;
}

#define EXPECT(e) expect(!!(e), __LINE__, #e)

typedef void* open_fun(const char* name, int mode);

// The library has a function of this name, too: which of them it calls tells what the flag did.
int deepbind_who(void);
int deepbind_who(void) { return 1; }

static void* must(void* p, const char* what) {
  if (p != NULL) return p;
  const char* const error = dlerror();
  fprintf(stderr, "deepbind: %s: %s\n", what, error != NULL ? error : "no error");
  exit(1);
}

static void find(void* library, const char* name, void* fun) {
  void* const found = must(dlsym(library, name), name);
  memcpy(fun, &found, sizeof(found));
}

static Lmid_t space_of(void* library) {
  Lmid_t space = -1;
  EXPECT(dlinfo(library, RTLD_DI_LMID, &space) == 0);
  return space;
}

static void test_module(void* module, int is_ignored) {
  int (*ask)(void);
  find(module, "deepbind_ask", &ask);
  EXPECT(ask() == (is_ignored ? 1 : 2));
  void* (*make)(size_t);
  void (*take)(void*);
  find(module, "deepbind_make", &make);
  find(module, "deepbind_take", &take);
  if (!is_ignored) return;  // free() would end the program
  for (size_t size = 1; size < 1 << 20; size *= 2) {
    take(malloc(size));
    free(make(size));
  }
}

static void test_errors(open_fun* open_as_helper) {
  EXPECT(dlopen("no-such-library.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
  const char* const error = dlerror();
  EXPECT(error != NULL && strstr(error, "no-such-library.so") != NULL);
  EXPECT(dlopen("libdeepbind-module.so", RTLD_NOW) == NULL && dlerror() != NULL);
  EXPECT(open_as_helper("libdeepbind-module.so", 0) == NULL && dlerror() != NULL);
  void* const self = dlopen(NULL, RTLD_NOW);
  EXPECT(self != NULL && dlsym(self, "deepbind_who") != NULL);
  EXPECT(self != NULL && dlclose(self) == 0);
}

// A namespace with a copy of the library in it, when there is one.
static void test_namespace(const char* helper, const char* library) {
  void* const first = must(dlmopen(LM_ID_NEWLM, library, RTLD_NOW), library);
  const Lmid_t space = space_of(first);
  void* const there = must(dlmopen(space, helper, RTLD_NOW), helper);
  open_fun* open_there;
  find(there, "deepbind_open", &open_there);
  void* const module =
      must(open_there("libdeepbind-module.so", RTLD_NOW | RTLD_DEEPBIND), "in a namespace");
  EXPECT(space != LM_ID_BASE && space_of(module) == space);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int is_ignored = (strcmp(argv[3], "ignored") == 0);
  void* const helper = must(dlopen(argv[1], RTLD_NOW), argv[1]);
  open_fun* open_as_helper;
  find(helper, "deepbind_open", &open_as_helper);
  test_errors(open_as_helper);
  void* const module =
      must(open_as_helper("libdeepbind-module.so", RTLD_NOW | RTLD_DEEPBIND), "by RUNPATH");
  void* const again =
      must(open_as_helper("$ORIGIN/sub/libdeepbind-module.so", RTLD_NOW), "by $ORIGIN");
  EXPECT(again == module && space_of(module) == LM_ID_BASE);
  test_module(module, is_ignored);
  test_namespace(argv[1], argv[2]);
  printf("deepbind: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
