// What the lines of a worker's stderr tell of a failure: the last words of an exception or a crash,
// and the words of a worker that has lost a peer. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// The phrase in `text`, as it stands there, that only a worker prints which has lost a peer:
/// "Connection reset by peer", NCCL's "remote process exited", gloo's "Connection closed by peer",
/// a store's time-out. Empty: there is none. Upper and lower case are the same.
std::string_view victim_phrase(std::string_view text);

/// Whether that phrase is one of a time-out: the peer may be gone, or it may hang.
bool is_time_out(std::string_view text);

/// Reads one worker's stderr, line by line, and keeps its newest exception or crash for as long as
/// that may be its end: a worker that goes on to write as before has handled it.
class LineSigns {
 public:
  using Clock = std::chrono::steady_clock;

  /// What comes closer together is about one end: a chain of exceptions, a crash and its stacks.
  static constexpr std::chrono::milliseconds kOneEnd{500};
  /// A worker that writes ordinary lines so long after an exception, or so many, has outlived it.
  /// Python, and what it calls at its exit, write some.
  static constexpr std::chrono::seconds kTearDown{5};
  static constexpr int kTearDownLines = 20;
  /// A worker that writes to stdout so long after an exception has outlived it, because nothing
  /// tears down there; one burst is a buffer that is flushed at the end.
  static constexpr std::chrono::milliseconds kBurst{100};

  /// The lines are those of stdout, too: the worker goes on where its ordinary lines come in
  /// several bursts, and an exception's line without a traceback may be a result that it prints.
  void with_stdout() { with_stdout_ = true; }
  static constexpr int kMixedBursts = 5;

  /// `now` is asked for only where the line matters.
  template <class Now>
  void line(std::string_view text, Now&& now) {
    const Sign sign = take(text);
    const bool tells = sign != Sign::ordinary && sign != Sign::frame;
    if (tells || at_) found(sign, text, now());
  }

  /// The worker has written to stdout.
  template <class Now>
  void other_output(Now&& now) {
    if (at_) other_output_at(now());
  }

  /// When the worker's end, if it was one, began to show; none: nothing did.
  [[nodiscard]] std::optional<Clock::time_point> first_at() const { return at_; }
  /// What went wrong in it: `ValueError: bad lr`. Empty: nothing said so.
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Whether its lines come only from a failure: a traceback, a crash. False: a lone
  /// `ValueError: ...`, which a program may as well print to stdout after it has handled it.
  [[nodiscard]] bool certain() const { return certain_; }
  [[nodiscard]] bool has_stdout() const { return with_stdout_; }

 private:
  enum class Sign {
    ordinary,   ///< a line like any other
    frame,      ///< of a traceback
    beginning,  ///< `Traceback (most recent call last):`; what went wrong comes later
    remark,     ///< what went wrong, unless something said it already
    exception,  ///< what went wrong, the last of a chain of exceptions
    // A remark or exception without a traceback or a crash's own words: on stdout it may be an
    // ordinary line.
    lone_remark,
    lone_exception,
    // Signs of a thread beside the main one; after the end of that one they are its consequence.
    thread_beginning,
    thread_message,
  };
  enum class Traceback { none, main, thread, ignored };

  /// Follows the lines of a traceback.
  Sign take(std::string_view& text);
  void found(Sign sign, std::string_view text, Clock::time_point now);
  void other_output_at(Clock::time_point now);
  void forget();

  Traceback traceback_ = Traceback::none;  // in the middle of one
  Traceback announced_ = Traceback::main;  // what the next one will be
  std::optional<Clock::time_point> at_;
  Clock::time_point last_at_;  // of the signs
  std::optional<Clock::time_point> other_at_;
  int ordinary_lines_ = 0;
  bool with_stdout_ = false;
  int bursts_ = 0;
  Clock::time_point burst_at_;
  bool certain_ = true;
  std::string message_;
};

}  // namespace ddprun::agent
