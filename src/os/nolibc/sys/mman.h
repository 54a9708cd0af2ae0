// SPDX-License-Identifier: MIT
// The kernel's constants of memory mappings, the same on x86-64 and arm64.
#ifndef MX_NOLIBC_SYS_MMAN_H
#define MX_NOLIBC_SYS_MMAN_H
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 0x02
#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MAP_HUGETLB 0x40000
#define MADV_DONTNEED 4
#define MADV_DOFORK 11
#define MADV_HUGEPAGE 14
#define MADV_NOHUGEPAGE 15
#define MADV_DODUMP 17
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#define MREMAP_MAYMOVE 1
#define MREMAP_FIXED 2
#endif
