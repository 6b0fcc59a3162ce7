// Workers that still run while another has timed out waiting for its peers: one of them may hang.
// Takes their stacks before they are stopped.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/progress/stack_taker.hpp"
#include "agent/workers/worker_group.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

class SuspectWatch {
 public:
  /// Workers that wait for the same one time out one after the other.
  static constexpr std::chrono::seconds kSettle{1};
  /// So many suspects are looked at by a debugger, of the others only /proc is read.
  static constexpr std::size_t kLookedAtMax = 4;

  struct Handlers {
    std::function<void(const std::string&)> notice;  ///< a line for the user
    std::function<void()> ready;                     ///< all stacks have been taken
  };

  SuspectWatch(boost::asio::io_context& context, const AgentConfig& config,
               const machine::UserState& user, Handlers handlers);

  /// A worker failed with the words of a time-out while others run. Round and group are borrowed
  /// until stop().
  void timed_out(const proto::Round& round, const WorkerGroup& group, int local_rank);

  /// Ends everything, helper programs included.
  void stop();

  /// Stacks that were taken in this round, by local rank. Kept until forget().
  [[nodiscard]] const std::map<int, std::vector<std::string>>& stacks() const { return stacks_; }
  void forget() { stacks_.clear(); }

  /// It has been reaped.
  void worker_ended(pid_t pid) { taker_.worker_ended(pid); }

  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return taker_.child_ended(pid); }

 private:
  void look();
  void look_at_next();
  [[nodiscard]] std::vector<int> running() const;
  [[nodiscard]] int pid_of(int local_rank) const {
    return group_->workers()[static_cast<std::size_t>(local_rank)].pid;
  }

  const AgentConfig& config_;
  Handlers handlers_;
  boost::asio::steady_timer timer_;
  StackTaker taker_;
  std::uint64_t number_ = 0;  // of stop(); handlers of an older one do nothing

  const proto::Round* round_ = nullptr;
  const WorkerGroup* group_ = nullptr;
  int timed_out_ = 0;          // local rank
  std::vector<int> suspects_;  // local ranks, still to be looked at
  Clock::time_point deadline_;
  std::map<int, std::vector<std::string>> stacks_;
};

}  // namespace ddprun::agent
