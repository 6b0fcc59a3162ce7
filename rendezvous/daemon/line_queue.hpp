// Log lines of all threads on their way to stderr. A reader that has stopped must not stop the
// store, so lines wait here, and what is too much is dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

class LineQueue {
 public:
  static constexpr std::size_t kLinesMax = 1000;
  /// Longer lines are cut: so much goes into a pipe whole wherever it takes anything at all.
  static constexpr std::size_t kLineBytesMax = 4000;

  /// Errors: the system's, where there is no descriptor left.
  static Result<std::unique_ptr<LineQueue>> make();

  /// From any thread; never waits for the reader. Adds the line's end.
  void push(std::string line);
  /// Becomes readable when a line is there. For poll.
  [[nodiscard]] int descriptor() const { return wakeup_.get(); }
  /// By one thread: writes lines for as long as `fd` takes them at once. Lines for a descriptor
  /// that can never be read are gone. False: some are left.
  bool flush(int fd);

 private:
  explicit LineQueue(UniqueFd wakeup) : wakeup_(std::move(wakeup)) {}
  bool next(std::string& line);

  UniqueFd wakeup_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  std::uint64_t dropped_ = 0;
  std::string current_;  ///< being written
};

}  // namespace ddprun::rdzv
