// SPDX-License-Identifier: MIT
// Address space and its contents with accounting: every byte that the library has from the
// OS passes here, so the statistics of reserved and committed memory are sums of these calls.
#ifndef MX_MEM_VMEM_H
#define MX_MEM_VMEM_H

#include "../base/counters.h"
#include "../base/facts.h"
#include "../base/lock.h"

MX_BEGIN_DECLS
// Counters of the whole process: OS memory is shared by all sub-processes.
extern mx_counters_t mx_process_counters;

// Gives back what it can; true: else an allocation fails.
typedef void mx_pressure_fn(bool is_last_resort);

// A bound of what may be committed, set by the service floor.
typedef struct mx_memory_limit_s {
  mx_atomic(size_t) bytes;           // 0: none
  mx_atomic(bool) is_hard;           // beyond it allocations fail
  mx_atomic(mx_pressure_fn*) on_pressure;
} mx_memory_limit_t;

extern mx_hidden mx_memory_limit_t mx_memory_limit;
// Whether `bytes` more would stay within a limit.
bool mx_memory_limit_room(size_t limit, size_t bytes);

// Maps `size` bytes aligned to `align` (a power of two); NULL when refused. Sizes are rounded up
// to OS pages by the caller, which also counts what becomes committed: memory in use or dirty, not
// address space that merely could be touched.
void* mx_vmem_map(size_t size, size_t align, bool commit);
// False: the OS cannot cut a mapping there: the addresses stay mapped, their contents may be gone.
bool mx_vmem_unmap(void* p, size_t size, size_t committed);
// As map and unmap, for metadata: between guards in the builds that have them.
void* mx_vmem_map_meta(size_t size);
void mx_vmem_unmap_meta(void* p, size_t size);
// It stays where it is, whatever anybody asks of the OS, if the OS can do that.
void mx_vmem_seal_meta(void* p, size_t size);
// Makes reserved addresses usable. What is usable already must not be among them: its users may
// have given it another protection.
bool mx_vmem_commit(void* p, size_t size);
// Drops contents as the options say; unmaps: by unmapping addresses, which are not reserved. True
// when the range now reads as zero (once committed again, where *needs_commit says so); false when
// its contents are unknown. Addresses that are not reserved may be nobody's then.
bool mx_vmem_purge(void* p, size_t size, bool is_reserved, bool unmaps, bool* needs_commit);
// Moves the contents of a range to another one, by page tables; nothing is mapped where it was.
// False: nothing moved; *is_torn: and what was mapped at `to` is lost, and must not be used.
bool mx_vmem_move(void* from, void* to, size_t size, bool* is_torn);
// Tells the OS what the options say of large pages in a range.
void mx_vmem_advise_large(void* p, size_t size);
// Drops the contents of a part that stays in use, whatever the options say; it reads as zero.
bool mx_vmem_discard(void* p, size_t size);
// Whether each of 16 OS pages all over a range of whole ones, which has as many at least, holds
// something. It takes no system call; no other thread may give them back meanwhile.
bool mx_vmem_seems_written(const uint8_t* p, size_t size);
// Has a part of a mapping of the library's own read as zero. Of a long range only what is present,
// and holds something else, is written.
void mx_vmem_clear(void* p, size_t size);
// As memcpy; of a long range what holds zeros only, as its copy does, is not written: so the copy
// of memory that was hardly used stays so.
void mx_vmem_copy(void* to, const void* from, size_t size);

// ---- chosen addresses --------------------------------------------------------------------------
// Arenas lie at near addresses (see pagemap.h), blocks in mappings of their own at far ones.
// What is never to be anybody else's lies where each address is placed once.
typedef enum mx_zone_e { MX_ZONE_NEAR, MX_ZONE_FAR, MX_ZONE_ONCE } mx_zone_t;

// Where the OS lets us choose: near addresses lie in the upper half of what `bits` bits reach, and
// beyond, up to what `most` bits do. Called once, before any of the following.
void mx_vmem_open_near(unsigned bits, unsigned most);
// Addresses for a mapping and its growth, as a hint: nothing is asked of the OS. Near ones are
// placed once until they are free again. NULL where there are none to choose from.
void* mx_vmem_place(mx_zone_t zone, size_t size, size_t align);
// Whether there are addresses that are placed once.
bool mx_vmem_has_once(void);
// What was placed there is gone, or was never mapped; the size is that of the placing. Near ones
// are placed in units, one more than the size takes: where only a beginning of whole units is used,
// the rest begins one unit behind it.
#define MX_NEAR_UNIT ((size_t)64 * MX_MIB)
void mx_vmem_placed_is_free(mx_zone_t zone, const void* p, size_t size);

typedef enum mx_map_result_e {
  MX_MAP_DONE,
  MX_MAP_REFUSED,  // the OS gives no more memory
  MX_MAP_TAKEN,    // something else lies there, or the OS does not give these addresses
} mx_map_result_t;

// Maps memory at exactly p, or reserves the addresses, readable.
mx_map_result_t mx_vmem_map_at(void* p, size_t size, bool commit);
// Maps `size` bytes at a place that has `room` for their growth; NULL when the OS refuses, or there
// is no place to choose (*is_refused tells).
void* mx_vmem_map_placed(mx_zone_t zone, size_t size, size_t room, size_t align, bool commit,
                         bool* is_refused);
// As mx_vmem_map_at, behind what it gave, where the OS has no mapping left to give.
bool mx_vmem_map_behind(void* p, size_t size);
// The same for the page map of `bits` bits, with room behind it; NULL when it cannot be there.
void* mx_vmem_map_table(unsigned bits, size_t size);

// ---- metadata ----------------------------------------------------------------------------------
// Zeroed memory for the library's own records, aligned to a cache line; never given back, so
// records are recycled by their owners. NULL when the OS is out of memory.
void* mx_meta_alloc(size_t size);
// The mappings that it lies in begin with these; nobody takes one off the list.
typedef struct mx_meta_chunk_s {
  struct mx_meta_chunk_s* next;
  size_t size;
} mx_meta_chunk_t;
extern mx_hidden mx_atomic(mx_meta_chunk_t*) mx_meta_chunks;
// For fork.
bool mx_meta_visit_locks(mx_lock_visit_fn* visit);
MX_END_DECLS

#endif
