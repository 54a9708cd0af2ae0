// SPDX-License-Identifier: MIT
// A program that knows nothing of the library but where to look whether it is there:
//
//   redirect on|off|late|unload
//
// on: the DLL came with the program and serves all that the C run-time should; off: it does not;
// late: it is loaded now, when blocks of the run-time exist already;
// unload: it comes, serves its own calls only, and goes.
#include <windows.h>

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

extern "C" {
char* other_early(void);
void* other_malloc(size_t size);
void other_free(void* p);
}

static int failures;
#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "redirect.cpp:%d: failed: %s\n", __LINE__, #condition);         \
      failures++;                                                                     \
    }                                                                                 \
  } while (0)

static bool (*is_redirected)(void);
static bool (*is_in_heap)(const void* p);

template <typename F>
static void find(F& function, HMODULE module, const char* name) {
  const FARPROC found = GetProcAddress(module, name);
  memcpy(&function, &found, sizeof(function));
}

static bool find_library(void) {
  const HMODULE module = GetModuleHandleA("mimalloc.dll");
  if (module == NULL) return false;
  find(is_redirected, module, "mi_is_redirected");
  find(is_in_heap, module, "mi_is_in_heap_region");
  return is_redirected != NULL && is_in_heap != NULL;
}

static bool ours(const void* p) { return is_in_heap != NULL && is_in_heap(p); }

// Import libraries lack this one, and so does the old run-time of some systems.
#if defined(_UCRT)
#define CRT_NAME "ucrtbase.dll"
#else
#define CRT_NAME "msvcrt.dll"
#endif
static void* recalloc(void* p, size_t count, size_t size) {
  void* (*function)(void* p, size_t count, size_t size) = NULL;
  find(function, GetModuleHandleA(CRT_NAME), "_recalloc");
  if (function != NULL) return function(p, count, size);
  char* const q = (char*)realloc(p, count * size);
  memset(q + 100, 0, count * size - 100);
  return q;
}

struct blocks_t {
  char *plain, *zeroed, *text, *aligned, *huge;
};

static blocks_t make_blocks(void) {
  blocks_t b;
  b.plain = (char*)malloc(100);
  memset(b.plain, 1, 100);
  b.zeroed = (char*)calloc(10, 10);
  b.text = _strdup("some text");
  b.aligned = (char*)_aligned_malloc(1000, 256);
  b.huge = (char*)malloc(3000000);
  memset(b.huge, 2, 3000000);
  return b;
}

static void check_blocks(blocks_t* b) {
  CHECK(b->zeroed[0] == 0 && b->zeroed[99] == 0);
  CHECK(_msize(b->plain) >= 100 && _msize(b->huge) >= 3000000);
  CHECK((uintptr_t)b->aligned % 256 == 0);
  b->plain = (char*)realloc(b->plain, 5000);
  CHECK(b->plain != NULL && b->plain[0] == 1 && b->plain[99] == 1);
  b->zeroed = (char*)recalloc(b->zeroed, 1000, 10);
  CHECK(b->zeroed != NULL && b->zeroed[0] == 0 && b->zeroed[9999] == 0);
  b->aligned = (char*)_aligned_realloc(b->aligned, 3000, 256);
  CHECK(b->aligned != NULL && (uintptr_t)b->aligned % 256 == 0);
  b->huge = (char*)realloc(b->huge, 100);
  CHECK(b->huge != NULL && b->huge[99] == 2);
  CHECK(strcmp(b->text, "some text") == 0);
}

static void free_blocks(blocks_t* b) {
  free(b->plain);
  free(b->zeroed);
  free(b->text);
  _aligned_free(b->aligned);
  free(b->huge);
  free(NULL);
  _aligned_free(NULL);
}

static void check_are_ours(bool expected) {
  blocks_t b = make_blocks();
  CHECK(ours(b.plain) == expected && ours(b.zeroed) == expected && ours(b.text) == expected);
  CHECK(ours(b.aligned) == expected && ours(b.huge) == expected);
  check_blocks(&b);
  CHECK(ours(b.plain) == expected && ours(b.zeroed) == expected && ours(b.aligned) == expected);
  free_blocks(&b);
  wchar_t* const wide = _wcsdup(L"wide");
  CHECK(wide != NULL && ours(wide) == expected && wcscmp(wide, L"wide") == 0);
  free(wide);
  int* const one = new int(7);
  CHECK(ours(one) == expected);
  delete one;
  std::vector<std::string> many(1000, "a string that is too long for its object");
  CHECK(ours(many.data()) == expected && ours(many[500].data()) == expected);
  void* volatile small = malloc(10);
  CHECK(realloc(small, 0) == NULL);  // as this C run-time has it
  char* const at = (char*)_aligned_offset_malloc(500, 64, 16);
  CHECK(((uintptr_t)at + 16) % 64 == 0 && ours(at) == expected);
  _aligned_free(at);
  void* const p = malloc(100);
  CHECK(_expand(p, 100) == p);
  free(p);
}

