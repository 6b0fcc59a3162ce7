// What workers print, as the control thread uses it, and our own lines between the workers'.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/link/deadline_timer.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/streams/worker_output.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

/// Streams of workers from which nothing has come yet. Many programs print nothing for long, and
/// the thread that reads streams costs a start as much as a worker's own process: it gets them with
/// their first byte.
class QuietStreams {
 public:
  /// `take` gets all of them when one has something to read, from within `look` or the context.
  QuietStreams(boost::asio::io_context& context,
               std::function<void(std::vector<OutputSource>)> take)
      : context_(context), take_(std::move(take)) {}

  /// In place of those of an earlier round, which are closed. Errors: the system cannot watch them;
  /// then they are closed.
  [[nodiscard]] ErrorCode watch(std::vector<OutputSource> sources);

  /// Whether one has something to read now, and not only its end.
  void look();

  /// As if one had.
  void hand_over();

  /// Their workers have ended: those from which still nothing has come are closed.
  void end();

 private:
  void await_event();

  boost::asio::io_context& context_;
  const std::function<void(std::vector<OutputSource>)> take_;
  std::vector<OutputSource> sources_;
  std::optional<boost::asio::posix::stream_descriptor> events_;  // epoll's; none: no sources
};

class JobOutput {
 public:
  /// How long the last lines may take to reach a reader that does not read.
  static constexpr std::chrono::seconds kWriteLimit{2};

  struct Events {
    std::function<void(const std::string& why)> failed;  ///< the workers' output cannot be read
    std::function<void(const std::string& line)> said;   ///< each line of ours; empty: not told
    std::function<void()> has_more;  ///< for those who follow `recent()`; empty: not told
  };
  /// The configuration is borrowed.
  JobOutput(boost::asio::io_context& context, const AgentConfig& config, Events events);

  /// Before the first worker, so that no descriptor is missing in the middle; the thread starts
  /// after them. Empty, or why the job can't be run.
  std::string prepare();
  /// The workers of a round have been started, and `any_goes_on` from the round before. Empty, or
  /// why their streams cannot be read.
  std::string watch(std::vector<OutputSource> sources, bool any_goes_on = false);

  /// A line on stderr.
  void say(const std::string& line);
  void notice(const std::string& line) { say("ddprun: " + line); }
  /// From now on spdlog's default logger, which any thread may use, gives its lines to us: none
  /// lands in the middle of a worker's line, and none blocks.
  void take_log();

  /// The terminal has another size. Returns when it has reached the workers' pseudo-terminals.
  void resize();
  /// The shell takes the terminal. Returns when it can.
  void pause();
  void resume();

  /// A worker has failed. `then` is called when what it wrote by now has been read: at once or from
  /// the context, in the order of the calls. All workers of a round are waited for 200 ms at most.
  void when_read(std::function<void()> then);
  /// Its last words. Empty: it has had none since then. `round`: in which it was started.
  [[nodiscard]] std::string last_message(proto::RoundNumber round, int local_rank,
                                         std::chrono::steady_clock::time_point since = {}) const;
  /// All workers have ended but `kept`. `then` is called when what they wrote has been read: at
  /// once or from the context. A stream that an escaped process holds open is waited for 200 ms, a
  /// thread that is short of processor time 2 s.
  void when_ended(KeptWorkers kept, std::function<void()> then);
  /// The job is over: writes the rest. A reader of ours that is slow, and not stuck, is waited for
  /// unless the job was cancelled; meanwhile the context runs, and `still_ending` is called.
  void end(bool cancelled, const std::function<void()>& still_ending);
  [[nodiscard]] bool waits_for_reader() const { return waits_for_reader_; }
  void stop_waiting() { waits_for_reader_ = false; }

  [[nodiscard]] std::uint64_t dropped_bytes() const {
    return output_ ? output_->dropped_bytes() : 0;
  }
  [[nodiscard]] int refusal() const { return output_ ? output_->refusal() : 0; }
  /// As in OutputEnd.
  [[nodiscard]] std::optional<bool> unfinished_line(bool standard_error) const;
  /// Null: nothing of it goes through us.
  [[nodiscard]] const WorkerOutput* of_workers() const { return output_ ? &*output_ : nullptr; }
  /// For those who look into the job.
  [[nodiscard]] const std::shared_ptr<RecentOutput>& recent() const { return recent_; }

 private:
  void log(const std::string& line);
  void tell_of_more();
  void read(std::vector<OutputSource> sources);
  void end_waits(bool is_late);
  void go_on_ending(bool is_late);
  bool wait_for_reader(const std::function<void()>& still_ending);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const Events events_;
  const std::thread::id thread_ = std::this_thread::get_id();
  boost::asio::steady_timer more_later_;
  const std::shared_ptr<RecentOutput> recent_;
  std::optional<WorkerOutput> output_;
  QuietStreams quiet_streams_;
  struct Wait {
    std::uint64_t catch_up;  // its number
    std::function<void()> then;
  };
  std::deque<Wait> waits_;
  std::chrono::steady_clock::time_point waits_since_;
  std::chrono::steady_clock::duration wait_left_{0};  // for workers of the round
  DeadlineTimer wait_limit_;
  struct Ending {
    std::function<void()> then;
    std::optional<std::uint64_t> catch_up = std::nullopt;  // none: the streams have not ended yet
  };
  std::optional<Ending> ending_;
  DeadlineTimer ending_limit_;
  bool waits_for_reader_ = false;
};

}  // namespace ddprun::agent
