#include "warden/fence_deadline.hpp"

namespace ddprun::warden {
namespace {

/// Without a sleep the warden is not later than this.
constexpr std::chrono::seconds kOversleptAfter{1};

}  // namespace

std::optional<FenceDeadline::TimePoint> FenceDeadline::at(std::optional<TimePoint> lease_end) {
  return lease_end ? std::optional(*lease_end + kMargin) : std::nullopt;
}

bool FenceDeadline::is_due(std::optional<TimePoint> lease_end, Now now) {
  const auto due = at(lease_end);
  if (!due || now.boot < *due) {
    wake_until_.reset();
    return false;
  }
  if (!wake_until_) {
    if (now.boot - *due <= kOversleptAfter) return true;
    wake_until_ = now.steady + kWakeMargin;
  }
  return now.steady >= *wake_until_;
}

}  // namespace ddprun::warden
