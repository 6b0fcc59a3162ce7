// A file that exists while workers of a service without a journal may run. If that service is
// killed, the next one at its port finds the file and waits until these workers are gone. It lies
// in memory, in /dev/shm: a reboot removes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/service/journal.hpp"

namespace ddprun::rdzv {

class RunningFile {
 public:
  /// Where services of programs have it.
  static constexpr const char* kFolder = "/dev/shm";
  /// After that nothing of a killed service can be left: agents give up long before.
  static constexpr std::chrono::hours kKept{1};

  /// For a service that listens there. `run_id`: of the one job that it has; empty: it has many.
  RunningFile(const std::string& addr, std::uint16_t port, const std::string& run_id,
              const std::string& folder);

  /// The longest lease of the agents that a killed service had. None: there was none, it was killed
  /// long ago, or the file cannot be read or is another user's.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> past_lease(Clock::time_point now) const;
  /// Removes all files of our user there that count no more, of whatever service: the next one at
  /// its port may never come. What cannot be read is left alone.
  static void remove_old(const std::string& folder, Clock::time_point now);
  /// Writes the file (now and then again, because its age counts), or removes it. Where it can't be
  /// written, the next service knows nothing: that is no reason to end this one.
  void follow(std::optional<std::chrono::nanoseconds> lease, Clock::time_point now);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write(std::chrono::nanoseconds lease, Clock::time_point now);

  std::string path_;
  std::optional<std::chrono::nanoseconds> lease_;  // as it stands in the file; none: there is none
  Clock::time_point written_at_{};
};

}  // namespace ddprun::rdzv
