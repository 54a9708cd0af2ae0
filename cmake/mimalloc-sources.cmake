# SPDX-License-Identifier: MIT
# The list of the library's sources, floor by floor, lowest first; src/static.c has the same.
set(mi_source_names
  base/base.c
  base/counters.c
  base/fmt.c
  base/sizeclass.c
  os/cxx.c
  os/libc.c
  os/linux.c
  os/linux_nolibc.c
  os/lock.c
  os/missing.c
  os/posix.c
  os/report_signal.c
  os/residence.c
  os/robust.c
  os/thread.c
  os/unix_fault.c
  os/unix_profile.c
  os/unix_stack.c
  os/unix_thread.c
  os/wasm.c
  os/windows.c
  os/windows_fault.c
  os/windows_thread.c
  mem/bitmap.c
  mem/numa.c
  mem/pagemap.c
  mem/random.c
  mem/vmem.c
  arena/arena.c
  arena/free_runs.c
  arena/commit.c
  arena/huge_pages.c
  arena/move.c
  arena/purge.c
  arena/slices.c
  page/blocks.c
  page/freelist.c
  page/holes.c
  page/state.c
  heap/adopt.c
  heap/claim.c
  heap/fork.c
  heap/heap_cache.c
  heap/heap_end.c
  heap/heap_record.c
  heap/hole_walk.c
  heap/huge_cache.c
  heap/os_pages.c
  heap/subproc.c
  heap/theap.c
  heap/theap_record.c
  heap/thread_life.c
  heap/trim.c
  alloc/batch.c
  alloc/failed.c
  alloc/free.c
  alloc/guarded.c
  alloc/harden.c
  alloc/huge.c
  alloc/magazine.c
  alloc/poisson.c
  alloc/realloc.c
  alloc/sample.c
  alloc/slow.c
  alloc/zeroblock.c
  profile/control.c
  profile/dump.c
  profile/out.c
  profile/pprof.c
  profile/records.c
  profile/texts.c
  profile/trace.c
  service/arena_map.c
  service/cgroup.c
  service/layout.c
  service/leaks.c
  service/limits.c
  service/log.c
  service/option_names.c
  service/report_advice.c
  service/report_fields.c
  service/report_formats.c
  service/report_signal.c
  service/report_take.c
  service/report_text.c
  service/scavenger.c
  service/stack.c
  service/stats.c
  service/stats_fields.c
  service/stats_json.c
  service/stats_prometheus.c
  service/stats_text.c
  service/walk.c
  api/api_aligned.c
  api/api_arena.c
  api/api_basic.c
  api/api_cpp.c
  api/api_heap.c
  api/api_heap_manage.c
  api/api_hooks.c
  api/api_option.c
  api/api_posix.c
  api/api_prof.c
  api/api_report.c
  api/api_runtime.c
  api/api_stats.c
  api/api_subproc.c
  api/api_theap.c
  api/handles.c
  api/root.c
  override/cxx.c
  override/dlopen.c
  override/elf.c
  override/glibc.c
  override/macos.c
  override/windows_code.c
  override/windows_crt.c
  override/windows_patch.c
)

# A source that is not listed is built all the same, but the gates fail until it is.
set(mi_sources)
get_filename_component(mi_src "${CMAKE_CURRENT_LIST_DIR}/../src" ABSOLUTE)
foreach(name IN LISTS mi_source_names)
  list(APPEND mi_sources "${mi_src}/${name}")
endforeach()
foreach(floor IN ITEMS base os mem arena page heap alloc profile service api override)
  file(GLOB mi_found CONFIGURE_DEPENDS "${mi_src}/${floor}/*.c")
  list(REMOVE_ITEM mi_found ${mi_sources})
  foreach(source IN LISTS mi_found)
    message(WARNING "mimalloc: ${source} is missing in cmake/mimalloc-sources.cmake")
    list(APPEND mi_sources "${source}")
  endforeach()
endforeach()
