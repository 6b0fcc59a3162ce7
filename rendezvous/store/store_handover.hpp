// Where connections for a store wait that arrive at a port which is not the store's own: the port
// of a job's rendezvous is open for the whole job, its workers' stores come and go with the rounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "base/unique_handle.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::rdzv {

/// Open, it passes connections on to a store. Closed, it parks them for the next one. All calls are
/// for any thread. The destructor resets what is parked.
class StoreHandover {
 public:
  using Clock = std::chrono::steady_clock;

  struct Settings {
    std::size_t parked_max = 1'024;  ///< at least 1; with one more, the oldest is reset
    /// One that has waited longer is reset at the next offer or opening: it came for the store of
    /// another round.
    std::chrono::milliseconds parked_for{60'000};
    /// A connection is parked, the first since the hand-over was closed: a client wants a store.
    /// Called on the thread that offers it, with no lock held; by then another thread may have
    /// opened the hand-over.
    std::function<void()> on_first_client;
  };

  explicit StoreHandover(Settings settings);
  ~StoreHandover();
  StoreHandover(const StoreHandover&) = delete;
  StoreHandover& operator=(const StoreHandover&) = delete;

  /// Takes a connected socket from which nothing has been read.
  void offer(UniqueFd connection);
  /// Gives `store` what is parked, except where the other end has left, and from now on all that
  /// is offered. `store` must live until `close` returns.
  void open(StoreServer& store);
  /// The store gets nothing more; the clients that it has stay its own.
  void close();
  [[nodiscard]] std::size_t parked() const;

 private:
  struct Parked {
    UniqueFd connection;
    Clock::time_point until;
  };
  void reset_oldest();
  void reset_expired(Clock::time_point now);

  const Settings settings_;
  mutable std::mutex mutex_;
  StoreServer* store_ = nullptr;  ///< null: closed
  bool wanted_ = false;           ///< on_first_client was called since the hand-over was closed
  std::deque<Parked> parked_;     ///< the oldest first
};

}  // namespace ddprun::rdzv
