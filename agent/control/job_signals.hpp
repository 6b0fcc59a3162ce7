// Where signals and the warden's end reach the agent: a signalfd and
// the warden's socket. Says what happened; decides nothing.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "machine/processes/process_tree.hpp"
#include "warden/warden_link.hpp"

namespace ddprun::agent {

class JobSignals {
 public:
  struct Handlers {
    /// A signal to the job, to the warden or to us.
    std::function<void(const warden::SignalRecord&)> signal;
    std::function<void()> child_ended;  ///< SIGCHLD
    std::function<void()> warden_died;
    std::function<void(const machine::Ancestor&)> scheduler_ended;
  };

  /// `signals` are those that the handler wants. `scheduler`: the process that started us; none:
  /// its end is not waited for.
  JobSignals(boost::asio::io_context& context, std::vector<int> signals,
             std::optional<machine::Ancestor> scheduler, Handlers handlers);
  ~JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  /// Begins to watch. All signals must be blocked; those that were ignored when we started stay so.
  /// Errors: the system's, where there is no descriptor left; nothing is watched then.
  [[nodiscard]] ErrorCode start(const warden::WardenLink& link);

 private:
  void watch_signalfd();
  void watch_warden();
  void watch_scheduler();

  const std::vector<int> signals_;
  Handlers handlers_;
  boost::asio::posix::stream_descriptor signalfd_;
  boost::asio::posix::stream_descriptor warden_;  // the socket; the link owns it
  std::optional<machine::Ancestor> scheduler_;
  boost::asio::posix::stream_descriptor scheduler_end_;
};

}  // namespace ddprun::agent
