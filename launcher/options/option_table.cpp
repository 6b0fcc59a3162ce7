#include "launcher/options/option_table.hpp"

#include <algorithm>
#include <array>

#include "launcher/options/option_rows.hpp"

namespace ddprun::launcher {

namespace {

/// As it is, or with an underscore for each dash: what spellings() makes of a name, without memory.
bool spells(std::string_view typed, std::string_view name) {
  const auto is_underscored = [](char one, char of_name) {
    return one == (of_name == '-' ? '_' : of_name);
  };
  return typed == name ||
         std::equal(typed.begin(), typed.end(), name.begin(), name.end(), is_underscored);
}

/// `names`: `a|b`.
bool spells_one_of(std::string_view typed, std::string_view names) {
  while (!names.empty()) {
    const auto end = names.find('|');
    if (spells(typed, names.substr(0, end))) return true;
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  }
  return false;
}

}  // namespace

std::span<const OptionRow> option_table() { return kOptionRows; }

std::string_view group_title(OptionGroup group) {
  using enum OptionGroup;
  switch (group) {
    case workers:
      return "Workers";
    case program:
      return "Program";
    case gpus:
      return "GPUs";
    case streams:
      return "Streams";
    case failures:
      return "Failures";
    case rendezvous:
      return "Rendezvous and store";
    case hosts:
      return "Hosts through ssh";
    case ourselves:
      return "ddprun itself";
    case without_effect:
      return "Accepted, without effect";
  }
  return "";
}

std::vector<std::string> spellings(const OptionRow& row) {
  std::vector<std::string> all;
  const auto add = [&all](std::string_view name) {
    std::string spelling = "--" + std::string(name);
    all.push_back(spelling);
    std::replace(spelling.begin() + 2, spelling.end(), '-', '_');
    if (spelling != all.back()) all.push_back(spelling);
  };
  add(row.name);
  for (const auto alias : words_of(row.aliases)) add(alias);
  if (row.short_name != '\0') all.push_back(std::string("-") + row.short_name);
  return all;
}

const OptionRow* option_spelled(std::string_view spelling) {
  if (!spelling.starts_with("--")) return nullptr;
  const std::string_view typed = spelling.substr(2);
  for (const OptionRow& row : option_table()) {
    if (spells(typed, row.name) || spells_one_of(typed, row.aliases)) return &row;
  }
  return nullptr;
}

std::vector<std::string> spelled_as_ours(const std::vector<std::string>& arguments) {
  std::vector<std::string> found;
  for (const std::string& argument : arguments) {
    const auto typed = std::string_view(argument).substr(0, argument.find('='));
    if (option_spelled(typed) != nullptr) found.emplace_back(typed);
  }
  return found;
}

bool only_launchers_have(const OptionRow& row) {
  constexpr std::array<std::string_view, 4> kNames = {"nnodes", "node-rank", "max-restarts",
                                                      "standalone"};
  return row.name.starts_with("nproc") || row.name.starts_with("rdzv") ||
         std::find(kNames.begin(), kNames.end(), row.name) != kNames.end();
}

std::vector<std::string_view> choices_of(const OptionRow& row) { return words_of(row.choices); }

OptionText option_text(const OptionRow& row) {
  const auto choices = choices_of(row);
  const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
  return {.names = spellings(row),
          .placeholder = std::string(row.placeholder),
          .choices = {choices.begin(), choices.end()},
          .value_optional = row.type == ValueType::optional_choice,
          .takes_topic = row.type == ValueType::optional_topic,
          .help = std::string(row.help),
          .more = std::string(row.more),
          .default_text = std::string(shown),
          .variable = std::string(row.environment),
          .no_effect = std::string(row.no_effect),
          .group = std::string(group_title(row.group)),
          .example = std::string(row.example)};
}

}  // namespace ddprun::launcher
