#include "agent/node/node_notices.hpp"

#include <csignal>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000.0);
}

/// How many nodes are there, and which.
std::string nodes_text(const proto::Waiting& waiting) {
  const std::string range = waiting.min_nodes == waiting.max_nodes
                                ? fmt::format("{}", waiting.max_nodes)
                                : fmt::format("{} to {}", waiting.min_nodes, waiting.max_nodes);
  std::string text = fmt::format("{} of {} nodes have joined", waiting.nodes, range);
  if (!waiting.joined.empty()) text += fmt::format(" ({})", fmt::join(waiting.joined, ", "));
  if (!waiting.checked.empty())
    text += fmt::format("; being checked: {}", fmt::join(waiting.checked, ", "));
  if (!waiting.missing.empty())
    text += fmt::format("; missing: {}", fmt::join(waiting.missing, ", "));
  return text;
}

std::string past_workers_text(const proto::Waiting& waiting) {
  return waiting.nodes < waiting.max_nodes
             ? " (the rendezvous is new: missing nodes may still run workers of the previous one)"
             : " (the rendezvous is new: workers of the previous one may still run)";
}

/// Where no other machine can join; empty: they can.
std::string only_here_text(const AgentConfig& config) {
  const auto& meeting = config.rendezvous;
  const bool has_other_addr = meeting && meeting->etcd && !meeting->own.addr.empty();
  if (!meeting || !leads_to_itself(meeting->endpoint.host) || has_other_addr) return "";
  return fmt::format("; only agents on this machine can join ({})", to_string(meeting->endpoint));
}

/// What becomes of the workers. `otherwise`: no worker goes on.
std::string workers_text(const NodeFacts& node, const proto::Round& round, std::string otherwise) {
  if (round.kept_workers > 0)
    return fmt::format("{} of {} workers go on after step {}, with the state of rank {}",
                       round.kept_workers, round.world_size, round.source_step, round.source_rank);
  if (node.round && node.round->group.any_waits()) otherwise += ", for none that waits has a state";
  return otherwise;
}

}  // namespace

std::string why_round_line(const NodeFacts& node, const proto::Round& round) {
  if (round.restart_count > node.restart_count) {
    return fmt::format("{}; {} ({} of {} restarts)", with_cause(round.reason, round.last_culprit),
                       workers_text(node, round, "restarting the workers"), round.restart_count,
                       round.max_restarts);
  }
  if (!node.round) return "";
  if (round.restart_count != node.round->round.restart_count)  // it was announced, with its wait
    return round.kept_workers > 0 ? workers_text(node, round, "") : "";
  // A second line with the reason would look like a second loss.
  const bool is_shown = node.shown_reason == round.reason;
  return (is_shown ? "" : round.reason + "; ") +
         workers_text(node, round,
                      fmt::format("starting the workers again on {} node{}", round.group_world_size,
                                  round.group_world_size == 1 ? "" : "s"));
}

bool shows_place(const AgentConfig& config, const proto::Round& round) {
  return config.rendezvous && config.rendezvous->socket.empty() && round.group_world_size > 1;
}

std::string place_line(const AgentConfig& config, const proto::Round& round) {
  const RendezvousSettings& meeting = *config.rendezvous;
  const int last = round.first_rank + static_cast<int>(config.workers.size()) - 1;
  const std::string ranks = last == round.first_rank
                                ? fmt::format("rank {}", last)
                                : fmt::format("ranks {} to {}", round.first_rank, last);
  return fmt::format("joined with node rank {} of {} and {} of {}; rendezvous at {}",
                     round.group_rank, round.group_world_size, ranks, round.world_size,
                     meeting.etcd ? rdzv::to_string(*meeting.etcd) : to_string(meeting.endpoint));
}

std::string planned_restart_line(const proto::RestartPlanned& planned) {
  return fmt::format("{}; restarting the workers in {} ({} of {} restarts)",
                     with_cause(planned.reason, planned.culprit), describe(planned.delay),
                     planned.restart_count, planned.max_restarts);
}

std::string spare_line(const proto::Waiting& waiting, const std::string& run_id, bool is_first) {
  if (!waiting.reason.empty())
    return waiting.reason + ": this node starts only if that one is lost, and ends with the job";
  return fmt::format("the job runs on {} other node{}: this one waits as a spare{}", waiting.nodes,
                     waiting.nodes == 1 ? "" : "s",
                     run_id == proto::kDefaultRunId && is_first
                         ? "; if this is another job, give it an --rdzv-id of its own"
                         : "");
}

std::string waiting_line(const proto::Waiting& waiting, const AgentConfig& config) {
  std::string line = waiting.reason.empty() ? "" : waiting.reason + "; ";
  line += nodes_text(waiting) + only_here_text(config);
  const auto left = std::chrono::ceil<std::chrono::seconds>(waiting.left).count();
  line += waiting.nodes >= waiting.min_nodes
              ? fmt::format("; the job starts with these in {} s", left)
              : fmt::format("; without more the job ends in {} s", left);
  if (waiting.for_past_workers) line += past_workers_text(waiting);
  return line;
}

std::string check_passed_line(const CheckEnded& ended) {
  return fmt::format("this node has passed its check (--preflight) in {}", describe(ended.took));
}

std::string ended_workers_line(const NodeRound& round, bool other_nodes) {
  const auto& workers = round.group.workers();
  std::vector<int> ended;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].running()) ended.push_back(round.round.first_rank + static_cast<int>(i));
  }
  const auto left = workers.size() - ended.size();
  if (left == 0) {
    return fmt::format("{} of this node ended; those of other nodes still run",
                       workers.size() == 1 ? "the worker" : "all workers");
  }
  const std::string names = ended.size() == 1 ? fmt::format("rank {} has", ended.front())
                                              : fmt::format("{} workers have", ended.size());
  return fmt::format("{} ended, {} of {} workers{} still run{}", names, left, workers.size(),
                     other_nodes ? " of this node" : "", left == 1 ? "s" : "");
}

std::string stopping_line(int signal, std::chrono::milliseconds grace_period) {
  const std::string name = signal_name(signal);
  return fmt::format(
      "{}: stopping the workers; SIGKILL follows after {}, or at once with a second {}", name,
      in_seconds(grace_period), name);
}

std::string leaving_line(const NodeFacts& node, int signal) {
  const std::string name = signal_name(signal);
  const bool ends_job = node.has_rendezvous || (signal != SIGTERM && !node.is_spare);
  // Where the workers have succeeded, theirs may have been the last ones.
  const bool may_be_over = node.state == NodeState::done;
  return fmt::format("{}: {}{}; a second {} does not wait for the other nodes", name,
                     ends_job ? "ending the job on all nodes" : "leaving the job",
                     may_be_over ? ", unless it has succeeded" : "", name);
}

std::string killing_line(int signal, bool again) {
  return fmt::format("{}{}: killing the workers now", signal_name(signal), again ? " again" : "");
}

std::string count_down_line(const NodeRound& round, std::chrono::seconds left) {
  return fmt::format("waiting for {} of {} workers; SIGKILL in {} s", round.running(),
                     round.group.workers().size(), left.count());
}

std::string grace_over_line(std::chrono::milliseconds grace_period) {
  return fmt::format("workers still run after the grace period of {}: killing them",
                     in_seconds(grace_period));
}

}  // namespace ddprun::agent
