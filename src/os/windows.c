// SPDX-License-Identifier: MIT
// Memory and the process on Windows: every promise of os.h but those of threads
// (windows_thread.c) and of faults and call stacks (windows_fault.c).
//
// What differs from the other systems, and what follows from it:
//
// - Memory is charged when it is committed, so nothing is committed before it is needed, and
//   memory that is given back is decommitted (mx_os_overcommits says no).
// - A mapping is given back whole or not at all. Where a part of one is unmapped, its memory goes
//   and its addresses stay reserved; an alignment is asked for when a range is reserved.
// - What is not committed cannot even be read. The page map is read at any address, so it is named
//   to mx_os_reads_as_zero, and a read that faults there commits the OS page that it wanted.
#include "os.h"

#if defined(_WIN32)

#include <stdlib.h>

#include "../base/options.h"
#include "environ.h"
#include "windows_api.h"

#define OOM_TRIES 10
#define PURGE_TRIES 1000

static size_t granularity = MX_SLICE_SIZE;

// Functions that not every release of Windows has.
static struct {
  mx_virtual_alloc2_fn* alloc2;
  mx_processor_number_fn* processor_number;
  mx_processor_node_fn* processor_node;
} dynamic;

void* mx_windows_find(const wchar_t* module, const char* name) {
  const HMODULE handle = GetModuleHandleW(module);
  return handle == NULL ? NULL : (void*)(uintptr_t)GetProcAddress(handle, name);
}

void mx_os_init(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  mx_facts.os_page = info.dwPageSize;
  mx_facts.large_page = GetLargePageMinimum();
  mx_facts.va_bits = mx_bit_high((size_t)(uintptr_t)info.lpMaximumApplicationAddress) + 1;
  mx_facts.near_bits = mx_facts.va_bits;
  granularity = info.dwAllocationGranularity;
  mx_windows_find_waits();
  dynamic.alloc2 =
      (mx_virtual_alloc2_fn*)(uintptr_t)mx_windows_find(L"kernelbase", "VirtualAlloc2");
  dynamic.processor_number = (mx_processor_number_fn*)(uintptr_t)mx_windows_find(
      L"kernel32", "GetCurrentProcessorNumberEx");
  dynamic.processor_node = (mx_processor_node_fn*)(uintptr_t)mx_windows_find(
      L"kernel32", "GetNumaProcessorNodeEx");
}

bool mx_os_overcommits(void) { return false; }

// ---- address space -----------------------------------------------------------------------------

// The system may be growing its page file, or another process about to end.
static bool wait_for_memory(unsigned tries) {
  const DWORD error = GetLastError();
  const long patience = mx_option(retry_on_oom);
  if (error != ERROR_COMMITMENT_LIMIT && error != ERROR_NOT_ENOUGH_MEMORY) return false;
  if (patience <= 0 || tries >= OOM_TRIES) return false;
  Sleep((DWORD)patience / OOM_TRIES);
  return true;
}

// A request that is larger than what the system could ever give is not worth waiting for.
static bool is_hopeless(size_t size) {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof(status);
  return !GlobalMemoryStatusEx(&status) || size > status.ullTotalPageFile;
}

static void* allocate(void* at, size_t size, DWORD type) {
  void* p = VirtualAlloc(at, size, type, PAGE_READWRITE);
  if (p != NULL || (type & MEM_COMMIT) == 0 || (at != NULL && (type & MEM_RESERVE) != 0)) return p;
  for (unsigned tries = 0; p == NULL && !is_hopeless(size) && wait_for_memory(tries); tries++) {
    p = VirtualAlloc(at, size, type, PAGE_READWRITE);
  }
  return p;
}

void* mx_os_map(void* hint, size_t size, bool commit) {
  const DWORD type = MEM_RESERVE | (commit ? MEM_COMMIT : 0);
  const DWORD before = GetLastError();
  void* p = NULL;
  if (hint != NULL) {
    p = allocate((void*)mx_align_down((uintptr_t)hint, granularity), size, type);
  }
  if (p == NULL) p = allocate(NULL, size, type);
  if (p != NULL) SetLastError(before);
  return p;
}

