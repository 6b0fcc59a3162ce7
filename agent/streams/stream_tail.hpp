// The end of a worker's stderr, and what it said of an exception or a crash: for the verdict; and
// those of all workers, which several threads share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/evidence/line_signs.hpp"
#include "agent/streams/log_buffer.hpp"
#include "agent/streams/output_source.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// One of them. Pure.
class StreamTail {
 public:
  /// The lines are those of stdout, too.
  void with_stdout() { signs_.with_stdout(); }

  void add(std::string_view line) {
    line = line.substr(0, kTailLineBytesMax);
    signs_.line(line, LineSigns::Clock::now);
    keep(line);
  }

  /// Whole lines with their newlines. Only the last ones are copied.
  void add_lines(std::string_view block) {
    std::size_t kept_from = block.size();
    for (std::size_t lines = 0; lines < kTailLines && kept_from > 0;) {
      const std::size_t before =
          kept_from < 2 ? std::string_view::npos : block.rfind('\n', kept_from - 2);
      const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
      if (begin + 1 < kept_from) ++lines;
      kept_from = begin;
    }
    for (std::size_t at = 0; at < block.size();) {
      const std::size_t end = block.find('\n', at);
      const std::string_view line = block.substr(at, std::min(end - at, kTailLineBytesMax));
      signs_.line(line, LineSigns::Clock::now);
      if (at >= kept_from && !line.empty()) keep(line);
      at = end + 1;
    }
  }

  /// The worker has written to stdout.
  void other_output() { signs_.other_output(LineSigns::Clock::now); }

  /// How many rows the console had written after the last of them; none: they were not shown.
  std::optional<std::uint64_t> shown_at;
  int prefix_columns = 0;  ///< before each of them there
  bool passed_on = false;  ///< as they came: they are the newest on our output

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    const std::size_t first = count_ > kTailLines ? count_ - kTailLines : 0;
    for (std::size_t i = first; i < count_; ++i) lines.push_back(ring_[i % kTailLines]);
    return lines;
  }
  [[nodiscard]] const LineSigns& signs() const { return signs_; }

  /// How many rows of a terminal of so many columns the lines take; 0 columns: it is none.
  [[nodiscard]] std::uint64_t rows_on(int columns) const;

 private:
  void keep(std::string_view line) { ring_[count_++ % kTailLines].assign(line); }

  std::array<std::string, kTailLines> ring_;
  std::size_t count_ = 0;
  LineSigns signs_;
};

/// The tails of the newest rounds. Each function holds the lock while it lasts.
class StreamTails {
 public:
  /// A tail, and the lock for as long as lines are added to it. Null: the stream has none.
  struct Locked {
    std::unique_lock<std::mutex> lock;
    StreamTail* tail = nullptr;
  };
  /// A stderr has one.
  [[nodiscard]] Locked of(const OutputSource& source);
  /// The worker with this stdout has written to it.
  void note_other_output(const OutputSource& source);
  void forget_before(proto::RoundNumber round);

  [[nodiscard]] std::vector<std::string> last_lines(proto::RoundNumber round, int local_rank) const;
  [[nodiscard]] LineSigns signs(proto::RoundNumber round, int local_rank) const;
  /// Whether all lines stand behind this row of the console, or went out last and as they came.
  [[nodiscard]] bool are_in_sight(proto::RoundNumber round, int local_rank, std::uint64_t first_row,
                                  int columns) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<proto::RoundNumber, int>, StreamTail> tails_;  // by round and local rank
};

}  // namespace ddprun::agent
