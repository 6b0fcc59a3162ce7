// Looks from time to time which worker of a round is slow, once workers have made progress pages.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/progress/slow_ranks.hpp"
#include "agent/workers/worker_group.hpp"
#include "base/result.hpp"

namespace ddprun::agent {

class SlowRankWatch {
 public:
  struct Events {
    std::function<const WorkerGroup*()> group;   ///< that of now; null: there is none
    std::function<void(const SlowRank&)> found;  ///< once for each slow worker of a round
  };
  /// The configuration is borrowed.
  SlowRankWatch(boost::asio::io_context& context, const AgentConfig& config, Events events);

  /// The workers of a round have been started. As long as none makes a page nothing wakes up.
  void begin();
  void stop();
  /// The workers are stopped by Ctrl-Z, or go on: what they did before does not count.
  void pause();
  void resume();

  /// By local rank: those that are slow by the newest look, and by how much.
  [[nodiscard]] const std::map<int, double>& slow() const { return slow_; }

 private:
  [[nodiscard]] std::optional<WorkDone> work_of(const WorkerRecord& worker, int local_rank) const;
  [[nodiscard]] std::vector<std::optional<WorkDone>> work_of_all() const;
  [[nodiscard]] bool any_has_page() const;
  void await_page();
  void wait_for_page();
  void look_after(std::chrono::seconds time);
  void look();

  const AgentConfig& config_;
  const Events events_;
  bool is_on_ = false;
  boost::asio::posix::stream_descriptor pages_;  // inotify's, until there is one
  boost::asio::steady_timer timer_;
  SlowRanks ranks_;
  std::map<int, double> slow_;
  std::vector<bool> told_;  // by local rank
};

}  // namespace ddprun::agent
