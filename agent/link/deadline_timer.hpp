// A timer that follows the deadline of a pure core. Knows no core.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.hpp"

namespace ddprun::agent {

class DeadlineTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `on_passed` is called once for each deadline that passed, from the context; it may call
  /// follow().
  DeadlineTimer(boost::asio::io_context& context, std::function<void()> on_passed)
      : timer_(context), on_passed_(std::move(on_passed)) {}

  /// The deadline is now this one; none: nothing is called. Costs nothing where it is unchanged.
  void follow(std::optional<TimePoint> deadline) {
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

 private:
  boost::asio::steady_timer timer_;
  const std::function<void()> on_passed_;
  std::optional<TimePoint> deadline_;  // for which the timer is set
};

}  // namespace ddprun::agent
