// A membership core that goes on where another one was.
#include "rendezvous/membership/membership_snapshot.hpp"

#include <utility>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

Membership::Membership(const MembershipSnapshot& snapshot, Clock::time_point job_began)
    : Membership(snapshot.settings, {}, snapshot.round.epoch, job_began) {
  state_ = JobState::running;
  joins_ = snapshot.joins;
  round_ = snapshot.round;
  next_round_ = round_.number + 1;
  formed_any_ = true;
  past_ = snapshot.past;
  incomplete_not_before_ = snapshot.incomplete_not_before;
  policy_ = RestartPolicy(settings_.restart, snapshot.restarts);
  node_changes_ = snapshot.node_changes;
  reason_ = round_.reason;
  last_refusal_ = snapshot.last_refusal;
  has_leftovers_ = snapshot.has_leftovers;
  checks_ = snapshot.checks;
  unsound_ = snapshot.unsound;
}

void Membership::restore(const AgentId& agent, const NodeSnapshot& node) {
  const auto [entry, is_new] = members_.try_emplace(agent);
  if (!is_new) return;
  Member& member = entry->second;
  member.phase = node.seat ? Phase::active : Phase::waiting;
  member.node = node.node;
  member.order = node.order;
  member.seat = node.seat;
  member.is_checked = node.is_checked;
  member.failed_rounds = node.failed_rounds;
  member.stepped_back = node.stepped_back;
  ++counts_[static_cast<std::size_t>(member.phase)];
  // A rank that is insisted on is one of the job's, as wait() has seen to.
  const std::optional<int> rank = member.node.requested_group_rank;
  member.node.insists_on_rank =
      member.node.insists_on_rank && rank && 0 <= *rank && *rank < settings_.max_nodes;
  if (rank) rank_wishes_.emplace(*rank, agent);
  if (!member.node.insists_on_rank) return;
  // Of several the one that joined last has it.
  const auto [holder, is_first] = rank_holders_.try_emplace(*rank, agent);
  if (!is_first && members_.at(holder->second).order < member.order) holder->second = agent;
}

void Membership::restore(const std::string& process, const proto::Losses& losses) {
  losses_[process] = losses;
}

bool Membership::is_at_rest() const {
  // A round ends soon that is to grow, and only of these two phases all is told.
  const auto told = static_cast<std::size_t>(count(Phase::active) + count(Phase::waiting));
  return state_ == JobState::running && !grow_at_ && told == members_.size() &&
         policy_.history().restarts.size() <= RestartHistory::kRestartsMax;
}

MembershipSnapshot Membership::snapshot() const {
  return {.settings = settings_,
          .round = round_,
          .restarts = policy_.history(),
          .node_changes = node_changes_,
          .joins = joins_,
          .past = past_,
          .incomplete_not_before = incomplete_not_before_,
          .last_refusal = last_refusal_,
          .has_leftovers = has_leftovers_,
          .checks = checks_,
          .unsound = unsound_};
}

std::optional<NodeSnapshot> Membership::node(const AgentId& agent) const {
  const auto found = members_.find(agent);
  if (found == members_.end()) return std::nullopt;
  const Member& member = found->second;
  NodeSnapshot node{member.node,       member.order,         std::nullopt,
                    member.is_checked, member.failed_rounds, member.stepped_back};
  if (member.phase == Phase::active) node.seat = member.seat;
  return node;
}

}  // namespace ddprun::rdzv
