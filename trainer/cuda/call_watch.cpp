#include "trainer/cuda/call_watch.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::trainer::cuda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Between two looks: a call is noticed late by a sixteenth of its limit at most.
std::chrono::nanoseconds look_every(std::chrono::nanoseconds limit) {
  return std::clamp<std::chrono::nanoseconds>(limit / 16, 1ms, 1s);
}

}  // namespace

CallWatch::CallWatch(std::chrono::nanoseconds limit, LateFunction late)
    : limit_(limit), late_(std::move(late)) {
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

void CallWatch::watch() {
  const std::chrono::nanoseconds every = look_every(limit_);
  std::chrono::nanoseconds waited{};
  std::uint64_t seen = 0;
  auto before = Clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, every, [this] { return ends_; })) {
    const auto now = Clock::now();
    // Of a process that was stopped, or a machine that slept, the time does not count.
    const auto passed = std::min<std::chrono::nanoseconds>(now - before, 2 * every);
    before = now;
    const std::uint64_t serial = serial_;
    const char* const call = call_;
    if (call == nullptr || serial != seen) {
      seen = serial;
      waited = {};
      continue;
    }
    waited += passed;
    if (waited < limit_) continue;
    late_(call, waited);
    return;
  }
}

}  // namespace ddprun::trainer::cuda
