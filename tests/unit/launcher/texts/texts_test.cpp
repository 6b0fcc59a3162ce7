// Help, manual page, its Markdown and completion: all made from the table.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"
#include "launcher/options/options.hpp"
#include "launcher/texts/exit_code_texts.hpp"
#include "launcher/texts/texts.hpp"
#include "tests/support/example_words.hpp"

using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddprun::OptionText;
using ddprun::words_of;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("the help shows examples first, then every option of the table under its heading") {
  const std::string help = help_text();
  const auto examples_at = help.find("\nExamples\n");
  REQUIRE(examples_at != std::string::npos);
  CHECK(help.find("  ddprun --nproc-per-node=2 train\n") != std::string::npos);
  auto at = examples_at;
  for (const auto& row : option_table()) {
    INFO(row.name);
    CHECK(help.find("\n" + std::string(group_title(row.group)) + "\n") > examples_at);
    const auto found = help.find(" --" + std::string(row.name) + value_hint(option_text(row)), at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
}

TEST_CASE(
    "a topic may be the begin of an option's name, a group without its s, or behind a blank") {
  CHECK(help_on("nproc").text == help_on("nproc-per-node").text);
  CHECK(help_on("restart").text == help_on("restarts").text);
  CHECK(help_on("restart").found);
  CHECK(help_on_next_word("tee") == help_on("tee").text);
  for (const auto* word : {"", "train.py", "./a.out", "train", "python", "nproc", "torchrun"})
    CHECK(help_on_next_word(word).empty());
}

TEST_CASE("a topic that is another program of ddprun is answered with its help") {
  CHECK(help_on("train").text ==
        "--help=train: train is a program: ddprun train --help shows its options");
  CHECK(help_on("rdzvd").text ==
        "--help=rdzvd: rdzvd is another program: rdzvd --help shows its options");
  CHECK_FALSE(help_on("train").found);
  CHECK(line_on_next_word("train") ==
        "\ntrain is a program: ddprun train --help shows its options.\n");
  CHECK(line_on_next_word("rdzvd") ==
        "\nrdzvd is another program: rdzvd --help shows its options.\n");
  CHECK(line_on_next_word("train.py").empty());
}

TEST_CASE("the options without effect stand together at the end of the help") {
  for (const auto& row : option_table()) {
    INFO(row.name);
    if (!row.no_effect.empty()) CHECK(row.group == OptionGroup::without_effect);
  }
  CHECK(option_table().back().group == OptionGroup::without_effect);
  const std::string help = help_text();
  const auto own = help.find("\nddprun itself\n");
  REQUIRE(own != std::string::npos);
  CHECK_THAT(help.substr(own), StartsWith("\nddprun itself\n      --dry-run"));
}

TEST_CASE("the help fits 80 columns and has neither colours nor trailing blanks") {
  for (const auto& line : lines_of(help_text() + short_help_text())) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
    CHECK(line.find('\x1b') == std::string::npos);
    CHECK(line.find('\t') == std::string::npos);
  }
}

namespace {

std::string one_line(const std::string& text) {
  std::string result;
  for (const auto& line : lines_of(text))
    result += " " + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return result;
}

}  // namespace

TEST_CASE("the help names other names of an option that are accepted") {
  const std::string help = one_line(help_text());
  for (const auto& row : option_table()) {
    for (const auto alias : words_of(row.aliases))
      CHECK_THAT(help, Contains("--" + std::string(alias)));
  }
  CHECK_THAT(help, Contains("(default: 30); also --shutdown-timeout"));
}

TEST_CASE(
    "every group and every option of the table is a topic of the help, and named at its end") {
  const std::string end = one_line(help_text());
  for (const auto& row : option_table()) {
    INFO(row.name);
    const auto shown = help_on(row.name);
    CHECK(shown.found);
    CHECK_THAT(shown.text, Contains(std::string(row.example)));
    CHECK_THAT(help_on("--" + std::string(row.name)).text,
               Contains("--" + std::string(row.name) + value_hint(option_text(row)) + "\n"));
    const auto group = help_on(group_title(row.group));
    CHECK_THAT(group.text, StartsWith(std::string(group_title(row.group)) + "\n"));
    CHECK_THAT(group.text, Contains(" --" + std::string(row.name)));
  }
  for (const std::string word : {"workers", "program", "gpus", "streams", "logs", "failures",
                                 "restarts", "rendezvous", "hosts", "exit", "environment"})
    CHECK(help_on(word).found);
  CHECK_THAT(end, Contains("workers, program, gpus, streams, failures, rendezvous, hosts, ddprun, "
                           "accepted, environment, exit."));
  CHECK_THAT(help_on("restart").text, Contains("max-restarts"));
}

TEST_CASE("a topic that is an option of train is answered with how to see it") {
  CHECK(help_on("resume").text ==
        "--help=resume: resume is an option of train: ddprun train --help=resume shows it");
}

TEST_CASE("the exit codes of the help are all that ddprun has, and those of docs/exit-codes.md") {
  const auto numbers_in = [](const std::string& file, const std::regex& form) {
    std::ifstream stream(std::string(DDPRUN_SOURCE) + "/" + file);
    REQUIRE(stream.good());
    std::set<int> numbers;
    std::smatch found;
    for (std::string line; std::getline(stream, line);) {
      if (std::regex_search(line, found, form)) numbers.insert(std::stoi(found[1]));
    }
    return numbers;
  };
  std::set<int> own;
  const std::string text = help_on("exit").text;
  for (const auto& [code, meaning] : kExitCodeTexts) {
    CHECK(own.insert(code).second);
    CHECK_THAT(one_line(text),
               Contains(std::to_string(code) + " ") && Contains(std::string(meaning)));
  }
  CHECK(own == numbers_in("docs/exit-codes.md", std::regex(R"(^\| (\d+) \|)")));
  own.insert(ddprun::kExitSignalBase);
  CHECK(own == numbers_in("base/exit_codes.hpp", std::regex(R"(\b(\d+);)")));
}

TEST_CASE("the short help has 25 lines and only options of the table") {
  const std::string text = short_help_text();
  CHECK(lines_of(text).size() <= 25);
  std::istringstream words(text);
  int options = 0;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (!word.starts_with("--")) continue;
    INFO(word);
    ++options;
    const auto& table = option_table();
    const auto row = std::find_if(table.begin(), table.end(), [&](const OptionRow& candidate) {
      return word.substr(2, equals - 2) == candidate.name;
    });
    // ./a.out has options of its own.
    CHECK((row != table.end() || word == "--any"));
  }
  CHECK(options >= 12);
  CHECK_THAT(text, Contains("ddprun --help lists all options"));
}

