// SPDX-License-Identifier: MIT
// The assertions. mx_check: internal invariants (MX_CHECK_LEVEL 2); mx_check_slow: walks over whole
// structures (3). A failed one prints its place and stops the process. The level is that of
// debugging, so none exists in a release build, unless it names one.
#ifndef MX_BASE_CHECK_H
#define MX_BASE_CHECK_H

#include "config.h"

MX_BEGIN_DECLS
mx_noreturn void mx_assert_fail(const char* expr, const char* file, unsigned line,
                                const char* func);
MX_END_DECLS

#define mx_check_at_level(level, e) \
  ((void)(MX_CHECK_LEVEL < (level) || (e) || (mx_assert_fail(#e, __FILE__, __LINE__, __func__), 0)))
#define mx_check(e) mx_check_at_level(2, e)
#define mx_check_slow(e) mx_check_at_level(3, e)

#endif
