// SPDX-License-Identifier: MIT
// The walk over a thread's stack on Windows.
#include "process.h"

#if defined(_WIN32)

#include "../os/windows_api.h"

int mx_host_backtrace(void** frames, int most) {
  return CaptureStackBackTrace(0, (DWORD)most, frames, NULL);
}

#endif
