// Which nodes may take part in a job, and what it takes from what they bring.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "rendezvous/membership/job_differences.hpp"
#include "rendezvous/membership/membership.hpp"

namespace ddprun::rdzv {

using proto::AgentId;

namespace {

std::string range_of(const proto::JobSettings& settings) {
  return settings.min_nodes == settings.max_nodes
             ? fmt::format("{}", settings.max_nodes)
             : fmt::format("{}:{}", settings.min_nodes, settings.max_nodes);
}

}  // namespace

/// False: it was refused, and told so.
bool Membership::wait(Context& context) {
  const auto& join = std::get<proto::Join>(*context.message);
  if (std::string why = refusal(context, join); !why.empty()) {
    refuse(context, join.node_name, std::move(why));
    return false;
  }
  const auto [entry, is_new] = members_.try_emplace(context.agent);
  Member& member = entry->second;
  if (is_new) {
    ++counts_[static_cast<std::size_t>(member.phase)];
    tell_of_differences(context, join);
    member.is_checked = !join.checks_first;
  }
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
                 .checks_first = join.checks_first};
  member.order = joins_++;
  if (join.insists_on_rank && join.requested_group_rank)
    rank_holders_[*join.requested_group_rank] = context.agent;
  if (is_new) tell_of_twins(context, join);
  if (join.requested_group_rank) rank_wishes_.emplace(*join.requested_group_rank, context.agent);
  learn_past(join);
  if (!member.is_checked) ask_for_check(*entry, context);
  return true;
}

/// Why a node can never take part; empty: it can.
std::string Membership::refusal(const Context& context, const proto::Join& join) const {
  if (join.settings.min_nodes != settings_.min_nodes ||
      join.settings.max_nodes != settings_.max_nodes) {
    return fmt::format("this job has --nnodes={}, {} was started with --nnodes={}",
                       range_of(settings_), join.node_name, range_of(join.settings));
  }
  const bool may_serve_store = !join.insists_on_rank || join.requested_group_rank.value_or(0) == 0;
  if (may_serve_store && (join.store_addr.empty() || join.store_port == 0))
    return fmt::format(
        "{} may have to serve the workers' store, and names no address and port for it",
        join.node_name);
  if (!join.insists_on_rank || !join.requested_group_rank) return "";
  const int rank = *join.requested_group_rank;
  if (rank < 0 || rank >= settings_.max_nodes)
    return fmt::format("--node-rank={} of {}: this job has the node ranks 0 to {}", rank,
                       join.node_name, settings_.max_nodes - 1);
  const auto holder = rank_holders_.find(rank);
  if (holder == rank_holders_.end() || holder->second == context.agent) return "";
  const Member& other = members_.at(holder->second);
  const bool is_there = other.phase == Phase::waiting || other.phase == Phase::checking;
  if (!is_there) return "";  // it may be this very node's, which starts again
  const bool alike = other.node.name == join.node_name;
  return fmt::format("--node-rank={} is given twice, on {} and on {}", rank,
                     alike ? holder->second : other.node.name,
                     alike ? context.agent : join.node_name);
}

/// Those that wait for it hear of it, too: a node that is started again and again is told of once.
void Membership::refuse(Context& context, const std::string& node, std::string why) {
  std::string remark = fmt::format("{} was refused: {}", node, why);
  if (std::exchange(last_refusal_, remark) != remark)
    send_to_waiting(context, proto::Remark{std::move(remark)});
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = std::move(why);
  context.actions.sends.push_back({context.agent, std::move(finished)});
}

void Membership::tell_of_differences(Context& context, const proto::Join& join) const {
  std::vector<std::string> ignored = differences(settings_, join.settings);
  if (join.requested_group_rank && *join.requested_group_rank >= settings_.max_nodes)
    ignored.push_back(fmt::format("--node-rank={} is ignored: this job has the node ranks 0 to {}",
                                  *join.requested_group_rank, settings_.max_nodes - 1));
  for (std::string& one : ignored) {
    context.actions.warnings.push_back(fmt::format("{}: {}", join.node_name, one));
    context.actions.sends.push_back({context.agent, proto::Remark{std::move(one)}});
  }
}

/// Where ranks are only wishes, a rank that is wished for twice is no reason to refuse a node.
void Membership::tell_of_twins(Context& context, const proto::Join& join) const {
  if (join.insists_on_rank || !join.requested_group_rank) return;
  const int rank = *join.requested_group_rank;
  const auto other = rank_wishes_.lower_bound({rank, AgentId()});
  if (other == rank_wishes_.end() || other->first != rank || rank >= settings_.max_nodes) return;
  const std::string line =
      fmt::format("--node-rank={} is given on {} and on {}: one of them gets it", rank,
                  label(*members_.find(other->second)), label(*members_.find(context.agent)));
  context.actions.warnings.push_back(line);
  for (const AgentId& agent : {other->second, context.agent})
    context.actions.sends.push_back({agent, proto::Remark{line}});
}

/// The name of its node; that of its agent, which begins with it, where several agents of the job
/// have one name.
std::string Membership::label(const Members::value_type& member) const {
  const std::string& name = member.second.node.name;
  const bool is_alone =
      std::none_of(members_.begin(), members_.end(), [&](const Members::value_type& other) {
        return other.first != member.first && other.second.node.name == name &&
               other.second.phase != Phase::gone;
      });
  return is_alone ? name : member.first;
}

/// Where there are several nodes.
std::string Membership::name_of(const Member& member) const {
  return settings_.max_nodes > 1 ? member.node.name : "";
}

/// What a service that has lost its memory hears from the nodes of a job that ran before. It counts
/// from the next round on: the one that is out keeps its number.
void Membership::learn_past(const proto::Join& join) {
  if (!join.was_in) return;
  const proto::PastRound& past = *join.was_in;
  const bool ours =
      past.epoch < epoch_ || (past.epoch == epoch_ && formed_any_ && past.number < next_round_);
  if (!ours || past_) go_on_from(past);
}

std::optional<proto::PastRound> Membership::past() const {
  if (!formed_any_) return past_;
  return proto::PastRound{epoch_, next_round_ - 1, policy_.restart_count()};
}

void Membership::go_on_from(const proto::PastRound& past) {
  if (!past_) past_.emplace();
  past_->epoch = std::max(past_->epoch, past.epoch);
  past_->number = std::max(past_->number, past.number);
  past_->restart_count = std::max(past_->restart_count, past.restart_count);
  if (state_ == JobState::forming) go_on_from_past();
}

void Membership::go_on_from_past() {
  if (!past_) return;
  if (past_->epoch >= epoch_ && !formed_any_)
    reason_ = "the rendezvous was started without its memory of the job";
  epoch_ = std::max(epoch_, past_->epoch + 1);
  next_round_ = std::max(next_round_, past_->number + 1);
  policy_.resume_at(past_->restart_count);
}

}  // namespace ddprun::rdzv
