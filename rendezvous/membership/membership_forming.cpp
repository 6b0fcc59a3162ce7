// How a round forms: which nodes take part, with which ranks, and what those that wait are told.
#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;
using proto::AgentId;

namespace {

/// A round that forms sooner is not worth a line about those that are missing.
constexpr auto kTellAfter = 2s;
constexpr auto kTellEvery = 1s;

}  // namespace

void Membership::hold_until(Clock::time_point when) {
  if (state_ != JobState::forming || formed_any_) return;
  not_before_ = std::max(not_before_.value_or(when), when);
}

void Membership::hold_incomplete_until(Clock::time_point when) {
  incomplete_not_before_ = when;
  if (last_call_at_) last_call_at_ = std::max(*last_call_at_, when);
}

// ---- joining and leaving ----

void Membership::join_forming(Context& context) {
  if (wait(context)) try_form(context);
}

void Membership::leave_forming(Context& context) {
  const auto member = members_.find(context.agent);
  if (member == members_.end()) {
    // It could not even join (its port is taken, say). That is its own end, not the job's.
    context.actions.sends.push_back(
        {context.agent, outcome_of(std::get<proto::Leave>(*context.message))});
    return;
  }
  const proto::Leave leave = leave_of(member->second, context);
  proto::Finished ending = leave.cancels ? cancelled_by(*member, leave) : outcome_of(leave);
  if (!leave.cancels) erase(member);
  if (leave.cancels || members_.empty()) finish(context, std::move(ending));
  if (!leave.cancels) say_goodbye(context, context.agent, leave);
  if (state_ == JobState::forming) try_form(context);
}

void Membership::lost_forming(Context& context) {
  const auto member = members_.find(context.agent);
  if (member == members_.end()) return;
  erase(member);
  try_form(context);  // nodes that were lost may come back, also if all were
}

// ---- forming ----

void Membership::start_forming(Context& context, Clock::duration delay) {
  forget_round();
  state_ = JobState::forming;
  go_on_from_past();
  reforming_ = true;
  forming_since_ = context.now + delay;
  not_before_.reset();
  if (delay > Clock::duration::zero()) not_before_ = forming_since_;
  last_call_at_.reset();
  tell_at_.reset();
  has_chosen_ = false;
  try_form(context);
}

void Membership::try_form(Context& context) {
  if (!tell_at_ && settings_.max_nodes > 1)
    tell_at_ = std::max(context.now + kTellEvery, forming_since_ + kTellAfter);
  const int waiting = count(Phase::waiting);
  const bool enough = waiting >= settings_.min_nodes;
  if (awaits_chosen()) return;
  if (!enough) last_call_at_.reset();
  has_chosen_ = has_chosen_ && enough;
  // Those of the last round keep their seats, and come back within moments.
  const bool all_back = count(Phase::stopped) == 0;
  if (all_back && !enough) reforming_ = false;  // those to come come one by one
  if (not_before_) return;
  if (all_back && (waiting >= settings_.max_nodes || (enough && reforming_) || has_chosen_)) {
    form(context);
  } else if (enough && !last_call_at_) {
    last_call_at_ = std::max(context.now + settings_.last_call, incomplete_not_before_);
  }
}

/// A round that forms by itself at a known moment is not given up before it: enough nodes are
/// there, and the last call or the leases of an earlier life are waited for. A check has a deadline
/// of its own.
bool Membership::will_form() const {
  return last_call_at_ || count(Phase::checking) > 0 ||
         (not_before_ && count(Phase::waiting) >= settings_.min_nodes);
}

void Membership::deadline_forming(Context& context) {
  if (not_before_ && context.now >= *not_before_) {
    not_before_.reset();
    try_form(context);
    if (state_ != JobState::forming) return;
  }
  if (!not_before_ && last_call_at_ && context.now >= *last_call_at_) {
    form(context);
    return;
  }
  if (will_form() || context.now < forming_since_ + settings_.join_timeout) {
    if (tell_at_ && context.now >= *tell_at_) tell_waiting(context);
    return;
  }
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason =
      fmt::format("no round formed within the join timeout of {} s: {} of at least {} nodes joined",
                  std::chrono::duration_cast<std::chrono::seconds>(settings_.join_timeout).count(),
                  count(Phase::waiting), settings_.min_nodes);
  if (!change_.empty() || lost_node_)
    finished.reason += "; " + (change_.empty() ? describe(*lost_node_) : change_);
  if (!unsound_.empty())
    finished.reason += fmt::format("; {} {}", unsound_.back().node, unsound_.back().reason);
  finished.lost_node = lost_node_;
  finish(context, std::move(finished));
}

