// When the next checkpoint is due. Pure: the clock is handed in. Only rank 0 asks, because the
// answer changes when something is written, never what is computed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::trainer {

/// --checkpoint-every.
struct CheckpointEvery {
  enum class Kind {
    automatic,  ///< bounds the loss to kLossBound at less than kCostShare of the time
    off,        ///< never, not even at the end
    steps,      ///< after every so many steps: reproducible
    epoch,      ///< after each epoch
    duration,
  };
  Kind kind = Kind::automatic;
  std::int64_t steps = 0;
  std::chrono::nanoseconds duration{0};
};

/// Reads "auto", "off", "epoch", a number of steps ("500"), or a duration with its unit
/// (base/duration.hpp). Throws DataError.
CheckpointEvery parse_checkpoint_every(const std::string& text);

class CheckpointCadence {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A crash costs at most this much work, where that is possible at kCostShare.
  static constexpr std::chrono::nanoseconds kLossBound = std::chrono::seconds(5);
  /// The share of the time that checkpoints may take.
  static constexpr double kCostShare = 0.02;
  /// Cheap checkpoints are not written more often than this.
  static constexpr std::chrono::nanoseconds kIntervalMin = std::chrono::milliseconds(500);

  CheckpointCadence(CheckpointEvery every, Time start) : every_(every), last_(start) {}

  /// Whether one is due after `step` steps in all. Asked after every step at which one may be
  /// taken.
  [[nodiscard]] bool due(std::int64_t step, Time now) const;

  /// One was taken.
  void taken(Time now) { last_ = now; }

  /// What it took: time that training lost to it (copy, processor time of the writer), and until it
  /// was on disk.
  void measured(std::chrono::nanoseconds cost, std::chrono::nanoseconds until_written);

  /// Between two checkpoints, where the cadence is `automatic`.
  [[nodiscard]] std::chrono::nanoseconds interval() const;

 private:
  CheckpointEvery every_;
  Time last_;
  std::chrono::nanoseconds cost_{0};
  std::chrono::nanoseconds until_written_{0};
};

}  // namespace ddprun::trainer
