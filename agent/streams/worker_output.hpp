// What workers print, as the other threads see it: they give streams to the thread that reads them
// (stream_reader.hpp), ask something of it and wait for that.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "agent/streams/outlets.hpp"
#include "agent/streams/output_requests.hpp"
#include "agent/streams/output_source.hpp"
#include "agent/streams/stream_reader.hpp"
#include "agent/streams/stream_tail.hpp"
#include "base/result.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

class WorkerOutput {
 public:
  explicit WorkerOutput(OutputSettings settings = {});
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  /// False: the system refused a descriptor; then nothing else may be called.
  [[nodiscard]] bool usable() const { return watch_.usable(); }

  /// Starts the thread. Errors: those of that, and where the system cannot watch a source; the
  /// sources are closed then.
  [[nodiscard]] ErrorCode add(std::vector<OutputSource> sources);

  /// A line of ours on stderr, between the workers' lines. False: there is no thread that could
  /// print it.
  [[nodiscard]] bool say(std::string line);

  /// The user's terminal has another size now: the workers' pseudo-terminals follow. Waits until
  /// they have, or the deadline has passed.
  void resize(std::chrono::steady_clock::time_point deadline);

  /// The job pauses and the shell takes the terminal: takes progress bars off the screen and draws
  /// none, until `resume`. Waits until that is done, or the deadline has passed.
  void pause(std::chrono::steady_clock::time_point deadline);
  void resume();

  /// Waits until what workers have written by now is read, or the deadline has passed. A thread
  /// that is short of processor time reads an exception late. Streams that are paused,
  /// because a reader of ours is slow or has stopped, are not waited for. False: the deadline has
  /// passed.
  bool catch_up(std::chrono::steady_clock::time_point deadline);
  /// Begins it and waits for nothing: OutputSettings::caught_up is called when it has ended.
  /// Returns its number.
  std::uint64_t begin_catch_up();
  [[nodiscard]] bool has_caught_up(std::uint64_t number) const;

  /// The processes of all rounds so far have ended, but `kept`: every stream of theirs is read to
  /// its end, which OutputSettings::caught_up tells, until `end_drain`. From now on no console is
  /// waited for with them, whatever the policy; what has no place is dropped and counted.
  void begin_drain(KeptWorkers kept = {});
  [[nodiscard]] bool has_drained() const;
  void end_drain();
  /// All of it: waits until they are read, or the deadline has passed.
  void drain(std::chrono::steady_clock::time_point deadline);

  /// Whether our readers have everything that was read so far. Waits for that until the deadline.
  bool shown_by(std::chrono::steady_clock::time_point deadline) {
    return outlets_.finish_consoles(deadline);
  }

  /// Whether a reader that has not everything yet is slow, and not stuck: it is worth waiting for.
  [[nodiscard]] bool reader_is_slow(std::chrono::steady_clock::time_point now) const {
    return outlets_.reader_is_slow(now);
  }

  /// The end: waits until everything is written, or the deadline has passed. What is not written
  /// then, queued or still in a dead worker's pipe, is dropped and counted, and so is what comes
  /// later. A console that is stuck keeps nothing from the files.
  void flush(std::chrono::steady_clock::time_point deadline);

  /// The last lines of one worker's stderr; none where its stderr is not ours to read.
  [[nodiscard]] std::vector<std::string> last_lines(proto::RoundNumber round,
                                                    int local_rank) const {
    return tails_.last_lines(round, local_rank);
  }

  /// What the same stderr said of an exception or a crash, and when.
  [[nodiscard]] LineSigns signs(proto::RoundNumber round, int local_rank) const {
    return tails_.signs(round, local_rank);
  }

  /// Whether a reader of our output has just read these last lines there: they still stand on the
  /// terminal, are near the end of a file or pipe, or went out last and as they came. Exact after
  /// `flush`.
  [[nodiscard]] bool last_lines_in_sight(proto::RoundNumber round, int local_rank) const;

  /// Bytes that console and files together have lost. Exact after `flush`.
  [[nodiscard]] std::uint64_t dropped_bytes() const { return outlets_.dropped_bytes(); }

  /// The errno with which our stdout or stderr refused bytes; 0: neither did. Exact after `flush`.
  [[nodiscard]] int refusal() const { return outlets_.refusal(); }

  /// Whether our stdout, or stderr, ends within a line that no worker has ended. Exact after
  /// `flush`.
  [[nodiscard]] bool unfinished_line(bool standard_error) const;

 private:
  [[nodiscard]] ErrorCode start();

  StreamWatch watch_;
  mutable OutputRequests requests_;
  StreamTails tails_;
  Outlets outlets_;
  StreamReader reader_;
  std::thread thread_;  // under the lock of the requests
};

}  // namespace ddprun::agent
