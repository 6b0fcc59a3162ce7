#include "launcher/plan/dry_run.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/describe.hpp"
#include "launcher/program/run_path.hpp"
#include "proto/environment_names.hpp"
#include "rendezvous/membership/restart_policy.hpp"

namespace ddprun::launcher {
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

std::string_view name_of(StreamTransport transport) {
  switch (transport) {
    case StreamTransport::inherit:
      return "inherit";
    case StreamTransport::pty:
      return "pty";
    case StreamTransport::pipe:
      return "pipe";
    case StreamTransport::file:
      return "file";
    case StreamTransport::null:
      return "null";
  }
  return "";
}

/// Where a stream goes, for people: `pipe, shown and to stdout.log`.
std::string stream_text(const StreamPlan& stream, std::string_view file) {
  std::string text(name_of(stream.transport));
  if (stream.transport == StreamTransport::file) return fmt::format("{} only", file);
  if (stream.to_file) text += fmt::format(", {}to {}", stream.to_console ? "shown and " : "", file);
  return text;
}

/// What a log file is called before there is a folder for it.
std::string log_folder_text(const LaunchPlan& plan) {
  if (!plan.logs.wanted) return "none";
  const std::string base = plan.logs.base.empty() ? "TMPDIR" : plan.logs.base;
  return fmt::format("{}/{}{}_(random)/attempt_(restarts)/(local rank)/", base,
                     plan.logs.base.empty() ? "ddprun_" : "", plan.run_id);
}

std::string_view name_of(agent::LogPolicy policy) {
  return policy == agent::LogPolicy::drop ? "drop" : "block";
}

/// What bounds the logs: how files are rotated, and what happens when output blocks.
std::string log_limits_text(const LogOptions& logs) {
  std::string text;
  if (logs.rotation.bytes_max > 0) {
    text = fmt::format("a new file after {} bytes, {} older kept; ", logs.rotation.bytes_max,
                       logs.rotation.keep);
  }
  return text + (logs.policy == agent::LogPolicy::drop
                     ? "slow reader: output is dropped and counted"
                     : "slow reader: the workers wait");
}

/// Whose silence ends a round.
std::string watch_text(const LaunchOptions& options) {
  std::string text;
  if (options.progress_timeout.count() > 0)
    text = fmt::format("no progress for {}", describe(options.progress_timeout));
  if (options.log_timeout.count() > 0) {
    const bool restart = options.on_silence == OnSilence::restart;
    text += fmt::format("{}no output{} for {}", text.empty() ? "" : ", or ",
                        restart ? " of any worker" : "", describe(options.log_timeout));
  }
  return text.empty() ? "detection off (see --progress-timeout)" : text;
}

/// How often the group is restarted, and how soon; --explain-policy says more.
std::string restarts_text(const LaunchOptions& options) {
  if (options.max_restarts == 0) return "none";
  const std::string text = fmt::format("at most {}; ", options.max_restarts);
  std::chrono::nanoseconds wait = rdzv::kAutoBackOff;
  std::chrono::nanoseconds most = rdzv::kAutoBackOffMax;
  if (options.restart_delay) {
    most = rdzv::RestartSettings().back_off_max;
    wait = std::min<std::chrono::nanoseconds>(*options.restart_delay, most);
  }
  if (wait.count() == 0) return text + "never waits";
  const auto in_seconds = [](std::chrono::nanoseconds duration) {
    return fmt::format("{} s", std::chrono::duration<double>(duration).count());
  };
  return text + fmt::format("waits 0 s, {}, {} ... up to {}", in_seconds(wait),
                            in_seconds(std::min(2 * wait, most)), in_seconds(most));
}

std::string_view name_of(StdinMode mode) {
  switch (mode) {
    case StdinMode::rank0:
      return "rank0";
    case StdinMode::all:
      return "all";
    case StdinMode::none:
      return "none";
  }
  return "";
}

/// What worker `rank` is given, argv[0] untouched.
std::vector<std::string> argv_of(const LaunchPlan& plan, int local_rank) {
  std::vector<std::string> argv = plan.program.argv;
  for (std::size_t i = 1; i < argv.size(); ++i)
    argv[i] = substitute_local_rank(argv[i], local_rank);
  return argv;
}

/// For people: the runner of --run-path fills a screen.
std::string command_text(std::vector<std::string> argv) {
  std::replace(argv.begin(), argv.end(), std::string(kRunPathProgram),
               std::string("(runs the file as torchrun's children do)"));
  return shell_quoted(argv);
}

double seconds(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1000;
}

std::string devices_text(const LaunchPlan& plan) {
  if (plan.devices.cpu_job) return "none, because of --gpus=none";
  if (plan.devices.chosen.empty()) return "none";
  return fmt::format("{} ({})", fmt::join(plan.devices.chosen, ","), plan.devices.source);
}

std::string worker_line(const LaunchPlan& plan, const WorkerPlan& worker) {
  std::string line = fmt::format("  rank {} (local rank {})", worker.local_rank, worker.local_rank);
  if (worker.cuda_visible_devices)
    line += fmt::format("  CUDA_VISIBLE_DEVICES={}", *worker.cuda_visible_devices);
  if (worker.omp_threads) line += fmt::format("  OMP_NUM_THREADS={}", *worker.omp_threads);
  if (!worker.cpus.empty()) line += fmt::format("  CPUs {}", machine::format_cpus(worker.cpus));
  // Only where the macro makes a difference, else the lines repeat the command.
  const auto argv = argv_of(plan, worker.local_rank);
  if (argv != plan.program.argv) line += "  " + command_text(argv);
  return line + "\n";
}

/// One line for each stream where all workers agree, else one for each worker.
std::string streams_text(const LaunchPlan& plan) {
  const auto lines = [&](std::string_view title, std::string_view file,
                         StreamPlan WorkerPlan::*stream) {
    std::string text;
    std::string previous;
    bool same = true;
    for (const auto& worker : plan.workers) {
      const std::string shown = stream_text(worker.*stream, file);
      same = same && (previous.empty() || previous == shown);
      previous = shown;
      text += fmt::format("{:<12} local rank {}: {}\n", title, worker.local_rank, shown);
    }
    return same ? fmt::format("{:<12} {}\n", title, previous) : text;
  };
  return lines("stdout", "stdout.log", &WorkerPlan::standard_output) +
         lines("stderr", "stderr.log", &WorkerPlan::standard_error);
}

std::string_view name_of(WorkerStore store) {
  return store == WorkerStore::agent ? "ddprun" : "the worker of rank 0";
}

Json stream_json(const StreamPlan& stream) {
  return {{"transport", name_of(stream.transport)},
          {"to_console", stream.to_console},
          {"to_file", stream.to_file}};
}

/// What a variable that has no value yet will have; empty: it has one.
std::string value_to_come(const LaunchPlan& plan, std::string_view name) {
  if (name == proto::env::kMasterPort && plan.master_port == 0) return "(a free port)";
  const bool file = name == proto::env::kErrorFile || name == proto::env::kProgressFile;
  return file ? "(made at the start)" : "";
}

}  // namespace

