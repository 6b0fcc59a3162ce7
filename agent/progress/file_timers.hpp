// torch's file timers: what workers write into the timer file (torch.distributed.elastic.timer) ->
// which timer expires when. Pure: no clock, no file.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent {

/// A line of the file, which a worker writes in one piece: no longer than a pipe takes at once.
inline constexpr std::size_t kTimerLineBytesMax = 4096;
/// Further ones are not taken.
inline constexpr std::size_t kTimersMax = 10'000;

/// A worker enters a scope that must end in time, or leaves it.
struct TimerRequest {
  int pid = 0;
  std::string scope;
  std::optional<std::chrono::system_clock::time_point> expires;  ///< none: the scope has ended
  int signal = 0;  ///< for the worker at the end of the time; 0 or less: none

  friend bool operator==(const TimerRequest&, const TimerRequest&) = default;
};

/// None: it is no request. Takes any bytes.
std::optional<TimerRequest> parse_timer_request(std::string_view line);

struct ExpiredTimer {
  int pid = 0;
  std::string scope;  ///< printable ASCII; other bytes have become '?'
  int signal = 0;
  std::chrono::nanoseconds ran_for{0};  ///< since it was read

  friend bool operator==(const ExpiredTimer&, const ExpiredTimer&) = default;
};

class FileTimers {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// What was read from the file, cut anywhere. False: some of it was no request, and was skipped.
  bool feed(std::string_view bytes, Time now);

  /// When the next one expires; none: nothing runs.
  [[nodiscard]] std::optional<Time> next() const;

  /// Takes all timers of the processes that have an expired one. Gives for each process the first
  /// of its expired ones that has a signal; those of processes without one end silently, as in
  /// torch.
  std::vector<ExpiredTimer> expired(Time now);

  /// The process has ended.
  void forget(int pid);
  /// All later by this much: the job was paused.
  void postpone(std::chrono::nanoseconds pause);
  void clear() { timers_.clear(); }

 private:
  struct Timer {
    Time expires;
    Time since;
    int signal = 0;
  };

  bool take(std::string_view line, Time now);

  std::string line_;       // not yet ended
  bool too_long_ = false;  // that line: the rest of it is skipped
  std::map<std::pair<int, std::string>, Timer> timers_;
};

}  // namespace ddprun::agent
