// SPDX-License-Identifier: MIT
// The declarations of the composition root.
#ifndef MX_API_PROCESS_LIFE_H
#define MX_API_PROCESS_LIFE_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// Starts the library, once; called when it is loaded, and by mi_process_init.
void mx_process_start(void);
// Ends it, once: prints statistics if asked for. Blocks stay valid and calls keep working, unless
// the option destroy_on_exit is set.
void mx_process_end(void);
// Registers the handlers for fork, once; called when the library starts, and by what may run
// before.
void mx_process_watch_forks(void);
MX_END_DECLS

// Brings the start and end of the process along with whatever includes this, when a program links
// only what it needs of an archive: without them threads would end unnoticed.
mx_used static void (*const mx_root_anchor)(void) = &mx_process_start;

#endif
