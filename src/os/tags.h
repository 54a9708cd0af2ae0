// SPDX-License-Identifier: MIT
// Memory tags (MTE of arm64): 4 bits for every 16 bytes of memory, which the processor compares
// with 4 bits of the address that an access is made by. Who has which tag says alloc/tags.h.
//
// Every instruction here is undefined on processors that have none, so nothing is called before
// mx_has_tags() has said yes. Memory that was not mapped for tags has tag 0, whatever is written.
#ifndef MX_OS_TAGS_H
#define MX_OS_TAGS_H

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../base/facts.h"

#define MX_TAG_GRANULE ((size_t)16)
#define MX_TAG_SHIFT (MX_64BIT ? 56 : 0)
#define MX_TAG_MASK ((uintptr_t)15 << MX_TAG_SHIFT)

mx_inline bool mx_has_tags(void) { return MX_TAGS && mx_unlikely(mx_facts.has_tags); }

// The address itself. Addresses without tags have none of these bits.
mx_inline void* mx_tag_strip(const void* p) {
  return (void*)(MX_TAGS ? (uintptr_t)p & ~MX_TAG_MASK : (uintptr_t)p);
}

mx_inline unsigned mx_tag_of(const void* p) {
  return MX_TAGS ? (unsigned)((uintptr_t)p >> MX_TAG_SHIFT & 15) : 0;
}

mx_inline void* mx_tag_with(const void* p, unsigned tag) {
  return (void*)((uintptr_t)mx_tag_strip(p) | (uintptr_t)tag << MX_TAG_SHIFT);
}

#if MX_IS_ARM64 && MX_IS_LINUX
// Assemblers of today know these instructions for some processors only, so that they are numbers
// here, of fixed registers.
#define MX_TAG_LDG ".inst 0xd9600000"     // ldg x0, [x0]
#define MX_TAG_STG ".inst 0xd9200800"     // stg x0, [x0]
#define MX_TAG_ST2G ".inst 0xd9a00800"    // st2g x0, [x0]
#define MX_TAG_IRG ".inst 0x9ac11000"     // irg x0, x0, x1
// Accesses in between are not compared; those before and behind are, as nobody else switches this.
#define MX_TAG_OFF ".inst 0xd503419f\n\t"  // msr tco, #1
#define MX_TAG_ON "\n\t.inst 0xd503409f"   // msr tco, #0

// The tag of the memory at p, which is mapped.
mx_inline unsigned mx_tag_read(const void* p) {
  register uintptr_t at __asm__("x0") = (uintptr_t)p;
  __asm__ volatile(MX_TAG_LDG : "+r"(at) : : "memory");
  return (unsigned)(at >> MX_TAG_SHIFT & 15);
}

// Gives memory the tag of p; whole granules.
mx_inline void mx_tag_write(const void* p, size_t size) {
  register uintptr_t at __asm__("x0") = (uintptr_t)p;
  const uintptr_t end = at + size;
  for (; end - at >= 2 * MX_TAG_GRANULE; at += 2 * MX_TAG_GRANULE) {
    __asm__ volatile(MX_TAG_ST2G : : "r"(at) : "memory");
  }
  if (at != end) __asm__ volatile(MX_TAG_STG : : "r"(at) : "memory");
}

// p with a random tag, none of those whose bits are set; such a one where the process has left the
// processor no other to choose.
mx_inline void* mx_tag_random(const void* p, unsigned excluded) {
  register uintptr_t at __asm__("x0") = (uintptr_t)p;
  register uintptr_t bits __asm__("x1") = excluded;
  __asm__ volatile(MX_TAG_IRG : "+r"(at) : "r"(bits));
  return (void*)at;
}

// Reads and writes of what may have any tag.
mx_inline uint64_t mx_tag_load(const void* p) {
  uint64_t word;
  __asm__ volatile(MX_TAG_OFF "ldr %0, [%1]" MX_TAG_ON : "=&r"(word) : "r"(p) : "memory");
  return word;
}

mx_inline uint8_t mx_tag_load_byte(const void* p) {
  uint32_t byte;
  __asm__ volatile(MX_TAG_OFF "ldrb %w0, [%1]" MX_TAG_ON : "=&r"(byte) : "r"(p) : "memory");
  return (uint8_t)byte;
}

mx_inline void mx_tag_store(void* p, uint64_t word) {
  __asm__ volatile(MX_TAG_OFF "str %0, [%1]" MX_TAG_ON : : "r"(word), "r"(p) : "memory");
}
#else
mx_inline unsigned mx_tag_read(const void* p) { return mx_tag_of(p); }
mx_inline void mx_tag_write(const void* p, size_t size) { (void)p, (void)size; }
mx_inline void* mx_tag_random(const void* p, unsigned excluded) {
  (void)excluded;
  return (void*)(uintptr_t)p;
}
mx_inline uint64_t mx_tag_load(const void* p) { return *(const uint64_t*)p; }
mx_inline uint8_t mx_tag_load_byte(const void* p) { return *(const uint8_t*)p; }
mx_inline void mx_tag_store(void* p, uint64_t word) { *(uint64_t*)p = word; }
#endif

#endif
