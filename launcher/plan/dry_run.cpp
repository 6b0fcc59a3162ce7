#include "launcher/plan/dry_run.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/describe.hpp"
#include "base/json_text.hpp"
#include "base/lower_case.hpp"
#include "base/printable.hpp"
#include "base/shell_word.hpp"
#include "base/time_stamp.hpp"
#include "launcher/options/enum_words.hpp"
#include "launcher/plan/dry_run_nodes.hpp"
#include "launcher/program/run_path.hpp"
#include "proto/environment_names.hpp"
#include "proto/run_id.hpp"
#include "rendezvous/membership/restart_policy.hpp"

namespace ddprun::launcher {

using agent::StreamMode;
using agent::StreamSettings;
using agent::WorkerSettings;

namespace {

// Objects keep the order in which they are filled, so that text and JSON read alike.
using Json = nlohmann::ordered_json;

std::string_view name_of(ProgramChoice::Kind kind) {
  switch (kind) {
    case ProgramChoice::Kind::bundled:
      return "bundled";
    case ProgramChoice::Kind::python_script:
      return "python_script";
    case ProgramChoice::Kind::python_module:
      return "python_module";
    case ProgramChoice::Kind::file:
      return "file";
    case ProgramChoice::Kind::path:
      return "path";
  }
  return "";
}

std::string_view name_of(StreamMode mode) {
  switch (mode) {
    case StreamMode::inherit:
      return "inherit";
    case StreamMode::pty:
      return "pty";
    case StreamMode::pipe:
      return "pipe";
    case StreamMode::copy:
      return "copy";
    case StreamMode::file:
      return "file";
    case StreamMode::null:
      return "null";
  }
  return "";
}

/// Where a stream goes, for people: `pipe, shown and to stdout.log`.
std::string stream_text(const StreamSettings& stream, std::string_view file) {
  std::string text(name_of(stream.mode));
  if (stream.mode == StreamMode::file) return fmt::format("{} only", file);
  if (stream.to_file) text += fmt::format(", {}to {}", stream.to_console ? "shown and " : "", file);
  return text;
}

/// What a log file is called before there is a folder for it.
std::string log_folder_text(const LaunchPlan& plan) {
  const std::string& base = plan.log_folder.base;
  if (!plan.log_folder.wanted) return "none";
  const std::string& id = plan.agent.run_id;
  const bool named = !begins_with_time_stamp(id) && id != proto::kDefaultRunId;
  return fmt::format("{}(date and time){}/attempt_(restarts)/(local rank)/",
                     base.empty() ? "TMPDIR/ddprun_" : base + "/", named ? "_" + id : "");
}

/// What bounds the logs: how files are rotated, and what happens when output blocks.
std::string log_limits_text(const agent::AgentConfig& agent) {
  std::string text;
  if (agent.logs.rotation.bytes_max > 0) {
    text = fmt::format("a new file after {} bytes, {} older kept; ", agent.logs.rotation.bytes_max,
                       agent.logs.rotation.keep);
  }
  switch (agent.logs.policy) {
    case agent::LogPolicy::automatic:
      return text + "slow reader: the workers wait, unless it is a terminal or stuck for 30 s";
    case agent::LogPolicy::drop:
      return text + "slow reader: output is dropped and counted";
    case agent::LogPolicy::block:
      break;
  }
  return text + "slow reader: the workers wait";
}

/// Which silence ends a round.
std::string watch_text(const agent::AgentConfig& agent) {
  std::string text;
  if (agent.watch.progress_timeout.count() > 0)
    text = fmt::format("no progress for {}", describe(agent.watch.progress_timeout));
  if (agent.watch.log_timeout.count() > 0) {
    text += fmt::format("{}no output{} for {}", text.empty() ? "" : ", or ",
                        agent.watch.on_silence == agent::OnSilence::restart ? " of any worker" : "",
                        describe(agent.watch.log_timeout));
  }
  if (agent.watch.kernel_timeout.count() > 0) {
    text += fmt::format("{}one wait in the kernel for {}", text.empty() ? "" : ", or ",
                        describe(agent.watch.kernel_timeout));
  }
  return text.empty() ? "detection off (see --progress-timeout)" : text;
}

std::string_view what_is_broken(agent::ChaosFault fault) {
  switch (fault) {
    case agent::ChaosFault::kill:
      return "kill a worker";
    case agent::ChaosFault::stop:
      return "stop a worker";
    case agent::ChaosFault::delay:
      return "delay a worker";
    case agent::ChaosFault::service:
      return "kill the rendezvous";
    case agent::ChaosFault::partition:
      return "cut a node from the rendezvous";
  }
  return "";
}

std::string chaos_text(const agent::ChaosPlan& chaos) {
  std::string text = fmt::format("seed {}", chaos.seed);
  for (const agent::ChaosRow& row : chaos.rows) {
    text += fmt::format("; {} about every {}", what_is_broken(row.fault), describe(row.every));
    if (row.length.count() > 0) text += fmt::format(", for {}", describe(row.length));
  }
  if (chaos.faults_max) text += fmt::format("; {} faults", *chaos.faults_max);
  return text;
}

/// How often the group is restarted, and how soon; --explain-policy says more.
std::string restarts_text(const proto::RestartSettings& restart) {
  if (restart.max_restarts == 0) return "none";
  const std::string text = fmt::format("at most {}; ", restart.max_restarts);
  const std::chrono::nanoseconds most = restart.back_off_max;
  const std::chrono::nanoseconds wait = std::min(restart.back_off, most);
  if (wait.count() == 0) return text + "never waits";
  const auto in_seconds = [](std::chrono::nanoseconds duration) {
    return fmt::format("{} s", std::chrono::duration<double>(duration).count());
  };
  return text + fmt::format("waits 0 s, {}, {} ... up to {}", in_seconds(wait),
                            in_seconds(std::min(2 * wait, most)), in_seconds(most));
}

/// For people: the runner of --run-path fills a screen.
std::string command_text(std::vector<std::string> argv) {
  std::replace(argv.begin(), argv.end(), std::string(kRunPathProgram),
               std::string("(runs the file as torchrun's children do)"));
  return printable(shell_words(argv));
}

/// Where no --restart-delay was given.
bool automatic_back_off(const proto::RestartSettings& restart) {
  return restart.back_off_max == rdzv::kAutoBackOffMax;
}

std::string devices_text(const LaunchPlan& plan) {
  if (plan.devices.cpu_job) return "none, because of --gpus=none";
  if (plan.devices.chosen.empty()) return "none";
  return fmt::format("{} ({})", fmt::join(plan.devices.chosen, ","), plan.devices.source);
}

std::string worker_line(const LaunchPlan& plan, std::size_t local_rank) {
  const WorkerSettings& worker = plan.agent.workers[local_rank];
  std::string line = fmt::format("  local rank {}", local_rank);
  if (!plan.agent.rendezvous) line = fmt::format("  rank {0} (local rank {0})", local_rank);
  if (worker.visible_devices)
    line +=
        fmt::format("  {}={}", plan.agent.environment.devices_variable, *worker.visible_devices);
  if (worker.omp_threads) line += fmt::format("  OMP_NUM_THREADS={}", *worker.omp_threads);
  if (!worker.cpus.empty()) line += fmt::format("  CPUs {}", machine::format_cpus(worker.cpus));
  // Only where the macro makes a difference, else the lines repeat the command.
  if (worker.argv != plan.program.argv) line += "  " + command_text(worker.argv);
  return line + "\n";
}

std::string store_text(const agent::AgentConfig& agent) {
  const std::string host =
      agent.store.master_addr.empty() ? "the node of group rank 0" : agent.store.master_addr;
  const auto port = agent.store.master_port == 0 ? std::string("a free port")
                                                 : fmt::format("port {}", agent.store.master_port);
  return fmt::format("{}, {}, served by {}", host, port,
                     agent.store.in_agent ? "ddprun" : "the worker of rank 0");
}

/// One line for each stream where all workers agree, else one for each worker.
std::string streams_text(const LaunchPlan& plan) {
  const auto lines = [&](std::string_view title, std::string_view file,
                         StreamSettings WorkerSettings::*stream) {
    std::string text;
    std::string previous;
    bool same = true;
    const auto& workers = plan.agent.workers;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::string shown = stream_text(workers[i].*stream, file);
      same = same && (previous.empty() || previous == shown);
      previous = shown;
      text += fmt::format("{:<12} local rank {}: {}\n", title, i, shown);
    }
    return same ? fmt::format("{:<12} {}\n", title, previous) : text;
  };
  return lines("stdout", "stdout.log", &WorkerSettings::standard_output) +
         lines("stderr", "stderr.log", &WorkerSettings::standard_error);
}

Json stream_json(const StreamSettings& stream) {
  return {{"transport", name_of(stream.mode)},
          {"to_console", stream.to_console},
          {"to_file", stream.to_file}};
}

/// What a variable that has no value yet will have; empty: it has one.
std::string value_to_come(const LaunchPlan& plan, std::string_view name) {
  if (of_the_round(plan, name)) return "(known when the round forms)";
  if (name == proto::env::kMasterPort && plan.agent.store.master_port == 0) return "(a free port)";
  const bool made = name == proto::env::kErrorFile || name == proto::env::kProgressFile ||
                    name == proto::env::kJobSocket;
  return made ? "(made at the start)" : "";
}

/// All lines that a job would begin with.
std::vector<std::string> notes_of(const LaunchPlan& plan) {
  std::vector<std::string> notes = plan.notes;
  if (!plan.agent.start_note.empty()) notes.push_back(plan.agent.start_note);
  return notes;
}

}  // namespace