/// The nodes of the next round, by group rank. A node of the last round comes before a newcomer,
/// then the rank that was asked for, the place in the last round, and the name decide. Spares that
/// have stepped back come after the others, the newest last; a node that gives way, after them.
std::vector<Membership::Member*> Membership::seated() {
  constexpr int kNone = 1 << 30;
  const auto place = [&](const Member& member) {
    return member.seat ? member.seat->group_rank : kNone;
  };
  const auto wish = [&](const Member& member) {
    return std::min(member.node.requested_group_rank.value_or(kNone), kNone);
  };
  const auto by_name = [](const Member& a, const Member& b) {
    if (natural_less(a.node.name, b.node.name)) return true;
    if (natural_less(b.node.name, a.node.name)) return false;
    return a.order < b.order;
  };
  std::vector<Member*> nodes;
  for (auto& [id, member] : members_)
    if (member.phase == Phase::waiting) nodes.push_back(&member);
  if (static_cast<int>(nodes.size()) > settings_.max_nodes) {
    std::sort(nodes.begin(), nodes.end(), [&](const Member* a, const Member* b) {
      const auto keys = [&](const Member& one) {
        return std::tuple(gives_way(one), place(one) == kNone, one.stepped_back, wish(one),
                          place(one));
      };
      const auto keys_a = keys(*a);
      const auto keys_b = keys(*b);
      return keys_a != keys_b ? keys_a < keys_b : by_name(*a, *b);
    });
    nodes.resize(static_cast<std::size_t>(settings_.max_nodes));  // the rest are spares
  }
  std::sort(nodes.begin(), nodes.end(), [&](const Member* a, const Member* b) {
    const std::pair keys_a(place(*a), wish(*a));
    const std::pair keys_b(place(*b), wish(*b));
    return keys_a != keys_b ? keys_a < keys_b : by_name(*a, *b);
  });
  // A rank that was asked for is that rank, where it exists; the others fill what is left.
  std::vector<Member*> seats(nodes.size(), nullptr);
  for (Member*& node : nodes) {
    const int rank = wish(*node);
    if (rank < 0 || rank >= static_cast<int>(seats.size())) continue;
    Member*& seat = seats[static_cast<std::size_t>(rank)];
    if (seat == nullptr) std::swap(seat, node);
  }
  auto free = seats.begin();
  for (Member* node : nodes) {
    if (node == nullptr) continue;
    free = std::find(free, seats.end(), nullptr);
    *free = node;
  }
  return seats;
}

/// To the people at the service, and to those of the node that has this limit.
void Membership::warn_of_store_room(const Member& server, int world_size, Context& context) const {
  const Node& node = server.node;
  if (node.store_clients_max == 0 || node.store_clients_max >= world_size) return;
  std::string line = fmt::format(
      "{} serves the workers' store and may open too few files for {} workers: raise its limit "
      "(ulimit -n)",
      node.name, world_size);
  context.actions.warnings.push_back(line);
  for (const auto& [agent, member] : members_)
    if (&member == &server) context.actions.sends.push_back({agent, proto::Remark{line}});
}

