// What the warden (the first process) and the agent (its child) say to each other, on one socket
// of whole messages. Its end tells each that the other is gone.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>

#include "base/unique_handle.hpp"
#include "machine/cgroups/job_cgroup.hpp"

namespace ddprun::warden {

/// Warden -> agent: one signal that reached the job.
struct SignalRecord {
  std::int32_t signal = 0;
  std::int64_t monotonic_ns = 0;
};

/// Agent -> warden.
struct WardenNote {
  enum class Kind : std::int32_t {
    workers_paused,  ///< the workers are stopped (Ctrl-Z): the warden stops itself
    ends_within,     ///< the job will be over within so many milliseconds, else the warden ends it
  };
  Kind kind = Kind::workers_paused;
  std::int64_t milliseconds = 0;  ///< periods may be as long as the user likes
};

/// The agent gets this when the warden dies. Caught, never SIGKILL: the agent has children of its
/// own to kill first.
inline int warden_died_signal() { return SIGRTMIN + 4; }

/// The agent's side.
class WardenLink {
 public:
  /// `cgroup` is the warden's; null: the workers have none of their own.
  WardenLink(UniqueFd socket, const machine::JobCgroup* cgroup)
      : socket_(std::move(socket)), cgroup_(cgroup) {}

  /// SignalRecords arrive here; it stays ours.
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] const machine::JobCgroup* cgroup() const { return cgroup_; }

  void workers_paused() const { tell({WardenNote::Kind::workers_paused, 0}); }
  void ends_within(std::chrono::milliseconds limit) const {
    tell({WardenNote::Kind::ends_within, limit.count()});
  }

 private:
  void tell(const WardenNote& note) const {
    [[maybe_unused]] const auto sent = send(socket(), &note, sizeof note, MSG_NOSIGNAL);
  }

  UniqueFd socket_;
  const machine::JobCgroup* cgroup_;
};

}  // namespace ddprun::warden
