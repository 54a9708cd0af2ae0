// SPDX-License-Identifier: MIT
// A C program that exports a malloc of its own, run with the library preloaded: all that allocates
// through malloc and frees through free must reach the program's, whoever exports it. A block of
// the library's in the program's free, or the reverse, ends badly in real programs; here each is
// told by its address.
//
//   own_malloc NAMES   NAMES is a file of the symbols that the library defines; each of them must
//                      be the program's own, tried here, or known to be the library's business
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

static int failures;

static void expect(int holds, int line, const char* text) {
  if (holds) return;
  fprintf(stderr, "own_malloc.c:%d: not so: %s\n", line, text);
  failures++;
}

#define EXPECT(e) expect(!!(e), __LINE__, #e)

// ---- the program's malloc: one long run of memory, in which nothing is used twice --------------

enum { RUN = 256 << 20, HEAD = 16, LIVE = 0x11FE, DEAD = 0xDEAD };

typedef struct head_s {
  size_t size, state;
} head_t;

static char* run;
static size_t taken;
static int foreign_frees, frees;

static int is_mine(const void* p) {
  return run != NULL && (uintptr_t)p - (uintptr_t)run < (uintptr_t)RUN;
}

static head_t* head_of(void* p) { return (head_t*)(void*)((char*)p - HEAD); }

// Threads come one after the other, but for the first call of each, so an atomic step is enough.
static void* take(size_t align, size_t size) {
  if (run == NULL) {
    void* const all = mmap(NULL, RUN, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) abort();
    run = all;
  }
  if (align < HEAD) align = HEAD;
  if (size > RUN / 2 || align > RUN / 4) {
    errno = ENOMEM;
    return NULL;
  }
  const size_t from = __atomic_fetch_add(&taken, size + HEAD + 2 * align, __ATOMIC_RELAXED);
  if (from > RUN / 2) abort();
  char* const p = (char*)(((uintptr_t)run + from + HEAD + align - 1) & ~(uintptr_t)(align - 1));
  head_of(p)->size = size;
  head_of(p)->state = LIVE;
  return p;
}

void* malloc(size_t size) { return take(HEAD, size); }

void* calloc(size_t count, size_t size) {
  if (size != 0 && count > RUN / size) return take(HEAD, RUN);
  return take(HEAD, count * size);  // never used before, so zero
}

void free(void* p) {
  if (p == NULL) return;
  frees++;
  if (!is_mine(p) || head_of(p)->state != LIVE) {
    foreign_frees++;
    return;
  }
  head_of(p)->state = DEAD;
}

void* realloc(void* p, size_t size) {
  if (p != NULL && !is_mine(p)) foreign_frees++;
  if (p != NULL && size == 0) {
    free(p);  // as glibc's does
    return NULL;
  }
  void* const q = take(HEAD, size);
  if (q == NULL || p == NULL || !is_mine(p)) return q;
  memcpy(q, p, head_of(p)->size < size ? head_of(p)->size : size);
  free(p);
  return q;
}

void* memalign(size_t align, size_t size) { return take(align, size); }
void* aligned_alloc(size_t align, size_t size) { return take(align, size); }

int posix_memalign(void** p, size_t align, size_t size) {
  void* const q = take(align, size);
  if (q != NULL) *p = q;
  return q != NULL ? 0 : ENOMEM;
}

// Whether p is a live block of the program's, which it then frees.
static int mine(void* p) {
  const int before = foreign_frees;
  if (p == NULL || !is_mine(p) || head_of(p)->state != LIVE) return 0;
  free(p);
  return foreign_frees == before;
}

static int is_dead(void* p) { return is_mine(p) && head_of(p)->state == DEAD; }

// ---- the C library -----------------------------------------------------------------------------

// Not to be known to the compiler, which may do the work of the simple ones itself.
static const char* volatile text = "some text";

static void test_texts(void) {
  EXPECT(mine(strdup(text)));
  EXPECT(mine(strndup(text, 4)));
  EXPECT(mine(wcsdup(L"wide")));
  EXPECT(mine(realpath("/", NULL)));
  EXPECT(mine(getcwd(NULL, 0)));
  char* p = NULL;
  EXPECT(asprintf(&p, "%s %d", text, 42) == 12 && mine(p));
}

static void test_streams(void) {
  char* p = NULL;
  size_t size = 0;
  FILE* const out = open_memstream(&p, &size);
  fputs("one line\nanother\n", out);
  fclose(out);
  EXPECT(is_mine(p) && size == 17);
  FILE* const in = fmemopen(p, size, "r");
  char* line = NULL;
  size_t room = 0;
  EXPECT(getline(&line, &room, in) == 9 && mine(line));
  line = NULL;
  EXPECT(getdelim(&line, &room, 'h', in) > 0 && mine(line));
  fclose(in);
  EXPECT(mine(p));
  FILE* const file = fopen("/proc/self/maps", "r");
  char* word = NULL;
  EXPECT(fscanf(file, "%ms", &word) == 1 && mine(word));
  fclose(file);
}

