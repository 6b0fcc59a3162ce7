// Work that is given to a device again and again, and how it is captured.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// Whether a run captures its repeated work, for all of that together: the first failure ends it.
class Capture {
 public:
  /// Of a device that can capture. It outlives this.
  Capture(Device& device, bool is_wanted)
      : device_(device), is_on_(is_wanted && device.can_capture()) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] bool is_on() const { return is_on_; }
  /// Of a failure, in the device's words, once; else empty.
  [[nodiscard]] std::string take_failure();

 private:
  friend class RepeatedWork;
  std::unique_ptr<CapturedWork> of(const std::function<void()>& work);

  Device& device_;
  bool is_on_;
  std::string failure_;
};

/// One piece of work that asks the device for the same at each run(): the same addresses and sizes,
/// while the values there change. The first time it is done as it comes, so that libraries choose
/// their algorithms and get their memory. The second time it is captured, and from then on a run is
/// one call.
class RepeatedWork {
 public:
  void run(Capture& capture, const std::function<void()>& work);

 private:
  bool was_done_ = false;
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace ddprun::trainer
