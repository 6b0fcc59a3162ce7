#include "trainer/compute/captured_work.hpp"

#include <utility>

#include "trainer/error.hpp"

namespace ddprun::trainer {

std::string Capture::take_failure() { return std::exchange(failure_, {}); }

void Capture::reach_limit() { is_limit_reached_ = true; }
bool Capture::take_limit() { return is_limit_reached_ && !std::exchange(is_limit_taken_, true); }

void Capture::Forget::operator()(CapturedWork* work) const {
  capture->nodes_ -= work->nodes();
  delete work;
}

/// Null: from now on all work is done as it comes. If the device itself has failed, that fails
/// next.
Capture::Kept Capture::of(const std::function<void()>& work) {
  try {
    Kept kept(device_.capture(work).release(), Forget{this});
    nodes_ += kept->nodes();
    return kept;
  } catch (const DeviceError& error) {
    failure_ = error.what();
    is_on_ = false;
  }
  return {};
}

void RepeatedWork::run(Capture& capture, const std::function<void()>& work) {
  if (!capture.is_on()) captured_.reset();
  if (capture.is_on() && was_done_ && !captured_) {
    if (capture.has_room()) {
      captured_ = capture.of(work);
    } else {
      capture.reach_limit();
    }
  }
  if (captured_) return captured_->replay();
  work();
  was_done_ = true;
}

}  // namespace ddprun::trainer
