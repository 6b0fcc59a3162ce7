#include "launcher/options/option_value.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <optional>

#include "base/duration.hpp"
#include "base/lower_case.hpp"
#include "base/trimmed.hpp"
#include "texts/suggest.hpp"

namespace ddprun::launcher {

namespace {

constexpr long long kIndexMax = 1'000'000;
constexpr std::string_view kSecondsExpected = "seconds, 0 or at least 1ms, as in 30, 0.5 or 500ms";

std::string choice_list(const OptionRow& row) {
  const auto choices = choices_of(row);
  return enumerate({choices.begin(), choices.end()});
}

LaunchError wrong(const std::string& spelling, const std::string& expected) {
  return usage_error(spelling + ": expected " + expected);
}

LaunchError wrong_word(const OptionRow& row, std::string_view text, const std::string& spelling,
                       const std::string& expected) {
  const auto choices = choices_of(row);
  const auto meant = nearest(lower_case(text), {choices.begin(), choices.end()});
  return wrong(spelling, expected + (meant ? "; did you mean " + *meant + "?" : ""));
}

/// Whether `text` is a choice, or for a choice that ends with `:N` its beginning with a number, 1
/// or more.
bool is_choice(std::string_view choices, std::string_view text) {
  constexpr std::string_view kNumber = ":N";
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return has_word(choices, text);
  const auto number = parse_integer(text.substr(colon + 1));
  return number && *number >= 1 && *number <= kIndexMax &&
         has_word(choices, std::string(text.substr(0, colon)) + std::string(kNumber));
}

}  // namespace

std::string enumerate(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::optional<long long> parse_integer(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  long long value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> parse_seconds(std::string_view text) {
  const auto duration = parse_duration(text);
  // Rounded to 0 it would switch off what it was meant to shorten.
  if (!duration || (duration->count() > 0 && *duration < std::chrono::milliseconds(1)))
    return std::nullopt;
  return std::chrono::round<std::chrono::milliseconds>(*duration);
}

std::optional<std::vector<int>> parse_indexes(std::string_view text) {
  std::vector<int> indexes;
  while (true) {
    const auto comma = text.find(',');
    const auto index = parse_integer(text.substr(0, comma));
    if (!index || *index < 0 || *index > kIndexMax) return std::nullopt;
    const int value = static_cast<int>(*index);
    if (std::find(indexes.begin(), indexes.end(), value) != indexes.end()) return std::nullopt;
    indexes.push_back(value);
    if (comma == std::string_view::npos) return indexes;
    text.remove_prefix(comma + 1);
  }
}

std::optional<bool> parse_flag(std::string_view text) {
  if (const auto number = parse_integer(text)) return *number != 0;
  const std::string word = lower_case(trimmed(text));
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

LaunchResult<std::string> checked_value(const OptionRow& row, std::string_view text,
                                        const std::string& spelling) {
  const std::string clean(trimmed(text));
  switch (row.type) {
    case ValueType::flag: {
      const auto flag = parse_flag(text);
      if (!flag) return wrong(spelling, "1 (on) or 0 (off)");
      return std::string(*flag ? "1" : "0");
    }
    case ValueType::integer:
      if (!parse_integer(text)) return wrong(spelling, "a whole number");
      return clean;
    case ValueType::count: {
      const auto number = parse_integer(text);
      if (!number || *number < 0) return wrong(spelling, "a whole number, 0 or more");
      return clean;
    }
    case ValueType::count_or_word: {
      if (has_word(row.choices, clean)) return clean;
      const auto number = parse_integer(text);
      if (number && *number >= 1) return clean;
      if (has_word(row.refused, lower_case(clean)))
        return usage_error(spelling + ": " + std::string(row.why_refused));
      const std::string expected = "a whole number, 1 or more, or " + choice_list(row);
      return number ? wrong(spelling, expected) : wrong_word(row, clean, spelling, expected);
    }
    case ValueType::indexes_or_word:
      if (is_choice(row.choices, clean) || parse_indexes(text)) return clean;
      return wrong_word(row, clean, spelling,
                        "numbers from 0, each once, as in " + std::string(row.placeholder) +
                            ", or " + choice_list(row));
    case ValueType::text:
    case ValueType::optional_topic:
      return std::string(text);
    case ValueType::choice:
    case ValueType::optional_choice:
      if (has_word(row.choices, clean)) return clean;
      if (const std::string word = lower_case(clean);  // --log-level=INFO
          has_word(row.choices, word) || has_word(row.also, word))
        return word;
      return wrong_word(row, clean, spelling, choice_list(row));
    case ValueType::seconds:
      if (!parse_seconds(text)) return wrong(spelling, std::string(kSecondsExpected));
      return clean;
    case ValueType::seconds_or_word:
      if (has_word(row.choices, clean) || parse_seconds(text)) return clean;
      return wrong_word(row, clean, spelling,
                        std::string(kSecondsExpected) + ", or " + choice_list(row));
  }
  return wrong(spelling, "another value");
}

namespace {

struct NamedSignal {
  std::string_view name;
  int number;
};

// Those that can end a job. Signals of faults are for the program that makes the fault, and job
// control (TSTP, CONT) keeps its meaning.
constexpr std::array kHandled = {
    NamedSignal{"HUP", SIGHUP},   NamedSignal{"INT", SIGINT},   NamedSignal{"QUIT", SIGQUIT},
    NamedSignal{"USR1", SIGUSR1}, NamedSignal{"USR2", SIGUSR2}, NamedSignal{"ALRM", SIGALRM},
    NamedSignal{"TERM", SIGTERM}, NamedSignal{"XCPU", SIGXCPU}, NamedSignal{"PWR", SIGPWR},
};
constexpr std::array kNotHandled = {
    NamedSignal{"KILL", SIGKILL}, NamedSignal{"STOP", SIGSTOP}, NamedSignal{"CHLD", SIGCHLD},
    NamedSignal{"TSTP", SIGTSTP}, NamedSignal{"CONT", SIGCONT}, NamedSignal{"SEGV", SIGSEGV},
    NamedSignal{"BUS", SIGBUS},   NamedSignal{"FPE", SIGFPE},   NamedSignal{"ILL", SIGILL},
    NamedSignal{"ABRT", SIGABRT}, NamedSignal{"PIPE", SIGPIPE}, NamedSignal{"TRAP", SIGTRAP},
};

template <class Table>
std::optional<int> signal_in(const Table& table, std::string_view name) {
  const auto number = parse_integer(name);
  const auto found = std::find_if(table.begin(), table.end(), [&](const NamedSignal& row) {
    return number ? row.number == *number : row.name == name;
  });
  return found == table.end() ? std::nullopt : std::optional(found->number);
}

std::string upper_without_sig(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (c != ' ' && c != '\t')
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name.starts_with("SIG") ? name.substr(3) : name;
}

}  // namespace

SignalList parse_signals(std::string_view text, const std::string& spelling) {
  SignalList list;
  while (true) {
    const auto comma = text.find(',');
    const std::string name = upper_without_sig(text.substr(0, comma));
    if (const auto signal = signal_in(kHandled, name)) {
      if (std::find(list.signals.begin(), list.signals.end(), *signal) == list.signals.end())
        list.signals.push_back(*signal);
    } else if (signal_in(kNotHandled, name)) {
      list.warnings.push_back(spelling + ": SIG" + name +
                              " cannot be used to stop a job; left out");
    } else if (!name.empty()) {
      std::vector<std::string> names;
      for (const NamedSignal& row : kHandled) names.emplace_back(row.name);
      const auto meant = nearest(name, names);
      list.warnings.push_back(spelling + ": unknown signal " + std::string(text.substr(0, comma)) +
                              (meant ? "; did you mean SIG" + *meant + "?" : "; left out"));
      if (list.unknown.empty()) list.unknown = std::string(text.substr(0, comma));
    }
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ddprun::launcher
