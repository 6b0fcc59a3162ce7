// The limits of a store, by name. The defaults are what every program of ours uses.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "proto/c10d.hpp"

namespace ddprun::rdzv {

struct StoreSettings {
  /// Limits of one request. A request over them closes its connection.
  proto::c10d::Limits request;
  /// Keys that one connection may wait for at the same time, over all its open waits.
  std::uint64_t waited_keys_max = proto::c10d::Limits{}.list_elements_max;
  /// Replies that a client has not read. Above it, that client's further requests stay unread until
  /// all are sent.
  std::uint64_t reply_backlog_bytes_max = 1024 * 1024;
  /// Memory for keys, values, queues, waits and incomplete requests of all clients together; one
  /// client may fill a part of it (StoreCore::kShare). A request beyond it closes its connection.
  /// Not limited where all clients are of one job, which may fill what it likes.
  std::uint64_t store_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// False: clients of a store are closed, and only those of `on_control_client` are served.
  bool serves_store = true;
  /// Clients that are connected at the same time. More of them wait in the kernel's queue until one
  /// leaves, as they do when the process has no descriptor left.
  std::uint64_t connections_max = 1'000'000;
  /// Clients for which the process's descriptor table gets room before the first one comes; 0:
  /// none. Without it the table doubles when it is full, and in a process with several threads the
  /// kernel lets every doubling wait for all CPUs: 10 to 20 ms each, in the middle of a storm of
  /// connects. Cheap where the server is made before the process has other threads.
  std::uint64_t clients_expected = 0;
  /// A client is closed if its first request is not there whole by then; 0: never. A silent one is
  /// left alone if PyTorch 1.13 uses this store, since each of its clients keeps a second
  /// connection that says nothing.
  std::chrono::milliseconds handshake_timeout{60'000};

  /// Serve PyTorch 1.13 and 2.0 too. A client that does not begin with VALIDATE is taken for one of
  /// those.
  bool accept_old_dialect = true;

  /// Ask the kernel which user owns the other end of a loopback connection, and close those of
  /// other users than our own, root, and `allowed_uids`. Where the kernel does not tell, all are
  /// served, with one warning.
  bool check_uid = true;
  std::vector<uid_t> allowed_uids;

  /// Gets a client that begins like an agent of ours (proto/frame.hpp, opening_of), connected
  /// and with nothing read: the rendezvous service has the same port. Called on the store's thread.
  /// Empty: such a client is closed as any other that breaks the protocol.
  std::function<void(UniqueFd)> on_control_client;

  /// The end of the server resets its connections instead of closing them in order: their clients
  /// notice at once and nothing lingers on the port.
  bool reset_on_close = false;

  /// Gets one line for every client that was closed because it broke the protocol, and one when no
  /// more clients can be accepted; called on the store's thread. Lines that repeat are held back
  /// and counted. Empty: the lines go to spdlog.
  std::function<void(const std::string&)> on_warning;
};

}  // namespace ddprun::rdzv
