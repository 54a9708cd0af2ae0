// SPDX-License-Identifier: MIT
// What every kind of bad or borderline argument gets: one row for each case that the comments of
// mimalloc.h name. Other programs of this folder go through the same calls in depth.
#include <limits.h>
#include <mimalloc-stats.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/sysinfo.h>
#endif
#include <wchar.h>

#include "expect.h"

static int rows;

#define ROW(what, holds)                                              \
  do {                                                                \
    rows++;                                                           \
    if (!EXPECT(holds)) fprintf(stderr, "    in row: %s\n", what);    \
  } while (0)

// The value of errno after a call that gives nothing; -1 if it gave something.
#define ERRNO_OF(call) (errno = 0, (call) == 0 ? errno : -1)

// The call reports an error with this code.
#define REPORTS(code, statement) \
  (error_last = error_count = 0, statement, error_count > 0 && error_last == (code))

#define IS_SILENT(statement) (error_last = error_count = 0, statement, error_count == 0)

#define PAST_LIMIT ((size_t)PTRDIFF_MAX + 1)
#define HALF (SIZE_MAX / 2 + 1)

// A number that no compiler knows: it would warn of arguments that it sees to be wrong.
static size_t hidden(size_t n) {
  volatile size_t seen = n;
  return seen;
}

// A call whose result is a block: it is freed.
static bool gives(void* p) {
  mi_free(p);
  return p != NULL;
}

static bool is_at(void* p, size_t alignment) {
  const bool holds = p != NULL && is_multiple(p, alignment);
  mi_free(p);
  return holds;
}

static bool is_text(char* p, const char* text) {
  const bool holds = p != NULL && strcmp(p, text) == 0;
  mi_free(p);
  return holds;
}

// ---- basic, extended, block sizes --------------------------------------------------------------

static void test_sizes(void) {
  ROW("malloc(0)", gives(mi_malloc(0)));
  ROW("calloc(0, 8)", gives(mi_calloc(0, 8)));
  ROW("calloc(8, 0)", gives(mi_calloc(8, 0)));
  ROW("calloc(0, SIZE_MAX)", gives(mi_calloc(0, SIZE_MAX)));
  ROW("calloc(SIZE_MAX, 0)", gives(mi_calloc(SIZE_MAX, 0)));
  ROW("realloc(NULL, 0)", gives(mi_realloc(NULL, 0)));
  ROW("strdup of nothing", is_text(mi_strdup(""), ""));
  ROW("malloc_aligned(0)", is_at(mi_malloc_aligned(0, 4096), 4096));
  ROW("malloc above PTRDIFF_MAX", ERRNO_OF(mi_malloc(PAST_LIMIT)) == ENOMEM);
  ROW("malloc of SIZE_MAX", ERRNO_OF(mi_malloc(SIZE_MAX)) == ENOMEM);
  ROW("the error handler hears of it", REPORTS(ENOMEM, (void)!mi_malloc(PAST_LIMIT)));
  ROW("calloc above PTRDIFF_MAX with count 1", ERRNO_OF(mi_calloc(1, PAST_LIMIT)) == ENOMEM);
  ROW("calloc overflows", ERRNO_OF(mi_calloc(HALF, 2)) == ENOMEM);
  ROW("mallocn overflows", ERRNO_OF(mi_mallocn(HALF, 2)) == ENOMEM);
  ROW("reallocn overflows", ERRNO_OF(mi_reallocn(NULL, HALF, 2)) == ENOMEM);
  ROW("recalloc overflows", ERRNO_OF(mi_recalloc(NULL, HALF, 2)) == ENOMEM);
  ROW("zalloc above PTRDIFF_MAX", ERRNO_OF(mi_zalloc(PAST_LIMIT)) == ENOMEM);
  ROW("expand of NULL", ERRNO_OF(mi_expand(NULL, 1)) == 0);
  ROW("free of NULL", IS_SILENT(mi_free(NULL)));
  ROW("free_small of NULL", IS_SILENT(mi_free_small(NULL)));
  ROW("usable size of NULL", mi_usable_size(NULL) == 0);
  ROW("good size of 0", mi_good_size(0) > 0);
  ROW("good size of what nobody gets", mi_good_size(PAST_LIMIT) == PAST_LIMIT);
  ROW("realpath into a buffer of nothing that is there",
      ERRNO_OF(mi_realpath("/no/such/file", (char[PATH_MAX]){0})) == ENOENT);
  ROW("strdup of NULL", ERRNO_OF(mi_strdup(NULL)) == 0);
  ROW("strndup of NULL", ERRNO_OF(mi_strndup(NULL, 9)) == 0);
  ROW("strndup of 0 characters", is_text(mi_strndup("abc", 0), ""));
  ROW("wcsdup of NULL", mi_wcsdup(NULL) == NULL);
  ROW("mbsdup of NULL", mi_mbsdup(NULL) == NULL);
}

