// SPDX-License-Identifier: MIT
// Moving the first instructions of a function elsewhere, so that its entry can be overwritten
// and the function still be called. x86 and x86-64.
//
// Only instructions that compilers begin functions with are understood. Whatever else is met there
// says that the code is not what it seems to be, and the function is left alone.
#ifndef MX_OVERRIDE_WINDOWS_CODE_H
#define MX_OVERRIDE_WINDOWS_CODE_H

#include "../base/bits.h"

// What an entry is overwritten with: a jump of 32 bits.
#define MX_CODE_PATCH ((size_t)5)
// The most that moved instructions take, with the jump behind them.
#define MX_CODE_MOVED_MAX ((size_t)64)

MX_BEGIN_DECLS
// Copies whole instructions from `from`, at least MX_CODE_PATCH bytes of them, to `out`, changed so
// that they run at address `to`, and behind them a jump to what follows. Answers how many bytes
// were taken; 0 when something there is unfamiliar or cannot be reached from `to`.
size_t mx_code_move(const uint8_t* from, uintptr_t from_address, uint8_t* out, uintptr_t to);
// Writes a jump that is to run at `at`; false when the target is too far away.
bool mx_code_jump(uint8_t* out, uintptr_t at, uintptr_t target);
MX_END_DECLS

#endif
