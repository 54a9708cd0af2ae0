// SPDX-License-Identifier: MIT
// A stack trace from a function that the library calls in the middle of malloc, free or a collection
// leads through to the program: a search for a fault begins with that, and exceptions need it.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

static uintptr_t of_main;
static volatile int calls, reached;  // of which a compiler believes that malloc leaves them alone

static _Unwind_Reason_Code on_frame(struct _Unwind_Context* context, void* arg) {
  if ((uintptr_t)_Unwind_GetCFA(context) > of_main) *(bool*)arg = true;
  return _URC_NO_REASON;
}

static void look(void) {
  bool is_there = false;
  _Unwind_Backtrace(on_frame, &is_there);
  calls++;
  reached += is_there;
}

static void on_error(int code, void* arg) {
  (void)code;
  (void)arg;
  look();
}

static void on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  (void)force;
  (void)heartbeat;
  (void)arg;
  look();
}

static bool find(const char* name, void* function) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof(found));
  return found != NULL;
}

int main(void) {
  volatile char here = 0;
  of_main = (uintptr_t)&here;
  void (*register_error)(void (*)(int, void*), void*);
  void (*register_deferred)(void (*)(bool, unsigned long long, void*), void*);
  void (*collect)(bool);
  if (!find("mi_register_error", &register_error) || !find("mi_collect", &collect) ||
      !find("mi_register_deferred_free", &register_deferred)) {
    fprintf(stderr, "the library is not there\n");
    return 1;
  }
  look();
  register_error(on_error, NULL);
  register_deferred(on_deferred, NULL);
  const volatile size_t too_large = SIZE_MAX / 2;
  if (malloc(too_large) != NULL || calloc(too_large, 1) != NULL) return 1;
  const int of_errors = calls;
  collect(true);
  const int of_collect = calls;
  for (int i = 0; i < 30000; i++) {
    void* volatile p = malloc((size_t)(i % 300) * 16);
    if (i % 3 == 0) free(p);
  }
  printf("%d of %d traces lead to main\n", reached, calls);
  return of_errors > 2 && of_collect > of_errors && calls > of_collect && reached == calls ? 0 : 1;
}
