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

namespace ddprun::rdzv {

/// What is kept of a join: little, for there may be many.
struct Node {
  std::string name;
  std::string role;
  int local_world_size = 0;
  std::optional<int> requested_group_rank;
  bool insists_on_rank = false;
  bool wants_report = false;
  std::uint16_t store_port = 0;
  std::string store_addr;
  int store_clients_max = 0;
  bool checks_first = false;
};

/// A node's own numbers in a round.
struct Seat {
  int group_rank = 0;
  int first_rank = 0;
  int first_role_rank = 0;
  int role_world_size = 1;
};

struct NodeSnapshot {
  Node node;
  std::uint64_t order = 0;   ///< of joining
  std::optional<Seat> seat;  ///< in the round that is out; none: it waits for the next one
  bool is_checked = true;    ///< it needs no check before the next round
  int failed_rounds = 0;     ///< in a row: each failed on this node
  proto::RoundNumber stepped_back = 0;  ///< since this round, for its failures; 0: it has not
};

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
