#include "agent/evidence/line_signs.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/lower_case.hpp"

namespace ddprun::agent {
namespace {

// In lower case. Each is what a library prints when its peer went away, never what a fault of its
// own makes it print.
constexpr std::array<std::string_view, 25> kVictimPhrases = {
    "connection reset by peer",
    "connection closed by peer",
    "connection closed by remote",
    "connection was reset",
    "connection refused",
    "connectionreseterror",
    "connectionrefusederror",
    "brokenpipeerror",
    "broken pipe",
    "read error: connection",
    "socket timeout",
    "remote process exited",
    "remote process has terminated",
    "nccl remote error",
    "ncclremoteerror",
    "nccl communicator was aborted",
    "ncclcommabort",
    "application timeout caused pair closure",
    "wait timeout after",
    "timed out waiting",
    "waiting for clients",
    "got 0 bytes",
    "connection was likely closed",
    "watchdog caught collective operation timeout",
    "peer was lost",
};

// Those of them that a worker prints when it has waited too long; no peer need be gone.
constexpr std::array<std::string_view, 6> kTimeOuts = {
    "socket timeout",      "application timeout caused pair closure",
    "wait timeout after",  "timed out waiting",
    "waiting for clients", "watchdog caught collective operation timeout",
};

// What the bundled trainer (trainer/comm, trainer/nccl) prints when a peer is lost; it exits with
// 75 then. Other programs may say such words of themselves, so they count in its error lines alone.
constexpr std::array<std::string_view, 4> kVictimsOfTrain = {
    "aborted by rank",
    "ended before it finished",
    "left before it finished",
    "ended while nccl connected the ranks",
};
constexpr std::array<std::string_view, 3> kTimeOutsOfTrain = {
    "until its deadline",
    "not there by the deadline",
    "has not connected all ranks by the deadline",
};

/// The first of the phrases that is in the text, as it stands there.
std::string_view first_of(const auto& phrases, std::string_view text) {
  const std::string lower = lower_case(text);
  for (const std::string_view phrase : phrases) {
    const auto at = lower.find(phrase);
    if (at != std::string::npos) return text.substr(at, phrase.size());
  }
  return {};
}

constexpr std::string_view kTraceback = "Traceback (most recent call last)";
constexpr std::string_view kGroupTraceback = "Exception Group Traceback (most recent call last)";

// How a line begins that announces a traceback which ends no process.
constexpr std::array<std::string_view, 2> kIgnored = {"Exception ignored in",
                                                      "Error in atexit._run_exitfuncs"};

// Between the tracebacks of a chain.
constexpr std::array<std::string_view, 2> kChain = {"During handling of the above exception",
                                                    "The above exception was the direct cause"};

// In stacks that are not indented.
constexpr std::array<std::string_view, 3> kFrames = {"frame #", "Thread 0x", "Current thread 0x"};

// How a line begins that only a crash prints.
constexpr std::array<std::string_view, 7> kCrashes = {
    "Fatal Python error", "Segmentation fault",      "Bus error", "*** Error in", "free(): ",
    "malloc(): ",         "ERROR: AddressSanitizer",
};

// How a line begins by which a program reports what went wrong.
constexpr std::array<std::string_view, 2> kMessages = {"Error: ", "FATAL: "};

bool begins_with_any(std::string_view line, const auto& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [line](std::string_view beginning) { return line.starts_with(beginning); });
}

/// `train: error: rank 1: ...`, the last line of the bundled trainer. Not without the rank, as
/// `train: error: 0.25` may be a result that a program prints.
bool is_error_of_train(std::string_view line) {
  constexpr std::string_view kBeginning = "train: error: rank ";
  return line.starts_with(kBeginning) && line.size() > kBeginning.size() &&
         std::isdigit(static_cast<unsigned char>(line[kBeginning.size()])) != 0;
}

bool name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

/// `ValueError: bad lr`, `torch.OutOfMemoryError: ...`, `KeyError`: the last line of a traceback.
bool is_exception_line(std::string_view line) {
  const auto end = static_cast<std::size_t>(
      std::find_if_not(line.begin(), line.end(), name_character) - line.begin());
  const std::string_view name = line.substr(0, end);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) return false;
  const bool known = name.ends_with("Error") || name.ends_with("Exception") ||
                     name == "StopIteration" || name == "AssertionError";
  return known && (end == line.size() || line[end] == ':');
}

/// glibc's assert: `train: loss.cpp:12: float f(): Assertion `x > 0' failed.`; Rust's panic.
bool is_assertion(std::string_view line) {
  return (line.ends_with("failed.") && line.find(": Assertion `") != std::string_view::npos) ||
         (line.starts_with("thread '") && line.find("' panicked at") != std::string_view::npos);
}

/// PyTorch puts `[rank3]: ` before the lines of a traceback.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const auto end = line.find("]: ");
  const bool number =
      end != std::string_view::npos && end > 5 &&
      line.substr(5, end - 5).find_first_not_of("0123456789") == std::string_view::npos;
  return number ? line.substr(end + 3) : line;
}

