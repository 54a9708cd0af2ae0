// SPDX-License-Identifier: MIT
// A C program that knows nothing of the library, run with it preloaded (or linked): every name of
// malloc leads there, behaves as its standard says, and <malloc.h> answers truly.
//
//   override NAMES   NAMES is a file of symbols, all of which the library must define
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Walloc-size-larger-than="
#endif

static int failures;

static int expect(int holds, int line, const char* text) {
  if (holds) return 1;
  fprintf(stderr, "override.c:%d: not so: %s\n", line, text);
  failures++;
  return 0;
}

#define EXPECT(e) expect(!!(e), __LINE__, #e)
#define EXPECT_ERRNO(call, code) \
  do {                           \
    errno = 0;                   \
    EXPECT((call) == NULL);      \
    EXPECT(errno == (code));     \
  } while (0)

static const volatile size_t too_large = SIZE_MAX - 100;

// ---- the library, seen from outside ------------------------------------------------------------

typedef void* allocate_fun(size_t size);
typedef void* allocate2_fun(size_t a, size_t b);
typedef void* allocate3_fun(size_t a, size_t b, const void* tag);
typedef void* resize_fun(void* p, size_t size);
typedef void release_fun(void* p);
typedef void release2_fun(void* p, size_t a);
typedef void release3_fun(void* p, size_t a, size_t b);
typedef size_t size_fun(const void* p);

// A symbol as a function of some type: ISO C has no cast for that.
static void find(const char* name, void* fun) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    fprintf(stderr, "no symbol %s\n", name);
    exit(1);
  }
  memcpy(fun, &found, sizeof(found));
}

