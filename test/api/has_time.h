// SPDX-License-Identifier: MIT
// Whether a loop that repeats itself may go on. MI_TEST_SECONDS bounds for how long, where all takes
// long: the slower the machine, the fewer rounds. `begun` is the loop's, 0 at first.
#ifndef MI_TEST_API_HAS_TIME_H
#define MI_TEST_API_HAS_TIME_H

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static inline bool has_time(time_t* begun) {
  const char* const most = getenv("MI_TEST_SECONDS");
  if (most == NULL) return true;
  if (*begun == 0) *begun = time(NULL);
  return time(NULL) - *begun < atol(most);
}

#endif
