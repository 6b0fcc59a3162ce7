#include "rendezvous/membership/roster.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>

#include <fmt/format.h>

namespace ddprun::rdzv {

using proto::AgentId;

// Not strverscmp: for that 010 is a fraction, less than 9.
bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto number = [&](std::string_view text, std::size_t& at) {
        while (at < text.size() && text[at] == '0') ++at;
        const std::size_t first = at;
        while (at < text.size() && digit(text[at])) ++at;
        return text.substr(first, at - first);
      };
      const std::string_view x = number(a, i);
      const std::string_view y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((a.size() - i) != (b.size() - j)) return a.size() - i < b.size() - j;
  return a < b;  // node01 and node1: still a strict order
}

Roster::Entry* Roster::find(const AgentId& agent) {
  const auto found = members_.find(agent);
  return found == members_.end() ? nullptr : &*found;
}

const Roster::Entry* Roster::find(const AgentId& agent) const {
  const auto found = members_.find(agent);
  return found == members_.end() ? nullptr : &*found;
}

Roster::Entry& Roster::join(const AgentId& agent, const proto::Join& join, std::uint64_t order) {
  const auto [entry, is_new] = members_.try_emplace(agent);
  Member& member = entry->second;
  if (is_new) ++counts_[static_cast<std::size_t>(member.phase)];
  if (is_new) member.is_checked = !join.checks_first;
  set_phase(member, Phase::waiting);
  release_rank(*entry);  // it may ask for another one now
  member.node = {.name = join.node_name,
                 .role = join.role,
                 .local_world_size = join.local_world_size,
                 .requested_group_rank = join.requested_group_rank,
                 .insists_on_rank = join.insists_on_rank,
                 .wants_report = join.wants_report,
                 .store_port = join.store_port,
                 .store_addr = join.store_addr,
                 .store_clients_max = join.store_clients_max,
                 .checks_first = join.checks_first,
                 .kept = join.kept,
                 .knows_kept = join.knows_kept};
  member.order = order;
  const auto& rank = join.requested_group_rank;
  if (rank && join.insists_on_rank) rank_holders_[*rank] = agent;
  if (rank) rank_wishes_.emplace(*rank, agent);
  return *entry;
}

void Roster::restore(const AgentId& agent, const NodeSnapshot& node) {
  const auto [entry, is_new] = members_.try_emplace(agent);
  if (!is_new) return;
  Member& member = entry->second;
  static_cast<NodeSnapshot&>(member) = node;
  member.phase = node.seat ? Phase::active : Phase::waiting;
  ++counts_[static_cast<std::size_t>(member.phase)];
  // A rank that is insisted on is one of the job's: others are refused when they join.
  const std::optional<int> rank = member.node.requested_group_rank;
  member.node.insists_on_rank =
      member.node.insists_on_rank && rank && 0 <= *rank && *rank < max_nodes_;
  if (rank) rank_wishes_.emplace(*rank, agent);
  if (!member.node.insists_on_rank) return;
  // Where several nodes insist on it, the one that joined last has it.
  const auto [holder, is_first] = rank_holders_.try_emplace(*rank, agent);
  if (!is_first && members_.at(holder->second).order < member.order) holder->second = agent;
}

void Roster::set_phase(Member& member, Phase phase) {
  --counts_[static_cast<std::size_t>(member.phase)];
  ++counts_[static_cast<std::size_t>(phase)];
  member.phase = phase;
}

void Roster::erase(const Entry& entry) {
  --counts_[static_cast<std::size_t>(entry.second.phase)];
  release_rank(entry);
  members_.erase(members_.find(entry.first));
}

void Roster::erase_gone() {
  for (auto entry = members_.begin(); entry != members_.end();) {
    const Entry& one = *entry++;
    if (one.second.phase == Phase::gone) erase(one);
  }
}

void Roster::release_rank(const Entry& entry) {
  const auto& rank = entry.second.node.requested_group_rank;
  if (rank) rank_wishes_.erase({*rank, entry.first});
  const auto holder = rank ? rank_holders_.find(*rank) : rank_holders_.end();
  if (holder != rank_holders_.end() && holder->second == entry.first) rank_holders_.erase(holder);
}

const Roster::Entry* Roster::holder(int rank) const {
  const auto holder = rank_holders_.find(rank);
  return holder == rank_holders_.end() ? nullptr : find(holder->second);
}

