// What a peer at the job's socket follows, frame by frame: what happens to the job, or what its
// workers print.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <boost/system/result.hpp>

#include "agent/config.hpp"
#include "agent/control/job_request.hpp"
#include "agent/events/event_log.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/streams/recent_output.hpp"

namespace ddprun::agent {

class Feed {
 public:
  virtual ~Feed() = default;
  /// The next frame, one JSON object. None: there is none now.
  virtual std::optional<std::string> next() = 0;
  /// Nothing more comes, and its peer may ask for something else.
  [[nodiscard]] virtual bool is_over() const = 0;
};

using FeedOrProblem = boost::system::result<std::unique_ptr<Feed>, std::string>;

class EventFeed final : public Feed {
 public:
  /// The log is borrowed. `node`: the name of this one.
  EventFeed(const EventLog& log, std::string node, const EventsWanted& wanted);

  std::optional<std::string> next() override;
  [[nodiscard]] bool is_over() const override { return end_ && next_event_ >= *end_; }

 private:
  const EventLog& log_;
  const std::string node_;
  std::uint64_t next_event_;
  std::optional<std::uint64_t> end_;  // of those that it gets; none: all
};

class OutputFeed final : public Feed {
 public:
  /// Configuration and machine are borrowed.
  OutputFeed(std::shared_ptr<RecentOutput> output, const AgentConfig& config,
             const NodeMachine& machine, const LogsWanted& wanted);

  /// Empty: there is something to be followed.
  static std::string why_not(const NodeMachine& machine, const LogsWanted& wanted);

  std::optional<std::string> next() override;
  [[nodiscard]] bool is_over() const override { return !wanted_.follow && frames_.empty(); }

 private:
  void look_at_round();
  /// The rank of now; a worker that has ended has that of its own round.
  [[nodiscard]] int rank_of(const OutputPiece& piece) const;
  void add(const OutputPiece& piece);
  void add_place(int rank, const WorkerRecord& worker, int local_rank, bool standard_error);
  [[nodiscard]] bool is_wanted(int rank) const { return !wanted_.rank || *wanted_.rank == rank; }

  const AgentConfig& config_;
  const NodeMachine& machine_;
  const LogsWanted wanted_;
  RecentOutput::Follower follower_;
  std::optional<proto::RoundNumber> round_;  // whose streams are known to the peer
  std::deque<std::string> frames_;
};

}  // namespace ddprun::agent