static int keep_all(const struct dirent* entry) { return entry != NULL; }

static void test_rest(void) {
  struct dirent** names = NULL;
  const int count = scandir("/", &names, keep_all, alphasort);
  EXPECT(count > 2);
  for (int i = 0; i < count; i++) EXPECT(mine(names[i]));
  EXPECT(mine(names));
  glob_t found;
  EXPECT(glob("/*", 0, NULL, &found) == 0 && is_mine(found.gl_pathv));
  globfree(&found);
  regex_t pattern;
  EXPECT(regcomp(&pattern, "a(b|c)*d", REG_EXTENDED) == 0);
  EXPECT(regexec(&pattern, "xabcbcd", 0, NULL, 0) == 0);
  regfree(&pattern);
  EXPECT(setenv("OWN_MALLOC", "a value", 1) == 0 && strcmp(getenv("OWN_MALLOC"), "a value") == 0);
  EXPECT(unsetenv("OWN_MALLOC") == 0);
  struct addrinfo* addresses = NULL;
  if (getaddrinfo("127.0.0.1", "80", NULL, &addresses) == 0) freeaddrinfo(addresses);
  const iconv_t convert = iconv_open("UTF-16", "UTF-8");
  if (convert != (iconv_t)-1) iconv_close(convert);
  setlocale(LC_ALL, "C.UTF-8");
  void* const library = dlopen("libm.so.6", RTLD_NOW);
  if (library != NULL) dlclose(library);
}

static void* thread_main(void* argument) {
  test_texts();
  return strdup(argument);
}

static void test_threads(void) {
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    void* result = NULL;
    EXPECT(pthread_create(&thread, NULL, thread_main, (char*)(uintptr_t)text) == 0);
    pthread_join(thread, &result);
    EXPECT(mine(result));
  }
}

// ---- the other names of the library ------------------------------------------------------------

// What the program defines, and what answers for the library alone: statistics and settings,
// glibc's second names (with which a malloc of the program's may get its memory, and give it back),
// sizes, and the allocations that a malloc must bring along or else mix two heaps, as with glibc's.
static const char known[] =
    " malloc calloc realloc free memalign aligned_alloc posix_memalign "
    " valloc pvalloc malloc_usable_size malloc_size malloc_good_size memalignment "
    " malloc_trim mallinfo mallinfo2 mallopt malloc_stats malloc_info "
    " __libc_malloc __libc_calloc __libc_realloc __libc_free __libc_cfree __libc_valloc "
    " __libc_pvalloc __libc_memalign __posix_memalign dlopen? "
    " __register_atfork? pthread_atfork? ";

static char tried[4000] = " ";

typedef void* call_fun(size_t a, size_t b, const void* tag);
typedef void release_fun(void* p, size_t a, size_t b);
typedef void* resize_fun(void* p, size_t size);
typedef int array_fun(void* p, size_t count, size_t size);
typedef void* products_fun(void* p, size_t count, size_t size);

static int find(const char* name, void* fun) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  strcat(strcat(tried, name), " ");
  memcpy(fun, &found, sizeof(found));
  return found != NULL;
}

static void test_allocates(const char* name, size_t a, size_t b) {
  call_fun* allocate;
  if (!find(name, &allocate)) return;
  void* const p = allocate(a, b, NULL);
  if (!mine(p)) {
    fprintf(stderr, "%s gives %p, which is not the program's\n", name, p);
    failures++;
  }
}

static void test_releases(const char* name, void* p, size_t a, size_t b) {
  release_fun* release;
  if (!find(name, &release)) return;
  release(p, a, b);
  if (!is_dead(p)) {
    fprintf(stderr, "%s keeps the block from the program's free\n", name);
    failures++;
  }
}

static void test_resizes(void) {
  resize_fun* resize;
  if (find("reallocf", &resize)) {
    void* const p = resize(malloc(10), 100);
    EXPECT(mine(p));
    void* const q = malloc(10);
    EXPECT(resize(q, RUN) == NULL && is_dead(q));
    EXPECT(resize(malloc(10), 0) == NULL);  // freed once
  }
  products_fun* products;
  if (find("reallocarray", &products)) {
    EXPECT(mine(products(NULL, 10, 10)));
    EXPECT(mine(products(malloc(10), 10, 100)));
  }
  array_fun* array;
  if (find("reallocarr", &array)) {
    void* p = NULL;
    EXPECT(array(&p, 10, 10) == 0 && is_mine(p) && array(&p, 20, 10) == 0 && is_mine(p));
    void* const last = p;
    EXPECT(array(&p, RUN, 10) == ENOMEM && array(&p, SIZE_MAX, 10) == EOVERFLOW && p == last);
    EXPECT(array(&p, 10, 0) == EINVAL && array(NULL, 10, 10) == EINVAL && p == last);
    EXPECT(array(&p, 0, 10) == 0 && p == NULL && is_dead(last));
  }
}

