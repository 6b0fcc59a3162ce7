// A worker's log file that we write: it may have a size cap, and then older parts stay as FILE.1,
// FILE.2 and so on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/streams/log_settings.hpp"
#include "base/byte_output.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

/// Without a newline in sight a file may grow so far beyond its cap.
inline constexpr std::size_t kRotationOverrunMax = std::size_t{1} << 20;

class LogFile final : public ByteOutput {
 public:
  /// Opens for appending. Errors: the system's.
  static Result<std::shared_ptr<LogFile>> open(const std::string& path, RotationSettings rotation);

  /// Blocks as long as the disk does. A new part begins where the next line would exceed the cap;
  /// lines are never cut, unless one is longer than the cap by kRotationOverrunMax. What the disk
  /// refuses is lost, and the first loss is reported.
  Taken take(std::string_view bytes) override;
  void wait() override {}

 private:
  LogFile(std::string path, RotationSettings rotation, UniqueFd fd, std::uint64_t size)
      : path_(std::move(path)), rotation_(rotation), fd_(std::move(fd)), size_(size) {}
  /// How many of these bytes go to the present part; 0: a new part comes first.
  [[nodiscard]] std::size_t fitting(std::string_view bytes) const;
  void rotate();
  std::size_t write(std::string_view bytes);

  std::string path_;
  RotationSettings rotation_;
  UniqueFd fd_;
  std::uint64_t size_;       // of the present part
  std::uint64_t grace_ = 0;  // added to the cap while no new part can be made
  bool line_start_ = true;   // the last byte was a newline
  bool said_ = false;
};

}  // namespace ddprun::agent
