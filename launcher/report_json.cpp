#include "launcher/report_json.hpp"

#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rendezvous/membership/verdict.hpp"

namespace ddprun::launcher {
namespace {

// Objects keep the order in which they are filled.
using Json = nlohmann::ordered_json;

double in_seconds(std::chrono::nanoseconds duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

/// `2026-11-21T20:15:30.123Z`
std::string utc(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time - whole).count();
  return fmt::format("{}.{:03}Z", text, ms);
}

Json worker_json(const proto::FailedWorker& worker, const agent::AgentResult& result) {
  const proto::WorkerFailure& failure = worker.failure;
  const auto local = static_cast<std::size_t>(failure.local_rank);
  Json json = {
      {"rank", worker.rank}, {"local_rank", failure.local_rank}, {"host", result.node_name}};
  const bool ran = failure.error.empty();
  if (ran) json["pid"] = failure.pid;
  if (ran && local < result.workers.size()) {
    // The clock of the workers' times is monotonic: the last round's start ties it to the wall.
    const auto since = result.workers[local].ended_at - result.workers[local].started_at;
    json["ran_for_seconds"] = in_seconds(since);
    json["started"] = utc(result.started);
  }
  if (!ran) json["error"] = failure.error;
  if (failure.exit.by_signal) {
    json["signal"] = failure.exit.value;
    json["core_dumped"] = failure.exit.core_dumped;
  } else {
    json["exit_code"] = failure.exit.value;
  }
  json["evidence"] = rdzv::to_string(failure.evidence.kind);
  json["evidence_text"] = failure.evidence.text;
  json["first_sign_seconds"] = in_seconds(failure.evidence.at);
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

std::string_view name_of(proto::Finished::Outcome outcome) {
  switch (outcome) {
    case proto::Finished::Outcome::succeeded:
      return "succeeded";
    case proto::Finished::Outcome::failed:
      return "failed";
    case proto::Finished::Outcome::cancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace

std::string report_json(const agent::AgentResult& result, int exit_code,
                        const std::string& run_id) {
  const proto::Finished& finished = result.finished;
  Json json;
  json["outcome"] = name_of(finished.outcome);
  json["exit_code"] = exit_code;
  json["reason"] = finished.reason;
  json["run_id"] = run_id;
  json["culprit"] =
      finished.verdict ? worker_json(finished.verdict->culprit, result) : Json(nullptr);
  json["victims"] = Json::array();
  if (finished.verdict) {
    for (const auto& victim : finished.verdict->victims)
      json["victims"].push_back(worker_json(victim, result));
  }
  json["rounds"] = Json::array();
  for (const agent::RoundSummary& round : result.rounds) {
    json["rounds"].push_back({{"number", round.number},
                              {"restart_count", round.restart_count},
                              {"started", utc(round.started)},
                              {"lasted_seconds", in_seconds(round.lasted)}});
    if (round.furthest_step) json["rounds"].back()["furthest_step"] = *round.furthest_step;
    json["rounds"].back()["end"] = round.end;
  }
  json["rounds_left_out"] = result.rounds_left_out;
  json["restart_count"] = finished.restart_count;
  json["max_restarts"] = finished.max_restarts;
  json["not_restarted"] = finished.no_restart;
  json["dropped_bytes"] = result.dropped_bytes;
  json["containment"] = std::string(agent::to_string(result.containment));
  json["leftovers"] = result.leftovers;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
