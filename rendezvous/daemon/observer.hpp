// `rdzvd --status` and `rdzvd --fence`: asks a rendezvous that runs elsewhere, once.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/daemon/options.hpp"

namespace ddprun::rdzv {

inline constexpr std::chrono::seconds kObserverLimit{10};

struct Observation {
  int exit_code = 0;
  std::string text;  ///< for stdout; where the exit code is not 0, one line for stderr
};

/// `limit`: from the look-up of the name to the answer.
Observation observe(const ObserverOptions& options,
                    std::chrono::milliseconds limit = kObserverLimit);

}  // namespace ddprun::rdzv
