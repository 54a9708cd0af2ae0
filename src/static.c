// SPDX-License-Identifier: MIT
// Owns the single-source build: the whole library as one translation unit, in floor order.
//
//   cc -O2 -Iinclude -c src/static.c                            the mi_ functions
//   cc -O2 -Iinclude -c -DMI_MALLOC_OVERRIDE -DNDEBUG src/static.c    malloc and free as well
//
// Nothing else may stand here. It holds the sources to two rules: no two files define a static
// function, a type or a macro of the same name, and none needs what comes after it.

// Some of the sources ask for more than ISO C, before their first header.
#define _GNU_SOURCE 1

#include "base/base.c"
#include "base/counters.c"
#include "base/fmt.c"
#include "base/sizeclass.c"

#include "os/cxx.c"
#include "os/linux.c"
#include "os/linux_nolibc.c"
#include "os/posix.c"
#include "os/robust.c"
#include "os/unix_fault.c"
#include "os/unix_thread.c"
#include "os/wasm.c"
#include "os/windows.c"
#include "os/windows_fault.c"
#include "os/windows_thread.c"

#include "mem/bitmap.c"
#include "mem/numa.c"
#include "mem/pagemap.c"
#include "mem/random.c"
#include "mem/vmem.c"

#include "arena/arena.c"
#include "arena/arena_list.c"
#include "arena/huge_pages.c"
#include "arena/purge.c"
#include "arena/refill.c"
#include "arena/slices.c"

#include "page/freelist.c"
#include "page/holes.c"
#include "page/live.c"
#include "page/page.c"
#include "page/walk_pages.c"

#include "heap/adopt.c"
#include "heap/claim.c"
#include "heap/deferred.c"
#include "heap/fork.c"
#include "heap/give_back.c"
#include "heap/heap.c"
#include "heap/heap_cache.c"
#include "heap/heap_record.c"
#include "heap/huge_cache.c"
#include "heap/os_pages.c"
#include "heap/subproc.c"
#include "heap/theap.c"
#include "heap/theap_record.c"
#include "heap/thread.c"

#include "alloc/free.c"
#include "alloc/guarded.c"
#include "alloc/harden.c"
#include "alloc/huge.c"
#include "alloc/realloc.c"
#include "alloc/slow.c"
#include "alloc/zeroblock.c"

#include "service/arena_map.c"
#include "service/cgroup.c"
#include "service/limits.c"
#include "service/log.c"
#include "service/options.c"
#include "service/scavenger.c"
#include "service/stack.c"
#include "service/stats.c"
#include "service/stats_fields.c"
#include "service/stats_json.c"
#include "service/stats_prometheus.c"
#include "service/stats_text.c"
#include "service/walk.c"

#include "api/api_aligned.c"
#include "api/api_arena.c"
#include "api/api_basic.c"
#include "api/api_cpp.c"
#include "api/api_guarded.c"
#include "api/api_heap.c"
#include "api/api_heap_manage.c"
#include "api/api_hooks.c"
#include "api/api_memory.c"
#include "api/api_option.c"
#include "api/api_posix.c"
#include "api/api_runtime.c"
#include "api/api_stats.c"
#include "api/api_subproc.c"
#include "api/api_theap.c"
#include "api/root.c"

#include "override/cxx.c"
#include "override/elf.c"
#include "override/glibc.c"
#include "override/macos.c"
#include "override/windows_code.c"
#include "override/windows_crt.c"
#include "override/windows_patch.c"
