// Everything that watches the workers of a round: for hangs, suspects, expired timers of
// torch.distributed.elastic.timer, and kills by the kernel for memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/control/descendants.hpp"
#include "agent/events/event_log.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/progress/round_watch.hpp"
#include "agent/progress/slow_rank_watch.hpp"
#include "agent/progress/suspect_watch.hpp"
#include "agent/progress/timer_file.hpp"

namespace ddprun::agent {

class WorkerWatches {
 public:
  struct Events {
    std::function<void(const std::string& line)> notice;  ///< a line for the user
    std::function<void(FoundHang)> hung;
    std::function<void()> suspects_seen;  ///< once for each look_at_suspects, unless it is stopped
    std::function<void(const WorkerSlow&)> slow;  ///< once for each slow worker of a round
  };

  /// All references are borrowed.
  WorkerWatches(boost::asio::io_context& context, const AgentConfig& config,
                const machine::UserState& user, const NodeMachine& machine,
                Descendants& descendants, Events events);

  /// Once, before the first round: makes the timers' file, or warns why it cannot.
  void start();
  /// The workers of the machine's round have been started. As RoundWatch's.
  void begin_round(std::vector<OutputSource>& sources);
  /// They are about to be stopped.
  void end_round();
  /// No helper program is left.
  void stop();
  /// At the end of the job.
  void remove_timers() {
    if (timers_) timers_->remove();
  }
  /// The workers are stopped by Ctrl-Z, or go on.
  void pause();
  void resume();

  void look_at_suspects(int local_rank);
  /// A worker has been reaped.
  void worker_ended(pid_t pid);
  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return round_.child_ended(pid) || suspects_.child_ended(pid); }

  /// By local rank: stacks of suspects in this round.
  [[nodiscard]] const std::map<int, std::vector<std::string>>& stacks() const {
    return suspects_.stacks();
  }
  /// As SlowRankWatch's.
  [[nodiscard]] const std::map<int, double>& slow() const { return slow_.slow(); }
  /// The worker that was furthest behind when the round was stopped.
  [[nodiscard]] std::optional<proto::SlowestWorker> take_slowest() {
    return std::exchange(slowest_, std::nullopt);
  }
  /// Whether the kernel has killed for memory since the round began, or since the last question.
  [[nodiscard]] bool take_memory_kill();

 private:
  void tell_of(const SlowRank& found);
  void count_memory_kills();
  void stop_for(const ExpiredTimer& timer, const Descendants::Processes& all);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const NodeMachine& machine_;
  Descendants& descendants_;
  const Events events_;
  RoundWatch round_;
  SuspectWatch suspects_;
  SlowRankWatch slow_;
  std::optional<proto::SlowestWorker> slowest_;
  boost::asio::steady_timer memory_timer_;
  std::optional<std::uint64_t> memory_kills_;  // of the kernel, when we last looked
  std::optional<TimerFile> timers_;            // none: they are not watched
};

}  // namespace ddprun::agent
