// Random command lines over the real table: nothing crashes, and nothing behind PROGRAM is ever
// looked at.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"
#include "launcher/options/options.hpp"
#include "launcher/program/program.hpp"

using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

class RandomWords {
 public:
  explicit RandomWords(unsigned seed) : random_(seed) {
    for (const auto& row : option_table()) {
      for (const auto& spelling : spellings(row)) spellings_.push_back(spelling);
      for (const auto choice : choices_of(row)) values_.emplace_back(choice);
      if (!row.environment.empty()) variables_.emplace_back(row.environment);
    }
    for (const char* value : {"0", "1", "-1", "2:3", "", "=", "-", "--", "0,1", "1e9", "nan", "$$",
                              "\xff\xfe", "99999999999999999999"}) {
      values_.emplace_back(value);
    }
  }

  Words line(int longest) {
    Words words(static_cast<std::size_t>(below(longest + 1)));
    for (auto& word : words) word = one();
    return words;
  }

  Environment environment() {
    Environment result;
    for (int i = below(3); i > 0; --i)
      result[pick(variables_)] = below(2) == 0 ? pick(values_) : bytes();
    return result;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  std::string pick(const Words& words) { return words[random_() % words.size()]; }

  std::string bytes() {
    std::string text(static_cast<std::size_t>(below(12)), ' ');
    for (char& c : text) c = static_cast<char>(1 + below(255));
    return text;
  }

  std::string one() {
    switch (below(7)) {
      case 0:
        return pick(spellings_);
      case 1:
        return pick(spellings_) + "=" + pick(values_);
      case 2: {
        const std::string spelling = pick(spellings_);
        return spelling.substr(0, 1 + random_() % spelling.size());
      }
      case 3:
        return pick(values_);
      case 4:
        return bytes();
      case 5:
        return "-" + bytes();
      default:
        return "program";
    }
  }

  std::mt19937 random_;
  Words spellings_, values_, variables_;
};

}  // namespace

TEST_CASE("random command lines are parsed or refused with exit code 2, never anything else") {
  RandomWords words(20240501);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 30'000; ++i) {
    const Words line = words.line(8);
    const auto options = parse_launch_options(line, words.environment());
    if (!options) {
      ++refused;
      REQUIRE(options.error().exit_code == 2);
      REQUIRE_FALSE(options.error().message.empty());
      continue;
    }
    ++accepted;
    // What follows PROGRAM is the end of the line, word for word.
    if (options->request != Request::run) continue;
    REQUIRE(options->program.arguments.size() < line.size());
    REQUIRE(std::equal(options->program.arguments.rbegin(), options->program.arguments.rend(),
                       line.rbegin()));
    REQUIRE(std::find(line.begin(), line.end(), options->program.name) != line.end());
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("words after PROGRAM change nothing but the arguments") {
  RandomWords words(7);
  int compared = 0;
  for (int i = 0; i < 20'000; ++i) {
    Words line = words.line(6);
    const Environment environment = words.environment();
    const auto before = parse_launch_options(line, environment);
    if (!before || before->program.name.empty()) continue;
    // A first word in between: a dash-dash directly behind PROGRAM would be removed.
    const Words tail = words.line(6);
    line.emplace_back("between");
    line.insert(line.end(), tail.begin(), tail.end());
    const auto after = parse_launch_options(line, environment);
    REQUIRE(after.has_value());
    auto expected = before->program.arguments;
    expected.emplace_back("between");
    expected.insert(expected.end(), tail.begin(), tail.end());
    REQUIRE(after->program.arguments == expected);
    REQUIRE(after->program.name == before->program.name);
    REQUIRE(after->request == before->request);
    REQUIRE(after->warnings == before->warnings);
    REQUIRE(after->failures.restart.max_restarts == before->failures.restart.max_restarts);
    REQUIRE(after->workers.processes.number == before->workers.processes.number);
    ++compared;
  }
  CHECK(compared > 1000);
}

TEST_CASE("the local rank macro takes any text") {
  RandomWords words(3);
  for (int i = 0; i < 5'000; ++i) {
    for (const auto& word : words.line(4)) {
      if (word.find('$') == std::string::npos) REQUIRE(substitute_local_rank(word, 1) == word);
      REQUIRE(substitute_local_rank("$" + word + "$", 1).size() <= word.size() + 2);
    }
  }
}
