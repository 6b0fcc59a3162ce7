// Host names to addresses, with a deadline.
#pragma once

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace ddprun::rdzv {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// The stream addresses of `host` (a name, or a numeric IPv4 or IPv6 address) in the system's order
/// of preference; at least one. Errors: timed_out (the resolver did not answer by `deadline`), or
/// getaddrinfo's.
Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline);

}  // namespace ddprun::rdzv