#define FIND(type, name)  \
  type* name##_;          \
  find(#name, &name##_)

// No C library here has a malloc_size; ours gives 0 for what is not its own.
static int is_ours(const void* p) {
  static size_fun* size;
  if (size == NULL) find("malloc_size", &size);
  return size(p) > 0;
}

static int is_multiple(const void* p, size_t align) {
  const void* volatile seen = p;
  return (uintptr_t)seen % align == 0;
}

static size_t usable(void* p) { return malloc_usable_size(p); }

// Padding makes usable sizes exact.
static int is_exact(void) {
  void* const p = malloc(20);
  const size_t size = usable(p);
  free(p);
  return size == 20;
}

// ---- the names ---------------------------------------------------------------------------------

// In names of operators a 32-bit size_t is an unsigned int, j instead of m.
static void spell_size(char* name) {
  if (sizeof(size_t) == 4 && strncmp(name, "_Zn", 3) == 0 && name[4] == 'm') name[4] = 'j';
  if (sizeof(size_t) == 4 && strncmp(name, "_Zd", 3) == 0 && name[6] == 'm') name[6] = 'j';
}

static void check_name(char* name, const char* library) {
  spell_size(name);
  void* const found = dlsym(RTLD_DEFAULT, name);
  Dl_info info;
  if (found != NULL && dladdr(found, &info) != 0 && strcmp(info.dli_fname, library) == 0) return;
  const char* const owner = (found == NULL ? "nobody" : info.dli_fname);
  fprintf(stderr, "%s is %s's, not %s's\n", name, owner, library);
  failures++;
}

static int test_names(const char* path) {
  FILE* const list = fopen(path, "r");
  if (list == NULL) {
    perror(path);
    exit(1);
  }
  Dl_info info;
  EXPECT(dladdr(dlsym(RTLD_DEFAULT, "malloc_size"), &info) != 0);
  const char* const library = strdup(info.dli_fname);
  char line[1000];
  int names = 0;
  while (fgets(line, sizeof(line), list) != NULL) {
    if (line[0] == '#') continue;
    for (char* name = strtok(line, " \n"); name != NULL; name = strtok(NULL, " \n")) {
      if (name[strlen(name) - 1] == '?') continue;  // in some builds only
      check_name(name, library);
      names++;
    }
  }
  fclose(list);
  return names;
}

// ---- ISO C and POSIX ---------------------------------------------------------------------------

static void test_standard(void) {
  void* p = malloc(100);
  EXPECT(is_ours(p) && is_multiple(p, 16) && usable(p) >= 100);
  memset(p, 0x5A, 100);
  p = realloc(p, 100000);
  EXPECT(is_ours(p) && ((unsigned char*)p)[99] == 0x5A);
  free(p);
  p = calloc(10, 100);
  EXPECT(is_ours(p) && ((char*)p)[0] == 0 && ((char*)p)[999] == 0);
  errno = 4711;
  free(p);
  free(NULL);
  EXPECT(errno == 4711);
  EXPECT_ERRNO(malloc(too_large), ENOMEM);
  EXPECT_ERRNO(calloc(too_large, 2), ENOMEM);
  EXPECT_ERRNO(realloc(NULL, too_large), ENOMEM);
  EXPECT_ERRNO(aligned_alloc(24, 8), EINVAL);
  EXPECT_ERRNO(memalign(64, too_large), ENOMEM);
  EXPECT_ERRNO(reallocarray(NULL, too_large, 2), ENOMEM);
  void* const untouched = &failures;
  p = untouched;
  EXPECT(posix_memalign(&p, 24, 8) == EINVAL && posix_memalign(&p, 2, 8) == EINVAL);
  EXPECT(posix_memalign(&p, 64, too_large) == ENOMEM && p == untouched);
  EXPECT(posix_memalign(&p, 4096, 10) == 0 && is_ours(p) && is_multiple(p, 4096));
  free(p);
  for (size_t align = 1; align <= 1 << 18; align *= 4) {
    void* const a = aligned_alloc(align, 100);
    void* const m = memalign(align, 100);
    EXPECT(is_ours(a) && is_ours(m) && is_multiple(a, align) && is_multiple(m, align));
    free(a);
    free(m);
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void* const v = valloc(10);
  void* (*pvalloc_)(size_t);
  find("pvalloc", &pvalloc_);
  void* const w = pvalloc_(page + 1);
  EXPECT(is_ours(v) && is_multiple(v, page) && is_multiple(w, page) && usable(w) >= 2 * page);
  free(v);
  free(w);
  p = reallocarray(NULL, 10, 10);
  EXPECT(is_ours(p) && usable(p) >= 100);
  free(p);
}

// What the C library allocates for its callers is ours as well.
static void test_libc(void) {
  char* p = strdup("text");
  EXPECT(is_ours(p) && strcmp(p, "text") == 0);
  free(p);
  p = strndup("text", 2);
  EXPECT(is_ours(p) && strcmp(p, "te") == 0);
  free(p);
  EXPECT(asprintf(&p, "%d %s", 42, "things") == 9 && is_ours(p) && strcmp(p, "42 things") == 0);
  free(p);
  EXPECT(is_ours(p = realpath("/", NULL)) && strcmp(p, "/") == 0);
  free(p);
  wchar_t* const wide = wcsdup(L"wide");
  EXPECT(is_ours(wide) && wcscmp(wide, L"wide") == 0);
  free(wide);
  size_t size = 0;
  FILE* const stream = open_memstream(&p, &size);
  fputs("one line\nanother\n", stream);
  fclose(stream);
  EXPECT(is_ours(p) && size == 17);
  FILE* const in = fmemopen(p, size, "r");
  char* line = NULL;
  size_t room = 0;
  EXPECT(getline(&line, &room, in) == 9 && is_ours(line));
  fclose(in);
  free(line);
  free(p);
  EXPECT(is_ours(p = getcwd(NULL, 0)));
  free(p);
}

// ---- names that no header has ------------------------------------------------------------------

static void test_aliases(void) {
  FIND(allocate_fun, __libc_malloc);
  FIND(allocate2_fun, __libc_calloc);
  FIND(resize_fun, __libc_realloc);
  FIND(release_fun, __libc_free);
  FIND(release_fun, __libc_cfree);
  FIND(allocate_fun, __libc_valloc);
  FIND(allocate_fun, __libc_pvalloc);
  FIND(allocate2_fun, __libc_memalign);
  int (*posix)(void**, size_t, size_t);
  find("__posix_memalign", &posix);
  void* p = __libc_malloc_(10);
  EXPECT(is_ours(p));
  EXPECT(is_ours(p = __libc_realloc_(p, 1000)));
  __libc_free_(p);
  EXPECT(is_ours(p = __libc_calloc_(10, 10)) && ((char*)p)[99] == 0);
  __libc_cfree_(p);
  EXPECT(is_ours(p = __libc_valloc_(10)) && is_multiple(p, 4096));
  free(p);
  EXPECT(is_ours(p = __libc_pvalloc_(10)) && usable(p) >= 4096);
  free(p);
  EXPECT(is_ours(p = __libc_memalign_(256, 10)) && is_multiple(p, 256));
  free(p);
  EXPECT(posix(&p, 512, 10) == 0 && is_ours(p) && is_multiple(p, 512));
  free(p);
}

static void test_extras(void) {
  FIND(resize_fun, reallocf);
  FIND(size_fun, malloc_size);
  FIND(release_fun, cfree);
  FIND(release_fun, vfree);
  FIND(release2_fun, free_sized);
  FIND(release3_fun, free_aligned_sized);
  FIND(size_fun, memalignment);
  FIND(allocate2_fun, _aligned_malloc);
  size_t (*good)(size_t);
  int (*reallocarr_)(void*, size_t, size_t);
  find("malloc_good_size", &good);
  find("reallocarr", &reallocarr_);
  void* p = reallocf_(NULL, 100);
  EXPECT(is_ours(p) && malloc_size_(p) == usable(p) && good(100) >= 100);
  EXPECT_ERRNO(reallocf_(p, too_large), ENOMEM);
  cfree_(malloc(10));
  vfree_(valloc(10));
  free_sized_(malloc(10), 10);
  free_aligned_sized_(aligned_alloc(64, 640), 64, 640);
  int local = 0;
  cfree_(&local);
  EXPECT(malloc_size_(&local) == 0 && malloc_size_(NULL) == 0 && usable(NULL) == 0);
  EXPECT(memalignment_((void*)48) == 16 && memalignment_(NULL) == 0);
  p = _aligned_malloc_(10, 1024);
  EXPECT(is_ours(p) && is_multiple(p, 1024));
  free(p);
  int* numbers = NULL;
  EXPECT(reallocarr_(&numbers, 10, sizeof(int)) == 0 && is_ours(numbers));
  EXPECT(reallocarr_(&numbers, too_large, sizeof(int)) == EOVERFLOW && numbers != NULL);
  EXPECT(reallocarr_(&numbers, 0, sizeof(int)) == 0 && numbers == NULL);
}

// The operators by their mangled names, since this is C.
static void test_operators(void) {
  static const char* const plain[][2] = {{"_Znwm", "_ZdlPv"}, {"_Znam", "_ZdaPv"}};
  static const char* const nothrow[][2] = {{"_ZnwmRKSt9nothrow_t", "_ZdlPvRKSt9nothrow_t"},
                                           {"_ZnamRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t"}};
  static const char* const sized[][2] = {{"_Znwm", "_ZdlPvm"}, {"_Znam", "_ZdaPvm"}};
  static const char* const aligned[][3] = {
      {"_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t"},
      {"_ZnamSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdaPvmSt11align_val_t"}};
  static const char* const both[][2] = {
      {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t"},
      {"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"}};
  if (sizeof(size_t) == 4) return;  // other names, which the list of names has
  for (int i = 0; i < 2; i++) {
    allocate_fun* new1;
    allocate2_fun* new2;
    allocate3_fun* new3;
    release_fun* delete1;
    release2_fun* delete2;
    release3_fun* delete3;
    void* p;
    find(plain[i][0], &new1), find(plain[i][1], &delete1);
    EXPECT(is_ours(p = new1(100)));
    delete1(p);
    find(nothrow[i][0], &new2), find(nothrow[i][1], &delete2);
    EXPECT(is_ours(p = new2(100, 0)));
    delete2(p, 0);
    EXPECT_ERRNO(new2(too_large, 0), ENOMEM);
    find(sized[i][1], &delete2);
    delete2(new1(100), 100);
    find(aligned[i][0], &new2), find(aligned[i][1], &delete2), find(aligned[i][2], &delete3);
    EXPECT(is_ours(p = new2(100, 512)) && is_multiple(p, 512));
    delete2(p, 512);
    delete3(new2(100, 512), 100, 512);
    find(both[i][0], &new3), find(both[i][1], &delete3);
    EXPECT(is_ours(p = new3(100, 512, NULL)) && is_multiple(p, 512));
    delete3(p, 512, 0);
    EXPECT_ERRNO(new3(too_large, 512, NULL), ENOMEM);
  }
}

// ---- <malloc.h> --------------------------------------------------------------------------------

#if defined(__GLIBC__)

enum { MANY = 1000 };
static void* many[MANY];

// A block with a mapping of its own, larger than what the older call can tell: never a negative number.
static void test_mallinfo_beyond_int(void) {
  const size_t size = (size_t)3 << 30;
  if (SIZE_MAX <= UINT32_MAX) return;
  void* const p = malloc(size);
  if (p == NULL) return;  // a machine that lends no more than it has
  EXPECT(mallinfo2().hblkhd >= size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT(mallinfo().hblkhd == INT_MAX);
#pragma GCC diagnostic pop
  free(p);
}

static void test_mallinfo(void) {
  const size_t size = 3000;
  void* const first = malloc(size);
  const size_t block = malloc_usable_size(first) + (is_exact() ? 72 : 0);  // 3072 in any build
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < MANY; i++) many[i] = malloc(size);
  const struct mallinfo2 full = mallinfo2();
  EXPECT(full.uordblks == before.uordblks + MANY * block);
  EXPECT(full.arena == full.uordblks + full.fordblks && full.hblks == before.hblks);
  EXPECT(full.usmblks == 0 && full.fsmblks == 0 && full.smblks == 0);
  for (int i = 0; i < MANY; i++) free(many[i]);
  const struct mallinfo2 after = mallinfo2();
  EXPECT(after.uordblks == before.uordblks);
  EXPECT(after.uordblks <= full.uordblks && after.arena == after.uordblks + after.fordblks);
  void* const large = malloc((size_t)100 << 20);
  const struct mallinfo2 mapped = mallinfo2();
  EXPECT(mapped.hblks == after.hblks + 1 && mapped.hblkhd >= after.hblkhd + ((size_t)100 << 20));
  EXPECT(mapped.uordblks == after.uordblks);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  EXPECT((size_t)narrow.uordblks == mapped.uordblks && (size_t)narrow.hblkhd == mapped.hblkhd);
  EXPECT((size_t)narrow.arena == mapped.arena && (size_t)narrow.ordblks == mapped.ordblks);
  free(large);
  test_mallinfo_beyond_int();
  free(first);
  EXPECT(mallinfo2().hblks == after.hblks);
}

// Reads one tag of XML that has no text but white space; NULL at the end. Elements without
// contents end in '/'.
static char* next_tag(char** text) {
  char* p = *text;
  while (isspace((unsigned char)*p)) p++;
  if (*p == 0) return NULL;
  char* const end = strchr(p, '>');
  if (!EXPECT(*p == '<' && end != NULL)) return NULL;
  *end = 0;
  *text = end + 1;
  return p + 1;
}

static size_t attribute(const char* tag, const char* name) {
  char pattern[40];
  snprintf(pattern, sizeof(pattern), " %s=\"", name);
  const char* const found = strstr(tag, pattern);
  if (!EXPECT(found != NULL)) return 0;
  return (size_t)strtoull(found + strlen(pattern), NULL, 10);
}

static void test_malloc_info(void) {
  char* text = NULL;
  size_t length = 0;
  FILE* const stream = open_memstream(&text, &length);
  errno = 0;
  EXPECT(malloc_info(1, stream) == -1 && errno == EINVAL);
  EXPECT(malloc_info(0, stream) == 0);
  fclose(stream);
  const char* open[10];
  int depth = 0, elements = 0;
  size_t free_bytes = 0, free_blocks = 0, rest = 0, rest_count = 0;
  char* at = text;
  for (char* tag; (tag = next_tag(&at)) != NULL; elements++) {
    const size_t size = strlen(tag);
    if (tag[0] == '/') {
      EXPECT(depth > 0 && strncmp(open[depth - 1], tag + 1, strcspn(open[depth - 1], " ")) == 0);
      depth--;
    } else if (tag[size - 1] != '/') {
      open[depth++] = tag;
      EXPECT(depth < 10);
    }
    if (strncmp(tag, "size ", 5) == 0) {
      EXPECT(attribute(tag, "total") == attribute(tag, "count") * attribute(tag, "to"));
      EXPECT(attribute(tag, "from") <= attribute(tag, "to"));
      free_bytes += attribute(tag, "total");
      free_blocks += attribute(tag, "count");
    }
    if (strstr(tag, "type=\"rest\"") != NULL) {
      rest = attribute(tag, "size");
      rest_count = attribute(tag, "count");
    }
  }
  EXPECT(depth == 0 && elements > 20 && free_blocks > 0);
  EXPECT(free_bytes == rest && free_blocks == rest_count);
  free(text);
}

static size_t present_bytes(void) {
  size_t pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*u %zu", &pages) != 1) exit(1);
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_trim(void) {
  const size_t each = 60000;
  for (int i = 0; i < MANY; i++) {
    many[i] = malloc(each);
    memset(many[i], 1, each);
  }
  const size_t full = present_bytes();
  for (int i = 0; i < MANY; i++) free(many[i]);
  EXPECT(malloc_trim(0) == 1);
  EXPECT(present_bytes() + MANY * each / 2 < full);
  malloc_trim(0);
  EXPECT(malloc_trim(0) == 0);
}

static void test_settings(void) {
  EXPECT(mallopt(M_MXFAST, 64) == 1 && mallopt(12345, 1) == 0);
  EXPECT(mallopt(-101, 0) == 1);
  fflush(stderr);
  FILE* const file = tmpfile();
  const int saved = dup(2);
  EXPECT(file != NULL && saved >= 0 && dup2(fileno(file), 2) == 2);
  malloc_stats();
  dup2(saved, 2);
  close(saved);
  char text[200] = "";
  rewind(file);
  EXPECT(fread(text, 1, sizeof(text) - 1, file) > 100);
  fclose(file);
}

static void test_malloc_h(void) {
  test_mallinfo();
  test_malloc_info();
  test_trim();
  test_settings();
}

#else

// Other C libraries declare none of it.
static void test_malloc_h(void) {}

#endif

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (dlsym(RTLD_DEFAULT, "malloc") == NULL) {
    fprintf(stderr, "a static program, in which no name can be looked up\n");
    return 77;
  }
  if (dlsym(RTLD_DEFAULT, "malloc_size") == NULL) {
    fprintf(stderr, "the library is not there\n");
    return 1;
  }
  const int names = test_names(argv[1]);
  test_standard();
  test_libc();
  test_aliases();
  test_extras();
  test_operators();
  test_malloc_h();
  if (failures == 0) printf("override: %d names, all as expected\n", names);
  return failures != 0;
}
