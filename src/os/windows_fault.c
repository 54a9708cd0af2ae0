// SPDX-License-Identifier: MIT
// Faults on Windows: one vectored handler, which sees an exception before
// any handler of a frame or a debugger's second chance.
//
// A range that reads as zero is reserved only. The first access to one of its OS pages faults, and
// the handler commits that page and lets the access go on; so a search in the page map for an
// address that is nobody's costs one fault for each 32 MiB of addresses, once, and all others cost
// nothing. Where the commit fails for lack of memory it is tried again for a while.
#include "os.h"

#if defined(_WIN32)

#include "windows_api.h"

#define RANGES_MAX 4
#define COMMIT_TRIES 1000

static struct {
  uint8_t* start;
  size_t size;
} ranges[RANGES_MAX];

static mx_atomic(int) range_count;
static mx_atomic(void*) registered;
static bool (*at_fault)(const void* address);

static bool make_readable(const uint8_t* address) {
  for (int i = mx_load_acquire(&range_count); i-- > 0;) {
    if ((size_t)(address - ranges[i].start) >= ranges[i].size) continue;
    void* const page = (void*)mx_align_down((uintptr_t)address, mx_facts.os_page);
    for (unsigned tries = 0; tries < COMMIT_TRIES; tries++) {
      if (VirtualAlloc(page, mx_facts.os_page, MEM_COMMIT, PAGE_READWRITE) != NULL) return true;
      Sleep(1);
    }
  }
  return false;
}

static LONG NTAPI on_exception(EXCEPTION_POINTERS* pointers) {
  const EXCEPTION_RECORD* const record = pointers->ExceptionRecord;
  if (record->ExceptionCode != (DWORD)EXCEPTION_ACCESS_VIOLATION || record->NumberParameters < 2) {
    return EXCEPTION_CONTINUE_SEARCH;
  }
  const uint8_t* const address = (const uint8_t*)record->ExceptionInformation[1];
  if (make_readable(address)) return EXCEPTION_CONTINUE_EXECUTION;
  if (at_fault != NULL) at_fault(address);
  return EXCEPTION_CONTINUE_SEARCH;
}

static void ensure_handler(void) {
  if (mx_load_acquire(&registered) != NULL) return;
  void* const handle = AddVectoredExceptionHandler(1, &on_exception);
  void* none = NULL;
  if (!mx_cas_strong_acq_rel(&registered, &none, handle)) RemoveVectoredExceptionHandler(handle);
}

void mx_os_reads_as_zero(void* p, size_t size) {
  const int n = mx_load_relaxed(&range_count);
  if (n == RANGES_MAX) return;
  ranges[n].start = (uint8_t*)p;
  ranges[n].size = size;
  mx_store_release(&range_count, n + 1);
  ensure_handler();
}

void mx_os_on_fault(bool (*on_fault)(const void* address)) {
  at_fault = on_fault;
  ensure_handler();
}

void mx_windows_forget_faults(void) {
  void* const handle = mx_exchange_acq_rel(&registered, (void*)NULL);
  if (handle != NULL) RemoveVectoredExceptionHandler(handle);
}

#endif
