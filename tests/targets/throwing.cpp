// Throws and catches exceptions of C++, sorts, and uses streams, until the preloaded library has compared enough stacks.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
  std::string text;
  explicit Guard(int level) : text(static_cast<size_t>(level) * 3 + 20, 'x') {}
  ~Guard() { text.clear(); }
};

__attribute__((noinline)) static int descend(int level) {
  Guard guard(level);
  if (level == 0) throw std::runtime_error("bottom");
  return descend(level - 1) + static_cast<int>(guard.text.size());
}

static int turn(int seed) {
  std::map<std::string, int> found;
  std::vector<int> values(500);
  std::ostringstream out;
  for (auto &value : values) value = (seed = seed * 1103515245 + 12345) >> 8;
  std::sort(values.begin(), values.end(), [](int a, int b) { return b < a; });
  for (int i = 0; i < 100; i++) {
    out << values[static_cast<size_t>(i)] << ' ' << 1.5 * i;
    found[out.str().substr(0, static_cast<size_t>(i) % 17)]++;
  }
  try {
    descend(seed & 7);
  } catch (const std::exception &error) {
    out << error.what();
  }
  return static_cast<int>(found.size() + out.str().size());
}

int main(int, char **arguments) {
  auto compared = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, "unwinding_compared"));
  int sum = 0;
  while (compared() < std::atol(arguments[1])) sum += turn(sum);
  return sum == -1;
}
