// The end of the job: what is left is killed, what workers printed is written, and the result for
// the report is put together.
#include "agent/agent.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/control/agent_loop.hpp"
#include "agent/streams/log_files.hpp"
#include "base/byte_output.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kOutputLimit = 2s;  // for the last lines to reach a slow reader
constexpr auto kReportLimit = 6s;  // for the report to be written

constexpr auto kReaderTurn = 100ms;  // while a slow reader is waited for

struct OwnWrites {
  bool on_stdout = false;
  bool on_stderr = false;
};

/// Where workers write without us.
OwnWrites own_writes(const AgentConfig& config) {
  OwnWrites own;
  for (const WorkerSettings& worker : config.workers) {
    own.on_stdout = own.on_stdout || worker.standard_output.mode == StreamMode::inherit;
    own.on_stderr = own.on_stderr || worker.standard_error.mode == StreamMode::inherit;
  }
  if (same_output(STDOUT_FILENO, STDERR_FILENO))
    own.on_stdout = own.on_stderr = own.on_stdout || own.on_stderr;
  return own;
}

/// What went wrong stands on stderr rather than on stdout.
std::string log_with_text(const WorkerLogs& logs) {
  for (const std::string& file : {logs.standard_error, logs.standard_output}) {
    struct stat status {};
    if (!file.empty() && stat(file.c_str(), &status) == 0 && status.st_size > 0) return file;
  }
  return "";
}

bool copies_output(const AgentConfig& config) {
  return std::any_of(config.workers.begin(), config.workers.end(), [](const auto& worker) {
    return worker.standard_error.mode == StreamMode::copy;
  });
}

}  // namespace

/// After it the warden ends us, unless it is told again that there is still something to do.
std::chrono::milliseconds Agent::end_limit() const {
  return config_.stop.kill_timeout + 2 * kOutputLimit + kReportLimit;
}

void Agent::obey(EndJob& action) {
  if (timers_) timers_->remove();
  descendants_.end_turns();  // a turn that kills leftovers would find those that are named already
  link_.ends_within(end_limit());
  if (machine::has_children() && descendants_.unkillable().empty())
    descendants_.kill_now(machine_.round() != nullptr ? machine_.round()->round.number : 0,
                          action.kill_limit);
  result_.leftovers = descendants_.unkillable();
  if (handles_) {
    link_.lease(std::nullopt);
    shared_memory_.end_round(workers());
    if (action.round_open) summarize_round();
    describe_last_round();
  }
  while (!shared_memory_.remove_next()) link_.ends_within(end_limit());
  result_.job_started = wall_started_at_;
  result_.job_lasted = Clock::now() - started_at_;
  result_.node_name = config_.node_name;
  // `auto` goes on without a cgroup where none could be made.
  const bool no_cgroup =
      config_.containment == machine::ContainmentLevel::cgroup && link_.cgroup() == nullptr;
  result_.containment = no_cgroup ? machine::ContainmentLevel::tree : config_.containment;
  end_output(action.finished.outcome);
  proto::Finished& finished = action.finished;
  if (finished.verdict) describe_culprit_output(*finished.verdict);
  result_.dropped_bytes += finished.losses.dropped_bytes;
  result_.leftovers.insert(result_.leftovers.end(), finished.losses.leftovers.begin(),
                           finished.losses.leftovers.end());
  if (!result_.rounds.empty()) {
    RoundSummary& last = result_.rounds.back();
    // A job that ends while a failed round waits to be tried again leaves that round as it was.
    const bool waited = machine_.round()->culprit.has_value();
    if (waited) last.culprit = machine_.round()->culprit;
    if (!waited) last.end = finished.reason;
    if (finished.verdict) last.culprit = rdzv::without_lines(finished.verdict->culprit);
  }
  if (chaos_) result_.chaos = chaos_->summary();
  result_.finished = std::move(finished);
  context_.stop();
}