// Twice of all memory and swap, on a kernel that overcommits with care (its default); 0 elsewhere.
static size_t more_than_all(void) {
  size_t size = 0;
#if defined(__linux__)
  struct sysinfo info;
  FILE* const file = fopen("/proc/sys/vm/overcommit_memory", "r");
  if (file != NULL && fgetc(file) == '0' && sysinfo(&info) == 0) {
    const uint64_t all = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
    if (all < SIZE_MAX / 4) size = (size_t)(2 * all);
  }
  if (file != NULL) fclose(file);
#endif
  return size;
}

static void test_all_memory(void) {
  const size_t size = more_than_all();
  if (size == 0) return;
  ROW("malloc of more than all memory", ERRNO_OF(mi_malloc(size)) == ENOMEM);
  ROW("malloc_aligned of more than all memory",
      ERRNO_OF(mi_malloc_aligned(size, 1 << 20)) == ENOMEM);
  void* const p = mi_malloc(64 << 20);
  ROW("realloc to more than all memory", ERRNO_OF(mi_realloc(p, size)) == ENOMEM);
  mi_free(p);
}

static void test_block_sizes(void) {
  size_t before = 1, after = 2;
  ROW("umalloc without a place for the size", gives(mi_umalloc(100, NULL)));
  ROW("umalloc that fails leaves the size",
      ERRNO_OF(mi_umalloc(PAST_LIMIT, &after)) == ENOMEM && after == 2);
  ROW("ucalloc that overflows leaves the size",
      ERRNO_OF(mi_ucalloc(HALF, 2, &after)) == ENOMEM && after == 2);
  ROW("urealloc of NULL had size 0",
      gives(mi_urealloc(NULL, 100, &before, &after)) && before == 0 && after >= 100);
  void* const p = mi_malloc(100);
  after = 2;
  ROW("urealloc that fails tells the size before",
      ERRNO_OF(mi_urealloc(p, SIZE_MAX, &before, &after)) == ENOMEM && before >= 100 && after == 2);
  mi_ufree(p, &before);
  ROW("ufree tells the size", before >= 100);
  before = 1;
  ROW("ufree of NULL leaves the size", IS_SILENT(mi_ufree(NULL, &before)) && before == 1);
  ROW("umalloc_aligned with a wrong alignment leaves the size",
      ERRNO_OF(mi_umalloc_aligned(8, hidden(24), &before)) == EINVAL && before == 1);
}

// ---- alignments --------------------------------------------------------------------------------

