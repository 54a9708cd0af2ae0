// SPDX-License-Identifier: MIT
// Owns call stacks: taking them, and printing them by function and module.
#ifndef MX_SERVICE_STACK_H
#define MX_SERVICE_STACK_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// Lets the floors below take and print stacks. Once, at start.
void mx_stack_init(void);
MX_END_DECLS

#endif
