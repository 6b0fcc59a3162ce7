#include "trainer/compute/captured_work.hpp"

#include <utility>

#include "trainer/error.hpp"

namespace ddprun::trainer {

std::string Capture::take_failure() { return std::exchange(failure_, {}); }

/// Null: from now on all work is done as it comes. If the device itself has failed, that fails
/// next.
std::unique_ptr<CapturedWork> Capture::of(const std::function<void()>& work) {
  std::unique_ptr<CapturedWork> captured;
  try {
    captured = device_.capture(work);
  } catch (const DeviceError& error) {
    failure_ = error.what();
    is_on_ = false;
  }
  return captured;
}

void RepeatedWork::run(Capture& capture, const std::function<void()>& work) {
  if (capture.is_on() && was_done_ && !captured_) captured_ = capture.of(work);
  if (capture.is_on() && captured_) return captured_->replay();
  work();
  was_done_ = true;
}

}  // namespace ddprun::trainer
