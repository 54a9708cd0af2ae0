// SPDX-License-Identifier: MIT
// The ground floor of this system, held to the promises of os.h. It is the first test that a port
// has to pass.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "../../src/host/process.h"
#include "../../src/os/os.h"
#include "../../src/os/thread.h"

static int failures;

#define EXPECT(cond) \
  ((cond) ? (void)0 : (void)(printf("FAIL line %d: %s\n", __LINE__, #cond), failures++))

#define SIZE (1024 * 1024)

static bool is_filled(const unsigned char* p, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != value) return false;
  }
  return true;
}

// ---- memory ------------------------------------------------------------------------------------

static void test_map(void) {
  unsigned char* const p = (unsigned char*)mx_os_map(NULL, SIZE, true);
  EXPECT(p != NULL && mx_is_aligned(p, mx_facts.os_page) && is_filled(p, SIZE, 0));
  memset(p, 1, SIZE);
  unsigned char* const q = (unsigned char*)mx_os_map(NULL, SIZE, false);
  EXPECT(q != NULL && (q + SIZE <= p || p + SIZE <= q));
  EXPECT(mx_os_commit(q, SIZE) && is_filled(q, SIZE, 0));
  memset(q, 2, SIZE);
  EXPECT(is_filled(p, SIZE, 1));
  // What nobody can have. An emulator of 32 bits may have nearly all.
  EXPECT(mx_os_map(NULL, SIZE_MAX / 64 * 63 - SIZE + 1, false) == NULL);
  mx_os_unmap(p, SIZE);
  mx_os_unmap(q, SIZE);
}

static void test_contents(void) {
  const size_t page = mx_facts.os_page;
  unsigned char* const p = (unsigned char*)mx_os_map(NULL, SIZE, true);
  memset(p, 1, SIZE);
  // A hole of one OS page, and its neighbours stay.
  if (mx_os_purge(p + page, page)) {
    EXPECT(p[page - 1] == 1 && p[2 * page] == 1 && is_filled(p + page, page, 0));
  } else {
    EXPECT(is_filled(p, SIZE, 1));
  }
  memset(p, 2, SIZE);
  if (mx_os_decommit(p + page, page)) {
    EXPECT(p[page - 1] == 2 && p[2 * page] == 2);
    EXPECT(mx_os_commit(p + page, page) && is_filled(p + page, page, 0));
  }
  memset(p, 3, SIZE);
  if (mx_os_reset(p, page)) EXPECT(p[0] == 3 || p[0] == 0);
  EXPECT(is_filled(p + page, SIZE - page, 3));
  mx_os_advise_large(p, SIZE, false);
  mx_os_advise_numa(p, SIZE, 0);
  EXPECT(is_filled(p + page, SIZE - page, 3));
  if (mx_os_protect(p, page, false)) EXPECT(mx_os_protect(p, page, true));
  EXPECT(p[page] == 3);
  if (mx_os_guard(p, page, true)) {
    EXPECT(p[page] == 3 && mx_os_guard(p, page, false));
    memset(p, 4, page);
    EXPECT(p[page - 1] == 4);
  }
  mx_os_unmap(p, SIZE);
}

// ---- behind a mapping --------------------------------------------------------------------------

#if defined(__linux__)
// Makes mappings until the kernel grants no more: the first of them. Neighbours differ, so that each
// is one.
static void* use_up_mappings(size_t size) {
  const size_t unit = mx_facts.os_page;
  char* const p =
      (char*)mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  for (size_t at = unit; at < size; at += 2 * unit) {
    if (mprotect(p + at, unit, PROT_NONE) == 0) continue;
    // What has no mapping left to be split may yet have one for something new.
    for (int i = 0; i < 16; i++) {
      if (mx_os_map(NULL, unit, i % 2 == 0) == NULL) return p;
    }
    break;
  }
  munmap(p, size);  // there is no limit that one could reach
  return NULL;
}

// Linux 7.2 refuses growth in place, too, when there are as many mappings as there may be.
static bool counts_growth(void) {
  struct utsname name;
  return uname(&name) == 0 && atoi(name.release) >= 7;
}

// What grows behind a mapping is fresh, and has nothing of what was set for what lies before it.
static void test_behind(void) {
  const size_t unit = mx_facts.os_page, size = 16 * unit;
  const int before = errno;
  unsigned char* const p = (unsigned char*)mx_os_map(NULL, 8 * size, true);
  EXPECT(p != NULL && mx_os_unmap(p + size, 7 * size));
  memset(p, 7, size);
  EXPECT(madvise(p, size, MADV_DONTFORK) == 0 && madvise(p, size, MADV_DONTDUMP) == 0);
  EXPECT(madvise(p, size, MADV_WIPEONFORK) == 0 && mprotect(p, size, PROT_READ) == 0);
  EXPECT(mx_os_map_behind(p + size, 2 * size));
  EXPECT(p[0] == 7 && is_filled(p + size, 2 * size, 0));
  memset(p + size, 8, 2 * size);
  EXPECT(!mx_os_map_behind(p + size, size));      // there it lies
  EXPECT(!mx_os_map_behind(p + 5 * size, size));  // behind nothing
  const pid_t child = fork();
  if (child == 0) _exit(p[size] == 8 && p[3 * size - 1] == 8 ? 0 : 1);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  const size_t many = 400000 * unit;
  void* const all = use_up_mappings(many);
  if (all != NULL) {
    EXPECT(mx_os_map(NULL, unit, true) == NULL || mx_os_map(NULL, unit, false) == NULL);
    const bool is_done = mx_os_map_behind(p + 3 * size, size);
    EXPECT(is_done || counts_growth());
    munmap(all, many);
    if (!is_done) EXPECT(mx_os_map(p + 3 * size, size, true) == p + 3 * size);  // nothing was there
    EXPECT(is_filled(p + 3 * size, size, 0));
  }
  EXPECT(mx_os_unmap(p, 4 * size));
  errno = before;
}
#endif

// ---- process and machine -----------------------------------------------------------------------

static void test_machine(void) {
  EXPECT(mx_is_pow2(mx_facts.os_page) && mx_facts.os_page <= 65536);
  EXPECT(mx_facts.va_bits >= 32 && mx_facts.va_bits <= 8 * sizeof(void*));
  EXPECT(mx_os_numa_count() >= 1);
  EXPECT(mx_os_numa_node() < 1024);
  const uint64_t before = mx_os_clock_msecs();
  mx_os_yield();
  EXPECT(mx_os_clock_msecs() >= before && mx_os_clock_msecs() - before < 10000);
  unsigned char bytes[2][64];
  memset(bytes, 0, sizeof(bytes));
  if (mx_os_random(bytes[0], 64) && mx_os_random(bytes[1], 64)) {
    EXPECT(memcmp(bytes[0], bytes[1], 64) != 0);
  }
  mx_process_info_t info;
  memset(&info, 0xFF, sizeof(info));
  mx_os_process_info(&info);
  EXPECT(info.peak_rss >= info.current_rss && info.page_faults != SIZE_MAX);
  char text[16];
  EXPECT(mx_os_read_file("/no/such/file", text, sizeof(text)) == -1);
  EXPECT(!mx_host_is_own_code(NULL));
  mx_host_describe_code((const void*)text, text, sizeof(text));
  EXPECT(memchr(text, 0, sizeof(text)) != NULL);
}

// ---- threads -----------------------------------------------------------------------------------

static mx_atomic(uint32_t) word;
static uintptr_t other_id;

static void other_thread(void) {
  other_id = mx_thread_id();
  mx_store_release(&word, 1u);
  mx_os_wake(&word);
}

static void test_threads(void) {
  const uintptr_t id = mx_thread_id();
  EXPECT(id != 0 && (id & 7) == 0 && mx_thread_is(id) && !mx_thread_is(id + 8));
  EXPECT(mx_thread_apart(id) == 0 && mx_thread_apart(id + 7) == 7 && mx_thread_apart(id ^ 8) == 8);
  mx_os_barrier_all();
  if (!mx_os_thread_start(&other_thread)) return;
  for (int i = 0; i < 3000 && mx_load_acquire(&word) == 0; i++) mx_os_wait(&word, 0, 10);
  EXPECT(mx_load_acquire(&word) == 1 && other_id != id && (other_id & 7) == 0);
  mx_os_wait(&word, 1, 1);  // ends by the time
  mx_os_wait(&word, 0, 0);  // returns at once: the word is something else
}

int main(void) {
  mx_os_init();
  errno = 4711;
  test_machine();
  test_map();
  test_contents();
#if defined(__linux__)
  test_behind();
#endif
  test_threads();
  EXPECT(errno == 4711);
  mx_os_set_errno(ENOMEM);
  EXPECT(errno == ENOMEM);
  if (failures == 0) printf("os: ok\n");
  return failures != 0;
}
