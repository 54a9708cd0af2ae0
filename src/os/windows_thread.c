// SPDX-License-Identifier: MIT
// Threads on Windows: their ends, waiting, the background thread.
//
// The loader calls each image's TLS callbacks at the end of every thread, whichever way it was
// started, in a DLL as in a program. Ours is in the section XLB, before those of the C run-time, so
// that what their destructors free comes later and starts anew, and thread-local storage is there.
#include "os.h"

#if defined(_WIN32)

#include "libc.h"
#include "windows_api.h"


#define BACKGROUND_STACK (64 * 1024)

static void (*at_thread_exit)(void* value);
mx_used static mx_thread_local void* armed_value;

// ---- ends of threads ---------------------------------------------------------------------------

static void NTAPI on_tls_event(void* module, DWORD reason, void* reserved) {
  (void)module;
  (void)reserved;
  if (reason != DLL_THREAD_DETACH) return;
  void* const value = mx_tls(armed_value);
  mx_tls(armed_value) = NULL;
  if (value != NULL && at_thread_exit != NULL) at_thread_exit(value);
}

#if defined(_MSC_VER)
#if defined(_WIN64)
#pragma comment(linker, "/INCLUDE:_tls_used")
#pragma comment(linker, "/INCLUDE:mx_windows_tls_callback")
#else
#pragma comment(linker, "/INCLUDE:__tls_used")
#pragma comment(linker, "/INCLUDE:_mx_windows_tls_callback")
#endif
#pragma section(".CRT$XLB", long, read)
MX_EXTERN_C __declspec(allocate(".CRT$XLB")) const PIMAGE_TLS_CALLBACK mx_windows_tls_callback =
    &on_tls_event;
#else
__attribute__((section(".CRT$XLB"), used)) PIMAGE_TLS_CALLBACK mx_windows_tls_callback =
    &on_tls_event;
#endif

typedef BOOLEAN(NTAPI shutdown_fn)(void);

bool mx_windows_is_ending(void) {
  shutdown_fn* const is_shutdown =
      (shutdown_fn*)(uintptr_t)mx_windows_find(L"ntdll", "RtlDllShutdownInProgress");
  return is_shutdown != NULL && is_shutdown();
}

static bool is_in_dll(void) {
  HMODULE own = NULL;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                         GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                     (LPCWSTR)(const void*)&at_thread_exit, &own);
  return own != GetModuleHandleW(NULL);
}

// At the end of a process calls go on, and need the handler; a DLL that is unloaded must not leave
// one behind.
void mx_os_thread_setup(void (*at_exit)(void* value)) {
  at_thread_exit = at_exit;
  if (at_exit == NULL && !mx_windows_is_ending() && is_in_dll()) mx_windows_forget_faults();
}

void mx_os_thread_arm(void* value) { mx_tls(armed_value) = value; }

// ---- waiting -----------------------------------------------------------------------------------

void mx_os_yield(void) {
  if (!SwitchToThread()) Sleep(0);
}

bool mx_os_barrier_all(void) {
  FlushProcessWriteBuffers();
  return true;
}

typedef BOOL(WINAPI wait_fn)(volatile void* address, void* compare, SIZE_T size, DWORD msecs);
typedef void(WINAPI wake_fn)(void* address);

// Since Windows 8; before that the time is slept away in pieces. Found at the start: to look for
// them takes the loader's lock, which the holder of one of ours may be waiting for.
static wait_fn* wait;
static wake_fn* wake;

void mx_windows_find_waits(void) {
  wait = (wait_fn*)(uintptr_t)mx_windows_find(L"kernelbase", "WaitOnAddress");
  wake = (wake_fn*)(uintptr_t)mx_windows_find(L"kernelbase", "WakeByAddressSingle");
}

void mx_os_wait(mx_atomic(uint32_t)* word, uint32_t value, uint64_t msecs) {
  const DWORD limit = (msecs == 0 || msecs >= INFINITE ? INFINITE : (DWORD)msecs);
  if (wait != NULL) {
    wait(word, &value, sizeof(value), limit);
  } else if (mx_load_acquire(word) == value) {
    Sleep(limit < 10 ? limit : 10);
  }
}

void mx_os_wake(mx_atomic(uint32_t)* word) {
  if (wake != NULL) wake(word);
}

// ---- the background thread ---------------------------------------------------------------------

static DWORD WINAPI run_background(void* run) {
  ((void (*)(void))(uintptr_t)run)();
  return 0;
}

bool mx_os_thread_start(void (*run)(void)) {
  void* const arg = (void*)(uintptr_t)run;
  const HANDLE thread = CreateThread(NULL, BACKGROUND_STACK, &run_background, arg,
                                     STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (thread == NULL) return false;
  CloseHandle(thread);
  return true;
}

#endif
