// The thread that reads what workers print: assembles lines, puts prefixes on them, remembers the
// last ones of stderr. It never waits for a reader of ours: a stream with bytes that find no place
// is left alone, and the others are read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/streams/log_buffer.hpp"
#include "agent/streams/outlets.hpp"
#include "agent/streams/output_requests.hpp"
#include "agent/streams/output_stream.hpp"
#include "agent/streams/stream_tail.hpp"
#include "agent/streams/unfinished_lines.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

class StreamReader {
 public:
  using Clock = std::chrono::steady_clock;

  /// All but the settings are borrowed.
  StreamReader(const OutputSettings& settings, StreamWatch& watch, OutputRequests& requests,
               StreamTails& tails, Outlets& outlets);

  /// Until it is told to stop. Everything else here is for its thread.
  void run();

 private:
  bool take_events();
  [[nodiscard]] int wait_limit(Clock::time_point now);
  void rest();

  // What others ask for.
  void take_requests();
  void take_sources(std::vector<OutputSource> sources);
  void take_lines(const std::vector<std::string>& lines);
  void resize(std::uint64_t number);
  void draw();
  void end_folds();
  void end_catch_up();

  // The streams.
  void read_or_pause(OutputStream& stream);
  void read_behind();
  void read(OutputStream& stream);
  void feed_lines(OutputStream& stream, bool ended);
  bool may_read(const OutputStream& stream);
  void resume_streams();
  void end_unread_streams();
  void end_streams();
  void count_ranks();

  StreamWatch& watch_;
  OutputRequests& requests_;
  StreamTails& tails_;
  Outlets& outlets_;
  const std::function<void()> caught_up_;
  const std::shared_ptr<RecentOutput> recent_;

  OutputStreams streams_;
  UnfinishedLines unfinished_;
  int next_id_ = 0;
  LogBuffer read_;               // what was read last
  std::vector<int> ended_;       // streams that have come to their end
  std::vector<int> paused_;      // streams that are left alone, the longest first
  bool unwatched_ = false;       // the system refused to watch one of these again
  bool copies_ = false;          // a stream goes on as it comes
  bool rests_ = true;            // no copy has to keep up with a stream that we do not have
  bool full_ = false;            // a worker wrote so much that reading must not rest
  bool is_behind_ = false;       // it catches up
  std::uint64_t catch_up_ = 0;   // the newest request for that
  proto::RoundNumber over_ = 0;  // of the rounds below it no worker lives, but kept_
  std::shared_ptr<const KeptWorkers> kept_;
};

}  // namespace ddprun::agent
