// SPDX-License-Identifier: MIT
// A translation unit that keeps a compiler busy: large headers and deep templates. VARIANT makes
// copies differ, so that several can be compiled at once; LAYERS sets how much there is to do.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#ifndef VARIANT
#define VARIANT 0
#endif
#ifndef LAYERS
#define LAYERS 60
#endif
#if LAYERS >= 20
#include <regex>
#endif

namespace {

template <int N>
struct Layer {
  std::array<int, N % 7 + 1> values{};
  std::map<std::string, std::vector<int>> index;
  Layer<N - 1> below;
  int sum() const {
    int total = below.sum();
    for (int v : values) total += v * N;
    for (const auto& [key, list] : index) total += static_cast<int>(key.size() + list.size());
    return total;
  }
};

template <>
struct Layer<0> {
  int sum() const { return VARIANT; }
};

template <size_t... I>
auto make_table(std::index_sequence<I...>) {
  return std::make_tuple(std::variant<int, std::string, std::vector<double>>(
      std::in_place_index<I % 3>)...);
}

template <class Tuple>
size_t held(const Tuple& t) {
  return std::apply(
      [](const auto&... v) {
        return (std::visit([](const auto& x) { return sizeof(x); }, v) + ...);
      },
      t);
}

}  // namespace

int main() {
  Layer<LAYERS> layers;
  auto table = make_table(std::make_index_sequence<48>());
  std::unordered_map<std::string, std::function<int(int)>> calls;
  for (int i = 0; i < 10; i++) calls[std::to_string(i)] = [i](int x) { return x * i; };
#if LAYERS >= 20
  std::regex pattern("([a-z]+)=([0-9]+)");
  std::string text = "alpha=12";
  std::smatch match;
  calls["match"] = [&](int x) { return std::regex_match(text, match, pattern) ? x : 0; };
#endif
  std::set<std::unique_ptr<int>> owned;
  owned.insert(std::make_unique<int>(3));
  std::ostringstream out;
  out << layers.sum() << held(table);
  return static_cast<int>(out.str().size() + owned.size() + calls.size()) == 0;
}