static void test_alignments(void) {
  ROW("alignment 0", ERRNO_OF(mi_malloc_aligned(8, hidden(0))) == EINVAL);
  ROW("alignment 3", ERRNO_OF(mi_malloc_aligned(8, hidden(3))) == EINVAL);
  ROW("alignment 24", ERRNO_OF(mi_malloc_aligned(8, hidden(24))) == EINVAL);
  ROW("alignment SIZE_MAX", ERRNO_OF(mi_malloc_aligned(8, hidden(SIZE_MAX))) == EINVAL);
  ROW("alignment 1", gives(mi_malloc_aligned(8, 1)));
  ROW("an alignment above the size", is_at(mi_malloc_aligned(1, 1 << 20), 1 << 20));
  ROW("a size that is no multiple", is_at(mi_malloc_aligned(100, 64), 64));
  ROW("8 GiB", sizeof(size_t) == 4 ||
                   is_at(mi_malloc_aligned(1, hidden((size_t)1 << (sizeof(size_t) * 4 + 1))),
                         (size_t)1 << (sizeof(size_t) * 4 + 1)));
  // Of 32 bits of addresses half may be there: a 64-bit kernel leaves a program all 4 GiB.
  ROW("half of all addresses", sizeof(size_t) == 4 ||
                                   ERRNO_OF(mi_malloc_aligned(1, hidden(HALF))) == ENOMEM);
  ROW("an offset above the size", gives(mi_malloc_aligned_at(10, 64, 1000)));
  ROW("an offset of SIZE_MAX", gives(mi_malloc_aligned_at(10, 64, SIZE_MAX)));
  ROW("above 64 KiB with an offset", ERRNO_OF(mi_malloc_aligned_at(8, 1 << 17, 8)) == EOVERFLOW);
  ROW("above 64 KiB with an offset that is none",
      is_at(mi_malloc_aligned_at(8, 1 << 17, 1 << 18), 1 << 17));
  ROW("calloc_aligned overflows", ERRNO_OF(mi_calloc_aligned(HALF, 2, 64)) == ENOMEM);
  ROW("recalloc_aligned_at overflows",
      ERRNO_OF(mi_recalloc_aligned_at(NULL, HALF, 2, 64, 8)) == ENOMEM);
  ROW("realloc_aligned of NULL", is_at(mi_realloc_aligned(NULL, 10, 256), 256));
  ROW("realloc_aligned with a wrong alignment",
      ERRNO_OF(mi_realloc_aligned(NULL, 8, hidden(3))) == EINVAL);
  ROW("rezalloc_aligned with a wrong alignment",
      ERRNO_OF(mi_rezalloc_aligned(NULL, 8, hidden(0))) == EINVAL);
  ROW("aligned_recalloc with a wrong alignment",
      ERRNO_OF(mi_aligned_recalloc(NULL, 1, 8, hidden(24))) == EINVAL);
  ROW("aligned_offset_recalloc", gives(mi_aligned_offset_recalloc(NULL, 1, 8, 64, 9)));
}

// ---- what other C libraries have ---------------------------------------------------------------

static void test_posix(void) {
  void* p = &rows;
  ROW("posix_memalign without a place", mi_posix_memalign(NULL, 64, 8) == EINVAL);
  ROW("posix_memalign at 0", mi_posix_memalign(&p, 0, 8) == EINVAL);
  ROW("posix_memalign below a pointer", mi_posix_memalign(&p, sizeof(void*) / 2, 8) == EINVAL);
  ROW("posix_memalign at no power of two", mi_posix_memalign(&p, 3 * sizeof(void*), 8) == EINVAL);
  ROW("posix_memalign too large", mi_posix_memalign(&p, 64, PAST_LIMIT) == ENOMEM);
  ROW("and none of these stores anything", p == &rows);
  ROW("posix_memalign of 0 bytes", mi_posix_memalign(&p, 64, 0) == 0 && is_at(p, 64));
  ROW("memalign at 0", ERRNO_OF(mi_memalign(hidden(0), 8)) == EINVAL);
  ROW("aligned_alloc at 24", ERRNO_OF(mi_aligned_alloc(hidden(24), 8)) == EINVAL);
  ROW("aligned_alloc of no multiple", is_at(mi_aligned_alloc(64, 7), 64));
  ROW("memalign(2, 100)", gives(mi_memalign(2, 100)));
  ROW("valloc(0)", is_at(mi_valloc(0), 4096));
  ROW("pvalloc(0)", is_at(mi_pvalloc(0), 4096));
  ROW("pvalloc overflows", ERRNO_OF(mi_pvalloc(SIZE_MAX)) == ENOMEM);
  ROW("reallocarray overflows", ERRNO_OF(mi_reallocarray(NULL, HALF, 2)) == EOVERFLOW);
  ROW("reallocarray too large", ERRNO_OF(mi_reallocarray(NULL, 1, PAST_LIMIT)) == ENOMEM);
  ROW("reallocarray(NULL, 0, 0)", gives(mi_reallocarray(NULL, 0, 0)));
  p = NULL;
  errno = 0;
  ROW("reallocarr without a pointer", mi_reallocarr(NULL, 1, 8) == EINVAL && errno == EINVAL);
  ROW("reallocarr of elements of no size", mi_reallocarr(&p, 1, 0) == EINVAL);
  ROW("reallocarr overflows", mi_reallocarr(&p, HALF, 2) == EOVERFLOW && errno == EOVERFLOW);
  ROW("reallocarr too large", mi_reallocarr(&p, 1, PAST_LIMIT) == ENOMEM && p == NULL);
  ROW("reallocarr", mi_reallocarr(&p, 10, 10) == 0 && p != NULL);
  ROW("reallocarr of no elements frees", mi_reallocarr(&p, 0, 10) == 0 && p == NULL);
  ROW("_expand of NULL", ERRNO_OF(mi__expand(NULL, 8)) == ENOMEM);
  ROW("cfree of NULL", IS_SILENT(mi_cfree(NULL)));
  ROW("free_size of NULL", IS_SILENT(mi_free_size(NULL, 8)));
  ROW("free_size_aligned of NULL", IS_SILENT(mi_free_size_aligned(NULL, 8, 64)));
  ROW("free_aligned of NULL", IS_SILENT(mi_free_aligned(NULL, 64)));
  ROW("free_sized of NULL", IS_SILENT(mi_free_sized(NULL, 8)));
  ROW("free_aligned_sized of NULL", IS_SILENT(mi_free_aligned_sized(NULL, 64, 8)));
  ROW("memalignment of NULL", mi_memalignment(NULL) == 0);
}

