// Host names to addresses, with a deadline or without waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/endpoint.hpp"
#include "base/result.hpp"

namespace ddprun::rdzv {

/// As look_up_addresses(). Errors beside its own: timed_out (the resolver did not answer by
/// `deadline`), or the system's where no thread can be started.
Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline);

/// Resolves without waiting: `done` is called once, from within this call for a numeric address,
/// else on a thread of its own, however long that takes. Errors: the system's, where no thread can
/// be started; `done` is not called then.
ErrorCode resolve_then(const std::string& host, std::uint16_t port,
                       std::function<void(Result<Addresses>)> done);

}  // namespace ddprun::rdzv
