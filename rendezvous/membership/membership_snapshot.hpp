// What a membership core knows while a round is out and nothing has happened to it since it formed:
// little, and as much after a thousand rounds as after the first.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/membership/restart_policy.hpp"
#include "rendezvous/membership/roster.hpp"

namespace ddprun::rdzv {

/// All but the nodes and their losses, of which there may be many: they are given one by one.
struct MembershipSnapshot {
  proto::JobSettings settings;
  proto::Round round;  ///< that is out: what all its nodes have alike
  RestartHistory restarts;
  int node_changes = 0;
  std::uint64_t joins = 0;
  std::optional<proto::PastRound> past;  ///< of a service that has lost its memory
  std::chrono::steady_clock::time_point incomplete_not_before{};
  std::string last_refusal;
  bool has_leftovers = false;
  std::uint64_t checks = 0;
  std::vector<proto::UnsoundNode> unsound;
};

}  // namespace ddprun::rdzv
