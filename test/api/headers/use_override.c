// SPDX-License-Identifier: MIT
// Uses every macro of mimalloc-override.h; compiled as C and as C++.
//
// Its object file may refer to nothing but mi_ functions: check_headers.sh sees to that, so a name
// that is not redirected is found even if the C library has it.
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include <mimalloc-override.h>

// Later includes must neither undo the macros nor be broken by them.
#ifdef __cplusplus
#include <cstdlib>
#include <string>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile size_t sink_size;

static void use_c(void) {
  void* p = malloc(1);
  void* q = calloc(2, 3);
  char* s = strdup("text");
  char* t = strndup("text", 2);
  char* path = realpath("/", NULL);
  p = realloc(p, 100);
  free(p);
  free(q);
  free(s);
  free(t);
  free(path);
  p = aligned_alloc(64, 128);
  free_aligned_sized(p, 64, 128);
  p = malloc(10);
  sink_size = memalignment(p);
  free_sized(p, 10);
}

static void use_unix(void) {
  void* p = NULL;
  if (posix_memalign(&p, 64, 10) == 0) free(p);
  if (_posix_memalign(&p, 64, 10) == 0) free(p);
  p = reallocf(NULL, 10);
  sink_size = malloc_size(p) + malloc_usable_size(p) + malloc_good_size(10);
  cfree(p);
  p = valloc(10);
  free(p);
  p = pvalloc(10);
  free(p);
  p = reallocarray(NULL, 2, 10);
  if (reallocarr(&p, 4, 10) == 0) free(p);
  p = memalign(64, 10);
  free(p);
}

static void use_windows(void) {
  void* p = malloc(10);
  char* text = NULL;
  wchar_t* wide = NULL;
  size_t size = 0;
  sink_size = _msize(p) + (_expand(p, 5) == p);
  p = _recalloc(p, 2, 10);
  free(p);
  free(_strdup("text"));
  free(_strndup("text", 2));
  free(_wcsdup(L"text"));
  free(_mbsdup((const unsigned char*)"text"));
  if (_dupenv_s(&text, &size, "PATH") == 0) free(text);
  if (_wdupenv_s(&wide, &size, L"PATH") == 0) free(wide);
  p = _aligned_malloc(10, 64);
  p = _aligned_realloc(p, 20, 64);
  p = _aligned_recalloc(p, 3, 10, 64);
  sink_size = _aligned_msize(p, 64, 0);
  _aligned_free(p);
  p = _aligned_offset_malloc(10, 64, 8);
  p = _aligned_offset_realloc(p, 20, 64, 8);
  p = _aligned_offset_recalloc(p, 3, 10, 64, 8);
  _aligned_free(p);
}

int main(int argc, char** argv) {
  if (argc > 1000 && argv) {
    use_c();
    use_unix();
    use_windows();
  }
  return 0;
}
