// SPDX-License-Identifier: MIT
// What the files for Linux tell one another.
#ifndef MX_OS_LINUX_H
#define MX_OS_LINUX_H

#include "../base/compiler.h"

// What the kernel counts in: less than an OS page where a build pretends larger ones.
#if defined(MI_OS_PAGE_SIZE)
#define MX_KERNEL_PAGE ((size_t)4096)
#else
#define MX_KERNEL_PAGE mx_facts.os_page
#endif

// Of memory that can have tags (see tags.h); older headers lack it.
#define MX_PROT_TAGS 0x20

MX_BEGIN_DECLS
// Of an OS page. A libc knows it; without one it is found out.
size_t mx_linux_page_size(void);
// Bytes of memory present; 0 where it cannot be read.
size_t mx_linux_resident(void);
// Fills in mx_facts.has_tags.
#if MX_HAS_LIBC
void mx_linux_choose_tags(void);
#endif
MX_END_DECLS

#endif
