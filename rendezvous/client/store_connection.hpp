// A TCP connection that sends and receives with a deadline on every call.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

/// Errors of all calls: timed_out (the deadline passed), peer_closed, or the system's.
class StoreConnection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  static Result<StoreConnection> connect(const addrinfo& addr, Deadline deadline);

  Result<void> send(std::string_view bytes, Deadline deadline);
  /// Appends exactly `length` bytes to `bytes`; memory grows with what arrives, not with `length`.
  Result<void> receive(std::string& bytes, std::size_t length, Deadline deadline);

 private:
  explicit StoreConnection(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace ddprun::rdzv
