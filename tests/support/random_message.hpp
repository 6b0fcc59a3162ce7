// Random structs and their comparison, member by member, by reflection: a member that is new is
// filled and compared without anybody's help.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <boost/pfr.hpp>

namespace ddprun::test {

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... Arguments>
inline constexpr bool kIs<Template<Arguments...>, Template> = true;
template <class T>
inline constexpr bool kIsArray = false;
template <class T, std::size_t kSize>
inline constexpr bool kIsArray<std::array<T, kSize>> = true;

/// Fills any struct of the control messages with values that each of its fields may have.
class RandomMessage {
 public:
  explicit RandomMessage(unsigned seed) : random_(seed) {}

  /// Every optional is there, every list has an element, no number is 0, no text empty.
  bool complete = false;

  std::size_t below(std::size_t limit) { return random_() % limit; }

  template <class T>
  T make() {
    T value{};
    fill(value);
    return value;
  }
  /// With the alternative `index`.
  template <class Variant, std::size_t kIndex = 0>
  Variant alternative(std::size_t index) {
    if constexpr (kIndex < std::variant_size_v<Variant>) {
      if (index == kIndex) {
        return Variant(std::in_place_index<kIndex>,
                       make<std::variant_alternative_t<kIndex, Variant>>());
      }
      return alternative<Variant, kIndex + 1>(index);
    }
    std::abort();
  }

 private:
  template <class T>
  void fill(T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = complete || below(2) == 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(complete ? 1 : below(2));
    } else if constexpr (std::same_as<T, std::uint64_t>) {
      value = 1 + (below(2) == 0 ? below(9) : (std::uint64_t{random_()} << 31) + random_());
    } else if constexpr (std::integral<T>) {
      value = static_cast<T>(1 + below(100));
    } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
      value = T(1 + static_cast<std::int64_t>(random_()) * 1000);
    } else if constexpr (std::same_as<T, std::string>) {
      value = text();
    } else if constexpr (kIs<T, std::optional>) {
      if (complete || below(2) == 0) fill(value.emplace());
    } else if constexpr (kIs<T, std::vector>) {
      value.resize(below(3) + (complete ? 1 : 0));
      for (auto& element : value) fill(element);
    } else if constexpr (kIs<T, std::variant>) {
      value = alternative<T>(below(std::variant_size_v<T>));
    } else if constexpr (kIsArray<T>) {
      for (auto& byte : value) byte = static_cast<std::uint8_t>(below(256));
    } else {
      boost::pfr::for_each_field(value, [&](auto& member) { fill(member); });
      make_agree(value);
    }
  }
  /// As the tables in proto/ ask for.
  template <class T>
  static void make_agree(T& value) {
    if constexpr (requires { value.min_nodes + value.max_nodes; })
      value.max_nodes = std::max(value.min_nodes, value.max_nodes);
    if constexpr (requires { value.as_hang.progress; })
      if (!value.as_hang.progress) value.as_hang.progress.emplace();
    if constexpr (requires { value.insists_on_rank&& value.requested_group_rank; })
      value.insists_on_rank = value.insists_on_rank && value.requested_group_rank;
  }
  std::string text() {
    static const std::string kPieces[] = {"node", "7",    "\"", "\\", "\n",
                                          "ä",    "日本", "😀",  " ",  "\x7f"};
    std::string made;
    for (std::size_t i = below(5) + (complete ? 1 : 0); i > 0; --i)
      made += kPieces[below(std::size(kPieces))];
    return made;
  }

  std::mt19937 random_;
};

/// Whether two structs have the same values in all their members, and theirs.
template <class T>
bool is_same_message(const T& left, const T& right) {
  if constexpr (kIs<T, std::optional>) {
    return left.has_value() == right.has_value() && (!left || is_same_message(*left, *right));
  } else if constexpr (kIs<T, std::vector>) {
    bool same = left.size() == right.size();
    for (std::size_t i = 0; same && i < left.size(); ++i) same = is_same_message(left[i], right[i]);
    return same;
  } else if constexpr (kIs<T, std::variant>) {
    return left.index() == right.index() && std::visit(
                                                [&]<class One>(const One& one) {
                                                  return is_same_message(one, std::get<One>(right));
                                                },
                                                left);
  } else if constexpr (std::is_aggregate_v<T> && !kIsArray<T>) {
    bool same = true;
    const auto lefts = boost::pfr::structure_tie(left);
    const auto rights = boost::pfr::structure_tie(right);
    std::apply(
        [&](const auto&... l) {
          std::apply([&](const auto&... r) { same = (is_same_message(l, r) && ...); }, rights);
        },
        lefts);
    return same;
  } else {
    return left == right;
  }
}

}  // namespace ddprun::test
