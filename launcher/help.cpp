#include "launcher/help.hpp"

#include <algorithm>
#include <string_view>

#include "launcher/option_table.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kHelpColumn = 40;  // where the explanations begin

/// `text` from column kHelpColumn on, broken between words.
std::string wrapped(std::string_view text) {
  std::string result;
  std::size_t column = kHelpColumn;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const bool first = column == kHelpColumn;
    if (!first && column + 1 + end > kColumns) {
      result += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + "\n";
}

std::string entry(std::string_view left, std::string_view right) {
  std::string line = "  " + std::string(left);
  if (line.size() + 2 > kHelpColumn) {
    line += "\n" + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + wrapped(right);
}

std::string row_entry(const OptionRow& row) {
  std::string left = row.short_name == '\0' ? "    " : std::string("-") + row.short_name + ", ";
  left += "--" + std::string(row.name) + value_hint(row);
  std::string right(row.help);
  const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
  if (!shown.empty()) right += " (default: " + std::string(shown) + ")";
  if (!row.no_effect.empty()) right += "; no effect: " + std::string(row.no_effect);
  return entry(left, right);
}

}  // namespace

std::string program_rules() {
  return "A name with a slash is that file: .py, .pyc and .pyz run under Python, an executable "
         "file by\n"
         "itself. A bare name is a program that comes with ddprun (train); else a Python file, or "
         "a file\n"
         "that is not executable, in the current folder, which runs under Python; else a program "
         "on PATH.\n"
         "Python is $PYTHON_EXEC, else python3, else python on PATH, with -u.\n"
         "What stands behind PROGRAM belongs to it and is never looked at; one -- directly before "
         "or\n"
         "behind PROGRAM is removed. ${local_rank} in an argument becomes the worker's local "
         "rank.\n";
}

std::string help_text() {
  std::string text =
      "ddprun starts the workers of a training job, one per GPU, watches them, and brings the "
      "group back\n"
      "when one fails. It takes torchrun's command lines.\n"
      "\n"
      "Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]\n"
      "\n"
      "Examples\n";
  for (const auto& example : examples()) {
    // Commands are longer than option names: they get a column of their own.
    std::string line = "  " + std::string(example.command);
    line.resize(std::max<std::size_t>(line.size() + 2, 52), ' ');
    text += line + std::string(example.what) + "\n";
  }
  const OptionRow* previous = nullptr;
  for (const auto& row : option_table()) {
    if (previous == nullptr || previous->group != row.group)
      text += "\n" + std::string(group_title(row.group)) + "\n";
    text += row_entry(row);
    previous = &row;
  }
  text += "\nHow PROGRAM is found\n";
  const std::string rules = program_rules();
  for (std::size_t begin = 0; begin < rules.size();) {
    const auto end = rules.find('\n', begin);
    text += "  " + rules.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  text +=
      "\n"
      "Underscores and dashes are the same in names (--nproc_per_node), and so are --name VALUE "
      "and\n"
      "--name=VALUE. torchrun's variables PET_NAME give defaults. ddprun --man says more.\n"
      "Exit code: 0 all workers succeeded, 2 wrong command line, 126 PROGRAM not executable, 127 "
      "not found.\n";
  return text;
}

}  // namespace ddprun::launcher
