// SPDX-License-Identifier: MIT
// Owns the declarations of the composition root.
#ifndef MX_API_ROOT_H
#define MX_API_ROOT_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// Starts the library, once; called when it is loaded, and by mi_process_init.
void mx_process_start(void);
MX_END_DECLS

#endif