std::string dry_run_text(const LaunchPlan& plan, const RankZeroEnvironment& environment) {
  const agent::AgentConfig& agent = plan.agent;
  std::string text = "Nothing was started (--dry-run).\n";
  text += fmt::format("program      {}\n", printable(plan.program.name));
  text += fmt::format("chosen as    {}\n", printable(plan.program.reason));
  text += fmt::format("executes     {}\n", printable(plan.program.file));
  text += fmt::format("command      {}\n", command_text(plan.program.argv));
  if (const std::string cluster = cluster_text(plan); !cluster.empty())
    text += fmt::format("cluster      {}\n", printable(cluster));
  text += fmt::format("workers      {}\n", agent.workers.size());
  for (std::size_t i = 0; i < agent.workers.size(); ++i) text += worker_line(plan, i);
  if (const auto& preload = agent.program.preload; !preload.empty())
    text += fmt::format("preload      {}\n", joined(preload, ", "));
  text += fmt::format("GPUs         {}\n", devices_text(plan));
  text += streams_text(plan);
  text += fmt::format("stdin        {}\n", word_of(agent.streams.standard_input));
  text += fmt::format("logs         {}\n", printable(log_folder_text(plan)));
  text += fmt::format("log limits   {}\n", log_limits_text(agent));
  text += fmt::format("hangs        {}\n", watch_text(agent));
  if (agent.timers.watched) text += "timers       torch's file timers\n";
  text += fmt::format("run id       {}\n", printable(agent.run_id));
  for (const auto& [title, value] : nodes_rows(plan))
    text += fmt::format("{:<12} {}\n", title, printable(value));
  text += fmt::format("store        {}\n", printable(store_text(agent)));
  text += fmt::format("restarts     {}\n", restarts_text(agent.job.restart));
  if (agent.checks.preflight)
    text +=
        fmt::format("preflight    {} (at most {})\n", printable(agent.checks.preflight->command),
                    describe(agent.checks.preflight->timeout));
  for (const auto& [title, command] :
       {std::pair{"on event", agent.commands.on_event}, {"on notice", agent.commands.on_notice}})
    if (!command.empty()) text += fmt::format("{:<12} {}\n", title, printable(command));
  if (agent.chaos) text += fmt::format("chaos        {}\n", chaos_text(*agent.chaos));
  text += fmt::format("grace period {} s\n", seconds(agent.stop.grace_period));
  text += fmt::format("kill timeout {} s\n", seconds(agent.stop.kill_timeout));
  text += fmt::format("containment  {}\n", to_string(agent.containment));
  text += fmt::format("environment of {}rank 0, in addition to what is inherited\n",
                      agent.rendezvous ? "local " : "");
  for (const auto& [name, value] : environment) {
    const std::string later = value_to_come(plan, name);
    text += fmt::format("  {}={}\n", name, printable(later.empty() ? value : later));
  }
  for (const auto& warning : plan.warnings)
    text += fmt::format("warning      {}\n", printable(warning));
  for (const auto& note : notes_of(plan)) text += fmt::format("note         {}\n", printable(note));
  return text;
}