/// Exception groups are drawn with lines at the left: `  + Exception Group Traceback`,
/// `    | ValueError: x`.
std::string_view without_drawing(std::string_view line) {
  if (!line.starts_with("  ")) return line;
  const auto text = line.find_first_not_of(" |+-");
  const auto drawing = line.substr(0, text).find_first_of("|+");
  if (drawing == std::string_view::npos) return line;
  if (text == std::string_view::npos) return {};
  // A frame inside it is indented by more than one space.
  return text > 2 && line.substr(text - 2, 2) == "  " ? line.substr(text - 2) : line.substr(text);
}

}  // namespace

std::string_view victim_phrase(std::string_view text) {
  std::string_view phrase = first_of(kVictimPhrases, text);
  if (!phrase.empty() || !is_error_of_train(text)) return phrase;
  phrase = first_of(kVictimsOfTrain, text);
  return phrase.empty() ? first_of(kTimeOutsOfTrain, text) : phrase;
}

bool is_time_out(std::string_view text) {
  if (!first_of(kTimeOuts, text).empty()) return true;
  return is_error_of_train(text) && !first_of(kTimeOutsOfTrain, text).empty();
}

LineSigns::Sign LineSigns::take(std::string_view& text) {
  std::string_view line = without_rank(text);
  const std::string_view drawn = without_drawing(line);
  if (drawn.data() != line.data() || drawn.empty()) {
    line = drawn;
    if (line.empty()) return Sign::frame;
  }
  text = line;
  if (line.starts_with(kTraceback) || line.starts_with(kGroupTraceback)) {
    traceback_ = announced_;
    announced_ = Traceback::main;
    return traceback_ == Traceback::ignored  ? Sign::frame
           : traceback_ == Traceback::thread ? Sign::thread_beginning
                                             : Sign::beginning;
  }
  if (line.starts_with("Exception in thread")) {
    announced_ = Traceback::thread;
    return Sign::thread_beginning;
  }
  if (begins_with_any(line, kIgnored)) {
    announced_ = Traceback::ignored;
    return Sign::frame;
  }
  if (begins_with_any(line, kFrames)) return Sign::frame;
  if (begins_with_any(line, kChain) || line.starts_with("terminate called")) return Sign::beginning;
  // What a C++ exception says stands below `terminate called`.
  if (line.starts_with("  what():  ")) return Sign::remark;
  if (line.front() == ' ' || line.front() == '\t') return Sign::frame;
  // The first line that is not indented ends a traceback, whatever the exception is called.
  const Traceback ended = traceback_;
  traceback_ = Traceback::none;
  switch (ended) {
    case Traceback::none:
      break;
    case Traceback::main:
      return Sign::exception;
    case Traceback::thread:
      return Sign::thread_message;
    case Traceback::ignored:
      return Sign::frame;
  }
  const bool ignored = announced_ == Traceback::ignored;
  announced_ = Traceback::main;
  if (is_exception_line(line)) return ignored ? Sign::frame : Sign::lone_exception;
  if (begins_with_any(line, kCrashes) || is_assertion(line) || is_error_of_train(line))
    return Sign::remark;
  return begins_with_any(line, kMessages) ? Sign::lone_remark : Sign::ordinary;
}

void LineSigns::found(Sign sign, std::string_view text, Clock::time_point now) {
  const auto since = at_ ? now - last_at_ : Clock::duration::zero();
  const bool lone = sign == Sign::lone_exception || sign == Sign::lone_remark;
  const bool doubtful = lone && with_stdout_;
  // It takes the place of no failure that is certain.
  if (doubtful && at_ && certain_ && since > kOneEnd) sign = Sign::ordinary;
  if (sign == Sign::ordinary || sign == Sign::frame) {
    if (sign == Sign::frame && traceback_ != Traceback::none) last_at_ = now;
    // What comes at once belongs to it: messages of many lines, stacks.
    if (sign == Sign::ordinary && since > kOneEnd) ++ordinary_lines_;
    if (sign == Sign::ordinary && with_stdout_ && now - std::max(last_at_, burst_at_) >= kBurst) {
      burst_at_ = now;
      ++bursts_;
    }
    const bool goes_on = ordinary_lines_ >= kTearDownLines || bursts_ >= kMixedBursts;
    if (goes_on || since > kTearDown) forget();
    return;
  }
  const bool thread = sign == Sign::thread_beginning || sign == Sign::thread_message;
  if (thread && certain_ && !message_.empty()) return;
  const bool displaces = !certain_ && !doubtful;
  if ((!thread && since > kOneEnd) || displaces) forget();
  if (!at_) {
    at_ = now;
    certain_ = !doubtful;
  }
  last_at_ = now;
  ordinary_lines_ = 0;
  bursts_ = 0;
  other_at_.reset();
  const bool replaces = sign == Sign::exception || sign == Sign::lone_exception;
  const bool adds =
      sign == Sign::remark || sign == Sign::lone_remark || sign == Sign::thread_message;
  if (replaces || (adds && message_.empty())) message_ = std::string(text);
}

void LineSigns::other_output_at(Clock::time_point now) {
  if (now - last_at_ < kBurst) return;
  if (!other_at_) other_at_ = now;
  if (now - *other_at_ >= kBurst) forget();
}

void LineSigns::forget() {
  at_.reset();
  other_at_.reset();
  ordinary_lines_ = 0;
  bursts_ = 0;
  certain_ = true;
  message_.clear();
}

}  // namespace ddprun::agent
