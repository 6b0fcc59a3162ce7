// Keeps log lines that repeat from flooding the log. Pure: the caller has the clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::rdzv {

/// Lines are of kinds, numbered from 0. Of each kind the first few of a period are let through; the
/// others are counted and reported in one line at the period's end.
class WarningLimiter {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  static constexpr std::uint64_t kLinesMax = 10;  ///< of one kind in one period
  static constexpr std::chrono::seconds kPeriod{10};

  explicit WarningLimiter(std::size_t kinds) : kinds_(kinds) {}

  /// True: the caller makes the line, and gives it to `remember`. False: it was counted.
  bool admit(std::size_t kind, Instant now);
  void remember(std::size_t kind, const std::string& line) { kinds_[kind].last = line; }

  /// Some lines are held back.
  [[nodiscard]] bool holding() const { return holding_ > 0; }
  /// When `reports` will next have something; none while nothing is held back.
  [[nodiscard]] std::optional<Instant> due() const;
  /// One line for each kind that held lines back, once its period is over by `now`.
  std::vector<std::string> reports(Instant now);

 private:
  struct Kind {
    Instant end{};  ///< of the period
    std::uint64_t lines = 0;
    std::uint64_t held_back = 0;
    std::string last;
  };
  std::vector<Kind> kinds_;
  std::size_t holding_ = 0;  ///< kinds that hold lines back
};

}  // namespace ddprun::rdzv
