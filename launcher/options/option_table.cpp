#include "launcher/options/option_table.hpp"

#include <algorithm>
#include <array>

#include "launcher/options/option_rows_job.hpp"
#include "launcher/options/option_rows_run.hpp"

namespace ddprun::launcher {
namespace {

// Options of torchrun carry its PET_ variable; ours have none. What else torchrun reads (LOGLEVEL
// and so on) is in options.cpp.
constexpr auto kTable = [] {
  std::array<OptionRow, kJobRows.size() + kRunRows.size()> table;
  std::copy(kRunRows.begin(), kRunRows.end(),
            std::copy(kJobRows.begin(), kJobRows.end(), table.begin()));
  return table;
}();

constexpr std::array kExamples = {
    Example{"ddprun --nproc-per-node=2 train", "the bundled trainer, two workers"},
    Example{"ddprun --nproc-per-node=gpu train.py --lr 0.1", "a Python script, one worker per GPU"},
    Example{"ddprun --gpus=0,2 --max-restarts=3 train.py",
            "on two of the GPUs; restarted up to 3 times"},
    Example{"ddprun --nproc-per-node=4 -m project.train", "a Python module"},
    Example{"ddprun --nproc-per-node=2 ./a.out --any", "any program; options after it are its own"},
    Example{"ddprun --dry-run --nproc-per-node=2 train",
            "only show what would be started, and why"},
};

}  // namespace

std::span<const OptionRow> option_table() { return kTable; }

std::span<const Example> examples() { return kExamples; }

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
      return "Meeting point";
    case ourselves:
      return "ddprun itself";
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

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const auto end = list.find('|');
    words.push_back(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return words;
}

std::vector<std::string_view> choices_of(const OptionRow& row) { return words_of(row.choices); }

std::string value_hint(const OptionRow& row) {
  switch (row.type) {
    case ValueType::flag:
      return "";
    case ValueType::optional_choice: {
      // The first choice is what the bare option means: it need not be typed.
      const auto bar = row.choices.find('|');
      return "[=" + std::string(row.choices.substr(bar + 1)) + "]";
    }
    case ValueType::choice:
      return "=" + std::string(row.choices);
    case ValueType::count_or_word:
    case ValueType::indexes_or_word:
    case ValueType::seconds_or_word:
      return "=" + std::string(row.placeholder) + "|" + std::string(row.choices);
    case ValueType::integer:
    case ValueType::count:
    case ValueType::text:
    case ValueType::seconds:
      return "=" + std::string(row.placeholder);
  }
  return "";
}

}  // namespace ddprun::launcher