// A form of new that does not throw, for more than the program's malloc has.
static void test_refuses(const char* name, size_t size, size_t align) {
  call_fun* allocate;
  const int has_align = (strstr(name, "align") != NULL);
  if (!find(name, &allocate)) return;
  EXPECT(allocate(size, has_align ? align : 0, NULL) == NULL);
}

static void* release_here(void* p) {
  release_fun* release;
  if (find("_ZdlPv", &release)) release(p, 0, 0);
  return NULL;
}

// What the program has of the library itself is the library's in a delete, by whichever thread.
static void test_library_block(const char* name) {
  release_fun* release;
  resize_fun* resize;
  if (!find(name, &release) || !find("__libc_realloc", &resize)) return;
  for (size_t size = 10; size < 10000000; size *= 10) release(resize(NULL, size), 0, 0);
  release(NULL, 0, 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, release_here, resize(NULL, 100)) == 0);
  pthread_join(thread, NULL);
  EXPECT(foreign_frees == 0);
}

// Operators of C++ that the program does not define: those of its C++ library would allocate
// through malloc. In names of operators a 32-bit size_t is an unsigned int, j instead of m.
static void test_operators(void) {
  const char m = (sizeof(size_t) == 4 ? 'j' : 'm');
  char name[60];
  for (const char* kind = "wa"; *kind != 0; kind++) {
    const char* const rests[] = {"", "RKSt9nothrow_t", "St11align_val_t",
                                 "St11align_val_tRKSt9nothrow_t"};
    for (int i = 0; i < 4; i++) {
      snprintf(name, sizeof(name), "_Zn%c%c%s", *kind, m, rests[i]);
      for (size_t size = 1; size < 1000000; size *= 7) test_allocates(name, size, 64);
      if (strstr(rests[i], "nothrow") != NULL) test_refuses(name, RUN, 64);
    }
  }
  test_library_block("_ZdlPv");
  for (const char* kind = "la"; *kind != 0; kind++) {
    const char* const rests[] = {"", "RKSt9nothrow_t", "St11align_val_t",
                                 "St11align_val_tRKSt9nothrow_t"};
    for (int i = 0; i < 4; i++) {
      snprintf(name, sizeof(name), "_Zd%cPv%s", *kind, rests[i]);
      test_releases(name, aligned_alloc(64, 100), 64, 0);
    }
    snprintf(name, sizeof(name), "_Zd%cPv%c", *kind, m);
    test_releases(name, aligned_alloc(64, 100), 100, 0);
    snprintf(name, sizeof(name), "_Zd%cPv%cSt11align_val_t", *kind, m);
    test_releases(name, aligned_alloc(64, 100), 100, 64);
  }
}

static void test_names(const char* path) {
  FILE* const list = fopen(path, "r");
  char line[1000], name[70];
  if (list == NULL) {
    perror(path);
    exit(1);
  }
  while (fgets(line, sizeof(line), list) != NULL) {
    if (line[0] == '#') continue;
    for (char* word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
      if (sizeof(size_t) == 4 && strncmp(word, "_Zn", 3) == 0) word[4] = 'j';
      if (sizeof(size_t) == 4 && strncmp(word, "_Zd", 3) == 0 && word[6] == 'm') word[6] = 'j';
      snprintf(name, sizeof(name), " %s ", word);
      if (strstr(known, name) != NULL || strstr(tried, name) != NULL) continue;
      fprintf(stderr, "%s was not tried under a malloc of the program's own\n", word);
      failures++;
    }
  }
  fclose(list);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  test_texts();
  test_streams();
  test_rest();
  test_threads();
  test_allocates("_aligned_malloc", 100, 64);
  test_releases("cfree", malloc(10), 0, 0);
  test_releases("vfree", malloc(10), 0, 0);
  test_releases("free_sized", malloc(10), 10, 0);
  test_releases("free_aligned_sized", aligned_alloc(64, 100), 64, 100);
  test_resizes();
  test_operators();
  test_names(argv[1]);
  EXPECT(foreign_frees == 0 && frees > 100);
  printf("own_malloc: %d frees, %d failures\n", frees, failures);
  return failures == 0 ? 0 : 1;
}
