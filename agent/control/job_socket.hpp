// The job's abstract Unix socket: where ddpctl and workers find the agent. Speaks the versioned
// hello of proto/frame.hpp, then the requests of job_request.hpp. A worker that can take part in
// another round has its own messages after the hello (elastic_workers.hpp).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "agent/control/elastic_workers.hpp"
#include "agent/control/feeds.hpp"
#include "agent/control/job_request.hpp"
#include "agent/events/event_log.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

class JobSocket {
 public:
  /// Takes the answer, one JSON object. To be called once, at once or later, from the context.
  using Reply = std::function<void(std::string json)>;
  struct Events {
    /// Each request but those for events, for logs and for the end.
    std::function<void(const JobRequest&, pid_t asker, Reply)> request;
    std::function<FeedOrProblem(const LogsWanted&)> logs;
    std::function<void(ElasticWorkers::Greeted)> worker;
  };
  struct Settings {
    std::string run_id;
    std::string node;         ///< the name of this one
    std::size_t workers = 0;  ///< each may be connected, beside some others
  };

  /// Binds `@ddprun/UID/RUNID`; where another job of the same run id lives,
  /// `@ddprun/UID/RUNID.PID`. Connections of other users (root excepted) are closed. The log is
  /// borrowed. Errors: the system's.
  static Result<JobSocket> open(boost::asio::io_context& context, const Settings& settings,
                                const EventLog& log, Events events);

  JobSocket(JobSocket&&) noexcept;
  ~JobSocket();

  /// As it stands in DDPRUN_SOCKET: with '@' for the leading NUL.
  [[nodiscard]] const std::string& name() const;
  /// Begins to accept; connections made before wait in the kernel.
  void start();
  /// The log has a new event, or workers have printed something. What one that follows does not
  /// read is lost to it, and counted.
  void on_news();
  /// The job is over: those that follow it, or wait for its end, are told. They are waited for, but
  /// no longer than a moment (100 ms).
  void on_job_end(int exit_code);

 private:
  class Impl;
  explicit JobSocket(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::agent
