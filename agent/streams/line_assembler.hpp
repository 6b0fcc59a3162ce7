// Cuts a worker's byte stream into lines. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// A line longer than this is given in pieces.
inline constexpr std::size_t kLineBytesMax = 64 * 1024;

enum class LineEnding {
  newline,          ///< "\n" or "\r\n"
  carriage_return,  ///< "\r" alone: a progress bar goes back to the start of its line
  none,             ///< cut at the limit, shown early, or the stream ended without a newline
};

class LineAssembler {
 public:
  /// The view is valid during the call.
  using Sink = std::function<void(std::string_view text, LineEnding ending)>;

  /// Gives every line that these bytes complete; the rest waits for more.
  void feed(std::string_view bytes, const Sink& sink);
  /// Gives what waits as an unfinished line: at the end of the stream, or when nothing has come for
  /// a while.
  void flush(const Sink& sink);
  [[nodiscard]] bool has_partial() const { return !partial_.empty(); }

 private:
  std::string partial_;
  bool after_carriage_return_ = false;  // the last byte was "\r": a "\n" now belongs to it
};

}  // namespace ddprun::agent
