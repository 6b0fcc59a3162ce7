// Processes that a race measures from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::bench {

/// A child process that writes to a file; killed and reaped at the end, if it still runs.
class Process {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  /// `environment` is put on top of this process's own. Throws std::runtime_error.
  Process(const std::vector<std::string>& command, const Environment& environment,
          std::string output);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// False once it has ended.
  [[nodiscard]] bool runs();
  /// Waits until it ends; throws std::runtime_error with its last lines where that is not with 0.
  void finish();
  [[noreturn]] void fail() const;

  /// User and system time of all its threads so far.
  [[nodiscard]] double cpu_seconds() const;
  /// The most memory that was resident so far: VmHWM.
  [[nodiscard]] std::uint64_t peak_bytes() const;
  [[nodiscard]] const std::string& output() const { return output_; }

 private:
  std::string name_;
  std::string output_;
  pid_t pid_ = -1;  // -1: reaped
  int status_ = 0;
};

/// RANK and so on of one rank of a group on this machine, with one thread.
Process::Environment rank_environment(int rank, int ranks, std::uint16_t port);

std::string text_of(const std::string& file);

}  // namespace ddprun::bench
