// What a store counts, for reports.
#pragma once

#include <atomic>
#include <cstdint>

namespace ddprun::rdzv {

/// What a store has seen of its clients since it began.
struct StoreCounters {
  std::uint64_t clients = 0;          ///< accepted
  std::uint64_t open_clients = 0;     ///< connected now
  std::uint64_t refused_clients = 0;  ///< closed: they broke the protocol, or may not use the store
  std::uint64_t newer_clients = 0;    ///< of those: sent a request that only a newer PyTorch has
};

/// Counted on the store's thread, read from any.
class LiveStoreCounters {
 public:
  using Counter = std::atomic<std::uint64_t>;
  Counter clients{0};
  Counter open_clients{0};
  Counter refused_clients{0};
  Counter newer_clients{0};

  static void add(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }
  static void subtract(Counter& counter) { counter.fetch_sub(1, std::memory_order_relaxed); }
  static std::uint64_t value(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  }
  [[nodiscard]] StoreCounters now() const {
    return {value(clients), value(open_clients), value(refused_clients), value(newer_clients)};
  }
};

}  // namespace ddprun::rdzv