static void test_environment(void) {
  char* text = (char*)&rows;
  wchar_t* wide = (wchar_t*)(void*)&rows;
  size_t size = 7;
  ROW("dupenv_s without a place", mi_dupenv_s(NULL, &size, "PATH") == EINVAL);
  ROW("dupenv_s without a name", mi_dupenv_s(&text, &size, NULL) == EINVAL);
  ROW("dupenv_s of what is not there",
      mi_dupenv_s(&text, &size, "NO_SUCH_VARIABLE") == 0 && text == NULL && size == 0);
  setenv("EDGES", "value", 1);
  ROW("dupenv_s", mi_dupenv_s(&text, &size, "EDGES") == 0 && size == 6 && is_text(text, "value"));
  ROW("dupenv_s without the size",
      mi_dupenv_s(&text, NULL, "EDGES") == 0 && is_text(text, "value"));
#if defined(_WIN32)
  ROW("wdupenv_s", mi_wdupenv_s(&wide, &size, L"EDGES") == 0 && wcscmp(wide, L"value") == 0);
  mi_free(wide);
#else
  ROW("wdupenv_s", mi_wdupenv_s(&wide, &size, L"EDGES") == EINVAL && wide == NULL);
  ROW("wdupenv_s without a place", mi_wdupenv_s(NULL, NULL, L"EDGES") == EINVAL);
#endif
}

// ---- what is not ours --------------------------------------------------------------------------

static void test_foreign(void) {
  static char global[64];
  char local[64] = {0};
  char* const mapped = (char*)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const foreign[] = {global,       local + 16,      mapped + 4096, (void*)(uintptr_t)16,
                           (void*)~(uintptr_t)15, (void*)(uintptr_t)&test_foreign, global + 1};
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
    void* const p = foreign[i];
    ROW("free of a foreign pointer", REPORTS(EINVAL, mi_free(p)));
    ROW("cfree of a foreign pointer", IS_SILENT(mi_cfree(p)));
    ROW("realloc of a foreign pointer", ERRNO_OF(mi_realloc(p, 8)) == EINVAL);
    ROW("sizes of a foreign pointer", mi_malloc_size(p) == 0 && mi_malloc_usable_size(p) == 0);
    ROW("its usable size", mi_usable_size(p) == 0);
    ROW("whose it is", mi_heap_of(p) == NULL && !mi_heap_contains(NULL, p));
    ROW("whether it is ours", !mi_any_heap_contains(p) && !mi_is_in_heap_region(p));
    ROW("by its older names", !mi_check_owned(p) && !mi_heap_check_owned(mi_heap_main(), p));
    ROW("whether it is a block", !mi_heap_contains_block(mi_heap_main(), p));
    ROW("its page's use", !mi_unsafe_heap_page_is_under_utilized(NULL, p, 100));
  }
  munmap(mapped, 1 << 20);
}

