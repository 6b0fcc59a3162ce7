// Brings the ranks of one round together before training: the store (hosted by rank 0 where no
// agent does), and the few values that rank 0 decides for everybody.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "trainer/comm/exchange.hpp"
#include "trainer/run/cli/environment.hpp"

namespace ddprun::trainer {

struct AgreedShards {
  int shards = 0;
  /// Not done: the rank that knows them has not told them in time, or the store is gone.
  CommResult result;
};

/// The connection to this round's store. With one worker there is none. Keep it until every rank
/// has joined.
class Rendezvous {
 public:
  /// Connects, hosting the store first where that is rank 0's task. Throws DataError that names
  /// address and deadline when no store answers in time, or when the port cannot be listened on.
  /// Waits for other ranks end with CommStatus::aborted soon after `is_given_up` is true; empty: it
  /// never is.
  Rendezvous(const WorkerEnvironment& environment, std::chrono::nanoseconds timeout,
             std::function<bool()> is_given_up = {});
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Null with one worker.
  [[nodiscard]] Exchange* exchange() { return exchange_.get(); }

  /// Prefix of this round's keys.
  [[nodiscard]] const std::string& group() const { return group_; }

  /// Until when everybody must have joined.
  [[nodiscard]] Clock::time_point deadline() const { return deadline_; }

  /// The rank `root` decides how many shards a global batch has; the others get it. Throws
  /// DataError where that rank cannot store it, and on another one that has a GPU where that one
  /// has none, or has none where that one has one: they could not add up their gradients.
  /// `why_no_gpu`: of this rank; empty: it did not ask for one.
  AgreedShards agree_on_shards(int shards_of_root, bool has_gpu, const std::string& why_no_gpu,
                               int root = 0);

 private:
  class Connection;

  WorkerEnvironment environment_;
  std::chrono::nanoseconds timeout_;
  Clock::time_point deadline_;
  std::string group_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace ddprun::trainer
