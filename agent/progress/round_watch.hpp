// Watches the workers of a round for --progress-timeout, --log-timeout and
// --uninterruptible-timeout: the timer, the reading and the stacks around ProgressWatch,
// OutputWatch and KernelWatch. Without these options it does nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/progress/found_hang.hpp"
#include "agent/progress/progress_watch.hpp"
#include "agent/progress/stack_taker.hpp"
#include "agent/streams/worker_output.hpp"
#include "agent/workers/worker_group.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

class RoundWatch {
 public:
  struct Handlers {
    std::function<void(const std::string&)> notice;  ///< a line for the user
    std::function<void(FoundHang)> hung;             ///< may be followed by stop(), not by begin()
  };

  RoundWatch(boost::asio::io_context& context, const AgentConfig& config,
             const machine::UserState& user, Handlers handlers);

  /// The workers of a round have been started. Round and group are borrowed until stop(); the
  /// sources, which are about to be read, are made to count what comes from them.
  void begin(const proto::Round& round, const WorkerGroup& group,
             std::vector<OutputSource>& sources);

  /// Nothing is watched any more, and no helper program is left.
  void stop();

  /// The worker that is furthest behind, of those with progress pages; none: none is watched.
  [[nodiscard]] std::optional<proto::SlowestWorker> slowest(Clock::time_point round_began) const;

  /// The workers are stopped by Ctrl-Z, or go on.
  void pause();
  void resume();

  /// It has been reaped.
  void worker_ended(pid_t pid) { stacks_.worker_ended(pid); }

  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return stacks_.child_ended(pid); }

 private:
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;

  [[nodiscard]] std::string hang_words(const SilentWorker& worker) const;
  void count_output(std::vector<OutputSource>& sources);
  void watch_unread(std::vector<OutputSource>& sources);
  [[nodiscard]] std::vector<bool> held_workers();
  void wait();
  void look();
  void look_at_pages(std::chrono::nanoseconds elapsed);
  void look_at_output(std::chrono::nanoseconds elapsed, const std::vector<bool>& held);
  void look_at_waits(std::chrono::nanoseconds elapsed);
  std::optional<ProgressPage> read_page(int local_rank);
  void report(FoundHang found);
  void judge(Hang hang);
  void judge_silence();
  bool blame_suspended(std::chrono::nanoseconds silent_for);
  void stacks_taken(const Hang& hang, FoundHang found);
  [[nodiscard]] bool running(int local_rank) const;
  [[nodiscard]] int rank(int local_rank) const { return round_->first_rank + local_rank; }

  const AgentConfig& config_;
  Handlers handlers_;
  boost::asio::steady_timer timer_;
  StackTaker stacks_;
  std::uint64_t number_ = 0;  // of begin and stop; handlers of an older one do nothing
  std::chrono::nanoseconds period_{0};

  // Members for the round that is watched.
  const proto::Round* round_ = nullptr;
  const WorkerGroup* group_ = nullptr;
  std::optional<LookClock> clock_;
  std::optional<ProgressWatch> progress_;
  std::optional<OutputWatch> output_;
  std::optional<KernelWatch> waits_;
  std::vector<Count> printed_;  // by local rank; null: what it prints is not seen
  struct Held {
    std::shared_ptr<UnreadStreams> streams;
    std::uint64_t pauses_seen = 0;
  };
  std::vector<Held> held_;  // by local rank
  bool taking_stacks_ = false;
  bool reported_ = false;  // a hang; the round is about to be stopped for it

  // Members for the whole job.
  bool paused_ = false;
  std::chrono::nanoseconds without_pages_{0};  // all workers
  // What the user was told, once.
  struct Told {
    bool page_problem = false;
    bool without_pages = false;
    bool unseen = false;
    bool no_folder = false;
  };
  Told told_;
};

}  // namespace ddprun::agent
