#include "agent/control/job_status.hpp"

#include <unistd.h>
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/events/event_json.hpp"
#include "agent/progress/progress_page.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/describe.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "base/small_file.hpp"
#include "base/version.hpp"

namespace ddprun::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kProgramBytesMax = 4096;
constexpr std::size_t kLastLineBytesMax = 400;

std::string_view state_of(const WorkerRecord& worker) {
  if (!worker.error.empty()) return "not_started";
  if (worker.exit) return "ended";
  if (worker.pid <= 0) return "starting";
  if (worker.keeping == Keeping::waits) return "waiting";
  return worker.keeping == Keeping::asked ? "leaving" : "running";
}

/// What all its threads have used. None: it has ended.
std::optional<std::chrono::nanoseconds> cpu_time_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
    return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// What of its memory is in RAM.
std::optional<std::uint64_t> memory_of(pid_t pid) {
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/statm");
  unsigned long pages = 0;
  if (!text || std::sscanf(text->c_str(), "%*s %lu", &pages) != 1) return std::nullopt;
  return std::uint64_t{pages} * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// A command line may have megabytes.
std::vector<std::string> first_words(const std::vector<std::string>& words) {
  std::vector<std::string> first;
  std::size_t bytes = 0;
  for (const std::string& word : words) {
    bytes += word.size();
    first.push_back(bytes > kProgramBytesMax ? "..." : word);
    if (bytes > kProgramBytesMax) break;
  }
  return first;
}

void add_progress(Json& json, const ProgressPage& page, Clock::time_point now) {
  json["step"] = page.step;
  if (!page.phase.empty()) json["phase"] = page.phase;
  // Its own words: a time to come is as good as now.
  const auto age = now.time_since_epoch() - std::chrono::nanoseconds(page.time_ns);
  json["step_age_seconds"] = std::max(0.0, in_seconds(age));
}

/// The front of a line that may have megabytes.
std::string_view line_front(std::string_view line) {
  if (line.size() <= kLastLineBytesMax) return line;
  std::size_t bytes = 0;
  while (bytes < kLastLineBytesMax) {
    const std::size_t next = std::max(std::size_t{1}, utf8_character_bytes(line.substr(bytes)));
    if (bytes + next > kLastLineBytesMax) break;
    bytes += next;
  }
  return line.substr(0, bytes);
}

Json worker_json(const AgentConfig& config, const NodeRound& round, int local_rank,
                 Clock::time_point now, const LastLine& last_line) {
  const WorkerRecord& worker = round.group.workers()[static_cast<std::size_t>(local_rank)];
  Json json = {{"rank", round.round.first_rank + local_rank},
               {"local_rank", local_rank},
               {"pid", worker.pid},
               {"state", state_of(worker)}};
  if (!worker.error.empty()) json["problem"] = worker.error;
  if (const auto& devices = config.workers[static_cast<std::size_t>(local_rank)].visible_devices)
    json["devices"] = *devices;
  if (const std::string line = last_line ? last_line(worker.start.number, local_rank) : "";
      !line.empty())
    json["last_line"] = line_front(line);
  if (worker.exit) {
    json[worker.exit->by_signal ? "signal" : "exit_code"] = worker.exit->value;
    json["ran_for_seconds"] = in_seconds(worker.ran_for);
    return json;
  }
  if (worker.pid <= 0) return json;
  json["ran_for_seconds"] = in_seconds(now - worker.started_at);
  if (const auto page = read_progress_page(progress_file(config, worker.start, local_rank)).page)
    add_progress(json, *page, now);
  if (const auto cpu = cpu_time_of(worker.pid)) json["cpu_seconds"] = in_seconds(*cpu);
  if (const auto memory = memory_of(worker.pid)) json["memory_bytes"] = *memory;
  return json;
}

}  // namespace

std::string job_status(const AgentConfig& config, const NodeMachine& machine,
                       Clock::time_point started, const LedgerEntries& ledger,
                       const std::map<int, double>& slow, const LastLine& last_line) {
  const Clock::time_point now = Clock::now();
  const NodeRound* const round = machine.round();
  Json json = {{"run_id", config.run_id},
               {"ddprun_version", ddprun::version()},
               {"node", config.node.name},
               {"pid", getpid()},
               {"program", first_words(config.workers.front().argv)},
               {"state", to_string(machine.state())},
               {"age_seconds", in_seconds(now - started)},
               {"restart_count", machine.restart_count()},
               {"max_restarts", config.job.restart.max_restarts},
               {"devices_variable", config.environment.devices_variable},
               {"ledger", ledger_json(ledger)},
               {"workers", Json::array()}};
  if (round == nullptr) return json_text(json);
  json["round"] = round->round.number;
  json["round_age_seconds"] = in_seconds(now - round->started_at);
  json["nodes"] = round->round.group_world_size;
  json["group_rank"] = round->round.group_rank;
  json["world_size"] = round->round.world_size;
  for (int i = 0; i < static_cast<int>(round->group.workers().size()); ++i)
    json["workers"].push_back(worker_json(config, *round, i, now, last_line));
  for (const auto& [local_rank, factor] : slow)
    json["workers"][static_cast<std::size_t>(local_rank)]["slow_factor"] = factor;
  return json_text(json);
}

}  // namespace ddprun::agent
