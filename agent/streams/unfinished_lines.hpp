// Shows what workers have not finished: prompts, progress bars. On the thread that reads workers.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "agent/streams/outlets.hpp"
#include "agent/streams/output_stream.hpp"
#include "agent/streams/stream_tail.hpp"

namespace ddprun::agent {

class UnfinishedLines {
 public:
  using Clock = std::chrono::steady_clock;

  /// All are borrowed. `bar_interval`: see OutputSettings.
  UnfinishedLines(OutputStreams& streams, Outlets& outlets, StreamTails& tails,
                  std::chrono::milliseconds bar_interval)
      : streams_(streams), outlets_(outlets), tails_(tails), bar_interval_(bar_interval) {}

  /// When `look` or `draw` has something to do; none: nothing waits for time to pass.
  [[nodiscard]] std::optional<Clock::time_point> due(Clock::time_point now);

  /// What becomes visible, or final, because time has passed.
  void look(Clock::time_point now);

  /// Gives the console what the stream may still change. A prompt goes out as it is.
  void show(OutputStream& stream, Clock::time_point now);

  /// Draws what has changed, where it is time. `paused`: the shell has the terminal, so nothing of
  /// ours stays there.
  void draw(Clock::time_point now, bool paused);
  [[nodiscard]] bool is_paused() const { return is_paused_; }

  /// Our terminal has another size.
  void resize(Clock::time_point now);
  /// Gives the worker's pseudo-terminal its size.
  void take_size(OutputStream& stream);

  /// The program draws over what it has printed, so it did not wait for an answer there. An editor
  /// of lines does so, too, and has switched off the terminal's own.
  [[nodiscard]] static bool is_no_prompt(std::string_view bytes);

 private:
  void make_rows(Clock::time_point now);
  /// When an unfinished line is written in its place; none: it is finished, or can be drawn.
  [[nodiscard]] std::optional<Clock::time_point> written_at(const OutputStream& stream);

  OutputStreams& streams_;
  Outlets& outlets_;
  StreamTails& tails_;
  const std::chrono::milliseconds bar_interval_;
  bool is_paused_ = false;
};

}  // namespace ddprun::agent
