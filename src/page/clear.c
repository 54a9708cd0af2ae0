// SPDX-License-Identifier: MIT
// Clearing freed blocks within a share of the time, and what is said of one that is not clear: see
// clear.h.
#include "clear.h"

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../os/os.h"

// Clearing a byte, and verifying it, takes 0.3 to 0.5 ns on most machines: most of it is the cache
// lines that the program would not have touched, and so it shows elsewhere. More than an OS page
// may lie in memory that nobody has touched, which takes a page fault, and counts twice. So many
// bytes for each millisecond of a thread are a 64th of its time; so many may be saved up. The clock
// is the coarse one: the processor's counter may be forbidden (PR_SET_TSC, strict seccomp).
#define CLEAR_EACH_MSEC ((uint64_t)40 << 10)
#define CLEAR_SAVED ((int64_t)1 << 20)
#define CLEAR_LOOKS 64      // blocks that are left as they are between two looks at the time

typedef struct clear_time_s {
  int64_t bytes;   // that may still be cleared
  uint64_t since;  // when it was looked at the time: milliseconds
  uint32_t tries;
} clear_time_t;

mx_used static mx_thread_local clear_time_t clear_time;

static bool may_go_on(clear_time_t* time) {
  if (time->tries++ % CLEAR_LOOKS != 0) return false;
  const uint64_t now = mx_os_clock_msecs();
  const uint64_t more = (now - time->since) * CLEAR_EACH_MSEC;
  time->since = now;
  if (more < (uint64_t)(CLEAR_SAVED - time->bytes)) time->bytes += (int64_t)more;
  else time->bytes = CLEAR_SAVED;
  return time->bytes > 0;
}

bool mx_clear_larger(uint8_t* p, size_t n) {
  clear_time_t* const time = &mx_tls(clear_time);
  mx_check(n >= 64);
  if (time->bytes <= 0 && !may_go_on(time)) {
    memset(p, 0, MX_CLEAR_SHORT);
    return false;
  }
  time->bytes -= (int64_t)(n > mx_facts.os_page ? 2 * n : n);
  memset(p, 0, n);
  return true;
}

bool mx_clear_report(const mx_page_t* page, const void* block) {
  const uint8_t* const p = (const uint8_t*)block;
  const size_t end = sizeof(mx_block_t) + mx_clear_size(page->block_size);
  for (size_t i = sizeof(mx_block_t); i < end; i++) {
    if (p[i] == 0) continue;
    mx_error(14 /* EFAULT */, "use after free of heap block %p of size %zu: write at byte %zu\n",
             block, page->block_size - MX_PAD, i);
    return true;
  }
  return false;
}
