// SPDX-License-Identifier: MIT
// How the ports to Windows see its interface: the headers, and what older ones lack.
#ifndef MX_OS_WINDOWS_API_H
#define MX_OS_WINDOWS_API_H

#if defined(_WIN32)

#if !defined(_WIN32_WINNT) || _WIN32_WINNT < 0x0601
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0601  // Windows 7
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#define PSAPI_VERSION 2  // its functions are in kernel32
#include <windows.h>
#include <psapi.h>
#include <tlhelp32.h>

#include "../base/atomic.h"

MX_BEGIN_DECLS
// In advapi32 under this name; it works as early as anything.
BOOLEAN NTAPI SystemFunction036(void* buf, ULONG size);
#define RtlGenRandom SystemFunction036

// Takes the handler of faults away.
void mx_windows_forget_faults(void);
// Finds the functions by which threads wait, at the start.
void mx_windows_find_waits(void);
// A function of a module that is loaded, or NULL.
void* mx_windows_find(const wchar_t* module, const char* name);
MX_END_DECLS

// VirtualAlloc2 and its parameters, of Windows 10 (1803).
typedef struct mx_address_requirements_s {
  void* lowest;
  void* highest;
  size_t alignment;
} mx_address_requirements_t;

typedef struct mx_extended_parameter_s {
  uint64_t type;
  union {
    uint64_t number;
    void* pointer;
  } value;
} mx_extended_parameter_t;

#define MX_PARAMETER_ADDRESS_REQUIREMENTS 1
#define MX_PARAMETER_NUMA_NODE 2
#define MX_PARAMETER_ATTRIBUTE_FLAGS 5
#define MX_PARAMETER_NONPAGED_HUGE 0x10

typedef void*(WINAPI mx_virtual_alloc2_fn)(HANDLE process, void* base, SIZE_T size, ULONG type,
                                           ULONG protection, mx_extended_parameter_t* parameters,
                                           ULONG count);
typedef void(WINAPI mx_processor_number_fn)(PROCESSOR_NUMBER* number);
typedef BOOL(WINAPI mx_processor_node_fn)(PROCESSOR_NUMBER* number, USHORT* node);

#endif
#endif