void Agent::end_output(proto::Finished::Outcome outcome) {
  if (output_) {
    auto limit = Clock::now() + kOutputLimit;
    quiet_streams_.end();
    output_->drain(limit);
    if (outcome != proto::Finished::Outcome::cancelled)
      limit = Clock::now() + (wait_for_reader() ? kOutputLimit : 0s);
    output_->flush(limit);
    result_.dropped_bytes = output_->dropped_bytes();
    result_.output_refusal = output_->refusal();
  }
  const OwnWrites own = own_writes(config_);
  if (!own.on_stdout) result_.stdout_unfinished = output_ && output_->unfinished_line(false);
  if (!own.on_stderr) result_.stderr_unfinished = output_ && output_->unfinished_line(true);
}

/// For as long as the reader is not stuck. A copy has no such limit: a worker that wrote to a slow
/// reader itself would still run. A signal that ends the job ends the wait, too; then false.
bool Agent::wait_for_reader() {
  const bool has_no_limit = copies_output(config_) && config_.logs.policy == LogPolicy::block;
  waits_for_reader_ = true;
  bool shown = output_->shown_by(Clock::now() + kReaderTurn);
  while (!shown && waits_for_reader_ && (has_no_limit || output_->reader_is_slow(Clock::now()))) {
    link_.ends_within(end_limit());
    context_.run_one_for(kReaderTurn);
    shown = output_->shown_by(Clock::now());
  }
  return std::exchange(waits_for_reader_, false);
}

/// What the user has seen of it.
void Agent::describe_culprit_output(const proto::Verdict& verdict) {
  result_.culprit_is_here = verdict.culprit.agent == membership_->own_id();
  if (!result_.culprit_is_here) return;
  const int local_rank = verdict.culprit.failure.local_rank;
  const WorkerSettings& worker = config_.workers[static_cast<std::size_t>(local_rank)];
  const StreamMode mode = worker.standard_error.mode;
  const StreamMode out_mode = worker.standard_output.mode;
  const bool shows_out_lines = worker.standard_output.to_console &&
                               (out_mode == StreamMode::pty || out_mode == StreamMode::pipe);
  // Its stdout, and other nodes, may have written to the same place since.
  const bool through_ssh = config_.rendezvous && !config_.rendezvous->socket.empty();
  const bool may_be_above =
      !through_ssh && (mode != StreamMode::copy || (result_.nodes == 1 && !shows_out_lines));
  result_.last_lines_seen =
      may_be_above && output_ && output_->last_lines_in_sight(result_.round, local_rank);
  if (static_cast<std::size_t>(local_rank) < result_.logs.size())
    result_.culprit_log = log_with_text(result_.logs[static_cast<std::size_t>(local_rank)]);
  result_.culprit_output_above = mode == StreamMode::inherit;
  result_.culprit_output_seen = mode != StreamMode::inherit && mode != StreamMode::null;
}

void Agent::describe_last_round() {
  const NodeRound& round = *machine_.round();
  result_.round = round.round.number;
  result_.first_rank = round.round.first_rank;
  result_.nodes = round.round.group_world_size;
  result_.world_size = round.round.world_size;
  result_.store_addr = round.round.master_addr;
  result_.store_port = round.round.master_port;
  result_.started = wall_time_of(round.started_at);
  result_.before_last_round = round.started_at - started_at_;
  result_.workers = workers();
  result_.newer_store_clients = store_.has_newer_clients();
  if (config_.log_folder.empty()) return;
  for (std::size_t i = 0; i < config_.workers.size(); ++i) {
    const auto file = [&](const StreamSettings& stream, bool standard_error) {
      const bool logged = stream.to_file || stream.mode == StreamMode::file;
      return logged ? stream_file(config_.log_folder, round.round.restart_count,
                                  static_cast<int>(i), standard_error)
                    : std::string();
    };
    result_.logs.push_back({file(config_.workers[i].standard_output, false),
                            file(config_.workers[i].standard_error, true)});
  }
}

}  // namespace ddprun::agent
