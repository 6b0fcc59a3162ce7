// A blocking client of a c10d store (ours or PyTorch's), with a deadline on every call. For workers
// and tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace ddprun::rdzv {

using Clock = std::chrono::steady_clock;

/// One connection to a store. Not for use by several threads at once. Keys are sent as PyTorch's
/// TCPStore sends them (with a leading '/'), so that Python workers and this client meet. Sends no
/// SIGPIPE.
///
/// Errors: proto::Errc::timed_out (the deadline passed), peer_closed (also: the store did not like
/// the request, such as `add` on a value that is not a number), malformed, too_large (over the
/// store's limits; nothing was sent), old_dialect, or the system's. After too_large, and after
/// timed_out of `wait` and `get` while they waited, the connection stays usable; after
/// any other error it is out of step and closed, and all calls give peer_closed.
class StoreClient {
 public:
  /// Resolves, connects, validates and pings, and tries again with back-off while the server is not
  /// there, until `deadline`. A server that accepts but does not answer PING within 2 s is
  /// old_dialect; one that answers something else is malformed (not a store). On timed_out,
  /// `last_failure` (if given) says why the last try failed, e.g. connection refused.
  static Result<StoreClient> connect(const std::string& host, std::uint16_t port,
                                     Clock::time_point deadline, ErrorCode* last_failure = nullptr);

  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;
  ~StoreClient();

  Result<void> set(std::string_view key, std::string_view value, Clock::time_point deadline);
  /// Waits for the key to appear, then reads it; as `wait` on timed_out. Empty if it was deleted in
  /// between.
  Result<std::string> get(std::string_view key, Clock::time_point deadline);
  /// Returns the sum. A key that is missing counts as 0.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta, Clock::time_point deadline);
  /// True if all keys exist.
  Result<bool> check(std::span<const std::string> keys, Clock::time_point deadline);
  /// Until all keys exist. On timed_out the wait is cancelled and the connection stays usable; a
  /// store that has not confirmed that 2 s after the deadline is given up, and the connection
  /// closed.
  Result<void> wait(std::span<const std::string> keys, Clock::time_point deadline);
  /// Keys in the store, those of others included.
  Result<std::int64_t> key_count(Clock::time_point deadline);

 private:
  class Impl;
  explicit StoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rdzv
