// Opens rdzvd's listening socket: host names, addresses that are not there yet, ports that are
// taken.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/endpoint.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::rdzv {

struct ListenOutcome {
  std::optional<StoreListener> listener;
  std::string failure;  ///< a sentence; empty where `pause` asked to stop
};

/// Binds and listens at `address`. While the host does not resolve, or its address is not this
/// machine's (an interface may still come up), tries again until `deadline`; gives each reason to
/// `say`, once until it changes. Between tries `pause` waits; false from it ends the trying.
/// Whatever else fails, such as a port in use, fails at once.
ListenOutcome listen_at(const Endpoint& endpoint, std::chrono::steady_clock::time_point deadline,
                        const std::function<void(const std::string&)>& say,
                        const std::function<bool(std::chrono::milliseconds)>& pause);

}  // namespace ddprun::rdzv
