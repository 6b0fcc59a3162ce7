#include "launcher/options/signal_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <optional>

#include "launcher/options/option_value.hpp"
#include "texts/suggest.hpp"

namespace ddprun::launcher {
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