TEST_CASE("options in the short help are accepted, and its defaults are the true ones") {
  const std::map<std::string, std::string> placeholders = {
      {"N", "2"},         {"MIN:MAX", "2:4"}, {"SECONDS", "5"},
      {"FOLDER", "logs"}, {"RANKS", "0,1"},   {"FILE", "report.json"}};
  int values = 0;
  for (const std::string& line : lines_of(short_help_text())) {
    if (!line.starts_with("  --")) continue;
    INFO(line);
    std::istringstream words(line.substr(0, line.find("  ", 2)));
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) {
        CHECK(parse_launch_options({word, "p"}, {}).has_value());
        continue;
      }
      const std::string offered = word.substr(equals + 1);
      for (const std::string_view value : words_of(offered)) {
        const auto meant = placeholders.find(std::string(value));
        const std::string text = meant == placeholders.end() ? std::string(value) : meant->second;
        INFO(word.substr(0, equals + 1) + text);
        CHECK(parse_launch_options({word.substr(0, equals + 1) + text, "p"}, {}).has_value());
        ++values;
      }
    }
  }
  CHECK(values >= 13);
  const std::string text = one_line(short_help_text());
  int defaults = 0;
  for (const OptionRow& row : option_table()) {
    const auto at = text.rfind(" --" + std::string(row.name) + "=");
    const auto stated = text.find("(default: ", at);
    if (at == std::string::npos || stated > text.find(" --", at + 1)) continue;
    const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
    CHECK(text.substr(stated, text.find(')', stated) - stated) ==
          "(default: " + std::string(shown));
    ++defaults;
  }
  CHECK(defaults >= 5);
}