void Membership::form(Context& context) {
  const std::vector<Member*> nodes = seated();
  if (check_chosen(nodes, context)) return;
  int world_size = 0;
  std::map<std::string, int> role_sizes;
  for (const Member* node : nodes) {
    world_size += node->node.local_world_size;
    role_sizes[node->node.role] += node->node.local_world_size;
  }
  const Node& first = nodes.front()->node;
  warn_of_store_room(*nodes.front(), world_size, context);
  round_ = {};
  round_.epoch = epoch_;
  round_.number = next_round_++;
  round_.reason = reason_;
  round_.group_world_size = static_cast<int>(nodes.size());
  round_.world_size = world_size;
  round_.restart_count = policy_.restart_count();
  round_.max_restarts = settings_.restart.max_restarts;
  round_.master_addr = first.store_addr;
  round_.master_port = first.store_port;
  round_.last_culprit = last_culprit_;
  std::map<std::string, int> role_ranks;
  Seat seat;
  for (Member* node : nodes) {
    int& role_rank = role_ranks[node->node.role];
    seat.first_role_rank = role_rank;
    seat.role_world_size = role_sizes[node->node.role];
    node->seat = seat;
    node->stepped_back = 0;
    set_phase(*node, Phase::active);
    seat.first_rank += node->node.local_world_size;
    role_rank += node->node.local_world_size;
    ++seat.group_rank;
  }
  for (auto& entry : members_) {
    auto& [id, member] = entry;
    if (member.phase == Phase::active) {
      context.actions.sends.push_back({id, round_for(*member.seat)});
    } else {
      if (member.phase == Phase::waiting && gives_way(member)) step_back(entry, context);
      member.failed_rounds = 0;
      member.seat.reset();  // that was in an older round
      member.is_checked = !member.node.checks_first;
    }
  }
  formed_any_ = true;
  last_call_at_.reset();
  tell_at_.reset();
  has_chosen_ = false;
  last_culprit_.reset();
  lost_node_.reset();
  change_.clear();
  grow_at_.reset();
  state_ = JobState::running;
}

proto::Round Membership::round_for(const Seat& seat) const {
  proto::Round round = round_;
  round.group_rank = seat.group_rank;
  round.first_rank = seat.first_rank;
  round.first_role_rank = seat.first_role_rank;
  round.role_world_size = seat.role_world_size;
  return round;
}

// ---- what those that wait are told ----

/// None, where they are too many to be named.
std::vector<std::string> Membership::names_of(Phase phase) const {
  std::vector<std::string> names;
  if (count(phase) > static_cast<int>(proto::kWaitingNamesMax)) return names;
  for (const auto& entry : members_)
    if (entry.second.phase == phase) names.push_back(label(entry));
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

/// Those that are expected back, or the ranks that no node has yet.
std::vector<std::string> Membership::missing() const {
  std::vector<std::string> names;
  const auto full = [&] { return names.size() == proto::kWaitingNamesMax; };
  std::vector<bool> ranks;
  for (const auto& entry : members_) {
    const Member& member = entry.second;
    if (member.phase == Phase::stopped && !full()) names.push_back(label(entry));
    const bool is_there = member.phase == Phase::waiting || member.phase == Phase::checking;
    if (is_there && member.node.insists_on_rank) {
      ranks.resize(static_cast<std::size_t>(settings_.max_nodes));
      ranks[static_cast<std::size_t>(*member.node.requested_group_rank)] = true;
    }
  }
  if (!names.empty()) return names;
  for (std::size_t rank = 0; rank < ranks.size() && !full(); ++rank)
    if (!ranks[rank]) names.push_back(fmt::format("node rank {}", rank));
  return names;
}

/// With those that wait; or when the job ends because they are too few.
Clock::time_point Membership::forms_at() const {
  if (last_call_at_) return *last_call_at_;
  const int waiting = count(Phase::waiting);
  if (!not_before_ || waiting < settings_.min_nodes) return forming_since_ + settings_.join_timeout;
  return waiting >= settings_.max_nodes || reforming_ ? *not_before_
                                                      : *not_before_ + settings_.last_call;
}

void Membership::tell_waiting(Context& context) {
  tell_at_.reset();  // until a node joins or leaves
  proto::Waiting waiting;
  waiting.nodes = count(Phase::waiting);
  waiting.min_nodes = settings_.min_nodes;
  waiting.max_nodes = settings_.max_nodes;
  waiting.joined = names_of(Phase::waiting);
  waiting.checked = names_of(Phase::checking);
  waiting.missing = missing();
  waiting.reason = change_;
  waiting.left = std::max(forms_at() - context.now, Clock::duration::zero());
  // Nodes are told nothing before a restart's wait is over.
  const bool is_held = not_before_ && waiting.nodes >= settings_.min_nodes;
  waiting.for_past_workers = is_held || last_call_at_ == incomplete_not_before_;
  send_to_waiting(context, waiting);
}

void Membership::send_to_waiting(Context& context, const proto::MembershipMessage& message) const {
  int told = 0;
  for (const auto& [id, member] : members_) {
    if (member.phase != Phase::waiting) continue;
    if (told++ == kWaitersToldMax) break;
    context.actions.sends.push_back({id, message});
  }
}

}  // namespace ddprun::rdzv
