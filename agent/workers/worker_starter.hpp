// Starts one worker of a round: its streams, its environment, its process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "agent/streams/log_file.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "machine/processes/spawn.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// A worker that could be started now.
struct PreparedWorker {
  machine::SpawnRequest request;      ///< with the descriptors below
  std::vector<UniqueFd> streams;      ///< its ends of them
  std::vector<OutputSource> sources;  ///< ours
};

/// Where a stream really goes: one of a worker that is not shown (`rank`: of the job) is read for
/// its last lines alone.
StreamSettings settings_of_stream(const AgentConfig& config, int local_rank, bool standard_error,
                                  int rank);

class WorkerStarter {
 public:
  /// Takes a copy of our environment. The settings must outlive the starter. `cgroup` as in
  /// SpawnRequest.
  WorkerStarter(const AgentConfig& config, int cgroup);

  /// For the workers of later rounds, unless our own environment has it.
  void add_to_environment(const std::string& name, const std::string& value);

  /// The highest step of the rounds so far, for the workers of later ones; 0: none is known.
  void set_reached_step(std::uint64_t step) { reached_step_ = step; }

  /// `job_socket` is for its environment; empty: none.
  PreparedWorker prepare(const proto::Round& round, int local_rank, const std::string& job_socket);

  /// The variables of the round for a worker that goes on in it, and was started in another one.
  [[nodiscard]] EnvironmentPairs environment_of_kept(const proto::Round& round,
                                                     const StartRound& start, int local_rank,
                                                     const std::string& job_socket) const;

  /// What the first worker of every round has, as far as Python and modules look at it when they
  /// start.
  [[nodiscard]] std::vector<std::string> common_environment() const;

 private:
  struct WorkerStream {
    int fd = -1;             // what the worker gets
    UniqueFd workers = {};   // owns it, unless it is our own stream
    OutputSource ours = {};  // without a descriptor when it is our own stream
  };
  WorkerStream make_stream(const StreamSettings& settings, int fd, const proto::Round& round,
                           int local_rank);
  [[nodiscard]] bool share_a_stream(const StreamSettings& out, const StreamSettings& err) const;
  WorkerStream log_file_stream(int fd, const proto::Round& round, int local_rank) const;
  void add_files(OutputSource& source, const proto::Round& round);
  std::shared_ptr<LogFile> open_file(const std::string& path) const;

  const AgentConfig& config_;
  const int cgroup_;
  std::vector<std::string> inherited_environment_;
  std::uint64_t reached_step_ = 0;
  std::shared_ptr<const std::vector<std::string>> stdout_filters_;
  std::shared_ptr<const std::vector<std::string>> stderr_filters_;
  SharedLogFiles filtered_files_;
  const bool one_console_;  // our stdout and stderr are the same
  UniqueFd null_;
};

}  // namespace ddprun::agent