// Older systems cannot be asked for an alignment: a range that is large enough is reserved and
// given back, and its aligned part asked for, before another thread gets it.
void* mx_os_map_aligned(size_t size, size_t align, bool commit) {
  const DWORD type = MEM_RESERVE | (commit ? MEM_COMMIT : 0);
  if (size > SIZE_MAX - align) return NULL;
  if (dynamic.alloc2 != NULL) {
    mx_address_requirements_t wanted = {NULL, NULL, align};
    mx_extended_parameter_t parameter = {MX_PARAMETER_ADDRESS_REQUIREMENTS, {0}};
    parameter.value.pointer = &wanted;
    void* const p = dynamic.alloc2(NULL, NULL, size, type, PAGE_READWRITE, &parameter, 1);
    if (p != NULL) return p;
  }
  for (unsigned tries = 0; tries < OOM_TRIES; tries++) {
    void* const room = VirtualAlloc(NULL, size + align, MEM_RESERVE, PAGE_READWRITE);
    if (room == NULL) return NULL;
    VirtualFree(room, 0, MEM_RELEASE);
    void* const p = allocate((void*)mx_align_up((uintptr_t)room, align), size, type);
    if (p != NULL) return p;
  }
  return NULL;
}

// Whoever may lock memory may have large pages, but has to say so in every process.
static bool may_lock_memory(void) {
  static mx_atomic(int) known;  // 1 yes, 2 no
  if (mx_load_relaxed(&known) != 0) return mx_load_relaxed(&known) == 1;
  HANDLE token = NULL;
  TOKEN_PRIVILEGES wanted;
  bool ok = false;
  if (OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token)) {
    wanted.PrivilegeCount = 1;
    wanted.Privileges[0].Attributes = SE_PRIVILEGE_ENABLED;
    ok = LookupPrivilegeValueW(NULL, L"SeLockMemoryPrivilege", &wanted.Privileges[0].Luid) &&
         AdjustTokenPrivileges(token, FALSE, &wanted, 0, NULL, NULL) &&
         GetLastError() == ERROR_SUCCESS;
    CloseHandle(token);
  }
  mx_store_relaxed(&known, ok ? 1 : 2);
  return ok;
}

void* mx_os_map_large(void* hint, size_t size, size_t page_size, int numa_node) {
  (void)hint;
  if (mx_facts.large_page == 0 || !may_lock_memory()) return NULL;
  const DWORD type = MEM_RESERVE | MEM_COMMIT | MEM_LARGE_PAGES;
  if (page_size > mx_facts.large_page) {
    mx_extended_parameter_t parameters[2] = {{MX_PARAMETER_ATTRIBUTE_FLAGS, {0}},
                                             {MX_PARAMETER_NUMA_NODE, {0}}};
    parameters[0].value.number = MX_PARAMETER_NONPAGED_HUGE;
    parameters[1].value.number = (uint64_t)numa_node;
    return dynamic.alloc2 == NULL ? NULL
                                  : dynamic.alloc2(NULL, NULL, size, type, PAGE_READWRITE,
                                                   parameters, numa_node < 0 ? 1 : 2);
  }
  if (numa_node < 0) return VirtualAlloc(NULL, size, type, PAGE_READWRITE);
  return VirtualAllocExNuma(GetCurrentProcess(), NULL, size, type, PAGE_READWRITE,
                            (DWORD)numa_node);
}

// The end of the mapping that begins at p; NULL when none does.
static uint8_t* end_of_mapping(void* p) {
  MEMORY_BASIC_INFORMATION info;
  uint8_t* end = (uint8_t*)p;
  while (VirtualQuery(end, &info, sizeof(info)) != 0 && info.State != MEM_FREE &&
         info.AllocationBase == p) {
    end = (uint8_t*)info.BaseAddress + info.RegionSize;
  }
  return end == (uint8_t*)p ? NULL : end;
}

// Reservations of gigabytes are walked only when their very start is unmapped, which is rare.
bool mx_os_unmap(void* p, size_t size) {
  uint8_t* const end = end_of_mapping(p);
  const bool is_whole = (end != NULL && (size_t)(end - (uint8_t*)p) <= size);
  return VirtualFree(p, is_whole ? 0 : size, is_whole ? MEM_RELEASE : MEM_DECOMMIT) != 0;
}

