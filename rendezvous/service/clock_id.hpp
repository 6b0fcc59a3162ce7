// Which clock a service counts the time of its jobs by.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

/// A service counts by the boot clock of its machine and a constant, `shift`. The same for services
/// that have both alike. `boot_id`: of the running kernel; empty: it is not known, nor is the
/// clock.
inline proto::ClockId clock_id(std::string_view boot_id, Clock::duration shift) {
  if (boot_id.empty()) return 0;
  return std::hash<std::string>()(fmt::format("{} {}", boot_id, shift.count()));
}

}  // namespace ddprun::rdzv
