// Command lines of rdzvd.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/daemon/options.hpp"

namespace ddprun::test {

using Words = std::vector<std::string>;

/// What is said of wrong use.
inline std::string refused(const Words& words) {
  const auto result = rdzv::parse_daemon_options(words);
  REQUIRE(std::holds_alternative<rdzv::DaemonExit>(result));
  CHECK(std::get<rdzv::DaemonExit>(result).code == rdzv::kExitUsage);
  return std::get<rdzv::DaemonExit>(result).text;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddprun::test