// ---- heaps -------------------------------------------------------------------------------------

static bool stop_at_once(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                         size_t size, void* arg) {
  (void)heap;
  (void)area;
  (void)block;
  (void)size;
  ++*(int*)arg;
  return false;
}

static bool stop_at_heap(mi_heap_t* heap, void* arg) {
  (void)heap;
  ++*(int*)arg;
  return false;
}

static void test_heaps(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  void* const q = mi_heap_malloc(NULL, 100);
  int visits = 0;
  ROW("NULL is the main heap", mi_heap_of(q) == mi_heap_main());
  ROW("and contains what that does", mi_heap_contains(NULL, q) && !mi_heap_contains(NULL, p));
  ROW("an address inside a block", mi_heap_of((char*)p + 50) == heap);
  ROW("but that is no block", !mi_heap_contains_block(heap, (char*)p + 50));
  ROW("heap_malloc above PTRDIFF_MAX", ERRNO_OF(mi_heap_malloc(heap, PAST_LIMIT)) == ENOMEM);
  ROW("heap_calloc overflows", ERRNO_OF(mi_heap_calloc(NULL, HALF, 2)) == ENOMEM);
  ROW("heap_malloc_aligned at 24", ERRNO_OF(mi_heap_malloc_aligned(heap, 8, hidden(24))) == EINVAL);
  ROW("heap_strdup of NULL", mi_heap_strdup(heap, NULL) == NULL);
  ROW("a visitor that stops", !mi_heap_visit_blocks(heap, true, &stop_at_once, &visits) &&
                                  visits == 1);
  ROW("no visitor of blocks", !mi_heap_visit_blocks(heap, true, NULL, NULL) &&
                                  !mi_heap_visit_abandoned_blocks(heap, true, NULL, NULL) &&
                                  !mi_theap_visit_blocks(mi_heap_theap(heap), true, NULL, NULL));
  ROW("a theap of NULL is the main heap's",
      mi_heap_theap(NULL) == mi_heap_theap(mi_heap_main()));
  ROW("set_default(NULL)", mi_theap_set_default(NULL) == NULL && mi_heap_set_default(NULL) == NULL);
  mi_theap_collect(NULL, true);
  mi_heap_collect(NULL, true);
  ROW("collecting NULL", mi_heap_of(q) == mi_heap_main());
  ROW("deleting NULL", IS_SILENT(mi_heap_delete(NULL)));
  ROW("destroying NULL", IS_SILENT(mi_heap_destroy(NULL)));
  mi_heap_delete(mi_heap_main());
  mi_heap_destroy(mi_heap_main());
  ROW("the main heap stays", mi_heap_of(q) == mi_heap_main());
  mi_heap_delete(heap);
  ROW("deleting keeps blocks", mi_heap_of(p) == mi_heap_main());
  ROW("deleting twice", REPORTS(EINVAL, mi_heap_delete(heap)));
  ROW("destroying a deleted heap", REPORTS(EINVAL, mi_heap_destroy(heap)));
  void* none = heap;
  ROW("allocating from a heap that is gone",
      REPORTS(EINVAL, none = mi_heap_malloc(heap, 100)) && none == NULL);
  ROW("its theap", REPORTS(EINVAL, none = mi_heap_theap(heap)) && none == NULL);
  ROW("asking it", !mi_heap_contains(heap, p) && !mi_heap_contains_block(heap, p));
  ROW("collecting it", IS_SILENT(mi_heap_collect(heap, true)));
  ROW("a heap in no arena",
      ERRNO_OF(mi_heap_new_in_arena((mi_arena_id_t)(uintptr_t)12345)) == ENOMEM);
  mi_free(p);
  mi_free(q);
}

