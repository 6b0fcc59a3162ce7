// The end of the job: what is left is killed, what workers printed is written, and the result for
// the report is put together.
#include "agent/agent.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "agent/control/agent_loop.hpp"
#include "agent/streams/log_files.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kReportLimit = 6s;  // for the report to be written

/// What went wrong stands on stderr rather than on stdout.
std::string log_with_text(const WorkerLogs& logs) {
  for (const std::string& file : {logs.standard_error, logs.standard_output}) {
    struct stat status {};
    if (!file.empty() && stat(file.c_str(), &status) == 0 && status.st_size > 0) return file;
  }
  return "";
}

}  // namespace

/// After it the warden ends us, unless it is told again that there is still something to do.
std::chrono::milliseconds Agent::end_limit() const {
  return config_.stop.kill_timeout + 2 * JobOutput::kWriteLimit + kReportLimit;
}

void Agent::obey(EndJob& action) {
  watches_.remove_timers();
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
  output_.end(action.finished.outcome == proto::Finished::Outcome::cancelled,
              [this] { link_.ends_within(end_limit()); });
  result_.dropped_bytes = output_.dropped_bytes();
  result_.stdout_unfinished = output_.unfinished_line(false);
  result_.stderr_unfinished = output_.unfinished_line(true);
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
  const WorkerOutput* const output = output_.of_workers();
  // Its stdout, and other nodes, may have written to the same place since.
  const bool through_ssh = config_.rendezvous && !config_.rendezvous->socket.empty();
  const bool may_be_above =
      !through_ssh && (mode != StreamMode::copy || (result_.nodes == 1 && !shows_out_lines));
  result_.last_lines_seen =
      may_be_above && output != nullptr && output->last_lines_in_sight(result_.round, local_rank);
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
