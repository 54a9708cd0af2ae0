// SPDX-License-Identifier: MIT
// Sums of counters. Other threads may count meanwhile: each number is right, though two of
// them may be of slightly different moments.
#include "counters.h"

// One behind the other lie the counts, those of bins first, and the counters.
#define COUNTS (offsetof(mx_counters_t, reset) / sizeof(mx_count_t))
#define COUNTERS ((sizeof(mx_counters_t) - offsetof(mx_counters_t, reset)) / sizeof(int64_t))

mx_static_assert(offsetof(mx_counters_t, bin_pages) == 0 &&
                     offsetof(mx_counters_t, pages) == MX_BIN_COUNT * sizeof(mx_count_t),
                 "counts are an array");

static mx_count_t* count_at(mx_counters_t* c, size_t i) { return (mx_count_t*)(void*)c + i; }

static mx_atomic(int64_t)* counter_at(mx_counters_t* c, size_t i) { return &c->reset + i; }

static void raise_peak(mx_count_t* c, int64_t reached) {
  int64_t peak = mx_load_relaxed(&c->peak);
  while (reached > peak && !mx_cas_weak_acq_rel(&c->peak, &peak, reached)) {}
}

void mx_count_add(mx_count_t* c, int64_t amount) {
  const int64_t now = mx_add_relaxed(&c->current, amount) + amount;
  if (amount <= 0) return;
  mx_add_relaxed(&c->total, amount);
  raise_peak(c, now);
}

// What is there now stays counted where it will be taken off again.
static void move_past_count(mx_count_t* to, mx_count_t* from) {
  const int64_t current = mx_load_relaxed(&from->current);
  mx_add_relaxed(&to->total, mx_exchange_relaxed(&from->total, current) - current);
  raise_peak(to, mx_exchange_relaxed(&from->peak, current));
}

static void move_counter(mx_atomic(int64_t)* to, mx_atomic(int64_t)* from) {
  if (mx_load_relaxed(from) != 0) mx_add_relaxed(to, mx_exchange_relaxed(from, (int64_t)0));
}

void mx_counters_move_past(mx_counters_t* to, mx_counters_t* from) {
  for (size_t i = 0; i < COUNTS; i++) move_past_count(count_at(to, i), count_at(from, i));
  for (size_t i = 0; i < COUNTERS; i++) move_counter(counter_at(to, i), counter_at(from, i));
}

// Most counts of a heap that lived shortly are zero, and reading them is all that they cost.
static void hand_over_count(mx_count_t* to, mx_count_t* from, bool with_current) {
  const int64_t total = mx_load_relaxed(&from->total), current = mx_load_relaxed(&from->current);
  if (total == 0 && current == 0) return;
  mx_add_relaxed(&to->total, total);
  raise_peak(to, mx_load_relaxed(&from->peak));
  if (with_current && current != 0) raise_peak(to, mx_add_relaxed(&to->current, current) + current);
  mx_store_relaxed(&from->total, (int64_t)0);
  mx_store_relaxed(&from->peak, (int64_t)0);
  mx_store_relaxed(&from->current, (int64_t)0);
}

void mx_counters_move(mx_counters_t* to, mx_counters_t* from, const uint64_t* bins,
                      bool with_current) {
  for (size_t i = MX_BIN_COUNT; i < COUNTS; i++) {
    hand_over_count(count_at(to, i), count_at(from, i), with_current);
  }
  for (size_t i = 0; i < COUNTERS; i++) move_counter(counter_at(to, i), counter_at(from, i));
  for (size_t i = 0; i < MX_BIN_WORDS; i++) {
    for (uint64_t rest = (bins == NULL ? UINT64_MAX : bins[i]); rest != 0; rest &= rest - 1) {
      const size_t bin = i * 64 + mx_bit_low(rest);
      if (bin >= MX_BIN_COUNT) break;
      hand_over_count(&to->bin_pages[bin], &from->bin_pages[bin], with_current);
    }
  }
}
