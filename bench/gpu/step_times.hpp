// How much of a training step a GPU's stream had nothing to do, and how fast the optimizer's pass
// went through memory. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddprun::bench {

/// One piece of work of the stream: a graph, or a launch outside graphs.
struct PieceTimes {
  double gap = 0;   ///< seconds from the end of the piece before
  double busy = 0;  ///< seconds from its begin to its end
  /// What the optimizer's pass reads and writes; 0: other work.
  std::uint64_t update_bytes = 0;
  bool ends_step = false;
  bool is_other = false;  ///< no part of training: weights that are copied to the host
};

class StepTimes {
 public:
  /// `warm_up`: steps that are not measured: libraries are loaded, and graphs captured.
  explicit StepTimes(std::uint64_t warm_up) : warm_up_(warm_up) {}

  /// Pieces in the order of the stream.
  void add(const PieceTimes& piece) {
    step_.gap += piece.gap;
    step_.busy += piece.busy;
    is_other_ = is_other_ || piece.is_other;
    if (piece.update_bytes > 0 && ended_ >= warm_up_ && piece.busy > 0)
      update_rates_.push_back(static_cast<double>(piece.update_bytes) / piece.busy);
    if (!piece.ends_step) return;
    if (++ended_ > warm_up_ && !is_other_) {
      ++steps_;
      gap_ += step_.gap;
      busy_ += step_.busy;
    }
    step_ = {};
    is_other_ = false;
  }

  /// That were measured: after the warm-up, without those that an evaluation or a checkpoint is
  /// part of.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// The gaps' share of the time of these steps. Only where there are any.
  [[nodiscard]] double gap_share() const { return gap_ / (gap_ + busy_); }
  [[nodiscard]] double step_seconds() const { return (gap_ + busy_) / static_cast<double>(steps_); }
  /// Bytes a second: the median. 0: none was measured.
  [[nodiscard]] double update_rate() const {
    if (update_rates_.empty()) return 0;
    std::vector<double> rates = update_rates_;
    const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    return *middle;
  }

 private:
  struct Sums {
    double gap = 0, busy = 0;
  };
  std::uint64_t warm_up_;
  Sums step_;  // since the last one ended
  bool is_other_ = false;
  std::uint64_t ended_ = 0;
  std::uint64_t steps_ = 0;
  double gap_ = 0, busy_ = 0;
  std::vector<double> update_rates_;
};

}  // namespace ddprun::bench
