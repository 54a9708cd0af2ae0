// SPDX-License-Identifier: MIT
// Waiting for what nobody tells of.
#include "../base/lock.h"
#include "os.h"
#include "system.h"

#if !MX_WAITS_ON_ADDRESS && MX_UNIX
#include <errno.h>
#include <time.h>
#endif

#if MX_WAITS_ON_ADDRESS
void mx_nap(void) {
  static mx_atomic(uint32_t) nothing;
  mx_os_wait(&nothing, 0, 1);
}
#elif MX_UNIX
void mx_nap(void) {
  const struct timespec pause = {0, 200000};
  const int saved = errno;
  nanosleep(&pause, NULL);
  errno = saved;
}
#else
void mx_nap(void) { mx_os_yield(); }
#endif

void mx_pause(unsigned turn) {
  if (turn < 8) mx_os_yield();
  else mx_nap();
}