std::string shell_quoted(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::string dry_run_text(const LaunchPlan& plan, const RankZeroEnvironment& environment) {
  const auto port =
      plan.master_port == 0 ? std::string("a free port") : fmt::format("port {}", plan.master_port);
  std::string text = "Nothing was started (--dry-run).\n";
  text += fmt::format("program      {}\n", plan.options.program);
  text += fmt::format("chosen as    {}\n", plan.program.reason);
  text += fmt::format("executes     {}\n", plan.program.file);
  text += fmt::format("command      {}\n", command_text(plan.program.argv));
  text += fmt::format("workers      {}\n", plan.workers.size());
  for (const auto& worker : plan.workers) text += worker_line(plan, worker);
  text += fmt::format("GPUs         {}\n", devices_text(plan));
  text += streams_text(plan);
  text += fmt::format("stdin        {}\n", name_of(plan.standard_input));
  text += fmt::format("logs         {}\n", log_folder_text(plan));
  text += fmt::format("log limits   {}\n", log_limits_text(plan.options.logs));
  text += fmt::format("hangs        {}\n", watch_text(plan.options));
  if (plan.file_timers) text += "timers       torch's file timers\n";
  text += fmt::format("run id       {}\n", plan.run_id);
  text += fmt::format("store        {}, {}, served by {}\n", plan.master_addr, port,
                      name_of(plan.options.worker_store));
  text += fmt::format("restarts     {}\n", restarts_text(plan.options));
  text += fmt::format("grace period {} s\n", seconds(plan.grace_period));
  text += fmt::format("kill timeout {} s\n", seconds(plan.options.kill_timeout));
  text += fmt::format("containment  {}\n", to_string(plan.containment));
  text += "environment of rank 0, beside what is inherited\n";
  for (const auto& [name, value] : environment) {
    const std::string later = value_to_come(plan, name);
    text += fmt::format("  {}={}\n", name, later.empty() ? value : later);
  }
  for (const auto& note : plan.notes) text += fmt::format("note         {}\n", note);
  return text;
}

std::string dry_run_json(const LaunchPlan& plan, const RankZeroEnvironment& environment) {
  Json workers = Json::array();
  for (const auto& worker : plan.workers) {
    Json entry = {{"rank", worker.local_rank}, {"local_rank", worker.local_rank}};
    entry["cuda_visible_devices"] =
        worker.cuda_visible_devices ? Json(*worker.cuda_visible_devices) : Json(nullptr);
    entry["omp_threads"] = worker.omp_threads ? Json(*worker.omp_threads) : Json(nullptr);
    entry["cpus"] = worker.cpus;
    entry["stdout"] = stream_json(worker.standard_output);
    entry["stderr"] = stream_json(worker.standard_error);
    entry["argv"] = argv_of(plan, worker.local_rank);
    workers.push_back(std::move(entry));
  }
  Json variables = Json::object();
  for (const auto& [name, value] : environment) variables[name] = value;

  Json json;
  json["program"] = {
      {"name", plan.options.program},
      {"kind", name_of(plan.program.kind)},
      {"reason", plan.program.reason},
      {"file", plan.program.file},
      {"argv", plan.program.argv},
      {"python", plan.program.python.empty() ? Json(nullptr) : Json(plan.program.python)}};
  json["workers"] = std::move(workers);
  json["gpus"] = {{"chosen", plan.devices.chosen},
                  {"source", plan.devices.source},
                  {"cpu_job", plan.devices.cpu_job}};
  json["stdin"] = name_of(plan.standard_input);
  const LogOptions& logs = plan.options.logs;
  json["logs"] = {{"wanted", plan.logs.wanted},
                  {"base", plan.logs.base},
                  {"policy", name_of(logs.policy)},
                  {"max_size_bytes", logs.rotation.bytes_max},
                  {"keep", logs.rotation.keep}};
  json["progress_timeout_seconds"] = seconds(plan.options.progress_timeout);
  json["file_timers"] = plan.file_timers;
  json["log_timeout_seconds"] = seconds(plan.options.log_timeout);
  json["on_silence"] = plan.options.on_silence == OnSilence::restart ? "restart" : "report";
  json["run_id"] = plan.run_id;
  json["role"] = plan.role;
  json["store"] = {
      {"master_addr", plan.master_addr},
      {"host", plan.store_host},
      {"port", plan.master_port},
      {"served_by", plan.options.worker_store == WorkerStore::agent ? "agent" : "rank0"}};
  json["max_restarts"] = plan.max_restarts;
  json["restart_delay_seconds"] =
      plan.options.restart_delay ? Json(seconds(*plan.options.restart_delay)) : Json("auto");
  json["grace_period_seconds"] = seconds(plan.grace_period);
  json["kill_timeout_seconds"] = seconds(plan.options.kill_timeout);
  json["containment"] = std::string(to_string(plan.containment));
  json["environment"] = std::move(variables);
  json["notes"] = plan.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