std::string dry_run_json(const LaunchPlan& plan, const RankZeroEnvironment& environment) {
  const agent::AgentConfig& agent = plan.agent;
  Json workers = Json::array();
  for (const auto& worker : agent.workers) {
    Json entry = {{"rank", workers.size()}, {"local_rank", workers.size()}};
    if (agent.rendezvous) entry["rank"] = nullptr;
    entry[lower_case(agent.environment.devices_variable)] =
        worker.visible_devices ? Json(*worker.visible_devices) : Json(nullptr);
    entry["omp_threads"] = worker.omp_threads ? Json(*worker.omp_threads) : Json(nullptr);
    entry["cpus"] = worker.cpus;
    entry["stdout"] = stream_json(worker.standard_output);
    entry["stderr"] = stream_json(worker.standard_error);
    entry["argv"] = worker.argv;
    workers.push_back(std::move(entry));
  }
  Json variables = Json::object();
  for (const auto& [name, value] : environment)
    variables[name] = of_the_round(plan, name) ? Json(nullptr) : Json(value);

  Json json;
  json["program"] = {
      {"name", plan.program.name},
      {"kind", name_of(plan.program.kind)},
      {"reason", plan.program.reason},
      {"file", plan.program.file},
      {"argv", plan.program.argv},
      {"python", plan.program.python.empty() ? Json(nullptr) : Json(plan.program.python)}};
  json["workers"] = std::move(workers);
  json["gpus"] = {{"chosen", plan.devices.chosen},
                  {"source", plan.devices.source},
                  {"cpu_job", plan.devices.cpu_job}};
  json["stdin"] = word_of(agent.streams.standard_input);
  json["logs"] = {{"wanted", plan.log_folder.wanted},
                  {"base", plan.log_folder.base},
                  {"policy", word_of(agent.logs.policy)},
                  {"max_size_bytes", agent.logs.rotation.bytes_max},
                  {"keep", agent.logs.rotation.keep}};
  json["progress_timeout_seconds"] = seconds(agent.watch.progress_timeout);
  json["file_timers"] = agent.timers.watched;
  json["log_timeout_seconds"] = seconds(agent.watch.log_timeout);
  json["on_silence"] = word_of(agent.watch.on_silence);
  json["uninterruptible_timeout_seconds"] = seconds(agent.watch.kernel_timeout);
  json["run_id"] = agent.run_id;
  json["role"] = agent.node.role;
  if (!plan.cluster.scheduler.empty()) json["cluster"] = cluster_json(plan);
  if (agent.rendezvous) json["rendezvous"] = rendezvous_json(plan);
  json["store"] = {{"master_addr", agent.store.master_addr},
                   {"host", agent.store.host},
                   {"port", agent.store.master_port},
                   {"served_by", agent.store.in_agent ? "agent" : "rank0"}};
  json["max_restarts"] = agent.job.restart.max_restarts;
  json["restart_delay_seconds"] = automatic_back_off(agent.job.restart)
                                      ? Json("auto")
                                      : Json(seconds(agent.job.restart.back_off));
  if (!agent.program.preload.empty()) json["preload"] = agent.program.preload;
  if (agent.checks.preflight)
    json["preflight"] = {{"command", agent.checks.preflight->command},
                         {"timeout_seconds", seconds(agent.checks.preflight->timeout)}};
  if (!agent.commands.on_event.empty()) json["on_event"] = agent.commands.on_event;
  if (!agent.commands.on_notice.empty()) json["on_notice"] = agent.commands.on_notice;
  if (agent.chaos) json["chaos"] = chaos_text(*agent.chaos);
  json["grace_period_seconds"] = seconds(agent.stop.grace_period);
  json["kill_timeout_seconds"] = seconds(agent.stop.kill_timeout);
  json["containment"] = std::string(to_string(agent.containment));
  json["environment"] = std::move(variables);
  json["warnings"] = plan.warnings;
  json["notes"] = notes_of(plan);
  return json_text(json, 2) + "\n";
}

}  // namespace ddprun::launcher
