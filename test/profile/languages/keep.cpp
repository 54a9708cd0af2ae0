// SPDX-License-Identifier: MIT
// As keep.c, by a container.
#include <memory>
#include <vector>

static std::vector<std::unique_ptr<char[]>> kept;

static void keep_most() {
  for (int i = 0; i < 3072; i++) kept.emplace_back(new char[16384]);  // most
}

static void keep_rest() {
  for (int i = 3072; i < 4096; i++) kept.emplace_back(new char[16384]);  // rest
}

int main() {
  kept.reserve(4096);
  keep_most();
  keep_rest();
  // Still live when the process ends.
  auto* const forever = new std::vector<std::unique_ptr<char[]>>(std::move(kept));
  return forever->empty();
}
