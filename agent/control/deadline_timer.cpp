#include "agent/control/deadline_timer.hpp"

#include "base/result.hpp"

namespace ddprun::agent {

void DeadlineTimer::follow(std::optional<TimePoint> deadline) {
  if (deadline_ == deadline) return;
  deadline_ = deadline;
  timer_.cancel();
  if (!deadline_) return;
  timer_.expires_at(*deadline_);
  timer_.async_wait([this](ErrorCode ec) {
    // A wait that had ended before it was cancelled comes without an error: it is not this one's.
    if (ec || !deadline_ || std::chrono::steady_clock::now() < *deadline_) return;
    deadline_.reset();
    on_passed_();
  });
}

}  // namespace ddprun::agent
