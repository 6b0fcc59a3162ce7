// Cuts a worker's byte stream into lines. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "agent/streams/log_limits.hpp"

namespace ddprun::agent {

enum class LineEnding {
  newline,          ///< "\n" or "\r\n"
  carriage_return,  ///< "\r" alone: a progress bar goes back to the start of its line
  none,             ///< cut at the limit, shown early, or the stream ended without a newline
};

/// A Sink has two members, whose views are valid during the call:
///   void lines(std::string_view block)                      one or more whole lines, each with its
///                                                           newline and without carriage returns
///   void line(std::string_view text, LineEnding ending)     any other line, or a piece of one
/// Most output is blocks, and those are not looked at byte by byte.
class LineAssembler {
 public:
  /// Gives every line that these bytes complete; the rest waits for more.
  template <class Sink>
  void feed(std::string_view bytes, Sink&& sink) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kLineBytesMax);
      bytes.remove_prefix(piece.size());
      feed_piece(piece, sink);
    }
  }

  /// Gives what waits as an unfinished line: at the end of the stream, or when nothing has come for
  /// a while.
  template <class Sink>
  void flush(Sink&& sink) {
    if (after_carriage_return_) {
      after_carriage_return_ = false;
      sink.line(partial_, LineEnding::carriage_return);
    } else if (!partial_.empty()) {
      sink.line(partial_, LineEnding::none);
    }
    partial_.clear();
  }

  [[nodiscard]] bool has_partial() const { return !partial_.empty(); }

 private:
  template <class Sink>
  void feed_piece(std::string_view bytes, Sink&& sink) {
    const bool bars = bytes.find('\r') != std::string_view::npos;
    while (!bytes.empty()) {
      if (!bars && partial_.empty() && !after_carriage_return_) {
        const std::size_t last = bytes.rfind('\n');
        if (last != std::string_view::npos) {
          sink.lines(bytes.substr(0, last + 1));
          bytes.remove_prefix(last + 1);
        }
        if (bytes.size() < kLineBytesMax) {
          partial_.append(bytes);
          return;
        }
      }
      feed_line(bytes, bars, sink);
    }
  }

  /// Takes at most one line from the front of `bytes`.
  template <class Sink>
  void feed_line(std::string_view& bytes, bool bars, Sink&& sink) {
    const auto give = [&](std::string_view text, LineEnding ending) {
      if (partial_.empty()) {
        sink.line(text, ending);
      } else {
        partial_.append(text);
        sink.line(partial_, ending);
        partial_.clear();
      }
    };
    if (after_carriage_return_) {
      // Whether "\r" ended a line or went back to its start shows only now.
      after_carriage_return_ = false;
      const bool newline = bytes.front() == '\n';
      if (newline) bytes.remove_prefix(1);
      give({}, newline ? LineEnding::newline : LineEnding::carriage_return);
      return;
    }
    const std::size_t end = bars ? end_of_state(bytes) : bytes.find('\n');
    const std::size_t room = kLineBytesMax - partial_.size();
    if (end == std::string_view::npos && bytes.size() < room) {
      partial_.append(bytes);
      bytes = {};
    } else if (end == std::string_view::npos || end > room) {
      give(bytes.substr(0, room), LineEnding::none);
      bytes.remove_prefix(room);
    } else if (bytes[end] == '\n') {
      give(bytes.substr(0, end), LineEnding::newline);
      bytes.remove_prefix(end + 1);
    } else {
      partial_.append(bytes.substr(0, end));
      after_carriage_return_ = true;
      bytes.remove_prefix(end + 1);
    }
  }

  static std::size_t end_of_state(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '\n' || bytes[i] == '\r') return i;
    }
    return std::string_view::npos;
  }

  std::string partial_;
  bool after_carriage_return_ = false;  // the last byte was "\r": a "\n" now belongs to it
};

}  // namespace ddprun::agent
