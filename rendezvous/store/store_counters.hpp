// What a store counts, for reports.
#pragma once

#include <cstdint>

namespace ddprun::rdzv {

/// What a store has seen of its clients since it began.
struct StoreCounters {
  std::uint64_t clients = 0;          ///< accepted
  std::uint64_t open_clients = 0;     ///< connected now
  std::uint64_t refused_clients = 0;  ///< closed: they broke the protocol, or may not use the store
  std::uint64_t newer_clients = 0;    ///< of those: sent a request that only a newer PyTorch has
};

}  // namespace ddprun::rdzv
