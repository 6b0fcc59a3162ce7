// The job's abstract Unix socket: where ddpctl and workers find the agent. Speaks the versioned
// hello of proto/frame.hpp. A worker that can take part in another round has its own messages after
// that (elastic_workers.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "agent/control/elastic_workers.hpp"
#include "agent/node/node_machine.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

/// What it answers: the job as this node sees it, one JSON object.
std::string job_status(const std::string& run_id, const NodeMachine& machine);

class JobSocket {
 public:
  struct Events {
    std::function<std::string()> answer;  ///< to every request, one JSON object
    std::function<void(ElasticWorkers::Greeted)> worker;
  };

  /// Binds `@ddprun/UID/RUNID`; where another job of the same run id lives,
  /// `@ddprun/UID/RUNID.PID`. Connections of other users (root excepted) are closed, and those
  /// beyond what `workers` and some others need. Errors: the system's.
  static Result<JobSocket> open(boost::asio::io_context& context, const std::string& run_id,
                                std::size_t workers, Events events);

  JobSocket(JobSocket&&) noexcept;
  ~JobSocket();

  /// As it stands in DDPRUN_SOCKET: with '@' for the leading NUL.
  [[nodiscard]] const std::string& name() const;
  /// Begins to accept; connections made before wait in the kernel.
  void start();

 private:
  class Impl;
  explicit JobSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::agent
