// A c10d store on a thread of its own: sockets around the pure StoreCore. One server lives as long
// as one round.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/store/store_counters.hpp"
#include "rendezvous/store/store_settings.hpp"

namespace ddprun::rdzv {

/// A bound and listening TCP socket; connections queue in the kernel until a StoreServer takes it.
struct StoreListener {
  UniqueFd fd;             ///< none: a server of it has only the clients that it adopts
  std::string addr;        ///< what workers are told, e.g. "127.0.0.1"
  std::uint16_t port = 0;  ///< the real one, also when 0 was asked for
};

/// Binds and listens without starting anything. `host` is a numeric IPv4 or IPv6 address; port 0
/// lets the kernel choose.
Result<StoreListener> listen_store(const std::string& host, std::uint16_t port);

/// Binds and listens at a free port from `first` to `last`, both included and tried from a random
/// one on. EADDRINUSE: all are in use. EINVAL: there is no port in that range, or 0 is in it.
Result<StoreListener> listen_store(const std::string& host, std::uint16_t first,
                                   std::uint16_t last);

/// Serves one store until destroyed. Its thread is joined by the destructor, which closes every
/// connection; neither waits for a client. Clients that break the protocol are closed with one log
/// line and disturb no other client. With StoreSettings::reset_on_close the port is free at once
/// and no client of this server lingers on it.
class StoreServer {
 public:
  /// Errors: the system's, where there is no descriptor or no thread left; the listener is closed
  /// then.
  static Result<StoreServer> start(StoreListener listener, StoreSettings settings = {});
  /// Such an error, and what to do: for a line to the user.
  static std::string why_not_started(const ErrorCode& error);
  StoreServer(StoreServer&&) noexcept;
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  [[nodiscard]] const std::string& addr() const;
  [[nodiscard]] std::uint16_t port() const;
  /// From any thread: serves `connection`, a connected TCP socket from which nothing has been read,
  /// like one that came to its own port. With more clients than StoreSettings::connections_max it
  /// is closed with one line.
  void adopt(UniqueFd connection);
  /// From any thread.
  [[nodiscard]] StoreCounters counters() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rdzv
