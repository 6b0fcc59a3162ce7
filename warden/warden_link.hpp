// What the warden (the first process) and the agent (its child) say to each other, on one socket
// of whole messages. Its end tells each that the other is gone.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>

#include "base/unique_handle.hpp"
#include "machine/cgroups/job_cgroup.hpp"
#include "warden/job_lease.hpp"

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
    reads_terminal,  ///< they stay so, because one reads the terminal: it stops until `fg`
    ends_within,     ///< the job will be over within so many milliseconds, else the warden ends it
    lease_began,     ///< LeasePage holds one now; later ones end later
    connection,      ///< to the rendezvous, with the note; without one: there is none
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
  /// `cgroup` is the warden's; null: the workers have none of their own. `lease` is shared with the
  /// warden; none: the job has one node.
  WardenLink(UniqueFd socket, const machine::JobCgroup* cgroup, std::optional<LeasePage> lease)
      : socket_(std::move(socket)), cgroup_(cgroup), lease_(std::move(lease)) {}

  /// SignalRecords arrive here; it stays ours.
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] const machine::JobCgroup* cgroup() const { return cgroup_; }

  void workers_paused() const { tell({WardenNote::Kind::workers_paused, 0}); }
  /// After SIGCONT. If no process could continue the warden, it answers with SIGTTIN.
  void reads_terminal() const { tell({WardenNote::Kind::reads_terminal, 0}); }
  void ends_within(std::chrono::milliseconds limit) const {
    tell({WardenNote::Kind::ends_within, limit.count()});
  }
  /// The warden holds it too from now on, in place of the one before; below 0: it holds none. It
  /// ends the connection when nothing of the job is left.
  void hold_connection(int connection) const;
  /// Until then workers may run; none: there are none. Where the job has several nodes.
  void lease(std::optional<LeasePage::TimePoint> until);

 private:
  void tell(const WardenNote& note) const {
    [[maybe_unused]] const auto sent = send(socket(), &note, sizeof note, MSG_NOSIGNAL);
  }

  UniqueFd socket_;
  const machine::JobCgroup* cgroup_;
  std::optional<LeasePage> lease_;
};

/// The warden's side: a note, and the descriptor that came with it. None: none is there; `ended`:
/// none will come.
struct ReceivedNote {
  WardenNote note;
  UniqueFd descriptor;
};
std::optional<ReceivedNote> receive_note(int socket, bool& ended);

}  // namespace ddprun::warden
