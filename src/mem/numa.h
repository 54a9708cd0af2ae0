// SPDX-License-Identifier: MIT
// The NUMA nodes as the library counts them: those of the machine, or as many as the option
// use_numa_nodes pretends. Threads then are on a node by the number of their real one modulo that,
// so all that depends on nodes can be tried on a machine with one.
#ifndef MX_MEM_NUMA_H
#define MX_MEM_NUMA_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
unsigned mx_numa_count(void);    // at least 1
unsigned mx_numa_current(void);  // the node of the calling thread's processor
MX_END_DECLS

// A node as a caller named it: any negative one is none (-1), others are taken modulo the count.
mx_inline int mx_numa_node_of(int node) { return node < 0 ? -1 : node % (int)mx_numa_count(); }

#endif
