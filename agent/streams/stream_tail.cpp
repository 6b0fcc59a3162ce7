#include "agent/streams/stream_tail.hpp"

#include "agent/terminal/terminal_text.hpp"

namespace ddprun::agent {

std::uint64_t StreamTail::rows_on(int columns) const {
  std::uint64_t rows = 0;
  for (const std::string& line : lines()) {
    const int needed = prefix_columns + text_columns(line);
    const bool wraps = columns > 0 && needed > columns;
    rows += wraps ? static_cast<std::uint64_t>((needed + columns - 1) / columns) : 1;
  }
  return rows;
}

StreamTails::Locked StreamTails::of(const OutputSource& source) {
  if (!source.standard_error) return {};
  Locked locked{std::unique_lock(mutex_), nullptr};
  locked.tail = &tails_[{source.round, source.local_rank}];
  if (source.both) locked.tail->with_stdout();
  locked.tail->passed_on = source.verbatim && source.to_console;
  return locked;
}

void StreamTails::note_other_output(const OutputSource& source) {
  const std::lock_guard lock(mutex_);
  const auto tail = tails_.find({source.round, source.local_rank});
  if (tail != tails_.end()) tail->second.other_output();
}

void StreamTails::forget_before(proto::RoundNumber round) {
  const std::lock_guard lock(mutex_);
  tails_.erase(tails_.begin(), tails_.lower_bound({round, 0}));
}

std::vector<std::string> StreamTails::last_lines(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  return found == tails_.end() ? std::vector<std::string>() : found->second.lines();
}

LineSigns StreamTails::signs(proto::RoundNumber round, int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  return found == tails_.end() ? LineSigns() : found->second.signs();
}

bool StreamTails::are_in_sight(proto::RoundNumber round, int local_rank, std::uint64_t first_row,
                               int columns) const {
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find({round, local_rank});
  if (found == tails_.end()) return false;
  const StreamTail& tail = found->second;
  if (tail.passed_on) return true;
  return tail.shown_at && first_row + tail.rows_on(columns) <= *tail.shown_at;
}

}  // namespace ddprun::agent
