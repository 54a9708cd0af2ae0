// SPDX-License-Identifier: MIT
// Proves of the canaries: a state is read as it was written, and no change of a byte goes unseen.
#include "page/slack.h"

mx_facts_t mx_facts;

// prove: a canary tells the state that it was made of, and its lowest byte is 0
// bound: all keys of pages, all places and states
// builds: secure64 secure32
// mutant: page/padding.h: | once >> MX_PAD_STATE_SHIFT; => | once >> (MX_PAD_STATE_SHIFT + 1);
void prove_canary_tells_its_state(void) {
  const uint64_t key = nondet_uint64() & ~(uint64_t)0xFF;
  uint64_t state = any_size(0, MX_BIN_MAX_SIZE);
  if (nondet_bool()) state = (nondet_bool() ? MX_PAD_FREE : MX_PAD_GONE);
  const uint64_t pad = mx_pad_make(key, state);
  claim(mx_pad_state_of(key, pad) == state);
  claim((pad & 0xFF) == 0);
  claim(mx_pad_is_size(state) == (state <= MX_BIN_MAX_SIZE));
}

// prove: a canary of which one byte was changed has no state of a page of its blocks
// bound: all keys, states and changes of one byte, pages of blocks up to 256 KiB
// builds: secure64 secure32
// mutant: page/padding.h: ((uint64_t)1 << MX_PAD_STATE_BITS | 1) => ((uint64_t)1)
void prove_canary_shows_a_byte(void) {
  const uint64_t key = nondet_uint64() & ~(uint64_t)0xFF;
  const size_t block_size = any_size(MX_ALIGN, 256 * MX_KIB);
  uint64_t state = any_size(0, block_size - MX_PAD_FIRST_SIZE - 1);
  if (nondet_bool()) state = (nondet_bool() ? MX_PAD_FREE : MX_PAD_GONE);
  const uint64_t change = (uint64_t)any_size(1, 255) << (8 * any_size(0, 7));
  const uint64_t found = mx_pad_state_of(key, mx_pad_make(key, state) ^ change);
  claim(!mx_pad_is_state(found, block_size));
}

// prove: a canary's copies tell the state whatever became of the bytes of its key in front of them, and
//   none where one more byte changed
// bound: all keys, states and changes, pages of blocks up to 256 KiB
// builds: secure64 secure32
// mutant: page/padding.h: place_key & ~key_bits, pad & ~key_bits => place_key, pad & ~key_bits
void prove_copies_tell_the_state(void) {
  const uint64_t key = nondet_uint64() & ~(uint64_t)0xFF;
  const size_t block_size = any_size(MX_ALIGN, 256 * MX_KIB);
  uint64_t state = any_size(0, block_size - MX_PAD_FIRST_SIZE - 1);
  if (nondet_bool()) state = UINT64_MAX - any_size(0, MX_PAD_FIRST_SIZE - 1);
  const uint64_t pad = mx_pad_make(key, state) ^ (nondet_uint64() & 0xFFFFFF);
  claim(mx_pad_state_by_copies(key, pad) == state);
  const uint64_t change = (uint64_t)any_size(1, 255) << (8 * any_size(3, 7));
  claim(!mx_pad_is_state(mx_pad_state_by_copies(key, pad ^ change), block_size));
}

// prove: free's comparisons of two canaries want a live block's with a short slack first, and none
//   with one byte changed
// bound: all keys, states and changes of one byte, pages of blocks up to 1 KiB
// unwind: 4
// builds: secure64 secure32
// mutant: page/padding.h: mx_pad_lower(once) < MX_PAD_SMALL_END => (uint16_t)mx_pad_lower(once) < MX_PAD_SMALL_END
void prove_canary_pair_shows_a_byte(void) {
  const uint64_t keys[2] = {nondet_uint64() & ~(uint64_t)0xFF, nondet_uint64() & ~(uint64_t)0xFF};
  const size_t block_size = mx_align_down(any_size(MX_ALIGN, MX_SMALL_MAX), MX_ALIGN);
  uint64_t states[2], pads[2];
  const size_t at = any_size(0, 1);
  const uint64_t change = (uint64_t)any_size(0, 255) << (8 * any_size(0, 7));
  for (size_t i = 0; i < 2; i++) {
    states[i] = any_size(0, block_size - MX_PAD);
    if (nondet_bool()) states[i] = UINT64_MAX - any_size(0, MX_PAD_FIRST_SIZE - 1);
    pads[i] = mx_pad_make(keys[i], states[i]) ^ (i == at ? change : 0);
  }
  const bool is_right = mx_slack_is_short(block_size, mx_pad_state_of(keys[0], pads[0])) &&
                        mx_pad_is_right(mx_pad_once(keys[1], pads[1]));
  const bool is_short = (states[0] + MX_SLACK_SMALL > block_size - MX_PAD);
  claim(is_right == (change == 0 && mx_pad_is_size(states[0]) && is_short));
}
