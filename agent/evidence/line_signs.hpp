// What a line of stderr says about who failed: the first words of an exception or a crash, and the
// words of somebody whose peer is gone. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

/// The phrase in `text` that only somebody uses who has lost a peer: "connection reset by peer",
/// NCCL's "remote process exited", gloo's "Connection closed by peer", a store's time-out. Empty:
/// there is none. Upper and lower case are the same.
std::string_view victim_phrase(std::string_view text);

/// Reads one worker's stderr, line by line.
class LineSigns {
 public:
  using Clock = std::chrono::steady_clock;

  /// `now` is asked for only where the line matters.
  template <class Now>
  void line(std::string_view text, Now&& now) {
    const Sign sign = sign_of(text);
    if (sign == Sign::none) return;
    if (!first_at_) first_at_ = now();
    if (sign == Sign::message && message_.empty()) message_ = std::string(without_rank(text));
  }

  /// When the first line about an exception or a crash came; none: there was none.
  [[nodiscard]] std::optional<Clock::time_point> first_at() const { return first_at_; }
  /// The first line that says what went wrong: `ValueError: bad lr`. Empty: none was seen.
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  enum class Sign {
    none,
    beginning,  ///< `Traceback (most recent call last):`; what went wrong comes later
    message,    ///< what went wrong
  };
  static Sign sign_of(std::string_view line);
  /// PyTorch puts `[rank3]: ` before the lines of a traceback.
  static std::string_view without_rank(std::string_view line);

  std::optional<Clock::time_point> first_at_;
  std::string message_;
};

}  // namespace ddprun::agent
