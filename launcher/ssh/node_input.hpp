// What the launcher sends to a node: our stdin, read in pieces.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace ddprun::launcher {

/// No line from the launcher is longer.
inline constexpr std::size_t kInputLineBytesMax = 256;

class NodeInput {
 public:
  /// Waits until there are bytes, or the input has ended, or the deadline has passed; false: there
  /// will be no more, or none in time.
  bool read_more(std::optional<std::chrono::steady_clock::time_point> deadline);
  /// None: there is no whole one yet.
  std::optional<std::string> take_line();
  std::string take(std::size_t bytes);
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace ddprun::launcher
