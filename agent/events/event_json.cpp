#include "agent/events/event_json.hpp"

#include <array>

#include <nlohmann/json.hpp>

#include "base/describe.hpp"
#include "base/json_text.hpp"
#include "proto/failure_text.hpp"

namespace ddprun::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, std::variant_size_v<Happening>> kNames{
    "round_began",     "worker_began",  "worker_left",   "worker_hung",
    "worker_slow",     "worker_ended",  "round_stopped", "round_ended",
    "restart_planned", "nodes_awaited", "check_made",    "signal",
    "notice",          "save_ended",    "line",          "job_ended"};

/// Adds what the event says of itself.
struct Fields {
  Json& json;

  void operator()(const RoundBegan& one) const {
    json["restart_count"] = one.restart_count;
    json["nodes"] = one.nodes;
    json["world_size"] = one.world_size;
    json["first_rank"] = one.first_rank;
    json["kept_workers"] = one.kept_workers;
    json["reason"] = one.reason.text;
  }
  void operator()(const WorkerBegan& one) const {
    add(one.worker);
    if (!one.problem.text.empty()) json["problem"] = one.problem.text;
  }
  void operator()(const WorkerLeft& one) const {
    add(one.worker);
    if (one.step) json["step"] = *one.step;
  }
  void operator()(const WorkerHung& one) const {
    add(one.worker);
    json["how"] = one.how.text;
  }
  void operator()(const WorkerSlow& one) const {
    add(one.worker);
    json["factor"] = one.factor;
    json["step_seconds"] = in_seconds(one.step_time);
  }
  void operator()(const WorkerEnded& one) const {
    add(one.worker);
    if (one.exit.by_signal) {
      json["signal"] = one.exit.value;
      json["core_dumped"] = one.exit.core_dumped;
    } else {
      json["exit_code"] = one.exit.value;
    }
    json["ran_for_seconds"] = in_seconds(one.ran_for);
    json["was_stopped"] = one.was_stopped;
  }
  void operator()(const RoundStopped& one) const { json["reason"] = one.reason.text; }
  void operator()(const RoundEnded& one) const { json["lasted_seconds"] = in_seconds(one.lasted); }
  void operator()(const RestartAnnounced& one) const {
    json["reason"] = one.reason.text;
    json["delay_seconds"] = in_seconds(one.delay);
    json["restart_count"] = one.restart_count;
    json["max_restarts"] = one.max_restarts;
  }
  void operator()(const NodesAwaited& one) const {
    json["nodes"] = one.nodes;
    json["min_nodes"] = one.min_nodes;
    json["max_nodes"] = one.max_nodes;
  }
  void operator()(const CheckMade& one) const {
    json["passed"] = one.passed;
    if (!one.passed) json["why"] = one.why.text;
  }
  void operator()(const SignalCame& one) const { json["signal"] = signal_name(one.signal); }
  void operator()(const NoticeCame& one) const {
    if (!one.text.text.empty()) json["text"] = one.text.text;
  }
  void operator()(const SaveEnded& one) const {
    json["workers"] = one.workers;
    if (!one.problem.text.empty()) json["problem"] = one.problem.text;
    json["took_seconds"] = in_seconds(one.took);
  }
  void operator()(const LinePrinted& one) const { json["text"] = one.text.text; }
  void operator()(const JobEnded& one) const {
    json["outcome"] = proto::name_of(one.outcome);
    json["reason"] = one.reason.text;
  }

  void add(const EventWorker& worker) const {
    json["rank"] = worker.rank;
    json["local_rank"] = worker.local_rank;
    if (worker.pid > 0) json["pid"] = worker.pid;
  }
};

}  // namespace

std::string_view name_of(const Happening& what) { return kNames.at(what.index()); }

std::string event_json(const JobEvent& event, const std::string& node) {
  Json json = {{"number", event.number},
               {"time", describe(event.time)},
               {"event", name_of(event.what)},
               {"node", node}};
  if (event.round) json["round"] = *event.round;
  std::visit(Fields{json}, event.what);
  return json_text(json);
}

Json ledger_json(const LedgerEntries& ledger) {
  Json seconds;
  for (std::size_t i = 0; i < kSpentKinds; ++i)
    seconds[std::string(name_of(static_cast<Spent>(i)))] = in_seconds(ledger.spent[i]);
  return {{"seconds", std::move(seconds)},
          {"steps_again", ledger.steps_again},
          {"has_steps", ledger.has_steps}};
}

}  // namespace ddprun::agent
