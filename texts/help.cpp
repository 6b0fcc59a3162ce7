#include <algorithm>

#include "texts/help_topic.hpp"
#include "texts/program_text.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kHelpColumn = 34;  // where the explanations of options begin

/// `text` from `column` on, where the current line is; the lines that follow begin at `indent`.
/// Broken between words. Ended by a newline.
std::string wrapped(std::string_view text, std::size_t column, std::size_t indent) {
  std::string result;
  bool first = true;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (!first && column + 1 + end > kColumns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    first = false;
    result += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + "\n";
}

/// Each line of `text` as a paragraph.
std::string paragraphs(std::string_view text, std::size_t indent) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += std::string(indent, ' ') + wrapped(text.substr(0, end), indent, indent);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

/// Two columns; `left` has a line of its own where it reaches into the second.
std::string entry(std::string_view left, std::string_view right, std::size_t column) {
  std::string line = "  " + std::string(left);
  if (line.size() + 2 > column) line += "\n" + std::string(column, ' ');
  line.resize(std::max(line.size(), column), ' ');
  return line + wrapped(right, column, column);
}

/// Beside the first one; without those that only have underscores in place of dashes.
struct OtherNames {
  std::string short_name;  ///< `-t, `
  std::string long_names;  ///< with commas between them
};

OtherNames other_names(const OptionText& option) {
  OtherNames others;
  for (const auto& name : option.names) {
    if (name.size() == 2) {
      others.short_name = name + ", ";
    } else if (name != option.names.front() && name.find('_') == std::string::npos) {
      others.long_names += (others.long_names.empty() ? "" : ", ") + name;
    }
  }
  return others;
}

std::string section(const TextSection& section) {
  std::size_t widest = 0;
  for (const auto& [term, meaning] : section.terms) widest = std::max(widest, term.size());
  std::string text = "\n" + section.title + "\n" + paragraphs(section.text, 2);
  for (const auto& [term, meaning] : section.terms) text += entry(term, meaning, widest + 4);
  return text;
}

std::string option_group(const ProgramText& program, std::string_view title) {
  std::string text;
  for (const auto& option : program.options) {
    if (option.group == title) text += help_entry(option);
  }
  return text.empty() ? text : "\n" + std::string(title) + "\n" + text;
}

}  // namespace

std::string value_hint(const OptionText& option) {
  if (option.takes_topic) return "[=" + option.placeholder + "]";
  std::string hint = option.placeholder;
  for (const auto& choice : option.choices) {
    if (option.value_optional && choice == option.choices.front()) continue;
    hint += (hint.empty() ? "" : "|") + choice;
  }
  if (option.value_optional) return "[=" + hint + "]";
  return hint.empty() ? "" : "=" + hint;
}

std::string help_entry(const OptionText& option) {
  OtherNames others = other_names(option);
  others.short_name.resize(4, ' ');
  std::string right = option.help;
  if (!option.default_text.empty()) right += " (default: " + option.default_text + ")";
  if (!others.long_names.empty()) right += "; also " + others.long_names;
  if (!option.no_effect.empty()) right += "; no effect: " + option.no_effect;
  return entry(others.short_name + option.names.front() + value_hint(option), right, kHelpColumn);
}

std::string help_entry(std::string_view typed, std::string_view meaning) {
  return entry(std::string(4, ' ') + std::string(typed), meaning, kHelpColumn);
}

std::string help(const ProgramText& program) {
  std::string text = paragraphs(program.description, 0) + "\nUsage: " + program.synopsis + "\n";
  text += "\nExamples\n";
  for (const auto& [command, meaning] : program.examples)
    text += "  " + command + "\n      " + wrapped(meaning, 6, 6);
  std::string_view before;
  for (const auto& option : program.options) {
    if (option.group != before) text += option_group(program, option.group);
    before = option.group;
  }
  for (const auto& part : program.sections) {
    if (part.in_help) text += section(part);
  }
  std::string rules(kOptionRules);
  if (!program.option_rules.empty()) rules += " " + program.option_rules;
  return text + "\n" + paragraphs(rules + " --man has more.\n" + topics_sentence(program), 0);
}

std::string help_part(const ProgramText& program, std::string_view title) {
  std::string text = option_group(program, title);
  for (const auto& part : program.sections) {
    if (part.title == title) text += section(part);
  }
  return text.substr(std::min<std::size_t>(text.size(), 1));  // without the empty line before it
}

std::string help_of_option(const OptionText& option) {
  const OtherNames others = other_names(option);
  std::string text = others.short_name + option.names.front() + value_hint(option) + "\n" +
                     paragraphs(option.help + ".", 2);
  text += paragraphs(option.more, 2);
  if (!option.no_effect.empty())
    text += paragraphs("It has no effect: " + option.no_effect + ".", 2);
  if (!others.long_names.empty()) text += paragraphs("Also " + others.long_names + ".", 2);
  if (!option.default_text.empty()) text += paragraphs("Default: " + option.default_text + ".", 2);
  if (!option.variable.empty()) text += paragraphs("Variable: " + option.variable + ".", 2);
  if (!option.example.empty()) text += "\n  " + option.example + "\n";
  return text;
}

}  // namespace ddprun
