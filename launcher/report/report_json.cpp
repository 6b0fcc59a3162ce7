#include "launcher/report/report_json.hpp"

#include <array>

#include <nlohmann/json.hpp>

#include "agent/events/event_json.hpp"
#include "base/describe.hpp"
#include "base/json_text.hpp"
#include "base/version.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_hints.hpp"
#include "launcher/report/report_parts.hpp"
#include "proto/failure_text.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::launcher {
namespace {

// Objects keep the order in which they are filled.
using Json = nlohmann::ordered_json;

std::string_view name_of(proto::LossSign sign) {
  constexpr std::array<std::string_view, 5> kNames{"ended", "silent", "cut_off", "rebooted",
                                                   "fenced"};
  return kNames.at(static_cast<std::size_t>(sign));
}

/// How a worker ended; goes on in `json`.
void add_exit(Json& json, const ExitStatus& exit) {
  if (exit.by_signal) {
    json["signal"] = exit.value;
    json["core_dumped"] = exit.core_dumped;
  } else {
    json["exit_code"] = exit.value;
  }
}

Json worker_json(const proto::FailedWorker& worker, const agent::AgentResult& result) {
  const proto::WorkerFailure& failure = worker.failure;
  Json json = {{"rank", worker.rank},
               {"local_rank", failure.local_rank},
               {"host", worker.node.empty() ? result.node_name : worker.node}};
  const bool ran = failure.error.empty();
  if (ran) {
    json["pid"] = failure.pid;
    json["ran_for_seconds"] = in_seconds(failure.ran_for);
    json["started"] = describe(result.last_round.started);
    json["ended_seconds"] = in_seconds(failure.ended_at);
  }
  if (!ran) json["error"] = failure.error;
  add_exit(json, failure.exit);
  if (failure.used) {
    json["peak_memory_bytes"] = failure.used->peak_memory_bytes;
    json["cpu_seconds"] = in_seconds(failure.used->cpu_time);
  }
  json["evidence"] = rdzv::to_string(failure.evidence.kind);
  json["evidence_text"] = failure.evidence.text;
  json["first_sign_seconds"] = in_seconds(failure.evidence.at);
  if (failure.evidence.uncertainty.count() > 0)
    json["first_sign_uncertainty_seconds"] = in_seconds(failure.evidence.uncertainty);
  if (!failure.evidence.victim_phrase.empty())
    json["victim_phrase"] = failure.evidence.victim_phrase;
  if (failure.progress) {
    json["step"] = failure.progress->step;
    json["phase"] = failure.progress->phase;
  }
  json["last_lines"] = failure.last_lines;
  if (!failure.stacks.empty()) json["stacks"] = failure.stacks;
  return json;
}

Json workers_json(const std::vector<proto::FailedWorker>& workers,
                  const agent::AgentResult& result) {
  Json list = Json::array();
  for (const auto& worker : workers) list.push_back(worker_json(worker, result));
  return list;
}

Json suspects_json(const proto::Verdict& verdict, const agent::AgentResult& result) {
  Json list = Json::array();
  for (const proto::Suspect& suspect : verdict.suspects) {
    Json json = {{"rank", suspect.rank},
                 {"local_rank", suspect.worker.local_rank},
                 {"host", suspect.node.empty() ? result.node_name : suspect.node},
                 {"pid", suspect.worker.pid}};
    if (suspect.worker.progress) {
      json["step"] = suspect.worker.progress->step;
      json["phase"] = suspect.worker.progress->phase;
    }
    json["stacks"] = suspect.worker.stacks;
    json["suspended"] = suspect.worker.suspended;
    list.push_back(std::move(json));
  }
  for (const proto::EarlyEnd& ended : verdict.ended) {
    list.push_back({{"rank", ended.rank},
                    {"local_rank", ended.worker.local_rank},
                    {"host", ended.node.empty() ? result.node_name : ended.node},
                    {"pid", ended.worker.pid},
                    {"exit_code", 0},
                    {"ended_seconds", in_seconds(ended.worker.at)},
                    {"stacks", Json::array()},
                    {"suspended", false}});
  }
  return list;
}

/// The culprit of a round: which worker, and why.
Json culprit_json(const proto::FailedWorker& worker, const std::string& own_host) {
  Json json = {{"rank", worker.rank},
               {"local_rank", worker.failure.local_rank},
               {"host", worker.node.empty() ? own_host : worker.node}};
  if (worker.failure.pid > 0) json["pid"] = worker.failure.pid;
  add_exit(json, worker.failure.exit);
  json["evidence"] = rdzv::to_string(worker.failure.evidence.kind);
  json["evidence_text"] = worker.failure.evidence.text;
  return json;
}

/// The culprit where that is a node.
Json lost_node_json(const proto::LostNode& lost) {
  return {{"evidence", "node_lost"},
          {"host", lost.node},
          {"ranks", {lost.first_rank, lost.first_rank + lost.workers - 1}},
          {"sign", name_of(lost.sign)},
          {"sign_text", sign_of(lost)},
          {"silent_for_seconds", in_seconds(lost.silent_for)},
          {"silent_for_longer", lost.silent_for_longer},
          {"more_nodes", lost.more}};
}

Json round_json(const agent::RoundSummary& round, const std::string& own_host) {
  Json json = {{"number", round.number},
               {"restart_count", round.restart_count},
               {"started", describe(round.started)},
               {"lasted_seconds", in_seconds(round.lasted)}};
  if (round.furthest_step) json["furthest_step"] = *round.furthest_step;
  if (round.kept_workers > 0) json["kept_workers"] = round.kept_workers;
  json["end"] = round.end;
  if (round.culprit) json["culprit"] = culprit_json(*round.culprit, own_host);
  return json;
}

/// The log files of the last round's workers.
Json logs_json(const agent::AgentResult& result) {
  Json list = Json::array();
  for (std::size_t i = 0; i < result.last_round.logs.size(); ++i) {
    Json json = {{"rank", result.last_round.first_rank + static_cast<int>(i)}};
    if (!result.last_round.logs[i].standard_output.empty())
      json["stdout"] = result.last_round.logs[i].standard_output;
    if (!result.last_round.logs[i].standard_error.empty())
      json["stderr"] = result.last_round.logs[i].standard_error;
    list.push_back(std::move(json));
  }
  return list;
}

/// The nodes of the last round, as far as they are known here.
Json nodes_json(const agent::AgentResult& result) {
  Json list = Json::array();
  const auto add = [&](const std::string& host, int group_rank, int first_rank, int workers) {
    list.push_back({{"host", host},
                    {"group_rank", group_rank},
                    {"ranks", {first_rank, first_rank + workers - 1}}});
  };
  for (const proto::NodeOfRound& node : result.finished.nodes)
    add(node.name, node.group_rank, node.first_rank, node.workers);
  if (list.empty() && result.last_round.nodes == 1 && result.last_round.world_size > 0)
    add(result.node_name, 0, 0, result.last_round.world_size);
  return list;
}

/// Nodes that the job did without, though they were there.
Json unsound_json(const std::vector<proto::UnsoundNode>& unsound) {
  Json list = Json::array();
  for (const proto::UnsoundNode& one : unsound)
    list.push_back({{"host", one.node}, {"reason", one.reason}, {"times", one.times}});
  return list;
}

Json chaos_json(const agent::ChaosSummary& chaos) {
  Json json = {{"seed", chaos.seed}};
  for (const agent::ChaosFault fault : agent::kChaosFaults) {
    const auto count = chaos.faults.find(fault);
    json[std::string(to_string(fault))] = count == chaos.faults.end() ? 0 : count->second;
  }
  json["recoveries"] = chaos.recoveries.size();
  if (chaos.recoveries.empty()) return json;
  const RecoveryTimes times = recovery_times(chaos);
  json["recovery_median_seconds"] = in_seconds(times.median);
  json["recovery_p90_seconds"] = in_seconds(times.p90);
  json["recovery_longest_seconds"] = in_seconds(times.longest);
  return json;
}

}  // namespace

