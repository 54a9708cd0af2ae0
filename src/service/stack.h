// SPDX-License-Identifier: MIT
// Call stacks: taking them, and printing them by function and module.
#ifndef MX_SERVICE_STACK_H
#define MX_SERVICE_STACK_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// Lets the floors below take and print stacks. Once, at start.
void mx_stack_init(void);
// Takes no more stacks. In the child of a fork a thread may have vanished that was at the loader's
// list of modules, and unwinding would wait for it.
void mx_stack_stop(void);
MX_END_DECLS

#endif
