// Text -> value for every type of option, with an error that names the option as it was written.
// Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/launch_error.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

/// A decimal integer, with blanks around it and a leading plus allowed as in Python's int().
std::optional<long long> parse_integer(std::string_view text);

/// A duration (base/duration.hpp) that is zero or at least a millisecond, rounded to milliseconds.
std::optional<std::chrono::milliseconds> parse_seconds(std::string_view text);

/// `0,2`: integers from 0, none twice.
std::optional<std::vector<int>> parse_indexes(std::string_view text);

/// An integer (non-zero is on), or true, yes, on, false, no, off in any case.
std::optional<bool> parse_flag(std::string_view text);

/// The text as ParsedCommandLine keeps it: without blanks around numbers and words, a flag as "1"
/// or "0". `spelling` is how the user wrote option and value, for the message.
LaunchResult<std::string> checked_value(const OptionRow& row, std::string_view text,
                                        const std::string& spelling);

/// `a, b or c`.
std::string enumerate(const std::vector<std::string>& words);

struct SignalList {
  std::vector<int> signals;  ///< each once, in the order given
  /// To print once: names that mean nothing, signals that cannot be handled.
  std::vector<std::string> warnings;
  std::string unknown;  ///< the first name that means nothing; empty: there is none
};

/// `SIGTERM,INT,15`: names with or without SIG, in any case, or numbers, with commas between them.
/// As under torchrun what cannot be handled is left out with a warning.
SignalList parse_signals(std::string_view text, const std::string& spelling);

}  // namespace ddprun::launcher
