// Which workers have printed nothing for long. Pure: counts of bytes at each look -> ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent {

struct QuietWorker {
  int local_rank = 0;
  std::chrono::nanoseconds quiet_for{0};

  friend bool operator==(const QuietWorker&, const QuietWorker&) = default;
};

class OutputWatch {
 public:
  OutputWatch(int workers, std::chrono::nanoseconds timeout)
      : timeout_(timeout), workers_(static_cast<std::size_t>(workers)) {}

  /// `printed`, for each local rank: bytes so far, none for one that has ended or has output
  /// that is not seen. `elapsed` is what counts since the look before, but not for those that are
  /// `held`: ddprun has not read them meanwhile. Gives those that have just reached the time-out:
  /// each silence once.
  std::vector<QuietWorker> look(const std::vector<std::optional<std::uint64_t>>& printed,
                                std::chrono::nanoseconds elapsed,
                                const std::vector<bool>& held = {});

  /// Set when all workers that are seen, and of which at least one runs, have reached the time-out:
  /// the one of those that ever printed that has been silent for longest, else the first.
  [[nodiscard]] std::optional<QuietWorker> all_quiet() const;

  /// Whatever was silent does not count.
  void forget();

 private:
  struct Watched {
    std::uint64_t printed = 0;
    std::chrono::nanoseconds quiet_for{0};
    bool reported = false;
    bool seen = false;  // at the last look
  };

  std::chrono::nanoseconds timeout_;
  std::vector<Watched> workers_;
};

}  // namespace ddprun::agent
