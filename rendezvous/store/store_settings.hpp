// The limits of a store, by name. The defaults are what every program of ours uses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "proto/c10d.hpp"

namespace ddprun::rdzv {

struct StoreSettings {
  /// Of one request. A request over them closes its connection.
  proto::c10d::Limits request;
  /// Keys that one connection may wait for at the same time, over all its open waits.
  std::uint64_t waited_keys_max = proto::c10d::Limits{}.list_elements_max;
  /// Replies that a client has not read. Above it, that client's further requests stay unread until
  /// all are sent.
  std::uint64_t reply_backlog_bytes_max = 1024 * 1024;
  /// Serve PyTorch 1.13 and 2.0 too. A client that does not begin with VALIDATE is taken for one of
  /// those.
  bool accept_old_dialect = false;
  /// Gets one line for every client that was closed because it broke the protocol, and one when no
  /// more clients can be accepted; called on the store's thread. Empty: the lines go to spdlog.
  std::function<void(const std::string&)> on_warning;
};

}  // namespace ddprun::rdzv
