# SPDX-License-Identifier: MIT
"""A large C++ program, generated: every unit instantiates maps, hashes, variants, regular
expressions, sorts and deep recursive templates for types of its own, and prints one known sum."""

HEADERS = """algorithm any array bitset chrono complex condition_variable deque exception
filesystem forward_list fstream functional future iomanip iostream iterator limits list locale map
memory mutex numeric optional queue random ranges ratio regex scoped_allocator set shared_mutex
sstream stack stdexcept string string_view system_error thread tuple type_traits typeindex
unordered_map unordered_set utility valarray variant vector""".split()

PRELUDE = """
template <int N> struct Key {
  long value;
  bool operator<(const Key& other) const { return value < other.value; }
  bool operator==(const Key& other) const { return value == other.value; }
};
template <int N> struct Hash {
  std::size_t operator()(const Key<N>& key) const { return std::hash<long>()(key.value * (N + 1)); }
};
template <int N> struct Fold {
  static constexpr long value = Fold<N - 1>::value + N;
};
template <> struct Fold<0> { static constexpr long value = 0; };
"""

# One unit instantiates the heavy templates for a type of its own and returns a known sum.
UNIT = """
struct Shape@ { long a; std::string name; std::vector<Key<@>> keys; };
long unit@() {
  std::map<Key<@>, std::string> ordered;
  std::unordered_map<Key<@>, std::vector<Key<@>>, Hash<@>> grouped;
  std::variant<long, std::string, Shape@> either;
  std::vector<Shape@> shapes;
  for (long i = 0; i < 50; i++) {
    ordered.emplace(Key<@>{i * 7 % 50}, std::to_string(i + @));
    grouped[Key<@>{i % 5}].push_back(Key<@>{i});
    shapes.push_back(Shape@{50 - i, std::to_string(i), {Key<@>{i}}});
  }
  std::sort(shapes.begin(), shapes.end(),
            [](const Shape@& x, const Shape@& y) { return x.a < y.a; });
  std::function<long(long)> add = [&](long x) { return x + (long)grouped.size(); };
  either = shapes.front();
  long sum = std::visit([](auto&& held) -> long {
    using T = std::decay_t<decltype(held)>;
    if constexpr (std::is_same_v<T, Shape@>) return held.keys.front().value;
    else return -1;
  }, either);
  std::regex number("([a-z]+)([0-9]+)");
  std::smatch found;
  std::string text = "unit" + std::to_string(@);
  if (std::regex_match(text, found, number)) sum += std::stol(found[2]);
  std::tuple<std::list<Key<@>>, std::deque<std::string>, std::optional<Shape@>> bag;
  std::get<1>(bag).assign(3, text);
  sum += (long)std::get<1>(bag).size() + Fold<300 + @>::value;
  return add(sum) + std::stol(ordered.at(Key<@>{49}));
}
"""


def source(units):
  """The text of the program."""
  text = "".join(f"#include <{h}>\n" for h in HEADERS) + PRELUDE
  text += "".join(UNIT.replace("@", str(n)) for n in range(units))
  calls = "".join(f'  std::cout << unit{n}() << "\\n";\n' for n in range(units))
  return text + "int main() {\n" + calls + "}\n"


def answer(n):
  """What unit n returns: last key 49, n, three strings, the fold, five groups, 7 * 7 = 49."""
  fold = (300 + n) * (301 + n) // 2
  return 49 + n + 3 + fold + 5 + next(i for i in range(50) if i * 7 % 50 == 49) + n
