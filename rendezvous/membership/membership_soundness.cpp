// Nodes that are checked before they take part: a newcomer when it joins, a spare again before it
// gets a rank. One that fails is refused, and named in the report.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proto/message_limits.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::Checked;

void Membership::ask_for_check(Members::value_type& member, Context& context) {
  set_phase(member.second, Phase::checking);
  member.second.check = ++checks_;
  member.second.is_chosen = false;
  context.actions.sends.push_back({member.first, proto::Check{checks_}});
}

/// Asks those of the next round that need a check. True: it forms when they have answered.
bool Membership::check_chosen(const std::vector<Member*>& nodes, Context& context) {
  bool any = false;
  for (auto& entry : members_) {
    if (entry.second.is_checked || entry.second.phase != Phase::waiting) continue;
    if (std::find(nodes.begin(), nodes.end(), &entry.second) == nodes.end()) continue;
    ask_for_check(entry, context);
    entry.second.is_chosen = true;
    any = true;
  }
  has_chosen_ = has_chosen_ || any;
  if (any) last_call_at_.reset();
  return any;
}

/// The other nodes of the next round do not start without them.
bool Membership::awaits_chosen() const {
  if (!has_chosen_ || count(Phase::checking) == 0) return false;
  return std::any_of(members_.begin(), members_.end(), [](const Members::value_type& entry) {
    return entry.second.phase == Phase::checking && entry.second.is_chosen;
  });
}

// ---- answers ----

void Membership::checked_forming(Context& context) {
  take_answer(context);
  if (state_ == JobState::forming) try_form(context);
}

void Membership::checked_running(Context& context) {
  if (take_answer(context)) grow_or_spare(context);
}

void Membership::checked_stopping(Context& context) { take_answer(context); }

/// Whether the node may take part now.
bool Membership::take_answer(Context& context) {
  const auto& checked = std::get<Checked>(*context.message);
  const auto member = members_.find(context.agent);
  const bool is_awaited = member != members_.end() && member->second.phase == Phase::checking &&
                          member->second.check == checked.number;
  if (!is_awaited) return false;
  if (!checked.passed) {
    refuse_unsound(member, checked, context);
    return false;
  }
  set_phase(member->second, Phase::waiting);
  member->second.is_checked = true;
  return true;
}

/// The job goes on without the node, unless the rendezvous goes with it.
void Membership::refuse_unsound(Members::iterator member, const Checked& checked,
                                Context& context) {
  std::string reason = "failed its check (--preflight)";
  if (!checked.text.empty()) reason += ": " + checked.text.substr(0, kUnsoundTextBytesMax);
  const std::string name = label(*member);
  note_unsound(member->second.node.name, reason);
  std::string line = fmt::format("{} {}", name, reason);
  context.actions.warnings.push_back(line);
  if (checked.hosts) {
    const proto::AgentMessage leave =
        proto::Leave{0, line + "; the rendezvous runs there, and ends with it", true, true};
    Context leaving{context.agent, &leave, nullptr, context.now, context.actions};
    const auto& row = kTable[static_cast<std::size_t>(EventKind::leave)];
    (this->*row[static_cast<std::size_t>(state_)].handler)(leaving);
    return;
  }
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = line;
  erase(member);
  send_to_waiting(context, proto::Remark{std::move(line)});
  context.actions.sends.push_back({context.agent, std::move(finished)});
}

/// A node that is started again and again has one entry.
void Membership::note_unsound(const std::string& node, const std::string& reason) {
  proto::UnsoundNode noted{node, reason, 1};
  const auto known = std::find_if(unsound_.begin(), unsound_.end(),
                                  [&](const auto& one) { return one.node == node; });
  if (known != unsound_.end()) {
    noted.times += known->times;
    unsound_.erase(known);
  } else if (unsound_.size() == proto::kUnsoundNodesMax) {
    unsound_.erase(unsound_.begin());
  }
  unsound_.push_back(std::move(noted));
}

}  // namespace ddprun::rdzv
