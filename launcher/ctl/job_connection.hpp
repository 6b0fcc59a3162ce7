// A connection to the agent of a job, over the job's socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/frame.hpp"

namespace ddprun::ctl {

class JobConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// Connects and exchanges the hellos. `address` as in DDPRUN_SOCKET. Errors: those of the system,
  /// timed_out, malformed and version_mismatch.
  static Result<JobConnection> open(const std::string& address, Clock::time_point deadline);

  /// The user of the process at the other end; none: the kernel does not say. Any process may have
  /// an abstract name.
  [[nodiscard]] std::optional<uid_t> peer_user() const;
  [[nodiscard]] bool has_feature(const std::string& feature) const;

  Result<void> send(const std::string& json, Clock::time_point deadline);
  /// For poll(); it stays ours.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  /// The next answer. None: waits as long as it takes. Errors: also peer_closed.
  Result<std::string> receive(std::optional<Clock::time_point> deadline);

 private:
  JobConnection(UniqueFd socket, std::vector<std::string> features)
      : socket_(std::move(socket)), features_(std::move(features)) {}
  Result<void> wait(short what, std::optional<Clock::time_point> deadline) const;

  UniqueFd socket_;
  std::vector<std::string> features_;
  proto::FrameParser parser_;
};

}  // namespace ddprun::ctl
