// SPDX-License-Identifier: MIT
// The contract between the library and an operating system. A port is one file that defines
// these functions (see docs/porting.md); nothing above this floor names an OS.
//
// Rules for all of them: addresses and sizes are multiples of mx_facts.os_page unless said
// otherwise; errno is what it was before the call; nothing allocates through malloc; a false or
// NULL answer means that nothing was changed.
#ifndef MX_OS_OS_H
#define MX_OS_OS_H

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../base/facts.h"

MX_BEGIN_DECLS

// ---- start -------------------------------------------------------------------------------------
// Fills mx_facts. Called once, before any other function of this header but write and abort.
void mx_os_init(void);

// ---- address space -----------------------------------------------------------------------------
// Maps fresh zeroed memory: at `hint`, when nothing is mapped there and the OS gives such
// addresses, else (or NULL) anywhere. Never in the place of another mapping. Committed memory is
// readable and writable; uncommitted memory costs nothing but addresses, and reads as zero where
// the OS can do that. NULL when the OS refuses.
void* mx_os_map(void* hint, size_t size, bool commit);
// Maps fresh zeroed memory, committed, at `p`, right behind committed memory that came from map,
// where the OS counts no mapping more for it. False: it cannot, or something is mapped there.
bool mx_os_map_behind(void* p, size_t size);
// Like map with commit, of large (2 MiB) or huge (1 GiB) OS pages on a NUMA node (-1: any).
// `size` and the result are multiples of page_size. NULL when there are none.
void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node);
// Like map, at a multiple of `align`. Only where mappings cannot be cut (MX_MAPS_WHOLE).
void* mx_os_map_aligned(size_t size, size_t align, bool commit);
// Gives address space back. Any part of one or more mappings; where they cannot be cut, addresses
// may stay reserved. False: the OS cannot cut a mapping there; the contents may be gone.
bool mx_os_unmap(void* p, size_t size);
// Has the uncommitted parts of a range read as zero also where mapping it does not promise that.
// For ranges that stay.
void mx_os_reads_as_zero(void* p, size_t size);

// ---- contents ----------------------------------------------------------------------------------
// Makes uncommitted memory usable. Its contents are zero unless it was only reset before.
bool mx_os_commit(void* p, size_t size);
// Drops contents and makes the range unusable until the next commit.
bool mx_os_decommit(void* p, size_t size);
// Drops contents; the range stays usable and reads as zero.
bool mx_os_purge(void* p, size_t size);
// Lets the OS drop the contents when it needs memory; the range stays usable, contents unknown.
bool mx_os_reset(void* p, size_t size);
// Moves the contents of whole OS pages to another range, page tables only. Both ranges are in use,
// and what `to` holds is of no worth. Afterwards nothing is mapped at `from`.
typedef enum mx_move_e {
  MX_MOVE_DONE,
  MX_MOVE_REFUSED,  // nothing was changed
  MX_MOVE_TORN,     // nothing was moved, but there may be no mapping at `to` any more
} mx_move_t;
mx_move_t mx_os_move(void* from, void* to, size_t size);
// How many bytes of a range, from its start on, lie in one mapping, so that they can be moved at
// once; whole OS pages.
size_t mx_os_movable(void* p, size_t size);
// Puts guards over a range, so that any access faults, and takes them away; contents are lost. May
// refuse when there are too many.
bool mx_os_guard(void* p, size_t size, bool install);
// Makes a range inaccessible and accessible again, keeping its contents.
bool mx_os_protect(void* p, size_t size, bool accessible);
// Makes committed memory read-only, or writable again, keeping its contents.
bool mx_os_protect_writes(void* p, size_t size, bool read_only);
// What is mapped there stays so, with its protection: no later call can change it. A hint.
void mx_os_seal(void* p, size_t size);
// Asks for (or refuses) transparent large pages in a range. A hint.
void mx_os_advise_large(void* p, size_t size, bool want);
// Makes a large page present in a range that is one, was never touched and reads as zero: whether
// it is.
bool mx_os_fill_large(void* p, size_t size);
// Refuses them without asking whether there may be any. A hint.
void mx_os_refuse_large(void* p, size_t size);
// Whether each of 16 OS pages all over a range, which has as many at least, is present in memory;
// false where that cannot be told.
bool mx_os_seems_present(const void* p, size_t size);
// Whether at least 12 of these are not.
bool mx_os_seems_absent(const void* p, size_t size);
// Whether less than so many quarters of a range's whole OS pages are present; false where that
// cannot be told.
bool mx_os_is_sparse(const void* p, size_t size, size_t quarters);
// Places a range on a NUMA node at first touch. A hint.
void mx_os_advise_numa(void* p, size_t size, int node);

// ---- process and machine -----------------------------------------------------------------------
typedef struct mx_process_info_s {
  uint64_t user_msecs, system_msecs;  // processor time of all threads
  size_t current_rss, peak_rss;       // bytes of memory present
  size_t page_faults;                 // faults that needed I/O
} mx_process_info_t;

void mx_os_process_info(mx_process_info_t* info);
// Whether writable memory costs nothing until it is touched: the OS charges for no more, and no
// limit of the process counts it.
bool mx_os_overcommits(void);
// Whether addresses are scarce: a limit of the process counts what is mapped, and leaves it little,
// or was reached before.
extern mx_hidden mx_atomic(bool) mx_os_scarce;
mx_inline bool mx_os_is_scarce(void) { return mx_unlikely(mx_load_relaxed(&mx_os_scarce)); }
// A monotonic clock in milliseconds; cheap, may be coarse.
uint64_t mx_os_clock_msecs(void);
unsigned mx_os_numa_count(void);  // at least 1
unsigned mx_os_numa_node(void);  // of the calling thread's processor
// Unpredictable bytes; false when the OS has none to give yet.
bool mx_os_random(void* buf, size_t size);
// The environment as an array of "NAME=value" that ends in NULL; NULL when there is none yet. Empty
// for a process with more rights than its starter, which must not give it orders.
char** mx_os_environ(void);
// Reads a small file into buf and ends it with 0: the bytes read, or -1.
long mx_os_read_file(const char* path, char* buf, size_t size);
void mx_os_write_stderr(const char* text, size_t length);
void mx_os_yield(void);
mx_noreturn void mx_os_abort(void);
// Sets errno, where there is one. For a failure that is told to the program.
void mx_os_set_errno(int code);

// ---- background --------------------------------------------------------------------------------
// Every thread of the process has made its earlier writes visible when this returns. False: the OS
// has no such call.
bool mx_os_barrier_all(void);
// Starts a thread that blocks all signals and that nobody joins. False when the OS refuses.
bool mx_os_thread_start(void (*run)(void));
// Sleeps while *word is `value`, until woken or the time is over (0: no limit); may return early.
void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs);
void mx_os_wake(mx_atomic(uint32_t)* word);

// ---- faults ------------------------------------------------------------------------------------
// Has every access to inaccessible memory told to `on_fault`, which answers whether it was its
// own; the process then goes the way that it would have gone.
void mx_os_on_fault(bool (*on_fault)(const void* address));

// ---- threads -----------------------------------------------------------------------------------
// The number by which the OS knows the calling thread, 0 where it has none.
uint32_t mx_os_thread_number(void);
// Has `at_exit` called at the end of every thread that arms itself, with the armed value; NULL ends
// that, for a library that is unloaded.
void mx_os_thread_setup(void (*at_exit)(void* value));
// Arms the calling thread; NULL disarms it.
void mx_os_thread_arm(void* value);

MX_END_DECLS

#endif
