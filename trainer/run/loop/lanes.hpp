// The threads of one worker that compute shards side by side. Which lane computes which shard never
// changes a bit.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ddprun::trainer {

/// A fixed team of threads; lane 0 is the calling one.
class Lanes {
 public:
  /// Throws DataError where the system refuses a thread.
  explicit Lanes(int count);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  [[nodiscard]] int count() const { return count_; }

  /// Runs `work(lane)` once on every lane and waits for all. Rethrows the first exception after all
  /// have ended.
  void run(const std::function<void(int lane)>& work);

 private:
  void serve(int lane);
  void stop();

  int count_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t turn_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;

  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace ddprun::trainer