TEST_CASE("the manual page has every spelling and variable of every option") {
  const std::string page = man_page();
  CHECK_THAT(page, StartsWith(".TH DDPRUN 1 "));
  const auto escaped = [](std::string text) {
    for (auto at = text.find('-'); at != std::string::npos; at = text.find('-', at + 2))
      text.insert(at, "\\");
    return text;
  };
  for (const auto& row : option_table()) {
    for (const auto& spelling : spellings(row))
      CHECK_THAT(page, Contains("\\fB" + escaped(spelling) + "\\fR"));
    if (!row.environment.empty())
      CHECK_THAT(page, Contains("\\fB" + std::string(row.environment) + "\\fR"));
    if (!row.no_effect.empty()) CHECK_THAT(page, Contains("It has no effect: "));
  }
}

TEST_CASE("every option of the table has an example, which names it and is accepted") {
  for (const auto& row : option_table()) {
    INFO(row.name << ": " << row.example);
    const auto words = ddprun::test::arguments_after("ddprun", row.example);
    const auto names = spellings(row);
    CHECK(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return ddprun::test::names_option(words, name);
    }));
    const auto options = parse_launch_options(words, {});
    if (!options) FAIL_CHECK(options.error().message);
  }
}

TEST_CASE("the page in Markdown has a heading, the names and the example of every option") {
  const std::string page = man_page("markdown");
  CHECK_THAT(page, StartsWith("# ddprun\n"));
  for (const auto& row : option_table()) {
    const OptionText text = option_text(row);
    CHECK_THAT(page, Contains("\n#### `" + text.names.front() + "`\n"));
    if (const std::string hint = value_hint(text); !hint.empty())
      CHECK_THAT(page, Contains("\n`" + text.names.front() + hint + "`\n"));
    for (const auto& name : text.names) {
      if (name.find('_') == std::string::npos) CHECK_THAT(page, Contains("`" + name));
    }
    CHECK_THAT(page, Contains("```sh\n" + text.example + "\n```\n"));
  }
}

TEST_CASE("every line of the manual page that begins with a dot is a known request") {
  const std::vector<std::string> known{".TH ", ".SH ", ".SS ", ".TP", ".PP"};
  for (const auto& line : lines_of(man_page())) {
    INFO(line);
    CHECK_FALSE(line.starts_with('\''));
    if (!line.starts_with('.')) continue;
    CHECK(std::any_of(known.begin(), known.end(),
                      [&](const auto& request) { return line.starts_with(request); }));
  }
}

TEST_CASE("completion knows every option and choice in every shell, and no other shell") {
  for (const std::string shell : {"bash", "zsh", "fish", "tcsh"}) {
    INFO(shell);
    const std::string script = completion_script(shell);
    for (const auto& row : option_table()) {
      INFO(row.name);
      CHECK_THAT(script, Contains(shell == "fish" ? "-l " + std::string(row.name)
                                                  : "--" + std::string(row.name)));
      const bool offered = shell != "fish" || row.type != ValueType::optional_choice;
      if (!row.choices.empty() && offered) {
        std::string words(row.choices);
        std::replace(words.begin(), words.end(), '|', ' ');
        CHECK_THAT(script, Contains(words));
      }
    }
  }
  CHECK(completion_script("elvish").empty());
}
