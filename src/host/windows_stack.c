// SPDX-License-Identifier: MIT
// The walk over a thread's stack on Windows, and whose code is whose.
#include "process.h"

#if defined(_WIN32)

#include "../os/windows_api.h"

#include "../base/fmt.h"

int mx_host_backtrace(void** frames, int most) {
  return CaptureStackBackTrace(0, (DWORD)most, frames, NULL);
}

static HMODULE module_of(const void* address) {
  HMODULE module = NULL;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                         GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                     (LPCWSTR)address, &module);
  return module;
}

// In a program that is linked with the library, no code can be told from the program's.
bool mx_host_is_own_code(const void* address) {
  const HMODULE own = module_of((const void*)(uintptr_t)&mx_host_is_own_code);
  return own != GetModuleHandleW(NULL) && own == module_of(address);
}

void mx_host_describe_code(const void* address, char* buf, size_t size) {
  char path[MAX_PATH];
  const HMODULE module = module_of(address);
  if (module == NULL || GetModuleFileNameA(module, path, sizeof(path)) == 0) {
    mx_format(buf, size, "(unknown)");
    return;
  }
  path[sizeof(path) - 1] = 0;
  const char* name = path;
  for (const char* s = path; *s != 0; s++) {
    if (*s == '\\' || *s == '/') name = s + 1;
  }
  mx_format(buf, size, "%s+0x%zx", name, (size_t)((uintptr_t)address - (uintptr_t)module));
}

#endif
