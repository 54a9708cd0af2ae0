// SPDX-License-Identifier: MIT
// The secret key of the random numbers, and the hash (Aumasson and Bernstein, SipHash: a fast
// short-input PRF, 2012).
#include "random.h"

#include "../base/atomic.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../os/os.h"
#include "settings.h"

static mx_atomic(uint64_t) counter;
static mx_at_start mx_atomic(int) has_key;

static void draw_key(void) {
  uint64_t fresh[2];
  if (!mx_os_random(fresh, sizeof(fresh))) {
    // Early in the boot of a machine: addresses and the clock are better than a constant.
    mx_warning("the OS has no random numbers yet; a weaker seed is used\n");
    fresh[0] = (uint64_t)(uintptr_t)fresh * 0x9E3779B97F4A7C15u;
    fresh[1] = mx_os_clock_msecs() ^ ((uint64_t)(uintptr_t)&mx_os_clock_msecs << 17);
  }
  const bool outer = mx_settings_open();
  mx_store_relaxed(&mx_settings.key0, fresh[0]);
  mx_store_relaxed(&mx_settings.key1, fresh[1]);
  mx_settings_close(outer);
  // Two threads may both draw: each mixture of their keys is as good.
  mx_store_release(&has_key, 1);
}

typedef struct sip_s {
  uint64_t a, b, c, d;
} sip_t;

static uint64_t rotate(uint64_t x, unsigned n) { return (x << n) | (x >> (64 - n)); }

static void sip_round(sip_t* s) {
  s->a += s->b;
  s->b = rotate(s->b, 13) ^ s->a;
  s->a = rotate(s->a, 32);
  s->c += s->d;
  s->d = rotate(s->d, 16) ^ s->c;
  s->a += s->d;
  s->d = rotate(s->d, 21) ^ s->a;
  s->c += s->b;
  s->b = rotate(s->b, 17) ^ s->c;
  s->c = rotate(s->c, 32);
}

static uint64_t sip_hash(uint64_t k0, uint64_t k1, uint64_t word) {
  sip_t s = {k0 ^ 0x736F6D6570736575u, k1 ^ 0x646F72616E646F6Du, k0 ^ 0x6C7967656E657261u,
             k1 ^ 0x7465646279746573u};
  const uint64_t words[2] = {word, (uint64_t)8 << 56};  // the last word holds the length
  for (int i = 0; i < 2; i++) {
    s.d ^= words[i];
    sip_round(&s);
    sip_round(&s);
    s.a ^= words[i];
  }
  s.c ^= 0xFF;
  for (int i = 0; i < 4; i++) sip_round(&s);
  return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t mx_random64(void) {
  if (mx_load_acquire(&has_key) == 0) draw_key();
  const uint64_t n = mx_add_relaxed(&counter, (uint64_t)1);
  return sip_hash(mx_load_relaxed(&mx_settings.key0), mx_load_relaxed(&mx_settings.key1), n);
}

mx_cold void mx_random_after_fork(void) {
  if (MX_READ_ONLY) mx_settings_after_fork();
  if (mx_load_relaxed(&has_key) != 0) draw_key();
}