static void test_subprocs(void) {
  const mi_subproc_id_t none = {NULL};
  mi_stats_t_decl(stats);
  int visits = 0;
  mi_subproc_destroy(none);
  mi_subproc_delete(none);
  mi_subproc_add_current_thread(none);
  mi_subproc_destroy(mi_subproc_main());
  mi_subproc_delete(mi_subproc_main());
  ROW("the main sub-process stays", mi_subproc_current().opaque == mi_subproc_main().opaque);
  ROW("visiting none", !mi_subproc_visit_heaps(none, &stop_at_heap, &visits) && visits == 0);
  ROW("a visitor that stops",
      !mi_subproc_visit_heaps(mi_subproc_main(), &stop_at_heap, &visits) && visits == 1);
  ROW("no visitor of heaps", !mi_subproc_visit_heaps(mi_subproc_main(), NULL, NULL));
  mi_option_enable(mi_option_visit_abandoned);
  ROW("none of abandoned blocks",
      !mi_abandoned_visit_blocks(mi_subproc_main(), -1, true, NULL, NULL));
  mi_option_disable(mi_option_visit_abandoned);
  ROW("statistics of none", !mi_subproc_stats_get(none, &stats));
  ROW("alone of none", !mi_subproc_stats_get_exclusive(none, &stats));
  ROW("JSON of none", mi_subproc_stats_get_json(none, 0, NULL) == NULL);
  ROW("abandoned blocks of none",
      !mi_abandoned_visit_blocks(none, -1, true, &stop_at_once, &visits));
}

// ---- arenas ------------------------------------------------------------------------------------

static void test_arenas(void) {
  mi_arena_id_t id = (mi_arena_id_t)&rows;
  size_t size = 9, reserved = 9;
  ROW("an arena too small",
      mi_reserve_os_memory_ex(mi_arena_min_size() - 1, false, false, true, &id) == ENOMEM);
  ROW("has no id", id == NULL);
  ROW("an arena of no size", mi_reserve_os_memory(0, true, true) == ENOMEM);
  ROW("an arena above PTRDIFF_MAX", mi_reserve_os_memory(PAST_LIMIT, false, false) == ENOMEM);
#if UINTPTR_MAX > 0xFFFFFFFFu
  ROW("managing addresses of 53 bits",
      !mi_manage_os_memory((void*)((uintptr_t)1 << 52), (size_t)64 << 20, true, false, true, -1));
#endif
  ROW("managing nothing", !mi_manage_os_memory(NULL, (size_t)1 << 30, true, false, true, -1));
  ROW("managing too little", !mi_manage_os_memory(&rows, 1 << 20, true, false, true, -1));
  id = (mi_arena_id_t)&rows;
  ROW("managing too little, by another name",
      !mi_manage_memory(&rows, 1, true, false, true, -1, true, NULL, NULL, &id) && id == NULL);
  ROW("the area of none", mi_arena_area(NULL, &size) == NULL && size == 0);
  ROW("the area of an arena that is not", mi_arena_area((mi_arena_id_t)&rows, NULL) == NULL);
  ROW("none contains nothing", !mi_arena_contains(NULL, &rows));
  ROW("no huge pages", mi_reserve_huge_os_pages_interleave(0, 0, 0) == 0);
  ROW("no huge pages on a node", mi_reserve_huge_os_pages_at(0, -7, 10) == 0);
  ROW("no huge pages, by the older name",
      mi_reserve_huge_os_pages(0, 0, &reserved) == 0 && reserved == 0);
}

// ---- options, statistics, handlers -------------------------------------------------------------

