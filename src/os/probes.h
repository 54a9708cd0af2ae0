// SPDX-License-Identifier: MIT
// Places where a tracer may listen: static probes, which eBPF profilers, bpftrace, perf, SystemTap
// and gdb know as USDT.
//
// A probe is a no-op, where a tracer puts a breakpoint, and a note in the file that nothing loads:
// its address, its names, where its arguments are at that moment ("size@operand"), and the address
// of a semaphore, if it has one: a counter of 16 bits, which a tracer raises while it listens, in
// each process or for all that run the file. It lies in a section of that name for tracers that
// find the counter's place in the file by it.
//
// The address of the 1-byte section .stapsdt.base is in each note, so that one can tell by how much
// addresses were moved after the file was linked.
#ifndef MX_OS_PROBES_H
#define MX_OS_PROBES_H

#include "../base/compiler.h"

#if defined(__ELF__) && defined(__GNUC__) && \
    (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
#define MX_HAS_PROBES 1
#else
#define MX_HAS_PROBES 0
#endif

#if MX_HAS_PROBES

#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ == 4
#define MX_PROBE_WORD ".4byte "
#define MX_PROBE_SIZE "4@"
#else
#define MX_PROBE_WORD ".8byte "
#define MX_PROBE_SIZE "8@"
#endif

// Of a variable that begins with a semaphore.
#define mx_has_semaphore __attribute__((section(".probes"), used))

#define MX_PROBE_TEXT(name, arguments, semaphore)                             \
  "990: nop\n"                                                                \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                               \
  ".balign 4\n"                                                               \
  ".4byte 992f-991f, 994f-993f, 3\n"                                          \
  "991: .asciz \"stapsdt\"\n"                                                 \
  "992: .balign 4\n"                                                          \
  "993: " MX_PROBE_WORD "990b\n" MX_PROBE_WORD "_.stapsdt.base\n"             \
  MX_PROBE_WORD semaphore "\n"                                                \
  ".asciz \"otel_memory\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n"   \
  "994: .balign 4\n"                                                          \
  ".popsection\n"                                                             \
  ".ifndef _.stapsdt.base\n"                                                  \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"     \
  ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                            \
  "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                       \
  ".popsection\n.endif\n"

#define mx_probe1(name, semaphore, a) \
  __asm__ volatile(MX_PROBE_TEXT(name, MX_PROBE_SIZE "%0", semaphore)::"r"(a))
#define mx_probe2(name, semaphore, a, b)                                                      \
  __asm__ volatile(MX_PROBE_TEXT(name, MX_PROBE_SIZE "%0 " MX_PROBE_SIZE "%1", semaphore)::"r"( \
                       a),                                                                    \
                   "r"(b))
#define mx_probe3(name, semaphore, a, b, c)                                                  \
  __asm__ volatile(MX_PROBE_TEXT(name, MX_PROBE_SIZE "%0 " MX_PROBE_SIZE "%1 " MX_PROBE_SIZE "%2", \
                                 semaphore)::"r"(a),                                         \
                   "r"(b), "r"(c))

#else
#define mx_has_semaphore
#define mx_probe1(name, semaphore, a) ((void)(a))
#define mx_probe2(name, semaphore, a, b) ((void)(a), (void)(b))
#define mx_probe3(name, semaphore, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

// Memory that the library maps and gives up. What they tell is at hand, so they take no more than
// the no-op and need no semaphore.
#define mx_probe_mmap(p, size) mx_probe2("mmap", "0", (uintptr_t)(p), (size_t)(size))
#define mx_probe_munmap(p, size) mx_probe2("munmap", "0", (uintptr_t)(p), (size_t)(size))

#endif
