// How a worker goes on after another one has died: it waits for the next round and keeps its
// memory (worker/ddprun_elastic.h). Without ddprun there is nothing of this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/unique_handle.hpp"
#include "trainer/comm/communicator.hpp"
#include "worker/ddprun_elastic.h"

namespace ddprun::trainer {

/// The connection to the agent, and a thread that sleeps until the agent interrupts this worker.
class Elastic {
 public:
  /// From here on the agent interrupts this worker and does not end it when another one fails.
  /// Null: there is no agent that does so, or no thread.
  static std::unique_ptr<Elastic> open();
  ~Elastic();
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  /// From here on an interruption aborts `communicator`, at once if it has come already. Null:
  /// there is none that could wait for another rank.
  void watch(Communicator* communicator);
  /// Before the communicator is destroyed.
  void unwatch() { watch(nullptr); }

  /// A rank of this round is gone.
  [[nodiscard]] bool is_interrupted() const { return is_interrupted_.load(); }
  /// All ranks are to leave this round after the same step; also where one is gone.
  [[nodiscard]] bool world_changes() const { return world_changes_.load(); }

  /// Leaves the round and waits for the next one. `steps`: after so many this worker's state is;
  /// none: it has no state. Gives 0 or an errno.
  int next_round(std::optional<std::uint64_t> steps);
  /// A variable of the round that next_round() has waited for; null: the round has none of that
  /// name.
  [[nodiscard]] const char* value(const char* name) const {
    return ddprun_elastic_value(&connection_, name);
  }

 private:
  explicit Elastic(const ddprun_elastic& connection) : connection_(connection) {}
  bool start();
  void wait_for_interruptions();
  void look();

  ddprun_elastic connection_;
  UniqueFd poll_;  // an epoll that wakes once for each message: messages stay where they are
  UniqueFd end_;   // an eventfd: the object is being destroyed
  std::atomic<bool> is_interrupted_{false};
  std::atomic<bool> world_changes_{false};
  std::mutex mutex_;  // guards what follows, and the connection from the thread between rounds
  bool is_in_round_ = true;
  Communicator* communicator_ = nullptr;
  std::thread thread_;
};

}  // namespace ddprun::trainer
