// Nodes that are checked before they take part: a newcomer when it joins, a spare again before it
// gets a rank. A node that fails is refused, and named in the report. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/membership_messages.hpp"
#include "rendezvous/membership/membership_events.hpp"
#include "rendezvous/membership/roster.hpp"

namespace ddprun::rdzv {

class NodeChecks {
 public:
  /// How much is kept of what a check has printed, or of how a worker failed.
  static constexpr std::size_t kTextBytesMax = 1024;
  struct Result {
    bool passed = false;                 ///< the node may take part now
    std::optional<proto::Leave> leaves;  ///< it failed, and the rendezvous goes with it
  };

  NodeChecks() = default;
  NodeChecks(std::uint64_t asked, std::vector<proto::UnsoundNode> unsound)
      : asked_(asked), unsound_(std::move(unsound)) {}

  void ask(Roster& roster, Roster::Entry& entry, MembershipActions& actions);
  /// The job goes on without a node that failed, unless the rendezvous goes with it.
  Result take_answer(Roster& roster, const proto::AgentId& agent, const proto::Checked& checked,
                     MembershipActions& actions);
  /// A node that is started again and again has one entry.
  void note_unsound(const std::string& node, const std::string& reason);

  [[nodiscard]] std::uint64_t asked() const { return asked_; }
  [[nodiscard]] const std::vector<proto::UnsoundNode>& unsound() const { return unsound_; }

 private:
  std::uint64_t asked_ = 0;                  // checks so far
  std::vector<proto::UnsoundNode> unsound_;  // the newest last
};

}  // namespace ddprun::rdzv
