#include "rendezvous/membership/node_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "proto/message_limits.hpp"

namespace ddprun::rdzv {

void NodeChecks::ask(Roster& roster, Roster::Entry& entry, MembershipActions& actions) {
  roster.set_phase(entry.second, Phase::checking);
  entry.second.check = ++asked_;
  entry.second.is_chosen = false;
  actions.send(entry.first, proto::Check{asked_});
}

NodeChecks::Result NodeChecks::take_answer(Roster& roster, const proto::AgentId& agent,
                                           const proto::Checked& checked,
                                           MembershipActions& actions) {
  Roster::Entry* const entry = roster.find(agent);
  const bool is_awaited = entry != nullptr && entry->second.phase == Phase::checking &&
                          entry->second.check == checked.number;
  if (!is_awaited) return {};
  if (checked.passed) {
    roster.set_phase(entry->second, Phase::waiting);
    entry->second.is_checked = true;
    return {.passed = true, .leaves = {}};
  }
  std::string reason = "failed its check (--preflight)";
  if (!checked.text.empty()) reason += ": " + checked.text.substr(0, kTextBytesMax);
  note_unsound(entry->second.node.name, reason);
  std::string line = fmt::format("{} {}", roster.label(*entry), reason);
  actions.warnings.push_back(line);
  if (checked.hosts)
    return {.leaves = proto::Leave{0, line + "; the rendezvous runs there, and ends with it", true,
                                   true}};
  roster.erase(*entry);
  for (const proto::AgentId& waiting : roster.notified())
    actions.send(waiting, proto::Remark{line});
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = std::move(line);
  actions.send(agent, std::move(finished));
  return {};
}

void NodeChecks::note_unsound(const std::string& node, const std::string& reason) {
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
