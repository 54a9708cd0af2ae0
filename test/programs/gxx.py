# SPDX-License-Identifier: MIT
"""g++ compiles a large generated C++ file: compiler, assembler and linker on the library.

The object file must be the very bytes that the compiler writes on the system's malloc, and the
program linked from it must print the sums that this script works out by itself. A second pass
makes the compiler reject the file, since error paths free in another order.
"""
import os

from harness import OUTPUT, expect, main, same

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


def test(session):
  gxx = session.need("g++")
  units = 36 if session.heavy else 5
  path = session.path("large.cc")
  with open(path, "w", encoding="ascii") as f:
    f.write(source(units))
  flags = ["-std=c++20", "-O2", "-pipe", "-ftemplate-depth=2000"]
  ours = session.both([gxx, *flags, "-g1", "-c", path, "-o", OUTPUT], timeout=900)
  session.say(f"the same object file on both, {os.path.getsize(ours.file)} bytes in "
              f"{ours.seconds:.1f} s")
  os.rename(ours.file, session.path("large.o"))
  session.run([gxx, session.path("large.o"), "-o", session.path("large"), "-pthread"])
  result = session.run([session.path("large")])
  same("sums of the compiled program", [int(x) for x in result.out.split()],
       [answer(n) for n in range(units)])
  broken = session.path("broken.cc")
  with open(broken, "w", encoding="ascii") as f:
    f.write(source(1) + "long x = std::sort(std::map<Key<1>, int>(), 1);\n")
  rejected = session.run([gxx, *flags, "-fsyntax-only", broken], status=1)
  expect("error: " in rejected.err, "the broken file was not rejected with an error")


main(test)
