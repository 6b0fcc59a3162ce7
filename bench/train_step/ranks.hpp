// Ranks of `train` on this machine: their steps are timed from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/train_step/process.hpp"

namespace ddprun::bench {

class ProgressPage;

/// What one step takes: means over the measured ones.
struct StepFigures {
  double cpu_ms = 0;             ///< of one rank: the mean of all
  double wall_ms = 0;            ///< of rank 0
  std::uint64_t peak_bytes = 0;  ///< of rank 0, until the end of the measurement
};

/// Stopped at the end.
class Ranks {
 public:
  struct Settings {
    std::vector<std::string> command;  ///< of each of them, without --out
    int count = 1;
    std::string folder;  ///< for what they write
    Process::Environment environment = {};
  };
  explicit Ranks(const Settings& settings);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Until so many steps are done. Throws std::runtime_error where a rank ends before.
  void wait_for(int step);
  /// Figures of the steps between these two.
  StepFigures measure(int first, int last);
  [[nodiscard]] const Process& first() const { return *processes_.front(); }

 private:
  [[nodiscard]] double cpu_seconds() const;

  std::unique_ptr<ProgressPage> page_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace ddprun::bench