// What one module has allocated another one frees.
static void check_other_dll(bool expected) {
  char* const early = other_early();
  CHECK(strcmp(early, "from the start") == 0);
  free(realloc(early, 1000));
  void* const p = other_malloc(1000);
  CHECK(ours(p) == expected);
  free(p);
  void* const q = malloc(1000);
  other_free(q);
}

static DWORD WINAPI work(void* argument) {
  uint32_t state = (uint32_t)(uintptr_t)argument;
  enum { COUNT = 200 };
  unsigned char* blocks[COUNT] = {NULL};
  for (int i = 0; i < 100000; i++) {
    state = state * 1664525 + 1013904223;
    unsigned char** const slot = &blocks[(state >> 8) % COUNT];
    const size_t size = 1 + (state >> 16) % 3000;
    if (*slot != NULL && **slot != (unsigned char)(slot - blocks)) failures++;
    *slot = (unsigned char*)((state & 64) != 0 ? realloc(*slot, size)
                                               : (free(*slot), malloc(size)));
    **slot = (unsigned char)(slot - blocks);
  }
  for (int i = 0; i < COUNT; i++) free(blocks[i]);
  return 0;
}

static void check_threads(void) {
  HANDLE threads[8];
  for (int round = 0; round < 5; round++) {
    for (intptr_t i = 0; i < 8; i++) {
      threads[i] = CreateThread(NULL, 0, work, (void*)(i * 7 + round), 0, NULL);
    }
    WaitForMultipleObjects(8, threads, TRUE, INFINITE);
    for (int i = 0; i < 8; i++) CloseHandle(threads[i]);
  }
}

static void write_and_read(void) {
  FILE* const file = tmpfile();
  if (file == NULL) return;
  for (int i = 0; i < 10000; i++) fprintf(file, "line %d\n", i);
  rewind(file);
  char line[64];
  int lines = 0;
  while (fgets(line, sizeof(line), file) != NULL) lines++;
  CHECK(lines == 10000);
  fclose(file);
}

static LONG NTAPI go_on(EXCEPTION_POINTERS* pointers) {
  (void)pointers;
  return EXCEPTION_CONTINUE_EXECUTION;
}

// Nothing of it may be called when it is gone, neither by exceptions nor by ends of threads.
static void check_unload(void) {
  void* (*allocate)(size_t size) = NULL;
  void (*release)(void* p) = NULL;
  SetEnvironmentVariableA("MIMALLOC_DISABLE_REDIRECT", "1");
  const HMODULE module = LoadLibraryA("mimalloc.dll");
  CHECK(module != NULL && find_library() && !is_redirected());
  find(allocate, module, "mi_malloc");
  find(release, module, "mi_free");
  release(allocate(1000));
  CHECK(FreeLibrary(module) && GetModuleHandleA("mimalloc.dll") == NULL);
  is_in_heap = NULL;
  AddVectoredExceptionHandler(0, go_on);
  RaiseException(0xE0000001, 0, 0, NULL);
  check_threads();
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "unload") == 0) {
    check_unload();
    if (failures == 0) printf("redirect unload: as expected\n");
    return failures != 0;
  }
  const std::string mode = (argc > 1 ? argv[1] : "on");
  blocks_t before = make_blocks();
  if (mode == "late") {
    CHECK(!find_library());
    CHECK(LoadLibraryA("mimalloc.dll") != NULL);
  }
  const bool expected = (mode != "off");
  const bool is_there = find_library();
  CHECK(is_there || !expected);
  if (is_there) CHECK(is_redirected() == expected);
  check_blocks(&before);
  free_blocks(&before);
  check_are_ours(expected);
  check_other_dll(expected);
  write_and_read();
  check_threads();
  if (failures == 0) printf("redirect %s: as expected\n", mode.c_str());
  return failures != 0;
}
