// Fixes how many threads the library uses for calls from this thread: results may depend on it, so
// nothing outside a run's own settings may change it.
#pragma once

namespace ddprun::trainer {

/// While it lives, parallel regions started by the calling thread have exactly `threads` threads,
/// whatever OMP_NUM_THREADS, OMP_DYNAMIC and the CPU mask say. Throws DataError if OMP_THREAD_LIMIT
/// forbids that.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int threads_before_;
  int dynamic_before_;
};

}  // namespace ddprun::trainer
