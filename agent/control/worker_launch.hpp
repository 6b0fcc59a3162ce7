// Brings the workers of a round into being: each is executed, or all are forked from the process
// that has imported their modules. How the job goes on if one can't be started is not its business.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/preload/importer.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/workers/worker_starter.hpp"
#include "base/result.hpp"
#include "machine/processes/spawn.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

struct LaunchedWorker {
  Result<machine::SpawnedProcess> process;  ///< errors: those of spawn
  std::vector<OutputSource> sources;        ///< our ends of its streams; none with an error
};

class WorkerLaunch {
 public:
  using Notice = std::function<void(const std::string& line)>;
  using Launched = std::function<void(std::vector<LaunchedWorker>)>;

  /// `config` and `user` are borrowed. `cgroup` as in SpawnRequest. `notice`: a line for the user.
  WorkerLaunch(boost::asio::io_context& context, const AgentConfig& config,
               const machine::UserState& user, int cgroup, Notice notice);

  /// For the workers of later rounds, unless our own environment has it.
  void add_to_environment(const std::string& name, const std::string& value) {
    starter_.add_to_environment(name, value);
  }

  /// As WorkerStarter's.
  void set_reached_step(std::uint64_t step) { starter_.set_reached_step(step); }

  /// The modules are imported from now on, if that is wanted.
  void begin();
  /// Calls `ready` once the modules are imported: at once where none are, or where that is over.
  void when_ready(std::function<void()> ready);

  /// `launched` gets the workers in the order of `local_ranks`, before this returns or later.
  void launch(const proto::Round& round, const std::vector<int>& local_ranks,
              const std::string& job_socket, Launched launched);
  /// As WorkerStarter's.
  [[nodiscard]] EnvironmentPairs environment_of_kept(const proto::Round& round,
                                                     const StartRound& start, int local_rank,
                                                     const std::string& job_socket) const {
    return starter_.environment_of_kept(round, start, local_rank, job_socket);
  }

  /// The process that imports, which no end of a round ends; -1: there is none.
  [[nodiscard]] pid_t importer() const { return importer_ ? importer_->pid() : -1; }
  /// True where `pid` is that process, which has ended.
  bool child_ended(pid_t pid) { return importer_ && importer_->child_ended(pid); }
  /// The job ends: what is to be launched is launched now.
  void hurry();
  /// It is ended, and is a child as any other from then on.
  void stop();

 private:
  [[nodiscard]] LaunchedWorker execute(PreparedWorker prepared) const;

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const machine::UserState& user_;
  WorkerStarter starter_;
  const Notice notice_;
  std::optional<Importer> importer_;  // none: each worker imports for itself
  std::function<void()> ready_;       // waits for the imports; empty: nobody does
};

}  // namespace ddprun::agent
