// Host names to addresses, with a deadline.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace ddprun::rdzv {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// "10.0.0.1" or "::1"; empty: it is of neither family.
std::string numeric_host(const addrinfo& addr);

/// The stream addresses of `host` (a name, or a numeric IPv4 or IPv6 address) in the system's order
/// of preference; at least one. Errors: timed_out (the resolver did not answer by `deadline`), or
/// getaddrinfo's.
Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline);

/// The same without waiting: `done` is called once, from within this call for a numeric address,
/// else on a thread of its own, however long that takes. Errors: the system's, where no thread can
/// be started; `done` is not called then.
ErrorCode resolve_then(const std::string& host, std::uint16_t port,
                       std::function<void(Result<Addresses>)> done);

}  // namespace ddprun::rdzv
