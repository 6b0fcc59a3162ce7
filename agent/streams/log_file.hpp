// A worker's log file that we write: it may have a size cap, and then older parts stay as FILE.1,
// FILE.2 and so on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

// The files of a run's log folder: FOLDER/attempt_RESTARTS/LOCALRANK/stdout.log and so on,
// torchrun's layout.

/// FOLDER/attempt_RESTARTS
std::string attempt_folder(const std::string& folder, int restart_count);
/// FOLDER/attempt_RESTARTS/LOCALRANK
std::string worker_folder(const std::string& folder, int restart_count, int local_rank);
/// FOLDER/attempt_RESTARTS/LOCALRANK/stdout.log, or stderr.log
std::string stream_file(const std::string& folder, int restart_count, int local_rank,
                        bool standard_error);

/// Makes worker_folder with its parent. Errors: the system's.
Result<void> make_worker_folder(const std::string& folder, int restart_count, int local_rank);

/// Opens a file for appending, empty if it is new. Errors: the system's.
Result<UniqueFd> open_log_file(const std::string& path);

/// The last lines of a file, at most so many, each cut to so many bytes; none when it can't be
/// read. Looks at the last 64 KiB only.
std::vector<std::string> last_lines_of(const std::string& path, std::size_t lines_max,
                                       std::size_t line_bytes_max);

/// Log files to which several workers of a round write: each is opened once, because with a size
/// cap one owner must know the size.
class SharedLogFiles {
 public:
  /// The file of that path: the one that is still in use, else what `open` makes of the path,
  /// which may be null. Files that are in use no more are forgotten: a job may have many rounds.
  template <class Open>
  std::shared_ptr<LogFile> get(const std::string& path, const Open& open) {
    if (const auto found = files_.find(path); found != files_.end()) {
      if (auto file = found->second.lock()) return file;
    }
    std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
    std::shared_ptr<LogFile> file = open(path);
    files_[path] = file;
    return file;
  }

  /// How many are remembered.
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  std::map<std::string, std::weak_ptr<LogFile>> files_;
};

}  // namespace ddprun::agent
