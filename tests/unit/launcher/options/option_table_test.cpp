#include "launcher/options/option_table.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "launcher/options/option_value.hpp"
#include "launcher/options/parser.hpp"
#include "texts/misplaced_option.hpp"

using namespace ddprun::launcher;

TEST_CASE("no two rows of the table share a spelling") {
  std::set<std::string> seen;
  for (const auto& row : option_table()) {
    for (const auto& spelling : spellings(row)) {
      INFO(spelling);
      CHECK(seen.insert(spelling).second);
    }
  }
}

TEST_CASE("every row has a name in dash form, one line of help and the fields of its type") {
  for (const auto& row : option_table()) {
    INFO(row.name);
    CHECK_FALSE(row.name.empty());
    CHECK(row.name.find('_') == std::string_view::npos);
    CHECK_FALSE(row.name.starts_with('-'));
    CHECK_FALSE(row.help.empty());
    CHECK(row.help.find('\n') == std::string_view::npos);
    CHECK_FALSE(row.help.ends_with('.'));
    const bool chooses = row.type == ValueType::choice || row.type == ValueType::optional_choice ||
                         row.type == ValueType::count_or_word ||
                         row.type == ValueType::indexes_or_word ||
                         row.type == ValueType::seconds_or_word;
    CHECK(choices_of(row).empty() != chooses);
    const bool shows_choices_only = row.type == ValueType::flag || row.type == ValueType::choice ||
                                    row.type == ValueType::optional_choice;
    CHECK(row.placeholder.empty() == shows_choices_only);
  }
}

TEST_CASE("the rows of a group stand together, so that the help has one heading for each") {
  std::set<OptionGroup> finished;
  OptionGroup current = option_table().front().group;
  for (const auto& row : option_table()) {
    if (row.group == current) continue;
    finished.insert(current);
    current = row.group;
    INFO(row.name);
    CHECK(finished.count(current) == 0);
  }
}

TEST_CASE("every default in the table is a value that the parser accepts") {
  for (const auto& row : option_table()) {
    if (row.default_value.empty()) continue;
    INFO(row.name);
    CHECK(checked_value(row, row.default_value, "default").has_value());
  }
}

TEST_CASE("a name of several words is spelled with dashes and with underscores") {
  const OptionRow row{.name = "master-addr", .short_name = 'a'};
  CHECK(spellings(row) == std::vector<std::string>{"--master-addr", "--master_addr", "-a"});
  CHECK(spellings(OptionRow{.name = "role"}) == std::vector<std::string>{"--role"});
}

TEST_CASE("an option is found by each of its long spellings, and by no other text") {
  for (const auto& row : option_table()) {
    for (const auto& spelling : spellings(row)) {
      INFO(spelling);
      CHECK((option_spelled(spelling) == &row) == spelling.starts_with("--"));
      CHECK(option_spelled(spelling + "x") == nullptr);
    }
  }
  for (const char* other : {"", "-", "--", "--nproc_per-node", "---nnodes", "nnodes", "--nnodes=2"})
    CHECK(option_spelled(other) == nullptr);
}

TEST_CASE("an option's value hint shows what may be typed") {
  const auto hint = [](const OptionRow& row) { return value_hint(option_text(row)); };
  CHECK(hint({.name = "x", .type = ValueType::flag}).empty());
  CHECK(hint({.name = "x", .type = ValueType::count, .placeholder = "N"}) == "=N");
  CHECK(hint({.name = "x", .type = ValueType::choice, .choices = "a|b"}) == "=a|b");
  CHECK(hint({.name = "x", .type = ValueType::optional_choice, .choices = "text|json"}) ==
        "[=json]");
  CHECK(
      hint({.name = "x", .type = ValueType::count_or_word, .choices = "a|b", .placeholder = "N"}) ==
      "=N|a|b");
}

TEST_CASE(
    "both spellings of every row are accepted with a value, from the command line and from its "
    "variable") {
  for (std::size_t place = 0; place < option_table().size(); ++place) {
    const OptionRow& row = option_table()[place];
    const RowRef ref = RowRef::at(place);
    if (row.ends) continue;
    const auto choices = choices_of(row);
    const std::string value = choices.empty() ? "1" : std::string(choices.front());
    for (const auto& spelling : spellings(row)) {
      INFO(spelling);
      std::vector<std::string> arguments{spelling};
      if (row.type != ValueType::flag && row.type != ValueType::optional_choice)
        arguments.push_back(value);
      arguments.insert(arguments.end(), {"program", spelling});
      const auto parsed = parse_command_line(option_table(), arguments, {});
      REQUIRE(parsed.has_value());
      CHECK(parsed->given(ref));
      CHECK(parsed->text(TextRef(ref)) == value);
      CHECK(parsed->program == "program");
      CHECK(parsed->arguments == std::vector<std::string>{spelling});
    }
    if (row.environment.empty()) continue;
    INFO(row.environment);
    const auto parsed =
        parse_command_line(option_table(), {"program"}, {{std::string(row.environment), value}});
    REQUIRE(parsed.has_value());
    CHECK(parsed->given(ref));
    CHECK(parsed->text(TextRef(ref)) == value);
  }
}

TEST_CASE("the other programs know all options of ddprun but those that all programs have") {
  const std::set<std::string_view> common{"completion", "man", "version", "help"};
  std::set<std::string_view> names;
  for (const auto& row : option_table()) {
    if (!common.contains(row.name)) names.insert(row.name);
  }
  const auto known = ddprun::options_of("ddprun");
  CHECK(names == std::set<std::string_view>(known.begin(), known.end()));
}
