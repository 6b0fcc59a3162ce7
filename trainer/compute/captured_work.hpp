// Work that is given to a device again and again, and how it is captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// Whether a run captures its repeated work, for all of that together: the first failure ends it.
class Capture {
 public:
  /// A CUDA graph takes about 10 kB of the GPU's memory for each node, so all graphs of a worker
  /// take up to about 160 MB, about as much as CUDA itself. A kind of shard has some 1500 nodes of
  /// a U-Net over a ResNet-101, 1300 of textclf large.
  static constexpr std::size_t kNodesMost = 16'384;

  /// Captures work of the device, which outlives this, if that can capture. Once `nodes_most` nodes
  /// are kept, nothing further is captured.
  Capture(Device& device, bool is_wanted, std::size_t nodes_most = kNodesMost)
      : device_(device), is_on_(is_wanted && device.can_capture()), nodes_most_(nodes_most) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] bool is_on() const { return is_on_; }
  /// A failure in the device's words, once; else empty.
  [[nodiscard]] std::string take_failure();
  /// True once, after some work was not captured because there is too much of it.
  [[nodiscard]] bool take_limit();
  /// Some work is not captured, as there is much of it.
  void reach_limit();

 private:
  friend class RepeatedWork;
  struct Forget {
    Capture* capture = nullptr;
    void operator()(CapturedWork* work) const;
  };
  using Kept = std::unique_ptr<CapturedWork, Forget>;

  [[nodiscard]] bool has_room() const { return nodes_ < nodes_most_; }
  Kept of(const std::function<void()>& work);

  Device& device_;
  bool is_on_;
  std::size_t nodes_most_;
  std::size_t nodes_ = 0;  // of all that is kept
  std::string failure_;
  bool is_limit_reached_ = false;
  bool is_limit_taken_ = false;
};

/// One piece of work that asks the device for the same at each run(): the same addresses and sizes,
/// while the values there change. The first time it is done as it comes, so that libraries choose
/// their algorithms and get their memory. The second time it is captured, and from then on a run is
/// one call. Where capture has ended, run() frees what was captured. The Capture outlives this.
class RepeatedWork {
 public:
  void run(Capture& capture, const std::function<void()>& work);

 private:
  bool was_done_ = false;
  Capture::Kept captured_;
};

}  // namespace ddprun::trainer
