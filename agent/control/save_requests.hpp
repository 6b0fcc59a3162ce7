// Asks the workers of this node for a checkpoint, after which they go on, and waits until each has
// written it: docs/progress.md, "Save and go on". Nothing is looked at while nobody asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/progress/progress_page.hpp"

namespace ddprun::agent {

/// What came of one request.
struct SaveOutcome {
  std::string problem;     ///< empty: all workers that save when asked have done so
  int workers = 0;         ///< that have saved
  int others = 0;          ///< that do not say that they save when asked, or ended with exit code 0
  std::uint64_t step = 0;  ///< the lowest one at which a worker was seen that had saved
  std::chrono::nanoseconds took{0};
};

/// `4 workers have saved, by step 300 (100 ms)`
std::string words_of(const SaveOutcome& outcome);

class SaveRequests {
 public:
  using Done = std::function<void(const SaveOutcome&)>;

  /// All references are borrowed.
  SaveRequests(boost::asio::io_context& context, const AgentConfig& config,
               const NodeMachine& machine);

  /// `done` is called once, at once or from the context, at the latest when `limit` is over.
  void ask(std::chrono::nanoseconds limit, Done done);
  /// A worker runs that says that it saves when asked.
  [[nodiscard]] bool any_saves() const;
  /// The workers are to leave their round, or have: what they have not saved is not waited for.
  void stop();

 private:
  struct Request {
    std::uint32_t number = 0;
    Clock::time_point asked_at;
    Clock::time_point deadline;
    std::vector<int> waits_for;  ///< local ranks
    SaveOutcome outcome;
    Done done;
  };

  void look();
  void look_later();
  /// Whether all is known of it.
  bool look(Request& request, const std::vector<std::optional<ProgressPage>>& pages,
            Clock::time_point now) const;
  [[nodiscard]] std::optional<ProgressPage> page_of(int local_rank) const;
  [[nodiscard]] std::string file_of(int local_rank) const;
  [[nodiscard]] const WorkerRecord& worker(int local_rank) const;
  [[nodiscard]] std::string names_of(const std::vector<int>& local_ranks) const;

  const AgentConfig& config_;
  const NodeMachine& machine_;
  boost::asio::steady_timer timer_;
  std::uint32_t number_ = 0;  // of the newest request
  std::list<Request> requests_;
};

}  // namespace ddprun::agent