const Roster::Entry* Roster::with_same_rank(const Entry& entry) const {
  const auto& rank = entry.second.node.requested_group_rank;
  if (!rank) return nullptr;
  for (auto wish = rank_wishes_.lower_bound({*rank, AgentId()});
       wish != rank_wishes_.end() && wish->first == *rank; ++wish)
    if (wish->second != entry.first) return find(wish->second);
  return nullptr;
}

bool Roster::has_own_name(const Entry& entry) const {
  return std::none_of(members_.begin(), members_.end(), [&](const Entry& other) {
    return other.first != entry.first && other.second.node.name == entry.second.node.name &&
           other.second.phase != Phase::gone;
  });
}

std::string Roster::label(const Entry& entry) const {
  return has_own_name(entry) ? entry.second.node.name : entry.first;
}

std::vector<std::string> Roster::names_of(Phase phase) const {
  std::vector<std::string> names;
  if (count(phase) > static_cast<int>(proto::kWaitingNamesMax)) return names;
  for (const Entry& entry : members_)
    if (entry.second.phase == phase) names.push_back(label(entry));
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::vector<AgentId> Roster::notified() const {
  std::vector<AgentId> agents;
  for (const auto& [agent, member] : members_) {
    if (agents.size() == kNotifiedMax) break;
    if (member.phase == Phase::waiting) agents.push_back(agent);
  }
  return agents;
}

std::vector<std::string> Roster::missing() const {
  std::vector<std::string> names;
  const auto full = [&] { return names.size() == proto::kWaitingNamesMax; };
  std::vector<bool> ranks;
  for (const Entry& entry : members_) {
    const Member& member = entry.second;
    if (member.phase == Phase::stopped && !full()) names.push_back(label(entry));
    const bool is_there = member.phase == Phase::waiting || member.phase == Phase::checking;
    if (is_there && member.node.insists_on_rank) {
      ranks.resize(static_cast<std::size_t>(max_nodes_));
      ranks[static_cast<std::size_t>(*member.node.requested_group_rank)] = true;
    }
  }
  if (!names.empty()) return names;
  for (std::size_t rank = 0; rank < ranks.size() && !full(); ++rank)
    if (!ranks[rank]) names.push_back(fmt::format("node rank {}", rank));
  return names;
}

std::vector<Roster::Entry*> Roster::seated() {
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
  const auto sort_by = [&](std::vector<Entry*>& nodes, const auto& keys) {
    std::sort(nodes.begin(), nodes.end(), [&](const Entry* a, const Entry* b) {
      const auto keys_a = keys(a->second);
      const auto keys_b = keys(b->second);
      return keys_a != keys_b ? keys_a < keys_b : by_name(a->second, b->second);
    });
  };
  std::vector<Entry*> nodes;
  for (Entry& entry : members_)
    if (entry.second.phase == Phase::waiting) nodes.push_back(&entry);
  if (static_cast<int>(nodes.size()) > max_nodes_) {
    sort_by(nodes, [&](const Member& one) {
      return std::tuple(gives_way(one), place(one) == kNone, one.stepped_back, wish(one),
                        place(one));
    });
    nodes.resize(static_cast<std::size_t>(max_nodes_));  // the rest are spares
  }
  sort_by(nodes, [&](const Member& one) { return std::pair(place(one), wish(one)); });
  // A rank that was asked for is that rank, where it exists; the others fill what is left.
  std::vector<Entry*> seats(nodes.size(), nullptr);
  for (Entry*& node : nodes) {
    const int rank = wish(node->second);
    if (rank < 0 || rank >= static_cast<int>(seats.size())) continue;
    Entry*& seat = seats[static_cast<std::size_t>(rank)];
    if (seat == nullptr) std::swap(seat, node);
  }
  auto free = seats.begin();
  for (Entry* node : nodes) {
    if (node == nullptr) continue;
    free = std::find(free, seats.end(), nullptr);
    *free = node;
  }
  return seats;
}

bool Roster::gives_way(const Member& member) const {
  return failing_step_back_ && member.failed_rounds >= kFailedRoundsMax &&
         !member.node.insists_on_rank;
}

void Roster::count_failed_round(const AgentId& agent) {
  for (auto& [id, member] : members_)
    member.failed_rounds = id == agent ? member.failed_rounds + 1 : 0;
}

}  // namespace ddprun::rdzv
