// Starts one worker of a round: its streams, its environment, its process.
#pragma once

#include <string>
#include <vector>

#include "agent/config.hpp"
#include "agent/process.hpp"
#include "agent/streams/worker_output.hpp"
#include "proto/membership_messages.hpp"
#include "proto/result.hpp"
#include "proto/unique_handle.hpp"

namespace ddprun::agent {

class WorkerStarter {
 public:
  /// Takes a copy of our environment. Both references must outlive the starter.
  WorkerStarter(const AgentConfig& config, const UserState& user);

  /// Starts the worker and adds our ends of its streams to `sources`. `job_socket` is for its
  /// environment; empty: none. Errors: the errno of execve or of the clone; then nothing was added.
  Result<SpawnedProcess> start(const proto::Round& round, int local_rank,
                               const std::string& job_socket, std::vector<OutputSource>& sources);

 private:
  struct WorkerStream {
    int fd;             // what the worker gets
    UniqueFd workers;   // owns it, unless it is our own stream
    OutputSource ours;  // without a descriptor when it is our own stream
  };
  WorkerStream make_stream(StreamMode mode, int fd, const proto::Round& round,
                           int local_rank) const;

  const AgentConfig& config_;
  const UserState& user_;
  std::vector<std::string> inherited_environment_;
  UniqueFd null_;
};

}  // namespace ddprun::agent
