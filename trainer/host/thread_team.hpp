// Threads that compute one caller's loops: what OpenMP does, for builds without it
// (docs/decisions/0014-portable-programs.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun::trainer {

/// Belongs to the thread that makes it: no other one may call run(), but for its pieces, or the
/// destructor.
class ThreadTeam {
 public:
  /// `threads`: at least 1; the calling thread is one of them. Throws DataError where the system
  /// refuses a thread.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(others_.size()) + 1; }
  /// Calls piece(0) to piece(pieces - 1) and returns when all have returned. Thread i calls those
  /// with the numbers i, i + threads(), ... `piece` must not throw. A call from inside a piece is
  /// computed by the thread that makes it.
  void run(int pieces, const std::function<void(int)>& piece);
  /// Whether the calling thread computes a piece.
  [[nodiscard]] static bool inside();

 private:
  void serve(int number);
  void compute(int number) const;
  void end();

  const std::function<void(int)>* piece_ = nullptr;
  int pieces_ = 0;
  bool ending_ = false;
  std::atomic<std::int32_t> round_{0};  // of calls of run(); the threads wait for the next
  std::atomic<std::int32_t> busy_{0};   // threads that have not finished this round
  std::vector<std::thread> others_;
};

}  // namespace ddprun::trainer
