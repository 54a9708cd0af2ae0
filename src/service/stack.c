// SPDX-License-Identifier: MIT
// Call stacks: registers what the C library offers with mx_hooks.
//
// The unwinder is loaded at its first use, which allocates; a thread that is inside does not take
// another stack. Frames of the library itself are left out in front.
#include "stack.h"

#include "../base/fmt.h"
#include "../base/hooks.h"
#include "../heap/thread_life.h"
#include "../host/process.h"

#define DEPTH_MAX 32
#define OWN_MAX 8  // frames of the library that are left out

mx_used static mx_thread_local bool inside;
static mx_at_start bool is_stopped;
static mx_atomic(bool) is_loaded;  // the unwinder: nothing is allocated any more

static int backtrace_lasting(void** frames, int most) {
  if (mx_load_relaxed(&is_loaded)) return mx_host_backtrace(frames, most);
  mx_theap_t* const before = mx_thread_set_lasting();
  const int count = mx_host_backtrace(frames, most);
  mx_thread_set_default(before);
  mx_store_relaxed(&is_loaded, true);
  return count;
}

// Fills `stack` with return addresses, the caller's first; the rest stays as it was.
static void capture(void** stack, int most) {
  if (mx_tls(inside) || is_stopped) return;
  mx_tls(inside) = true;
  void* frames[DEPTH_MAX];
  const int wanted = (most < DEPTH_MAX - OWN_MAX ? most + OWN_MAX : DEPTH_MAX);
  const int count = backtrace_lasting(frames, wanted);
  int from = 0;
  while (from < count && mx_host_is_own_code(frames[from])) from++;
  for (int i = 0; i < most && from + i < count; i++) stack[i] = frames[from + i];
  mx_tls(inside) = false;
}

static void print_frame(int number, void* address) {
  char place[160];
  char line[256];
  mx_host_describe_code(address, place, sizeof(place));
  const size_t length =
      mx_format(line, sizeof(line), "    #%d %p %s\n", number, address, place);
  mx_os_write_stderr(line, length);
}

void mx_stack_stop(void) { is_stopped = true; }

void mx_stack_init(void) {
  mx_hooks.capture_stack = capture;
  mx_hooks.print_frame = print_frame;
}
