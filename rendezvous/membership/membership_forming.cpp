// How a round forms: which nodes take part, with which ranks.
#include <algorithm>

#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

void Membership::try_form(Context& context) {
  const int waiting = count(Member::Phase::waiting);
  if (not_before_) return;
  if (waiting >= settings_.max_nodes) {
    form(context);
  } else if (waiting >= settings_.min_nodes && !last_call_at_) {
    last_call_at_ = context.now + settings_.last_call;
  }
}

std::vector<AgentId> Membership::ranked_waiting() const {
  std::vector<AgentId> ids;
  for (const auto& [id, member] : members_) {
    if (member.phase == Member::Phase::waiting) ids.push_back(id);
  }
  // A requested rank comes first, then the place in the last round, then the node's name.
  const auto key = [this](const AgentId& id) {
    const Member& member = members_.at(id);
    constexpr int kNone = 1 << 30;
    const int requested = member.join.requested_group_rank.value_or(kNone);
    const int sticky = member.last_group_rank >= 0 ? member.last_group_rank : kNone;
    return std::pair(requested, sticky);
  };
  std::sort(ids.begin(), ids.end(), [&](const AgentId& a, const AgentId& b) {
    const auto ka = key(a);
    const auto kb = key(b);
    if (ka != kb) return ka < kb;
    const Member& ma = members_.at(a);
    const Member& mb = members_.at(b);
    if (natural_less(ma.join.node_name, mb.join.node_name)) return true;
    if (natural_less(mb.join.node_name, ma.join.node_name)) return false;
    return ma.order < mb.order;
  });
  if (static_cast<int>(ids.size()) > settings_.max_nodes) {
    ids.resize(static_cast<std::size_t>(settings_.max_nodes));  // the rest are spares
  }
  return ids;
}

void Membership::form(Context& context) {
  const std::vector<AgentId> ids = ranked_waiting();
  int world_size = 0;
  std::map<std::string, int> role_sizes;
  for (const AgentId& id : ids) {
    const proto::Join& join = members_.at(id).join;
    world_size += join.local_world_size;
    role_sizes[join.role] += join.local_world_size;
  }
  const proto::Join& first = members_.at(ids.front()).join;
  int first_rank = 0;
  std::map<std::string, int> role_ranks;
  for (std::size_t group_rank = 0; group_rank < ids.size(); ++group_rank) {
    Member& member = members_.at(ids[group_rank]);
    member.phase = Member::Phase::active;
    member.group_rank = member.last_group_rank = static_cast<int>(group_rank);
    member.first_rank = first_rank;
    proto::Round round;
    round.number = next_round_;
    round.reason = reason_;
    round.group_rank = member.group_rank;
    round.group_world_size = static_cast<int>(ids.size());
    round.first_rank = first_rank;
    round.world_size = world_size;
    round.first_role_rank = role_ranks[member.join.role];
    round.role_world_size = role_sizes[member.join.role];
    round.restart_count = policy_.restart_count();
    round.max_restarts = settings_.restart.max_restarts;
    round.master_addr = first.store_addr;
    round.master_port = first.store_port;
    round.last_culprit = last_culprit_;
    first_rank += member.join.local_world_size;
    role_ranks[member.join.role] += member.join.local_world_size;
    context.actions.sends.push_back({ids[group_rank], std::move(round)});
  }
  ++next_round_;
  last_call_at_.reset();
  failed_.clear();
  last_culprit_.reset();
  state_ = JobState::running;
}

void Membership::start_forming(Context& context, Clock::duration delay) {
  state_ = JobState::forming;
  forming_since_ = context.now + delay;
  last_call_at_.reset();
  not_before_.reset();
  if (delay > Clock::duration::zero()) not_before_ = forming_since_;
  try_form(context);
}

}  // namespace ddprun::rdzv
