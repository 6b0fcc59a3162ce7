// Which worker makes no progress: what is seen of the workers' pages at each look, and how much
// time that counts between looks -> the worker that hangs. Pure: no clock, no file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "agent/progress/progress_page.hpp"

namespace ddprun::agent {

/// Which worker is in one uninterruptible wait for long. Pure: what was seen at each look -> a
/// rank.
struct KernelWait {
  int local_rank = 0;
  std::chrono::nanoseconds lasted{0};

  friend bool operator==(const KernelWait&, const KernelWait&) = default;
};

class KernelWatch {
 public:
  KernelWatch(int workers, std::chrono::nanoseconds timeout)
      : timeout_(timeout), workers_(static_cast<std::size_t>(workers)) {}

  /// `waits`, for each local rank: the number of the wait that it is in, as kernel_wait_of; none:
  /// it is in no such wait, or has ended. `elapsed` is what counts since the look before. Gives the
  /// one that has waited for longest, once that is the time-out.
  std::optional<KernelWait> look(const std::vector<std::optional<std::uint64_t>>& waits,
                                 std::chrono::nanoseconds elapsed);

 private:
  struct Watched {
    std::optional<std::uint64_t> wait;
    std::chrono::nanoseconds lasted{0};
  };

  std::chrono::nanoseconds timeout_;
  std::vector<Watched> workers_;
};

/// Which workers have printed nothing for long. Pure: counts of bytes at each look -> ranks.
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

/// How often to look where something may take `timeout`: often enough to be late by a quarter of
/// it, and never more than that, or once a second.
std::chrono::nanoseconds look_period(std::chrono::nanoseconds timeout);

/// How much of the time between two looks counts as silence: none of it while the job is paused,
/// and never more than two periods. So a stopped machine, or an agent that did not get to run,
/// makes no worker appear as hung.
class LookClock {
 public:
  using Clock = std::chrono::steady_clock;

  LookClock(std::chrono::nanoseconds period, Clock::time_point now) : period_(period), last_(now) {}

  void pause() { paused_ = touched_ = true; }
  void resume() { paused_ = false; }
  /// Since the look before.
  std::chrono::nanoseconds counted(Clock::time_point now);

 private:
  std::chrono::nanoseconds period_;
  Clock::time_point last_;
  bool paused_ = false;
  bool touched_ = false;  // by a pause, since the last look
};

/// One worker at one look.
struct Sighting {
  bool running = false;
  std::optional<ProgressPage> page;  ///< none: not written, or no page
};

struct SilentWorker {
  int local_rank = 0;
  ProgressPage page;
  std::chrono::nanoseconds silent_for{0};
};

struct Hang {
  SilentWorker culprit;
  std::vector<SilentWorker> others;  ///< that are silent too, by rank
};

class ProgressWatch {
 public:
  ProgressWatch(int workers, std::chrono::nanoseconds timeout)
      : timeout_(timeout), workers_(static_cast<std::size_t>(workers)) {}

  /// `sightings` has one entry for each local rank; `elapsed` is what counts since the look before.
  ///
  /// A worker is judged from its first page on, while it runs and wants to be watched. It hangs
  /// when its page has not changed for the time-out. Those that wait for it fall silent a little
  /// later or sooner, so judgement waits until all are silent: at most a quarter of the time-out
  /// longer, or as long again where a worker further behind still moves: the silent ones may wait
  /// for it. The culprit is the worker furthest behind: the lowest step, then the lowest place
  /// within it, then the phase that the fewest of the silent are in, then the longest silence.
  std::optional<Hang> look(const std::vector<Sighting>& sightings,
                           std::chrono::nanoseconds elapsed);

  /// At the last look, of all that are watched: the one furthest behind, silent or not.
  [[nodiscard]] std::optional<SilentWorker> slowest() const;

  /// Nothing that was seen counts: a worker that waits for an excused one is excused too.
  void forget() { workers_.assign(workers_.size(), {}); }

 private:
  struct Watched {
    std::optional<ProgressPage> page;  // none: it is not judged
    std::chrono::nanoseconds silent_for{0};
  };

  std::chrono::nanoseconds timeout_;
  std::vector<Watched> workers_;
};

}  // namespace ddprun::agent
