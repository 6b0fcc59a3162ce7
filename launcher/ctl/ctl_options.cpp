#include "launcher/ctl/ctl_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/describe.hpp"
#include "base/exit_codes.hpp"
#include "base/number_in.hpp"
#include "base/version.hpp"
#include "launcher/ctl/ctl_text.hpp"
#include "texts/cli/command_line.hpp"
#include "texts/suggest.hpp"

namespace ddprun::ctl {
namespace {

struct CommandRow {
  std::string_view name;
  Command command;
  std::string_view options;  ///< that it has
};
constexpr auto kCommands = std::to_array<CommandRow>({
    {"ls", Command::list, "--json"},
    {"status", Command::status, "--json"},
    {"top", Command::top, "--interval"},
    {"events", Command::events, "--json --follow"},
    {"logs", Command::logs, "--rank --follow"},
    {"stacks", Command::stacks, "--rank"},
    {"signal", Command::signal, "--rank"},
    {"save", Command::save, "--timeout"},
    {"restart", Command::restart, ""},
    {"stop", Command::stop, "--now"},
    {"wait", Command::wait, ""},
});

constexpr std::chrono::milliseconds kIntervalMin{100};
constexpr std::chrono::seconds kIntervalMax{60};

class Wrong : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

const CommandRow& row_of(const std::string& word) {
  const auto row = std::find_if(kCommands.begin(), kCommands.end(),
                                [&](const auto& r) { return r.name == word; });
  if (row != kCommands.end()) return *row;
  std::vector<std::string> names;
  for (const CommandRow& known : kCommands) names.emplace_back(known.name);
  const auto meant = nearest(word, names);
  throw Wrong(
      meant ? fmt::format("unknown command {}; did you mean {}?", word, *meant)
            : fmt::format("unknown command {}; it is one of {}", word, fmt::join(names, ", ")));
}

/// `USR1`, `sigusr1`, `10`.
int signal_of(const std::string& word) {
  if (const auto number = number_in<int>(word); number && *number > 0 && *number <= SIGRTMAX)
    return *number;
  std::string name = word;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (!name.starts_with("SIG")) name = "SIG" + name;
  std::vector<std::string> names;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    names.push_back(signal_name(signal));
    if (names.back() == name) return signal;
  }
  const auto meant = nearest(name, names);
  throw Wrong(fmt::format("unknown signal {}{}", word,
                          meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

/// Takes the words behind the command away.
CtlOptions options_of(std::vector<std::string> words, const std::vector<std::string>& given) {
  const CommandRow& row = row_of(words.front());
  words.erase(words.begin());
  CtlOptions options;
  options.command = row.command;
  for (const std::string& name : given) {
    if (row.options.find(name) == std::string_view::npos)
      throw Wrong(fmt::format("{} is not for {}", name, row.name));
  }
  if (row.command == Command::signal) {
    if (words.empty())
      throw Wrong("signal: the name of the signal is missing: ddpctl signal USR1 [JOB]");
    options.signal = signal_of(words.front());
    words.erase(words.begin());
  }
  if (!words.empty()) options.job = words.front();
  if (words.size() > 1)
    throw Wrong(fmt::format("unexpected argument {}: {} takes one JOB", words[1], row.name));
  if (!words.empty() && options.job.empty()) throw Wrong("JOB is empty");
  return options;
}

}  // namespace

std::variant<CtlOptions, CtlExit> parse_ctl_options(const std::vector<std::string>& arguments) {
  CommandLine line(ctl_text(), "ddpctl --help", [] { return version_text("ddpctl"); });
  CtlOptions read;
  std::vector<std::string> words;
  line.words(words);
  line.group("What is asked");
  line.number("--rank", read.rank, 0, 1 << 30, "N",
              "With logs, stacks and signal: of this worker only, which must be on this machine");
  line.flag("-f,--follow", read.follow,
            "With events and logs: also those to come, until the job has ended");
  line.duration("--timeout", read.timeout, std::chrono::seconds(1),
                "With save: wait at most so long; it stays asked for");
  line.duration("--interval", read.interval, kIntervalMin,
                "With top: ask the job so often, from 0.1 to 60 seconds");
  line.flag("--now", read.now, "With stop: kill the workers, without waiting --grace-period");
  line.flag("--json", read.json, "With ls, status and events: print JSON");
  if (const auto end = line.parse(arguments))
    return CtlExit{end->wrong ? kExitUsage : kExitSuccess, end->text};
  if (words.empty()) return CtlExit{kExitUsage, kShortHelp};
  try {
    CtlOptions options = options_of(words, line.given());
    options.rank = read.rank;
    options.follow = read.follow;
    options.now = read.now;
    options.timeout = read.timeout;
    if (read.interval > kIntervalMax) throw Wrong("--interval is at most 60 seconds");
    options.interval = read.interval;
    options.json = read.json;
    return options;
  } catch (const Wrong& wrong) {
    return CtlExit{kExitUsage, line.wrong(wrong.what()).text};
  }
}

}  // namespace ddprun::ctl
