// The lines by which a node tells its user how the job goes.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/control/node_machine.hpp"
#include "base/describe.hpp"
#include "base/endpoint.hpp"
#include "proto/failure_text.hpp"
#include "proto/run_id.hpp"

namespace ddprun::agent {
namespace {

/// Why the last round failed, with what its culprit printed where that stands alone in it.
std::string with_cause(const std::string& reason,
                       const std::optional<proto::FailedWorker>& culprit) {
  if (!culprit || reason != proto::describe(*culprit)) return reason;
  const std::string cause = proto::cause_of(culprit->failure);
  return cause.empty() ? reason : fmt::format("{} ({})", reason, cause);
}

}  // namespace

/// Why it starts, or, in the first one, this node's place.
void NodeMachine::announce_round(Context& context, const proto::Round& round) const {
  if (round.restart_count > restart_count_) {
    context.act(Notice{fmt::format("{}; restarting the workers ({} of {} restarts)",
                                   with_cause(round.reason, round.last_culprit),
                                   round.restart_count, round.max_restarts)});
  } else if (round_ && round.restart_count == round_->round.restart_count) {
    // A second line with the reason would look like a second loss.
    const bool is_shown = shown_reason_ == round.reason;
    context.act(Notice{fmt::format("{}starting the workers again on {} node{}",
                                   is_shown ? "" : round.reason + "; ", round.group_world_size,
                                   round.group_world_size == 1 ? "" : "s")});
  }
  if (!round_) announce_place(context, round);
}

/// The first line on a node that finds all others there. Hosts reached through ssh have a launcher
/// that knows them.
void NodeMachine::announce_place(Context& context, const proto::Round& round) const {
  const auto& meeting = config_.rendezvous;
  if (!meeting || !meeting->socket.empty() || round.group_world_size == 1) return;
  const int last = round.first_rank + static_cast<int>(config_.workers.size()) - 1;
  const std::string ranks = last == round.first_rank
                                ? fmt::format("rank {}", last)
                                : fmt::format("ranks {} to {}", round.first_rank, last);
  context.act(Notice{
      fmt::format("joined with node rank {} of {} and {} of {}; rendezvous at {}", round.group_rank,
                  round.group_world_size, ranks, round.world_size,
                  meeting->etcd ? rdzv::to_string(*meeting->etcd) : to_string(meeting->endpoint))});
}

void NodeMachine::announce_restart(Context& context) {
  const auto& planned = std::get<proto::RestartPlanned>(context.event);
  restart_count_ = planned.restart_count;
  if (round_) round_->culprit = planned.culprit;
  context.act(
      Notice{fmt::format("{}; restarting the workers in {} ({} of {} restarts)",
                         with_cause(planned.reason, planned.culprit), describe(planned.delay),
                         planned.restart_count, planned.max_restarts)});
}

void NodeMachine::announce_wait(Context& context) {
  auto& waiting = std::get<proto::Waiting>(context.event);
  is_spare_ = waiting.is_spare;
  if (is_spare_ && !waiting.reason.empty()) {
    context.act(Notice{waiting.reason +
                       ": this node starts only if that one is lost, and ends with the job"});
    return;
  }
  if (is_spare_) {
    context.act(Notice{fmt::format("the job runs on {} other node{}: this one waits as a spare{}",
                                   waiting.nodes, waiting.nodes == 1 ? "" : "s",
                                   config_.run_id == proto::kDefaultRunId && !round_
                                       ? "; if this is another job, give it an --rdzv-id of its own"
                                       : "")});
    return;
  }
  const std::string range = waiting.min_nodes == waiting.max_nodes
                                ? fmt::format("{}", waiting.max_nodes)
                                : fmt::format("{} to {}", waiting.min_nodes, waiting.max_nodes);
  if (waiting.reason.empty() || std::exchange(shown_reason_, waiting.reason) == waiting.reason)
    waiting.reason.clear();
  std::string line = waiting.reason.empty() ? "" : waiting.reason + "; ";
  line += fmt::format("{} of {} nodes have joined", waiting.nodes, range);
  if (!waiting.joined.empty()) line += fmt::format(" ({})", fmt::join(waiting.joined, ", "));
  if (!waiting.checked.empty())
    line += fmt::format("; being checked: {}", fmt::join(waiting.checked, ", "));
  if (!waiting.missing.empty())
    line += fmt::format("; missing: {}", fmt::join(waiting.missing, ", "));
  const auto& meeting = config_.rendezvous;
  const bool has_other_addr = meeting && meeting->etcd && !meeting->local_addr.empty();
  if (meeting && leads_to_itself(meeting->endpoint.host) && !has_other_addr)
    line +=
        fmt::format("; only agents on this machine can join ({})", to_string(meeting->endpoint));
  const auto left = std::chrono::ceil<std::chrono::seconds>(waiting.left).count();
  line += waiting.nodes >= waiting.min_nodes
              ? fmt::format("; the job starts with these in {} s", left)
              : fmt::format("; without more the job ends in {} s", left);
  if (waiting.for_past_workers) {
    line +=
        waiting.nodes < waiting.max_nodes
            ? " (the rendezvous is new: missing nodes may still run workers of the previous one)"
            : " (the rendezvous is new: workers of the previous one may still run)";
  }
  context.act(Notice{std::move(line)});
}

void NodeMachine::pass_on(Context& context) {
  context.act(Notice{std::get<proto::Remark>(context.event).text});
}

/// Workers that still run may wait for one that has ended, for ever.
void NodeMachine::warn_of_ended_workers(Context& context) {
  if (!round_->uneven_at || context.now < *round_->uneven_at) return;
  round_->uneven_at.reset();
  const auto& workers = round_->group.workers();
  std::vector<int> ended;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].running()) ended.push_back(round_->round.first_rank + static_cast<int>(i));
  }
  const auto left = workers.size() - ended.size();
  if (left == 0) {
    context.act(Notice{fmt::format("{} of this node ended; those of other nodes still run",
                                   workers.size() == 1 ? "the worker" : "all workers")});
    return;
  }
  const std::string names = ended.size() == 1 ? fmt::format("rank {} has", ended.front())
                                              : fmt::format("{} workers have", ended.size());
  context.act(
      Notice{fmt::format("{} ended, {} of {} workers{} still run{}", names, left, workers.size(),
                         config_.rendezvous ? " of this node" : "", left == 1 ? "s" : "")});
}

}  // namespace ddprun::agent