std::string report_json(const agent::AgentResult& result, int exit_code, const JobFacts& facts) {
  const proto::Finished& finished = result.finished;
  Json json;
  json["outcome"] = proto::name_of(finished.outcome);
  json["exit_code"] = exit_code;
  json["reason"] = finished.reason;
  json["run_id"] = facts.run_id;
  json["ddprun_version"] = ddprun::version();
  json["command"] = facts.command;
  json["cwd"] = facts.folder;
  json["host"] = result.node_name;
  json["nodes"] = result.last_round.nodes;
  json["node_list"] = nodes_json(result);
  json["world_size"] = result.last_round.world_size;
  json["started"] = describe(result.job_started);
  json["ended"] =
      describe(result.job_started +
               std::chrono::round<std::chrono::system_clock::duration>(result.job_lasted));
  json["culprit"] =
      finished.verdict ? worker_json(finished.verdict->culprit, result) : Json(nullptr);
  json["lost_node"] = finished.lost_node ? lost_node_json(*finished.lost_node) : Json(nullptr);
  const auto verdict = finished.verdict.value_or(proto::Verdict{});
  json["alike"] = workers_json(verdict.alike, result);
  json["victims"] = workers_json(verdict.victims, result);
  json["suspects"] = suspects_json(verdict, result);
  json["hints"] = finished.verdict ? hints(result, verdict) : std::vector<std::string>();
  json["ledger"] = agent::ledger_json(result.ledger);
  json["rounds"] = Json::array();
  for (const agent::RoundSummary& round : result.rounds)
    json["rounds"].push_back(round_json(round, result.node_name));
  json["rounds_left_out"] = result.rounds_left_out;
  json["restart_count"] = finished.restart_count;
  json["max_restarts"] = finished.max_restarts;
  json["not_restarted"] = finished.no_restart;
  json["log_folder"] = facts.log_folder;
  json["logs"] = logs_json(result);
  json["dropped_bytes"] = result.output.dropped_bytes;
  json["exited_by_themselves"] = exited_by_themselves(result);
  json["containment"] = std::string(machine::to_string(result.containment));
  json["leftovers"] = result.leftovers;
  json["unsound_nodes"] = unsound_json(finished.unsound);
  if (result.chaos) json["chaos"] = chaos_json(*result.chaos);
  return json_text(json, 2) + "\n";
}

}  // namespace ddprun::launcher
