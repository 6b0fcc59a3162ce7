// Cuts a worker's byte stream into lines that are final, and keeps what the worker may still
// change. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/streams/log_buffer.hpp"
#include "agent/terminal/live_rows.hpp"
#include "agent/terminal/terminal_text.hpp"

namespace ddprun::agent {

enum class LineEnding {
  newline,  ///< "\n" or "\r\n", or the stream ended there
  none,     ///< a piece of a line: cut at the limit, or given early
};

/// Following what a program draws costs far more than passing its text on. A stream that draws more
/// than this in a second is taken for text for the rest of it: no one could see what it draws.
inline constexpr std::size_t kDrawnBytesMax = 256 * 1024;
inline constexpr std::chrono::seconds kDrawingTime{1};

/// A Sink has three members; their views are valid during the call:
///   void lines(std::string_view block)                   one or more whole lines, each with its
///                                                        newline and without carriage returns
///   void line(std::string_view text, LineEnding ending)  any other line, or a piece of one
///   void redrawn()                                       a row was drawn again: a progress bar
/// Most output is blocks, and those are not looked at byte by byte.
class StreamText {
 public:
  using Clock = std::chrono::steady_clock;

  /// The bytes are those of a worker's pseudo-terminal. Its width may change.
  void set_terminal(int columns) {
    terminal_ = true;
    rows_.set_columns(columns);
    rows_.hold_empty_lines(true);
  }

