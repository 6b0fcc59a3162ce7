#include "launcher/texts/help.hpp"

#include <algorithm>
#include <string_view>

#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kHelpColumn = 34;  // where the explanations begin

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

std::string entry(std::string_view left, std::string_view right) {
  std::string line = "  " + std::string(left);
  if (line.size() + 2 > kHelpColumn) {
    line += "\n" + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + wrapped(right, kHelpColumn, kHelpColumn);
}

std::string row_entry(const OptionRow& row) {
  std::string left = row.short_name == '\0' ? "    " : std::string("-") + row.short_name + ", ";
  left += "--" + std::string(row.name) + value_hint(row);
  std::string right(row.help);
  const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
  if (!shown.empty()) right += " (default: " + std::string(shown) + ")";
  std::string also;
  for (const auto alias : words_of(row.aliases))
    also += (also.empty() ? "; also --" : ", --") + std::string(alias);
  right += also;
  if (!row.no_effect.empty()) right += "; no effect: " + std::string(row.no_effect);
  return entry(left, right);
}

}  // namespace

std::string program_rules() {
  return "A name with a slash is that file: .py, .pyc and .pyz run under Python, an executable "
         "file "
         "by itself.\n"
         "A bare name is a program that comes with ddprun (train); else a Python file, or a file "
         "that is not executable, in the current folder, which runs under Python; else a program "
         "on PATH.\n"
         "Python is $PYTHON_EXEC, else python3, else python on PATH, with -u.\n"
         "What follows PROGRAM belongs to it and is never looked at; one -- directly before or "
         "after PROGRAM is removed.\n"
         "${local_rank} in an argument becomes the worker's local rank.\n";
}

std::string short_help_text() {
  return R"(Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]

Starts the workers of a training job on this machine, watches them, and starts
them again when one fails. Takes torchrun's command lines.

  ddprun --nproc-per-node=2 train           the bundled trainer, two workers
  ddprun --nproc-per-node=gpu train.py      a Python script, one worker per GPU
  ddprun --nproc-per-node=2 ./a.out --any   any program with its own options

  --nproc-per-node=N|gpu|cpu|auto  workers (default: 1)
  --gpus=all|none|0,2              GPUs that they use (default: all)
  --max-restarts=N                 restarts after failures (default: 0)
  --progress-timeout=SECONDS       treat a worker as hung after so long without
                                   progress (default: off)
  --grace-period=SECONDS           from a stop signal to SIGKILL (default: 30)
  --log-dir=FOLDER --tee=3         also keep each worker's output in files
  --rank-filter=RANKS              show only the output of these ranks
  --output=raw                     show output as it comes, without prefixes
  --report=FILE                    write how the job ended to FILE, as JSON
  --dry-run                        show what would be started, and why

ddprun --help lists all options, ddprun --man | man -l - explains them.
)";
}

std::string help_text() {
  std::string text = paragraphs(
      "ddprun starts the workers of a training job on this machine, watches them, and starts them "
      "again when one fails. It takes torchrun's command lines. ddprun -h is a short form of this.",
      0);
  text += "\nUsage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]\n\nExamples\n";
  for (const auto& example : examples()) {
    text += "  " + std::string(example.command) + "\n";
    text += "      " + wrapped(example.what, 6, 6);
  }
  const OptionRow* previous = nullptr;
  for (const auto& row : option_table()) {
    if (previous == nullptr || previous->group != row.group)
      text += "\n" + std::string(group_title(row.group)) + "\n";
    text += row_entry(row);
    previous = &row;
  }
  text += "\nHow PROGRAM is found\n" + paragraphs(program_rules(), 2) + "\n";
  text += paragraphs(
      "Underscores and dashes are the same in names (--nproc_per_node), and so are --name VALUE "
      "and "
      "--name=VALUE. torchrun's variables PET_NAME give defaults. ddprun --man has more.\n"
      "Exit code: 0 all workers succeeded, 2 wrong command line, 126 PROGRAM not executable, 127 "
      "not found.",
      0);
  return text;
}

}  // namespace ddprun::launcher
