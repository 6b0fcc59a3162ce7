// Command line and environment -> values of the rows of an option table. Pure; keeps argparse's
// contract: `--x v`, `--x=v`,
// `-r3`, `-r 3`, unambiguous prefixes, the last one wins, parsing stops at PROGRAM and what follows
// is never looked at.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

/// The value of one row, with where it comes from.
struct OptionValue {
  enum class Source { none, row_default, environment, command_line } source = Source::none;
  std::string text;      ///< checked against the row's type; a flag's is "1" or "0"
  std::string spelling;  ///< for messages: `--max-restarts=3`, `PET_MAX_RESTARTS=3`
};

/// What the parser makes of a command line. Asking for another type than the row's does not
/// compile.
class ParsedCommandLine {
 public:
  explicit ParsedCommandLine(std::span<const OptionRow> table);

  /// By the command line or a variable.
  [[nodiscard]] bool given(RowRef row) const;
  [[nodiscard]] bool flag(FlagRef row) const;
  /// Empty when there is neither a value nor a default.
  [[nodiscard]] std::optional<long long> integer(IntegerRef row) const;
  /// An integer, 0 where there is neither a value nor a default; more than `limit` is a usage
  /// error.
  [[nodiscard]] LaunchResult<int> integer_up_to(IntegerRef row, long long limit) const;
  /// Empty for a word, too.
  [[nodiscard]] std::optional<std::chrono::milliseconds> seconds(SecondsRef row) const;
  /// The text as given; empty when there is none.
  [[nodiscard]] std::string text(TextRef row) const;
  /// For messages: `--max-restarts=3`; empty where nothing was given.
  [[nodiscard]] const std::string& spelling(RowRef row) const;

  /// The row with `ends` (--help, --version) that was met; the rest of the line was then not looked
  /// at.
  std::optional<RowRef> ended_by;
  std::string word_behind_end;  ///< behind the option of ended_by; empty: an option, or nothing
  std::optional<std::string> program;
  std::vector<std::string> arguments;  ///< all that follows PROGRAM
  std::vector<std::string> warnings;   ///< to print once on stderr
  /// `--log-dir took train.py`: where an option's value was the last word, so that it may have been
  /// meant as PROGRAM; else empty.
  std::string last_taken;

 private:
  friend class CommandLineParser;
  [[nodiscard]] const OptionValue& value(RowRef row) const;

  std::vector<OptionValue> values_;  ///< one for each row
};

/// `arguments` are those behind our own name. A missing PROGRAM is not an error here.
LaunchResult<ParsedCommandLine> parse_command_line(std::span<const OptionRow> table,
                                                   const std::vector<std::string>& arguments,
                                                   const Environment& environment);

}  // namespace ddprun::launcher