// ---- contents ----------------------------------------------------------------------------------

bool mx_os_commit(void* p, size_t size) { return allocate(p, size, MEM_COMMIT) != NULL; }

bool mx_os_decommit(void* p, size_t size) { return VirtualFree(p, size, MEM_DECOMMIT) != 0; }

// Nothing else makes memory read as zero without writing it. What was given up a moment ago is
// nearly always there to be had again; without it the range would be lost, so this waits.
bool mx_os_purge(void* p, size_t size) {
  if (!VirtualFree(p, size, MEM_DECOMMIT)) return false;
  for (unsigned tries = 0; tries < PURGE_TRIES; tries++) {
    if (VirtualAlloc(p, size, MEM_COMMIT, PAGE_READWRITE) != NULL) return true;
    Sleep(1);
  }
  return false;
}

bool mx_os_reset(void* p, size_t size) {
  return VirtualAlloc(p, size, MEM_RESET, PAGE_READWRITE) != NULL;
}

bool mx_os_protect(void* p, size_t size, bool accessible) {
  DWORD before;
  return VirtualProtect(p, size, accessible ? PAGE_READWRITE : PAGE_NOACCESS, &before) != 0;
}

// Guards stay committed, so that taking them away cannot fail.
bool mx_os_guard(void* p, size_t size, bool install) { return mx_os_protect(p, size, !install); }

// ---- process and machine -----------------------------------------------------------------------

static uint64_t to_msecs(const FILETIME* time) {  // from units of 100 ns
  return (((uint64_t)time->dwHighDateTime << 32) | time->dwLowDateTime) / 10000;
}

void mx_os_process_info(mx_process_info_t* info) {
  FILETIME created, ended, kernel = {0, 0}, user = {0, 0};
  PROCESS_MEMORY_COUNTERS memory;
  ZeroMemory(&memory, sizeof(memory));
  memory.cb = sizeof(memory);
  GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user);
  GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory));
  info->user_msecs = to_msecs(&user);
  info->system_msecs = to_msecs(&kernel);
  info->current_rss = memory.WorkingSetSize;
  info->peak_rss = memory.PeakWorkingSetSize;
  info->page_faults = memory.PageFaultCount;
  if (info->peak_rss < info->current_rss) info->peak_rss = info->current_rss;
}

uint64_t mx_os_clock_msecs(void) { return GetTickCount64(); }

unsigned mx_os_numa_count(void) {
  ULONG highest = 0;
  return GetNumaHighestNodeNumber(&highest) ? (unsigned)highest + 1 : 1;
}

unsigned mx_os_numa_node(void) {
  PROCESSOR_NUMBER processor;
  USHORT node = 0;
  if (dynamic.processor_number == NULL || dynamic.processor_node == NULL) return 0;
  dynamic.processor_number(&processor);
  return dynamic.processor_node(&processor, &node) ? node : 0;
}

bool mx_os_random(void* buf, size_t size) { return RtlGenRandom(buf, (ULONG)size) != 0; }

// Only what begins like an option of this library. The C run-time has an environment of its own,
// which is not there yet when the first block is asked for.
char** mx_os_environ(void) {
  static mx_environ_t kept;
  kept.count = 0;
  char* const block = GetEnvironmentStringsA();  // stays: entries point into it
  if (block == NULL) return NULL;
  for (char* entry = block; *entry != 0; entry++) {
    mx_environ_keep(&kept, entry);
    while (*entry != 0) entry++;
  }
  kept.entries[kept.count] = NULL;
  if (kept.count == 0) FreeEnvironmentStringsA(block);
  return kept.entries;
}

void mx_os_write_stderr(const char* text, size_t length) {
  const HANDLE out = GetStdHandle(STD_ERROR_HANDLE);
  DWORD written = 0;
  if (out == NULL || out == INVALID_HANDLE_VALUE) return;
  while (length > 0 && WriteFile(out, text, (DWORD)length, &written, NULL) && written > 0) {
    text += written;
    length -= written;
  }
}

void mx_os_abort(void) { abort(); }

void mx_os_set_errno(int code) { _set_errno(code); }

#endif
