// SPDX-License-Identifier: MIT
// The ground floor (src/os/os.h) of the explored library: memory from a fixed pool, a clock
// that stands until a scenario moves it, and purging that really clears, as a plain write that
// races with any use of the memory.
#include <stdlib.h>
#include <sys/mman.h>

#include "../../src/base/check.h"
#include "../../src/base/config.h"
#include "../../src/os/os.h"
#include "explore.h"
#include "world.h"

// At an address that the small page map of the explored library calls near, as arenas are.
#define POOL_SIZE (16 * MX_MIB)
#define POOL_START ((uintptr_t)512 * MX_MIB)
static uint8_t* pool;
uint8_t* world_memory;  // behind it
static size_t pool_used;
bool world_may_map;
uint64_t world_clock = 1000;

// Where the sources are compiled with their assertions.
void mx_assert_fail(const char* expr, const char* file, unsigned line, const char* func) {
  ex_fail("%s:%u, %s: %s", file, line, func, expr);
}

void mx_os_init(void) {
  mx_facts.os_page = 4096;
  mx_facts.large_page = 0;
  mx_facts.va_bits = mx_facts.near_bits = 30;
  if (pool == NULL) {
    pool = (uint8_t*)mmap((void*)POOL_START, POOL_SIZE + WORLD_MEMORY, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool != (uint8_t*)POOL_START) ex_fail("no pool at the address for it");
    world_memory = pool + POOL_SIZE;
  }
}

// Slices of the world's memory that are mapped, where a scenario has them mapped in pieces.
mx_atomic(uint64_t) world_mapped;

static uint64_t pieces_of(const void* p, size_t size) {
  const size_t at = (size_t)((const uint8_t*)p - world_memory);
  if (p == NULL || at >= WORLD_MEMORY || at + size > 64 * MX_SLICE_SIZE) return 0;
  return (~(uint64_t)0 >> (64 - size / MX_SLICE_SIZE)) << (at / MX_SLICE_SIZE);
}

// For what setup needs; explored threads get more only where the scenario says so. Pieces of the
// world's memory are to be had where nothing is mapped.
void* mx_os_map(void* hint, size_t size, bool commit) {
  (void)commit;
  size = mx_align_up(size, MX_SLICE_SIZE);
  const uint64_t pieces = pieces_of(hint, size);
  if (pieces != 0) {
    const uint64_t old = mx_or_acq_rel(&world_mapped, pieces);
    if ((old & pieces) == 0) return hint;
    mx_and_acq_rel(&world_mapped, ~(pieces & ~old));
    return pool;
  }
  if (size > 2 * MX_MIB || (ex_self() != 0 && !world_may_map)) return NULL;
  const size_t at = mx_add_relaxed(&pool_used, size);
  if (at + size > POOL_SIZE) ex_fail("the pool of the explored OS is too small");
  return pool + at;
}

void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  (void)hint, (void)size, (void)page_size, (void)numa_node;
  return NULL;
}
void mx_os_reads_as_zero(void* p, size_t size) { (void)p, (void)size; }
bool mx_os_commit(void* p, size_t size) { return p != NULL && size > 0; }
bool mx_os_decommit(void* p, size_t size) { return mx_os_purge(p, size); }

// What is not mapped may be somebody else's.
bool mx_os_purge(void* p, size_t size) {
  const uint64_t mapped = mx_load_relaxed(&world_mapped), pieces = pieces_of(p, size);
  if (mapped != 0 && (mapped & pieces) != pieces) ex_fail("what is nobody's was purged");
  // The first words of each OS page are all that scenarios write to.
  for (size_t at = 0; at < size; at += mx_facts.os_page) {
    volatile uint64_t* words = (volatile uint64_t*)(void*)((uint8_t*)p + at);
    words[0] = 0;
    words[1] = 0;
  }
  return true;
}

bool mx_os_unmap(void* p, size_t size) {
  const uint64_t pieces = pieces_of(p, size);
  if (pieces != 0) {
    mx_os_purge(p, size);
    mx_and_acq_rel(&world_mapped, ~pieces);
  }
  return p != NULL && size > 0;
}

bool mx_os_reset(void* p, size_t size) { return mx_os_purge(p, size); }
mx_move_t mx_os_move(void* from, void* to, size_t size) {
  (void)from, (void)to, (void)size;
  return MX_MOVE_REFUSED;
}
bool mx_os_map_behind(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}
size_t mx_os_movable(void* p, size_t size) {
  (void)p, (void)size;
  return 0;
}
bool mx_os_is_present(void* p, size_t size) { return p != NULL && size > 0; }
bool mx_os_protect(void* p, size_t size, bool accessible) {
  (void)accessible;
  return p != NULL && size > 0;
}
bool mx_os_guard(void* p, size_t size, bool install) {
  (void)install;
  return p != NULL && size > 0;
}
bool mx_os_protect_writes(void* p, size_t size, bool read_only) {
  return mx_os_protect(p, size, !read_only);
}
void mx_os_seal(void* p, size_t size) { (void)p, (void)size; }
bool mx_os_seems_present(const void* p, size_t size) {
  (void)p, (void)size;
  return false;
}
bool mx_os_seems_absent(const void* p, size_t size) {
  (void)p, (void)size;
  return false;
}
bool mx_os_is_sparse(const void* p, size_t size, size_t quarters) {
  (void)p, (void)size, (void)quarters;
  return false;
}
void mx_os_advise_large(void* p, size_t size, bool want) { (void)p, (void)size, (void)want; }
bool mx_os_fill_large(void* p, size_t size) {
  (void)p, (void)size;
  return false;
}
void mx_os_refuse_large(void* p, size_t size) { (void)p, (void)size; }
void mx_os_advise_numa(void* p, size_t size, int node) { (void)p, (void)size, (void)node; }
void mx_os_process_info(mx_process_info_t* info) { memset(info, 0, sizeof(*info)); }
bool mx_os_overcommits(void) { return true; }
mx_atomic(bool) mx_os_scarce;
uint64_t mx_os_clock_msecs(void) { return world_clock; }
unsigned mx_os_numa_count(void) { return 1; }
unsigned mx_os_numa_node(void) { return 0; }
bool mx_os_random(void* buf, size_t size) {
  memset(buf, 0x5a, size);
  return true;
}
char** mx_os_environ(void) { return NULL; }
long mx_os_read_file(const char* path, char* buf, size_t size) {
  (void)path, (void)buf, (void)size;
  return -1;
}
void mx_os_write_stderr(const char* text, size_t length) { (void)text, (void)length; }
bool mx_os_barrier_all(void) {
  ex_barrier_all(ex_site_(EX_BARRIER, EX_RELAXED));
  return true;
}
void mx_os_yield(void) { ex_spin(); }
void mx_os_abort(void) { abort(); }
void mx_os_set_errno(int code) { (void)code; }
void mx_os_on_fault(bool (*on_fault)(const void* address)) { (void)on_fault; }
bool mx_os_thread_start(void (*run)(void)) {
  (void)run;
  return false;
}
void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  (void)msecs;
  ex_sleep(word, value);
}
void mx_os_wake(mx_atomic(uint32_t)* word) { ex_wake(word); }
void mx_os_thread_setup(void (*at_exit)(void* value)) { (void)at_exit; }
void mx_os_thread_arm(void* value) { (void)value; }
uint32_t mx_os_thread_number(void) { return 0; }
