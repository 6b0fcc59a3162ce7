// Lines that several workers print word for word within a moment are one line for the reader. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// Holds lines back for a moment, and gives them in the order in which the first of each came. The
/// lines of one rank never change their order.
class LineFold {
 public:
  using Clock = std::chrono::steady_clock;

  /// So long a line waits for the other ranks. The rest of the thread that reads them comes on top.
  static constexpr std::chrono::milliseconds kHold{40};
  /// Where more than this is held, the oldest lines wait no longer.
  static constexpr std::size_t kLinesMax = 4096;
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;

  struct Line {
    std::vector<int> ranks;  ///< that have printed it, in their order
    std::string text;
  };

  /// Those that may print: a line waits for no others.
  void set_ranks(const std::vector<int>& ranks);

  void add(int rank, std::string_view text, Clock::time_point now);

  /// The next line that waits no longer; none: all that are held still do.
  std::optional<Line> next(Clock::time_point now);
  /// When `next` gives a line without anything else; none: nothing is held.
  [[nodiscard]] std::optional<Clock::time_point> due() const;

  /// How many lines are held up to the last one of this rank.
  [[nodiscard]] std::uint64_t held_until(int rank) const;

  /// What this rank has printed so far waits no longer, because something else of it follows.
  void release(int rank);
  void release_all() { released_ = first_ + held_.size(); }

 private:
  struct Held {
    Line line;
    std::size_t hash;
    Clock::time_point since;
  };
  [[nodiscard]] bool is_final(Clock::time_point now) const;

  std::deque<Held> held_;
  std::size_t held_bytes_ = 0;
  std::uint64_t first_ = 1;               // number of the first held line
  std::uint64_t released_ = 1;            // lines below this number are final
  std::map<int, std::uint64_t> printed_;  // by rank: number of its last line; 0: none
};

/// `0-3,6`. The ranks are in their order.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace ddprun::agent
