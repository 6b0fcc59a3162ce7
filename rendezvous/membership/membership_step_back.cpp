// A node on which round after round fails gives its place to a spare.
// one, and is the last spare from then on.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

/// `node`: where the round failed; empty: it ended otherwise, or that is open. Both end each row.
void Membership::count_failed_round(const AgentId& node) {
  for (auto& [id, member] : members_)
    member.failed_rounds = id == node ? member.failed_rounds + 1 : 0;
}

/// One that insists on its rank leaves a place that no other node could take.
bool Membership::gives_way(const Member& member) const {
  return settings_.failing_nodes_step_back && member.failed_rounds >= kFailedRoundsMax &&
         !member.node.insists_on_rank;
}

/// The round that forms has no place for it.
void Membership::step_back(Members::value_type& entry, Context& context) {
  Member& member = entry.second;
  member.stepped_back = round_.number;
  std::string reason = fmt::format(
      "gave its place to a spare: {} rounds in a row failed on this node", member.failed_rounds);
  if (last_culprit_) reason += "; the last one: " + reason_.substr(0, kUnsoundTextBytesMax);
  note_unsound(member.node.name, reason);
  std::string line = fmt::format("{} {}", label(entry), reason);
  context.actions.warnings.push_back(line);
  context.actions.sends.push_back({entry.first, proto::Remark{line}});
  tell_spare(entry.first, round_.group_world_size, "", context);
}

}  // namespace ddprun::rdzv
