// How long the rest of a run takes, by how long its parts took so far. Pure.
#pragma once

#include <cstdint>

namespace ddprun::trainer {

class Pace {
 public:
  /// `held_out`: samples of an evaluation.
  explicit Pace(std::int64_t held_out) : held_out_(held_out) {}

  /// The newest measurement replaces the ones before it; one of no time is ignored.
  void trained(std::int64_t samples, double seconds) {
    if (samples > 0 && seconds > 0) sample_seconds_ = seconds / static_cast<double>(samples);
  }
  /// One evaluation, or this `share` of it, took so long.
  void evaluated(double seconds, double share = 1) {
    if (seconds > 0 && share > 0) evaluation_seconds_ = seconds / share;
  }

  /// The time for the training of so many samples and for so many evaluations, of which one may
  /// have begun. An evaluation that was never measured counts as the forward passes of training: a
  /// third of it.
  [[nodiscard]] double seconds_for(std::int64_t samples, double evaluations) const {
    const double one = evaluation_seconds_ > 0
                           ? evaluation_seconds_
                           : static_cast<double>(held_out_) * sample_seconds_ / 3;
    return static_cast<double>(samples) * sample_seconds_ + evaluations * one;
  }

 private:
  std::int64_t held_out_;
  double sample_seconds_ = 0;
  double evaluation_seconds_ = 0;  ///< 0: not measured yet
};

/// Evaluations of a run that has evaluated `epochs_done`: one after each epoch, also after one that
/// is cut off by the last step.
constexpr std::int64_t evaluations_left(std::int64_t last_step, std::int64_t steps_per_epoch,
                                        std::int64_t epochs_done) {
  const std::int64_t all = (last_step + steps_per_epoch - 1) / steps_per_epoch;
  return all > epochs_done ? all - epochs_done : 0;
}

}  // namespace ddprun::trainer
