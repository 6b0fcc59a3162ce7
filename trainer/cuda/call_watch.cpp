#include "trainer/cuda/call_watch.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::trainer::cuda {
namespace {

using namespace std::chrono_literals;

}  // namespace

CallClock::CallClock(std::chrono::nanoseconds limit)
    : limit_(limit), every_(std::clamp<std::chrono::nanoseconds>(limit / 16, 1ms, 1s)) {}

bool CallClock::is_late(Clock::time_point now, std::uint64_t serial, bool is_called) {
  const std::chrono::nanoseconds passed = looked_ ? now - *looked_ : 0ns;
  looked_ = now;
  if (!is_called || serial != seen_) {
    seen_ = serial;
    waited_ = {};
    return false;
  }
  waited_ += std::min(passed, 2 * every_);
  return waited_ >= limit_;
}

CallWatch::CallWatch(std::chrono::nanoseconds limit, LateFunction late)
    : clock_(limit), late_(std::move(late)) {
  auto started = start_thread("call-watch", [this] { watch(); });
  if (!started) throw std::runtime_error(why_no_thread(started.error()));
  thread_ = std::move(*started);
}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CallWatch::happened(const std::string& what) {
  const std::lock_guard lock(mutex_);
  happened_ = what;
}

void CallWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, clock_.every(), [this] { return ends_; })) {
    const std::uint64_t serial = serial_;
    const char* const call = call_;
    if (!clock_.is_late(CallClock::Clock::now(), serial, call != nullptr)) continue;
    late_(happened_.empty() ? call : happened_ + "; then " + call, clock_.waited());
    return;
  }
}

}  // namespace ddprun::trainer::cuda
