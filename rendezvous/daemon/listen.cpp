#include "rendezvous/daemon/listen.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "base/no_descriptor.hpp"
#include "rendezvous/client/resolve.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::rdzv {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLookupLimit = 5s;  ///< for one look-up, so that a signal is not kept waiting
constexpr auto kFirstPause = 100ms;
constexpr auto kLongestPause = 2000ms;

/// The first address of the host that can be bound.
Result<StoreListener> listen_once(const Endpoint& endpoint, Clock::time_point deadline,
                                  bool& resolved) {
  const Result<Addresses> found = resolve(endpoint.host, *endpoint.port, deadline);
  resolved = found.has_value();
  if (!found) return found.error();
  ErrorCode failure;
  for (const addrinfo* addr = found->get(); addr != nullptr; addr = addr->ai_next) {
    Result<StoreListener> listener = listen_store(numeric_host(*addr), *endpoint.port);
    if (listener) return listener;
    failure = listener.error();
  }
  return failure;
}

std::string explained(const Endpoint& endpoint, const ErrorCode& error) {
  const std::string begin = fmt::format("cannot listen on {}: ", to_string(endpoint));
  if (error.value() == EADDRINUSE) {
    const auto owner = port_owner(*endpoint.port);
    return begin +
           (owner ? fmt::format("the port is in use by {}", *owner) : "the port is in use") +
           "; choose another one, or 0 for any that is free";
  }
  if (error.value() == EACCES) {
    return begin + "ports below 1024 need root, or the capability CAP_NET_BIND_SERVICE";
  }
  return begin + why_no_descriptor(error);
}

}  // namespace

ListenOutcome listen_at(const Endpoint& endpoint, Clock::time_point deadline,
                        const std::function<void(const std::string&)>& say,
                        const std::function<bool(std::chrono::milliseconds)>& pause) {
  auto wait = std::chrono::milliseconds(kFirstPause);
  std::string said;
  while (true) {
    bool resolved = false;
    const auto limit = std::min(deadline, Clock::now() + kLookupLimit);
    auto listener = listen_once(endpoint, limit, resolved);
    if (listener) return {std::move(*listener), ""};
    const ErrorCode error = listener.error();
    std::string reason = explained(endpoint, error);
    if (!resolved) {
      reason = fmt::format("cannot look up {}: {}", endpoint.host, error.message());
    } else if (error.value() != EADDRNOTAVAIL) {
      return {std::nullopt, reason};
    }
    if (Clock::now() + wait >= deadline) {
      return {std::nullopt, reason + "; gave up at the deadline (--listen-timeout)"};
    }
    if (reason != said) say(reason + "; trying again");
    said = reason;
    if (!pause(wait)) return {};
    wait = std::min(2 * wait, std::chrono::milliseconds(kLongestPause));
  }
}

}  // namespace ddprun::rdzv
