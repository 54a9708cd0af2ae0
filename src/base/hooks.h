// SPDX-License-Identifier: MIT
// The few ways in which low floors reach what lives above them: pointers that are registered
// at start and consulted on slow paths only. All are NULL-safe through the functions below. Nobody
// writes to mx_hooks after the start (see mem/settings.h).
#ifndef MX_BASE_HOOKS_H
#define MX_BASE_HOOKS_H

// The codes of errors, whose numbers differ between systems.
#include <errno.h>

#include "atomic.h"
#include "config.h"
#include "mitigations.h"

typedef enum mx_level_e { MX_ERROR, MX_WARNING, MX_VERBOSE, MX_TRACE } mx_level_t;

typedef void(mx_visit_fn)(void);
typedef void(mx_clear_fn)(void* theap, bool all);

typedef struct mx_own_page mx_hooks_s {
  // Formats and prints a message; `code` is an errno value for errors, 0 otherwise.
  void (*message)(mx_level_t level, int code, const char* fmt, ...);
  // Begins or ends a pass through pages, of this thread: the program's handler, which may allocate
  // and free, is told at the end of what was found meanwhile. One pass may be in another.
  void (*hold_errors)(bool begins);
  // Takes the caller's stack into an array of zeros, and prints one frame of such a stack.
  void (*capture_stack)(void** stack, int most);
  void (*print_frame)(int number, void* address);
  // The profiler's notes of sampled blocks: a note of a block of so many requested bytes, which was
  // chosen with this probability (NULL: there is no room for one), where `frame` is that of a
  // function whose caller is the program, or NULL; one for the program's own profiler, which
  // answers the bytes up to the next; the block has another size where it is; it is freed. Called
  // with no lock held.
  void* (*begin_note)(void* block, size_t size, double probability, const void* frame);
  void* (*tell_note)(void* block, size_t size, size_t usable, size_t threshold, size_t since,
                     uint8_t tag, size_t* next);
  void (*resize_note)(void* note, size_t size);
  void (*end_note)(void* note);
  // Says in lines who allocated the sampled block that an address is in, or was the last to be in
  // where there is none now: in the middle of anything, whatever locks are held.
  void (*tell_origin)(const void* p, void (*say)(const char* text, size_t length));
  // An allocation fails for want of memory; no lock is held.
  void (*memory_ran_out)(void);
  // Debug builds: a block is now its user's, or no longer.
  void (*block_allocated)(const void* block);
  void (*block_freed)(const void* block);
} mx_hooks_t;

extern mx_hooks_t mx_hooks;

// Those that come and go while other threads look: a caller has loaded it once.
typedef struct mx_visits_s {
  // Called at the beginning of a slow allocation, where another allocation does no harm.
  mx_atomic(mx_visit_fn*) slow_visit;
  // Frees the blocks that a theap which has magazines keeps at hand: all, or those it does not use.
  mx_atomic(mx_clear_fn*) clear_magazines;
} mx_visits_t;

extern mx_hidden mx_visits_t mx_visits;

// Reports an error, warning or verbose line. The formats understood are those of fmt.h; behind one
// with a %B comes what tell_origin says of that.
#define mx_message(level, code, ...)                                            \
  do {                                                                          \
    if (mx_hooks.message != NULL) mx_hooks.message((level), (code), __VA_ARGS__); \
  } while (0)
#define mx_error(code, ...) mx_message(MX_ERROR, (code), __VA_ARGS__)
#define mx_warning(...) mx_message(MX_WARNING, 0, __VA_ARGS__)
#define mx_verbose(...) mx_message(MX_VERBOSE, 0, __VA_ARGS__)

// Where pages are verified the program's handler of errors has to wait.
mx_inline void mx_hold_errors(bool begins) {
  if (MX_PADDING && mx_hooks.hold_errors != NULL) mx_hooks.hold_errors(begins);
}

#endif
