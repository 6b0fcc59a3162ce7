// One of our outputs, written by a thread of its own: a reader that has stopped keeps no signal
// waiting.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/byte_output.hpp"
#include "base/result.hpp"

namespace ddprun::launcher {

class OutputThread {
 public:
  /// Above it nothing more should be added: the hosts then wait, or drop as --log-policy says.
  static constexpr std::size_t kFullBytes = 4 * 1024 * 1024;

  /// `fd` is borrowed. `has_room` is called on the thread when it was full and is no more.
  OutputThread(int fd, std::function<void()> has_room);
  /// What was not written is lost.
  ~OutputThread();
  OutputThread(const OutputThread&) = delete;
  OutputThread& operator=(const OutputThread&) = delete;

  /// Errors: the system's, where there is no thread left.
  [[nodiscard]] ErrorCode start();
  /// Whole lines; never torn by others.
  void add(std::string_view lines);
  [[nodiscard]] bool is_full() const;
  /// Waits until all is written, the reader has taken nothing for `patience`, or `interrupted`,
  /// which is asked now and then.
  void drain(std::chrono::milliseconds patience, const std::function<bool()>& interrupted);

 private:
  void run();

  ConsoleOutput output_;
  const std::function<void()> has_room_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  std::size_t writing_bytes_ = 0;
  bool was_full_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddprun::launcher
