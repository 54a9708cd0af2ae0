// SPDX-License-Identifier: MIT
// Owns address space and its contents with accounting: every byte that the library has from the
// OS passes here, so the statistics of reserved and committed memory are sums of these calls.
#ifndef MX_MEM_VMEM_H
#define MX_MEM_VMEM_H

#include "../base/counters.h"
#include "../base/facts.h"

MX_BEGIN_DECLS
// Counters of the whole process: OS memory is shared by all sub-processes.
extern mx_counters_t mx_process_counters;

// Reserves, in one call to the OS, what the next calls of map will ask for: a page map of `table`
// bytes, metadata, an arena. Whatever does not fit is mapped on its own. Called once at start.
void mx_vmem_reserve_first(size_t table, size_t arena);
// How many bytes from p on are writable without a commit, since the first reservation.
size_t mx_vmem_writable_from(const void* p);
// A bound of what may be committed, set by the service floor.
typedef struct mx_memory_limit_s {
  mx_atomic(size_t) bytes;           // 0: none
  mx_atomic(bool) is_hard;           // beyond it allocations fail
  mx_atomic(void (*)(bool)) relieve; // gives back what it can; true: else an allocation fails
} mx_memory_limit_t;

extern mx_hidden mx_memory_limit_t mx_memory_limit;
// Whether `bytes` more would stay within a limit.
bool mx_memory_limit_room(size_t limit, size_t bytes);

// Maps `size` bytes aligned to `align` (a power of two); NULL when refused. Sizes are rounded up
// to OS pages by the caller, who also counts what becomes committed: memory in use or dirty, not
// address space that merely could be touched.
void* mx_vmem_map(size_t size, size_t align, bool commit);
void mx_vmem_unmap(void* p, size_t size, size_t committed);
// As map and unmap, for metadata: between guards in the builds that have them.
void* mx_vmem_map_meta(size_t size);
void mx_vmem_unmap_meta(void* p, size_t size);
bool mx_vmem_commit(void* p, size_t size);
// Drops contents as the options say. True when the range now reads as zero (once committed again,
// where *needs_commit says so); false when its contents are unknown.
bool mx_vmem_purge(void* p, size_t size, bool* needs_commit);
// Drops the contents of a part that stays in use, whatever the options say; it reads as zero.
bool mx_vmem_discard(void* p, size_t size);

// ---- metadata ----------------------------------------------------------------------------------
// Zeroed memory for the library's own records, aligned to a cache line; never given back, so
// records are recycled by their owners. NULL when the OS is out of memory.
void* mx_meta_alloc(size_t size);
// Around a fork, on both sides of it.
void mx_meta_before_fork(void);
void mx_meta_after_fork(void);
MX_END_DECLS

#endif
