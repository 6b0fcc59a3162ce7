// The order of names as people count. Not strverscmp: for that 010 is a fraction, less than 9.
#include <cctype>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto number = [&](std::string_view text, std::size_t& at) {
        while (at < text.size() && text[at] == '0') ++at;
        const std::size_t first = at;
        while (at < text.size() && digit(text[at])) ++at;
        return text.substr(first, at - first);
      };
      const std::string_view x = number(a, i);
      const std::string_view y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((a.size() - i) != (b.size() - j)) return a.size() - i < b.size() - j;
  return a < b;  // node01 and node1: still a strict order
}

}  // namespace ddprun::rdzv