  /// Gives every line that these bytes make final.
  template <class Sink>
  void feed(std::string_view bytes, Clock::time_point now, Sink&& sink) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kLineBytesMax);
      bytes.remove_prefix(piece.size());
      feed_piece(piece, now, sink);
    }
  }

  /// Gives the lines that time alone makes final.
  template <class Sink>
  void settle(Clock::time_point now, Sink&& sink) {
    std::string finished;
    rows_.settle(now, finished);
    if (!finished.empty()) sink.lines(finished);
  }
  [[nodiscard]] std::optional<Clock::time_point> settles_at() const { return rows_.settles_at(); }

  /// Gives an unfinished line now, as a piece. The rest of the line goes behind it: all of it at
  /// once for a prompt, else when a piece is asked for again.
  template <class Sink>
  void give_piece(Sink&& sink, bool prompt = false) {
    if (partial_.empty()) return;
    sink.line(partial_, LineEnding::none);
    partial_.clear();
    within_ = prompt ? Within::prompt : Within::line;
  }

  /// What was given as a prompt is none: ends it, and looks at what comes.
  template <class Sink>
  void end_prompt(Sink&& sink) {
    if (within_ != Within::prompt) return;
    sink.line({}, LineEnding::newline);
    within_ = Within::nothing;
  }
  [[nodiscard]] bool in_prompt() const { return within_ == Within::prompt; }

  /// The stream has ended: gives the rest, as whole lines.
  template <class Sink>
  void finish(Sink&& sink) {
    if (within_ != Within::nothing || !partial_.empty()) sink.line(partial_, LineEnding::newline);
    within_ = Within::nothing;
    partial_.clear();
    finish_rows(sink);
  }

  /// An unfinished line that nothing was drawn over.
  [[nodiscard]] const std::string& partial() const { return partial_; }
  /// How many there were so far, this one included.
  [[nodiscard]] std::uint64_t partials() const { return partials_; }
  /// Whether the worker has rows that it may still change.
  [[nodiscard]] bool draws() const { return !rows_.idle(); }
  /// What the worker may still change, as it looks now, each row cut to so many columns.
  [[nodiscard]] std::vector<std::string> live(int columns_max) const {
    if (!partial_.empty()) return {cut_to_columns(partial_, columns_max)};
    return rows_.idle() ? std::vector<std::string>() : rows_.shown(columns_max);
  }

 private:
  template <class Sink>
  void feed_piece(std::string_view bytes, Clock::time_point now, Sink& sink) {
    bool plain = bytes.find(kEscape) == std::string_view::npos &&
                 bytes.find('\r') == std::string_view::npos &&
                 bytes.find('\b') == std::string_view::npos;
    std::string text;
    if ((!plain || !rows_.idle()) && draws_too_much(now) && within_ != Within::prompt) {
      finish_rows(sink);
      text = without_drawing(bytes);
      bytes = text;
      plain = true;
    }
    while (!bytes.empty()) {
      if (within_ == Within::prompt) {
        feed_prompt(bytes, sink);
      } else if (within_ == Within::line) {
        feed_within_line(bytes, now, sink);
      } else if (!rows_.idle()) {
        feed_rows(take_line(bytes), now, sink);
      } else if (plain && partial_.empty()) {
        feed_block(bytes, now, sink);
      } else {
        feed_line(bytes, now, sink);
      }
    }
  }

  /// Takes a line from the front, with its newline, or what there is of it.
  static std::string_view take_line(std::string_view& bytes) {
    const auto end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(line.size());
    return line;
  }

  /// Whole lines without anything to look at.
  template <class Sink>
  void feed_block(std::string_view& bytes, Clock::time_point now, Sink& sink) {
    const auto last = bytes.rfind('\n');
    std::string_view block = bytes.substr(0, last == std::string_view::npos ? 0 : last + 1);
    bytes.remove_prefix(block.size());
    const std::string_view rest = bytes;
    bytes = {};
    std::string_view empty_lines;
    if (terminal_ && rest.empty()) {
      const auto text = block.find_last_not_of('\n');
      const std::size_t kept = text == std::string_view::npos ? 0 : text + 2;
      empty_lines = block.substr(std::min(kept, block.size()));
      block.remove_suffix(empty_lines.size());
    }
    if (!block.empty()) sink.lines(block);
    if (!empty_lines.empty()) feed_rows(empty_lines, now, sink);
    add_partial(rest, sink);
  }

  /// One line, or the beginning of one.
  template <class Sink>
  void feed_line(std::string_view& bytes, Clock::time_point now, Sink& sink) {
    std::string_view line = take_line(bytes);
    const bool whole = line.ends_with('\n');
    if (!whole && stays_in_line(line)) return add_partial(line, sink);
    std::string joined;
    if (!partial_.empty()) {
      joined = std::move(partial_);
      joined += line;
      partial_.clear();
      line = joined;
    }
    const std::string_view text = without_ending(line);
    const bool may_pass = whole && !(terminal_ && text.empty()) && stays_in_line(text);
    if (may_pass) return sink.line(text, LineEnding::newline);
    feed_rows(line, now, sink);
  }

  template <class Sink>
  void feed_rows(std::string_view bytes, Clock::time_point now, Sink& sink) {
    std::string finished;
    std::string kept;
    bytes = without_hidden_states(bytes, kept);
    drawn_bytes_ += bytes.size();
    if (rows_.write(bytes, now, finished)) sink.redrawn();
    if (!finished.empty()) sink.lines(finished);
  }

  /// What is there is final.
  template <class Sink>
  void finish_rows(Sink& sink) {
    std::string finished;
    rows_.finish(finished);
    if (!finished.empty()) sink.lines(finished);
  }

  bool draws_too_much(Clock::time_point now) {
    if (now - drawing_since_ >= kDrawingTime) {
      drawing_since_ = now;
      drawn_bytes_ = 0;
    }
    return drawn_bytes_ > kDrawnBytesMax;
  }

  static std::string_view without_ending(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  /// As it comes: the line editors of prompts move the cursor.
  template <class Sink>
  void feed_prompt(std::string_view& bytes, Sink& sink) {
    const std::string_view line = take_line(bytes);
    if (!line.ends_with('\n')) return sink.line(line, LineEnding::none);
    within_ = Within::nothing;
    sink.line(without_ending(line), LineEnding::newline);
  }

  template <class Sink>
  void feed_within_line(std::string_view& bytes, Clock::time_point now, Sink& sink) {
    const std::string_view line = take_line(bytes);
    const bool whole = line.ends_with('\n');
    const std::string_view text = whole ? without_ending(line) : line;
    const bool redrawn = !stays_in_line(text);
    if (!redrawn && !whole) return add_partial(text, sink);
    if (!redrawn) partial_ += text;
    within_ = Within::nothing;
    sink.line(partial_, LineEnding::newline);
    partial_.clear();
    if (redrawn) feed_rows(line, now, sink);
  }

  template <class Sink>
  void add_partial(std::string_view bytes, Sink& sink) {
    if (partial_.empty() && !bytes.empty()) ++partials_;
    partial_ += bytes;
    if (partial_.size() >= kLineBytesMax) give_piece(sink);
  }

  LiveRows rows_;
  bool terminal_ = false;
  Clock::time_point drawing_since_{};
  std::size_t drawn_bytes_ = 0;  // since then
  std::string partial_;
  std::uint64_t partials_ = 0;
  /// Pieces of the present line were given.
  enum class Within { nothing, line, prompt };
  Within within_ = Within::nothing;
};

}  // namespace ddprun::agent
