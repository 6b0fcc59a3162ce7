#include "trainer/run/cli/program_text.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/example_words.hpp"
#include "texts/misplaced_option.hpp"
#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("every option of train has one example, which names it and is accepted") {
  const EarlyExit markdown = std::get<EarlyExit>(parse_options({"--man=markdown"}));
  CHECK(markdown.code == 0);
  std::set<std::string> with_example;
  for (const auto& [option, command] : option_examples()) {
    INFO(command);
    CHECK(with_example.insert(option).second);
    const std::vector<std::string> words = ddprun::test::arguments_after("train", command);
    CHECK(ddprun::test::names_option(words, option));
    const auto parsed = parse_options(words);
    if (const auto* exit = std::get_if<EarlyExit>(&parsed); exit != nullptr && exit->code != 0)
      FAIL_CHECK(exit->text);
    CHECK_THAT(markdown.text, Catch::Matchers::Contains("```sh\n" + command + "\n```\n"));
  }
  std::set<std::string> names{"--completion", "--man", "--version", "--help"};
  for (const auto option : options_of("train")) names.insert("--" + std::string(option));
  CHECK(with_example == names);
}

}  // namespace
}  // namespace ddprun::trainer
