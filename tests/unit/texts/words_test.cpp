#include "texts/words.hpp"

#include <catch2/catch.hpp>
#include <string_view>
#include <vector>

using namespace ddprun;

namespace {

enum class Colour { red, green, unnamed };

constexpr auto words_for(Colour) {
  return std::array{Word{Colour::green, "grass"}, Word{Colour::red, "blood", "rose|ruby"}};
}

}  // namespace

TEST_CASE("a list of words is taken apart at its bars") {
  CHECK(words_of("a|bc") == std::vector<std::string_view>{"a", "bc"});
  CHECK(words_of("a") == std::vector<std::string_view>{"a"});
  CHECK(words_of("").empty());
}

TEST_CASE("an enumeration has its words in the order of its table, whatever its own order is") {
  static_assert(choices<Colour> == "grass|blood");
  CHECK(value_of<Colour>("grass") == Colour::green);
  CHECK(value_of<Colour>("blood") == Colour::red);
  CHECK(value_of<Colour>("ruby") == Colour::red);
  CHECK_FALSE(value_of<Colour>("rose|ruby").has_value());
  CHECK_FALSE(value_of<Colour>("").has_value());
  CHECK_FALSE(value_of<Colour>("sky").has_value());
  CHECK(word_of(Colour::red) == "blood");
  CHECK(word_of(Colour::unnamed).empty());
}
