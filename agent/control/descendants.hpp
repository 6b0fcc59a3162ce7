// The processes below the agent: found, named, terminated and killed. A look at /proc and the end
// of many processes take seconds, so both are done in turns of the event loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "agent/workers/worker_group.hpp"
#include "machine/cgroups/job_cgroup.hpp"
#include "machine/processes/kill_children.hpp"
#include "machine/processes/shared_memory.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// Calls `turn` again and again, until it returns true. What else the context has to do comes
/// between the turns.
void in_turns(boost::asio::io_context& context, std::function<bool()> turn);

class Descendants {
 public:
  using Clock = std::chrono::steady_clock;
  using Processes = std::vector<machine::ProcessEntry>;
  struct Events {
    std::function<void(const std::string& line)> notice;  ///< a line for the user
    std::function<void(pid_t)> reaped;                    ///< one has ended
    std::function<machine::KeptProcesses()> kept;
  };

  /// `cgroup`: the workers', borrowed; null: they have none.
  Descendants(boost::asio::io_context& context, const machine::JobCgroup* cgroup, Events events)
      : context_(context), cgroup_(cgroup), events_(std::move(events)) {}

  /// Whether there is any.
  [[nodiscard]] bool any() const { return machine::has_children(events_.kept()); }

  /// Without a turn between, where they are found at once.
  void find(std::function<void(Processes)> found);

  /// Names what the workers have left and sends it SIGTERM, as long as `is_wanted`. `patience`:
  /// until SIGKILL.
  void terminate(Clock::duration patience, std::function<bool()> is_wanted);

  /// Sends SIGKILL and waits for the ends, until the limit. Then `ended`, unless end_turns() or
  /// another kill came before.
  void kill(proto::RoundNumber round, Clock::duration limit, std::function<void()> ended);
  void end_turns() { ++kill_number_; }
  /// In one call, in place of a kill that goes on.
  void kill_now(proto::RoundNumber round, Clock::duration limit);
  /// In one call, and without a word. Returns those that are left.
  Processes kill_silently(Clock::duration limit);
  /// Sends SIGKILL and waits for nothing.
  void send_kill();

  /// Says of each of our children that SIGKILL has not ended it; `left`: until it is given up.
  void name_stuck(std::chrono::seconds left);

  /// Those that could not be killed, and why.
  [[nodiscard]] const std::vector<std::string>& unkillable() const { return unkillable_; }

 private:
  struct Kill {
    machine::ChildrenKiller killer;
    Clock::time_point ends_at;
    std::optional<Clock::time_point> say_stuck_at;
  };

  void name_leftovers(const Processes& left, Clock::duration patience);
  void begin_kill(proto::RoundNumber round, Clock::duration limit);
  bool go_on(Clock::duration limit);
  void note_reaped(const std::set<pid_t>& pids) const;

  boost::asio::io_context& context_;
  const machine::JobCgroup* const cgroup_;
  const Events events_;
  std::optional<Kill> kill_;
  std::uint64_t kill_number_ = 0;  // turns of an older one end
  std::vector<std::string> unkillable_;
};

/// Removes the shared memory that killed processes of a round have left, after the round: it takes
/// seconds where there is much, so one call removes one file.
class SharedMemoryCleanup {
 public:
  explicit SharedMemoryCleanup(std::string folder = machine::kSharedMemoryFolder)
      : folder_(std::move(folder)) {}

  /// `any_goes_on`: a worker from the round before.
  void begin_round(std::chrono::system_clock::time_point now, bool any_goes_on);
  /// A process of the round, or of what is left of it, has ended.
  void note_end(pid_t pid);
  /// No process of the round is left. Where all have ended by themselves in order, nothing is to be
  /// removed.
  void end_round(const std::vector<WorkerRecord>& workers);
  /// True: that was all.
  bool remove_next();

 private:
  const std::string folder_;
  std::optional<machine::EndedProcesses> round_;  // none before the first one
  std::deque<machine::SharedMemoryRemoval> removals_;
};

}  // namespace ddprun::agent
