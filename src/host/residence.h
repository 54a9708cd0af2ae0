// SPDX-License-Identifier: MIT
// The contract with the OS about what is present in memory: which bytes of a range, and which
// mappings the process has. Nothing here allocates through malloc or changes errno, and the stack
// that it takes is bounded.
#ifndef MX_HOST_RESIDENCE_H
#define MX_HOST_RESIDENCE_H

#include "../base/bits.h"

// How many OS pages are asked for at a time.
#define MX_RESIDENCE_PAGES 256

// What is known of a window of addresses that was asked for last.
typedef struct mx_residence_s {
  long file;         // what answers, or -1
  uintptr_t from;    // the window, in numbers of OS pages
  size_t count;
  uint8_t state[MX_RESIDENCE_PAGES];
} mx_residence_t;

// Bytes that are present. Those that another process may have as well, which is also what a page
// of zeros looks like that was only read and takes no memory, stand in both numbers.
typedef struct mx_present_s {
  size_t bytes, shared;
} mx_present_t;

typedef enum mx_mapping_kind_e {
  MX_MAPPING_PLAIN,    // anonymous memory
  MX_MAPPING_STACK,    // of the main thread
  MX_MAPPING_BREAK,    // what brk() made
  MX_MAPPING_FILE,     // programs, libraries, other files
  MX_MAPPING_SHARED,   // shared with other processes, without a file in a file system
  MX_MAPPING_SYSTEM,   // the system's own
} mx_mapping_kind_t;

#define MX_MAPPING_NAME 64

typedef struct mx_mapping_s {
  uintptr_t start, end;
  mx_mapping_kind_t kind;
  char name[MX_MAPPING_NAME];  // of its file, without folders; cut off, if longer
  size_t resident;     // bytes that count in the resident size of the process
  size_t shared;       // those of them that other processes have, too
  size_t huge;         // bytes in huge OS pages, which do not count there
  size_t swapped;
} mx_mapping_t;

typedef void(mx_mapping_fn)(const mx_mapping_t* mapping, void* arg);

MX_BEGIN_DECLS
void mx_residence_open(mx_residence_t* r);
void mx_residence_close(mx_residence_t* r);
// Adds what is present of a range of any length to *sum. False: the OS does not tell.
bool mx_residence_add(mx_residence_t* r, const void* start, size_t size, mx_present_t* sum);
// Calls `visit` for every mapping of the process, in the order of their addresses. False: the OS
// does not tell. Amounts of memory, which take long, are all 0 if not asked for.
bool mx_host_visit_mappings(bool has_amounts, mx_mapping_fn* visit, void* arg);
// The main thread's number (mx_os_thread_number); and whether the thread of such a number waits for
// something at this moment.
uint32_t mx_host_main_thread_number(void);
bool mx_host_thread_sleeps(uint32_t number);
// Has `run`, the same function for all, called in the handler of a signal. False: there is no such
// signal, or the program has other plans with it.
bool mx_host_on_wish_signal(int number, void (*run)(int number));
MX_END_DECLS

#endif
