// SPDX-License-Identifier: MIT
// Unpredictable numbers: SipHash-2-4 of a counter, under a secret key from the OS.
//
// Without the key no number tells anything of another one, and a process that forks shares no
// number with its parent once it has drawn a new key. A call costs about 15 ns: it is for keys of
// pages and seeds, never for a path of malloc or free.
#ifndef MX_MEM_RANDOM_H
#define MX_MEM_RANDOM_H

#include "../base/bits.h"

MX_BEGIN_DECLS
// 64 bits that nobody can foretell. From any thread, at any time.
uint64_t mx_random64(void);
// In the child of a fork: takes a new key.
void mx_random_after_fork(void);
MX_END_DECLS

// A step of a small generator (a linear congruence by 64 bits; take the high bits), for choices
// that are made often and whose seed came from mx_random64.
mx_inline uint64_t mx_random_step(uint64_t* state) {
  *state = *state * 0x5851F42D4C957F2Du + 0x14057B7EF767814Fu;
  return *state;
}

// 32 bits, always the same for a key and `n`; without the key they cannot be foretold.
mx_inline uint32_t mx_random_of(uint64_t key, uint64_t n) {
  const uint64_t x = (key ^ n) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(((x ^ x >> 32) * 0xD6E8FEB86659FD93u) >> 32);
}

#endif
