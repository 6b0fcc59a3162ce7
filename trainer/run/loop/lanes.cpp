#include "trainer/run/loop/lanes.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/start_thread.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

Lanes::Lanes(int count) : count_(count) {
  threads_.reserve(static_cast<std::size_t>(count));
  for (int lane = 1; lane < count; ++lane) {
    auto thread = start_thread("lane", [this, lane] { serve(lane); });
    if (!thread) {
      stop();
      throw DataError(fmt::format("{} lanes (of --lanes or --replicas) need {} threads: {}", count,
                                  count - 1, why_no_thread(thread.error())));
    }
    threads_.push_back(std::move(*thread));
  }
}

Lanes::~Lanes() { stop(); }

void Lanes::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Lanes::run(const std::function<void(int lane)>& work) {
  if (count_ == 1) {
    work(0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    ++turn_;
    running_ = count_ - 1;
    error_ = nullptr;
  }
  changed_.notify_all();
  std::exception_ptr own_error;
  try {
    work(0);
  } catch (...) {
    own_error = std::current_exception();  // rethrown below, when the others no longer use `work`
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  const std::exception_ptr error = own_error ? own_error : std::exchange(error_, nullptr);
  if (error) std::rethrow_exception(error);
}

void Lanes::serve(int lane) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return turn_ != seen || stopping_; });
    if (turn_ == seen) return;
    seen = turn_;
    const std::function<void(int)>& work = *work_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work(lane);
    } catch (...) {
      error = std::current_exception();  // rethrown by run()
    }
    lock.lock();
    if (error && !error_) error_ = error;
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace ddprun::trainer