static void test_options(void) {
  static const int wrong[] = {-1, _mi_option_last, 1000, INT_MAX, INT_MIN};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    const mi_option_t option = (mi_option_t)wrong[i];
    mi_option_set(option, 5);
    mi_option_set_default(option, 5);
    mi_option_set_enabled(option, true);
    mi_option_set_enabled_default(option, true);
    mi_option_enable(option);
    ROW("what is no option", mi_option_get(option) == 0 && !mi_option_is_enabled(option));
    ROW("has no size", mi_option_get_size(option) == 0);
    ROW("is clamped all the same", mi_option_get_clamp(option, 3, 5) == 3);
    mi_option_disable(option);
  }
  // A default is for options that nobody has set.
  mi_option_set_default(mi_option_os_tag, 107);
  ROW("a default", mi_option_get(mi_option_os_tag) == 107);
  mi_option_set_enabled_default(mi_option_verbose, true);
  ROW("one that is on", mi_option_is_enabled(mi_option_verbose));
  mi_option_set_enabled_default(mi_option_verbose, false);
  ROW("and off", !mi_option_is_enabled(mi_option_verbose));
  const long before = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, -1);
  ROW("a negative value as a size", mi_option_get_size(mi_option_purge_delay) == 0);
  ROW("clamped from below", mi_option_get_clamp(mi_option_purge_delay, 0, 10) == 0);
  mi_option_set(mi_option_purge_delay, LONG_MAX);
  ROW("clamped from above", mi_option_get_clamp(mi_option_purge_delay, 0, 10) == 10);
  mi_option_set_default(mi_option_purge_delay, 7);
  ROW("a default comes too late", mi_option_get(mi_option_purge_delay) == LONG_MAX);
  mi_option_set(mi_option_purge_delay, before);
  mi_option_set(mi_option_minimal_purge_size, LONG_MAX);
  ROW("more KiB than there are bytes",
      mi_option_get_size(mi_option_minimal_purge_size) > LONG_MAX / 2);
  mi_option_set(mi_option_minimal_purge_size, 0);
}

static void test_stats(void) {
  mi_stats_t_decl(good);
  mi_stats_t bad;
  static const struct {
    size_t size, version;
  } wrong[] = {{0, MI_STAT_VERSION},
               {sizeof(mi_stats_t) - 1, MI_STAT_VERSION},
               {sizeof(mi_stats_t) + 8, MI_STAT_VERSION},
               {sizeof(mi_stats_t), 0},
               {sizeof(mi_stats_t), MI_STAT_VERSION + 1},
               {sizeof(mi_stats_t), 4},
               {4168, 3}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    memset(&bad, 0x5A, sizeof(bad));
    bad.size = wrong[i].size;
    bad.version = wrong[i].version;
    const mi_stats_t before = bad;
    ROW("a wrong record", !mi_stats_get(&bad) && !mi_heap_stats_get(NULL, &bad));
    ROW("of a sub-process", !mi_subproc_stats_get(mi_subproc_main(), &bad));
    ROW("of it alone", !mi_subproc_stats_get_exclusive(mi_subproc_main(), &bad));
    ROW("as JSON", mi_stats_as_json(&bad, 0, NULL) == NULL);
    ROW("is left as it was", memcmp(&bad, &before, sizeof(bad)) == 0);
  }
  ROW("no record", !mi_stats_get(NULL) && mi_stats_as_json(NULL, 0, NULL) == NULL);
  ROW("a good record", mi_stats_get(&good));
  char buf[32];
  memset(buf, 'Z', sizeof(buf));
  ROW("a buffer of no bytes", mi_stats_get_json(0, buf) == buf && buf[0] == 'Z');
  ROW("a buffer of one byte", mi_stats_get_json(1, buf) == buf && buf[0] == 0 && buf[1] == 'Z');
  ROW("a buffer too small", mi_stats_get_json(16, buf) == buf && strlen(buf) == 15);
  ROW("nothing behind it", buf[16] == 'Z');
  ROW("of a heap", mi_heap_stats_get_json(NULL, 16, buf) == buf && strlen(buf) == 15);
  ROW("no buffer, whatever its size", gives(mi_stats_get_json(5, NULL)));
  ROW("a bin that is none", mi_stats_get_bin_size(MI_BIN_HUGE + 1) == 0);
  ROW("nor this", mi_stats_get_bin_size(SIZE_MAX) == 0);
  mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  mi_register_deferred_free(NULL, NULL);
  mi_register_output(NULL, NULL);
  ROW("a program without handlers", gives(mi_malloc(8)));
}

int main(void) {
  expect_errors();
  mi_option_set(mi_option_max_warnings, 0);
  test_sizes();
  test_all_memory();
  test_block_sizes();
  test_alignments();
  test_posix();
  test_environment();
  test_foreign();
  test_heaps();
  test_subprocs();
  test_arenas();
  test_options();
  test_stats();
  printf("%d rows\n", rows);
  return expect_end("edges");
}
