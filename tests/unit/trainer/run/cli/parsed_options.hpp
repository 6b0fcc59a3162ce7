// Options of `train` from a command line that is accepted.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {

/// Ends the test where they are refused.
inline Options parse(const std::vector<std::string>& arguments) {
  const auto parsed = parse_options(arguments);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) FAIL(exit->text);
  return std::get<Options>(parsed);
}

}  // namespace ddprun::trainer
