// The end of the job: what is left is killed, what workers printed is written, and the result for
// the report is put together.
#include "agent/agent.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "agent/control/agent_loop.hpp"
#include "agent/streams/log_file.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kReportLimit = 6s;  // for the report to be written
constexpr std::size_t kFirstRoundsKept = 10;
constexpr std::size_t kLastRoundsKept = 90;

/// What went wrong stands on stderr rather than on stdout.
std::string log_with_text(const WorkerLogs& logs) {
  for (const std::string& file : {logs.standard_error, logs.standard_output}) {
    struct stat status {};
    if (!file.empty() && stat(file.c_str(), &status) == 0 && status.st_size > 0) return file;
  }
  return "";
}

/// What the user has seen of it. `output`: null: nothing of it went through us.
void describe_culprit_output(AgentResult& result, const AgentConfig& config, int local_rank,
                             const WorkerOutput* output) {
  const WorkerSettings& worker = config.workers[static_cast<std::size_t>(local_rank)];
  const StreamMode mode = worker.standard_error.mode;
  const StreamMode out_mode = worker.standard_output.mode;
  const bool shows_out_lines = worker.standard_output.to_console &&
                               (out_mode == StreamMode::pty || out_mode == StreamMode::pipe);
  // Its stdout, and other nodes, may have written to the same place since.
  const bool through_ssh = config.rendezvous && !config.rendezvous->socket.empty();
  const bool may_be_above = !through_ssh && (mode != StreamMode::copy ||
                                             (result.last_round.nodes == 1 && !shows_out_lines));
  result.culprit.last_lines_seen =
      may_be_above && output != nullptr &&
      output->last_lines_in_sight(
          result.last_round.workers[static_cast<std::size_t>(local_rank)].start.number, local_rank);
  if (static_cast<std::size_t>(local_rank) < result.last_round.logs.size())
    result.culprit.log =
        log_with_text(result.last_round.logs[static_cast<std::size_t>(local_rank)]);
  result.culprit.output_above = mode == StreamMode::inherit;
  result.culprit.output_seen = mode != StreamMode::inherit && mode != StreamMode::null;
}

LastRound last_round_of(const AgentConfig& config, const NodeRound& round, const JobStart& start) {
  LastRound last;
  last.number = round.round.number;
  last.first_rank = round.round.first_rank;
  last.nodes = round.round.group_world_size;
  last.world_size = round.round.world_size;
  last.store_addr = round.round.master_addr;
  last.store_port = round.round.master_port;
  last.started = start.wall_time_of(round.started_at);
  last.workers = round.group.workers();
  if (config.logs.folder.empty()) return last;
  for (std::size_t i = 0; i < config.workers.size(); ++i) {
    const auto file = [&](const StreamSettings& stream, bool standard_error) {
      const bool logged = stream.to_file || stream.mode == StreamMode::file;
      return logged ? stream_file(config.logs.folder, last.workers[i].start.restart_count,
                                  static_cast<int>(i), standard_error)
                    : std::string();
    };
    last.logs.push_back({file(config.workers[i].standard_output, false),
                         file(config.workers[i].standard_error, true)});
  }
  return last;
}

void note_losses(AgentResult& result) {
  LastRound& last = result.last_round;
  const auto& rounds = result.rounds;
  for (std::size_t i = 1; i < rounds.size(); ++i) {
    if (rounds[i].kept_workers > 0) {
      last.lost_at_most += rounds[i].started - (rounds[i - 1].started + rounds[i - 1].lasted);
      last.repeats_steps = true;
    } else {
      last.lost_at_most = rounds[i].started - rounds.front().started;
      last.repeats_steps = false;
    }
  }
}

}  // namespace

std::chrono::milliseconds end_limit(const AgentConfig& config) {
  return config.stop.kill_timeout + 2 * JobOutput::kWriteLimit + kReportLimit;
}

void add_summary(AgentResult& result, const NodeRound& round, const JobStart& start) {
  RoundSummary summary;
  summary.number = round.round.number;
  summary.restart_count = round.round.restart_count;
  summary.started = start.wall_time_of(round.started_at);
  summary.lasted = Clock::now() - round.started_at;
  summary.end = round.stop ? round.stop->reason : "";
  summary.kept_workers = round.round.kept_workers;
  // A job that is restarted for weeks must not grow.
  if (result.rounds.size() == kFirstRoundsKept + kLastRoundsKept) {
    result.rounds.erase(result.rounds.begin() + kFirstRoundsKept);
    ++result.rounds_left_out;
  }
  result.rounds.push_back(std::move(summary));
}

void Agent::end_job(EndJob& action) {
  local_.workers.end_all();
  watches_.remove_timers();
  descendants_.end_turns();  // a turn that kills leftovers would find those that are named already
  link_.ends_within(end_limit(config_));
  launch_.stop();
  if (local_.commands.on_notice) local_.commands.on_notice->stop();
  if (machine::has_children({-1, {}, local_.commands.sessions()}) &&
      descendants_.unkillable().empty())
    descendants_.kill_now(machine().round() != nullptr ? machine().round()->round.number : 0,
                          action.kill_limit);
  result_.leftovers = descendants_.unkillable();
  if (handles_) {
    link_.lease(std::nullopt);
    shared_memory_.end_round(workers());
    if (action.round_open) add_summary(result_, *machine().round(), start_);
    result_.last_round = last_round_of(config_, *machine().round(), start_);
    note_losses(result_);
    result_.last_round.newer_store_clients = store_.has_newer_clients();
  }
  while (!shared_memory_.remove_next()) link_.ends_within(end_limit(config_));
  result_.job_started = start_.wall;
  const auto now = Clock::now();
  result_.job_lasted = now - start_.at;
  result_.ledger = local_.ledger_entries(config_, machine(), now);
  result_.node_name = config_.node.name;
  // `auto` goes on without a cgroup where none could be made.
  const bool no_cgroup =
      config_.containment == machine::ContainmentLevel::cgroup && link_.cgroup() == nullptr;
  result_.containment = no_cgroup ? machine::ContainmentLevel::tree : config_.containment;
  output_.end(action.finished.outcome == proto::Finished::Outcome::cancelled,
              [this] { link_.ends_within(end_limit(config_)); });
  result_.output.dropped_bytes = output_.dropped_bytes();
  result_.output.refusal = output_.refusal();
  result_.output.stdout_unfinished = output_.unfinished_line(false);
  result_.output.stderr_unfinished = output_.unfinished_line(true);
  proto::Finished& finished = action.finished;
  if (finished.verdict) {
    const proto::FailedWorker& culprit = finished.verdict->culprit;
    result_.culprit.is_here = culprit.agent == membership_->own_id();
    if (result_.culprit.is_here)
      describe_culprit_output(result_, config_, culprit.failure.local_rank, output_.of_workers());
  }
  result_.output.dropped_bytes += finished.losses.dropped_bytes;
  result_.leftovers.insert(result_.leftovers.end(), finished.losses.leftovers.begin(),
                           finished.losses.leftovers.end());
  if (!result_.rounds.empty()) {
    RoundSummary& last = result_.rounds.back();
    // A job that ends while a failed round waits to be tried again leaves that round as it was.
    const bool waited = machine().round()->culprit.has_value();
    if (waited) last.culprit = machine().round()->culprit;
    if (!waited) last.end = finished.reason;
    if (finished.verdict) last.culprit = rdzv::without_lines(finished.verdict->culprit);
  }
  if (chaos_) result_.chaos = chaos_->summary();
  result_.finished = std::move(finished);
  context_.stop();
}

}  // namespace ddprun::agent
