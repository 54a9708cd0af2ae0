// SPDX-License-Identifier: MIT
// The implementation of windows_jump.h.
#include "windows_jump.h"

#include "override.h"

#if MX_OVERRIDE_WINDOWS

#include <string.h>

#include "../os/windows_api.h"

#define ISLAND_SIZE ((size_t)(64 * MX_KIB))
#define SLOT_SIZE ((size_t)96)    // a jump of 64 bits, and the moved instructions
#define FAR_JUMP_SIZE ((size_t)16)
#define REACH ((uintptr_t)1 << 30)
#define THREADS_MAX 1024
#define HOLD_TRIES 100

// ---- islands -----------------------------------------------------------------------------------

static uint8_t* allocate_island(uintptr_t at) {
  return (uint8_t*)VirtualAlloc((void*)at, ISLAND_SIZE, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

// The first free place above an address, or else below.
static uint8_t* island_near(uintptr_t address) {
  MEMORY_BASIC_INFORMATION info;
  uintptr_t p = mx_align_up(address, ISLAND_SIZE);
  while (p - address < REACH && VirtualQuery((void*)p, &info, sizeof(info)) != 0) {
    const uintptr_t end = (uintptr_t)info.BaseAddress + info.RegionSize;
    if (info.State == MEM_FREE && end - p >= ISLAND_SIZE) {
      uint8_t* const island = allocate_island(p);
      if (island != NULL) return island;
    }
    p = mx_align_up(end, ISLAND_SIZE);
  }
  p = mx_align_down(address, ISLAND_SIZE);
  while (p > ISLAND_SIZE && address - p < REACH) {
    p -= ISLAND_SIZE;
    if (VirtualQuery((void*)p, &info, sizeof(info)) == 0) return NULL;
    if (info.State != MEM_FREE) {
      p = mx_align_down((uintptr_t)info.AllocationBase, ISLAND_SIZE);
      continue;
    }
    uint8_t* const island = allocate_island(p);
    if (island != NULL) return island;
  }
  return NULL;
}

bool mx_patches_begin(mx_patches_t* patches, const void* where) {
  patches->used = patches->count = 0;
  patches->island = island_near((uintptr_t)where);
  return patches->island != NULL;
}

void mx_patches_drop(mx_patches_t* patches) {
  if (patches->island != NULL) VirtualFree(patches->island, 0, MEM_RELEASE);
  patches->island = NULL;
  patches->count = 0;
}

// ---- preparing ---------------------------------------------------------------------------------

// To any address: a jump through the pointer behind it.
static void write_far_jump(uint8_t* out, const void* target) {
  const uintptr_t address = (uintptr_t)target;
  if (!MX_64BIT) {
    mx_code_jump(out, (uintptr_t)out, address);
    return;
  }
  static const uint8_t jump[8] = {0xFF, 0x25, 2, 0, 0, 0, 0xCC, 0xCC};
  memcpy(out, jump, sizeof(jump));
  memcpy(out + sizeof(jump), &address, sizeof(address));
}

bool mx_patches_add(mx_patches_t* patches, void* entry, const void* replacement, void** original) {
  for (size_t i = 0; i < patches->count; i++) {
    if (patches->items[i].entry != entry) continue;
    *original = *patches->items[i].original;
    return true;
  }
  if (patches->count == MX_PATCHES_MAX) return false;
  mx_patch_t* const patch = &patches->items[patches->count];
  uint8_t* const slot = patches->island + patches->used;
  uint8_t* const moved = slot + FAR_JUMP_SIZE;
  write_far_jump(slot, replacement);
  if (mx_code_move((uint8_t*)entry, (uintptr_t)entry, moved, (uintptr_t)moved) == 0) return false;
  if (!mx_code_jump(patch->after, (uintptr_t)entry, (uintptr_t)slot)) return false;
  patch->entry = (uint8_t*)entry;
  patch->replacement = replacement;
  patch->original = original;
  memcpy(patch->before, entry, MX_CODE_PATCH);
  *original = moved;
  patches->used += SLOT_SIZE;
  patches->count++;
  return true;
}

// ---- holding other threads ---------------------------------------------------------------------

static HANDLE held[THREADS_MAX];
static size_t held_count;

static void let_go(void) {
  for (size_t i = 0; i < held_count; i++) {
    ResumeThread(held[i]);
    CloseHandle(held[i]);
  }
  held_count = 0;
}

static uintptr_t instruction_of(HANDLE thread) {
  CONTEXT context;
  context.ContextFlags = CONTEXT_CONTROL;
  if (!GetThreadContext(thread, &context)) return 0;
#if defined(_WIN64)
  return (uintptr_t)context.Rip;
#else
  return (uintptr_t)context.Eip;
#endif
}

static bool is_inside(const mx_patches_t* patches, uintptr_t address) {
  for (size_t i = 0; i < patches->count; i++) {
    const uintptr_t offset = address - (uintptr_t)patches->items[i].entry;
    if (offset > 0 && offset < MX_CODE_PATCH) return true;
  }
  return false;
}

// Threads are opened before the first is held: one that is held may hold what opening needs.
static bool open_others(void) {
  const HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
  if (snapshot == INVALID_HANDLE_VALUE) return false;
  THREADENTRY32 entry;
  entry.dwSize = sizeof(entry);
  bool ok = true;
  for (BOOL more = Thread32First(snapshot, &entry); more && ok;
       more = Thread32Next(snapshot, &entry)) {
    if (entry.th32OwnerProcessID != GetCurrentProcessId()) continue;
    if (entry.th32ThreadID == GetCurrentThreadId()) continue;
    const HANDLE thread = OpenThread(THREAD_SUSPEND_RESUME | THREAD_GET_CONTEXT |
                                         THREAD_QUERY_INFORMATION, FALSE, entry.th32ThreadID);
    if (thread == NULL) continue;  // it has ended
    ok = (held_count < THREADS_MAX);
    if (ok) held[held_count++] = thread;
    else CloseHandle(thread);
  }
  CloseHandle(snapshot);
  return ok;
}

static bool hold_once(const mx_patches_t* patches) {
  bool ok = open_others();
  if (!ok) {
    for (size_t i = 0; i < held_count; i++) CloseHandle(held[i]);
    held_count = 0;
    return false;
  }
  for (size_t i = 0; i < held_count; i++) SuspendThread(held[i]);
  for (size_t i = 0; i < held_count && ok; i++) ok = !is_inside(patches, instruction_of(held[i]));
  if (!ok) let_go();
  return ok;
}

static bool hold_others(const mx_patches_t* patches) {
  for (unsigned tries = 0; tries < HOLD_TRIES; tries++) {
    if (hold_once(patches)) return true;
    Sleep(1);
  }
  return false;
}

// ---- applying ----------------------------------------------------------------------------------

static bool write_entry(uint8_t* entry, const uint8_t* bytes) {
  DWORD before, ignored;
  if (!VirtualProtect(entry, MX_CODE_PATCH, PAGE_EXECUTE_READWRITE, &before)) return false;
  memcpy(entry, bytes, MX_CODE_PATCH);
  VirtualProtect(entry, MX_CODE_PATCH, before, &ignored);
  FlushInstructionCache(GetCurrentProcess(), entry, MX_CODE_PATCH);
  return true;
}

static bool write_all(mx_patches_t* patches) {
  for (size_t i = 0; i < patches->count; i++) {
    if (write_entry(patches->items[i].entry, patches->items[i].after)) continue;
    while (i-- > 0) write_entry(patches->items[i].entry, patches->items[i].before);
    return false;
  }
  return true;
}

bool mx_patches_apply(mx_patches_t* patches) {
  DWORD before;
  if (!VirtualProtect(patches->island, ISLAND_SIZE, PAGE_EXECUTE_READ, &before)) return false;
  FlushInstructionCache(GetCurrentProcess(), patches->island, ISLAND_SIZE);
  if (!hold_others(patches)) return false;
  const bool ok = write_all(patches);
  let_go();
  return ok;
}

void mx_patches_undo(mx_patches_t* patches) {
  if (!hold_others(patches)) return;
  for (size_t i = patches->count; i-- > 0;) {
    write_entry(patches->items[i].entry, patches->items[i].before);
  }
  let_go();
}

#endif
