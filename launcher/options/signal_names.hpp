// --signals-to-handle: names -> numbers. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

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
