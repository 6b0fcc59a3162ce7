#include "agent/evidence/line_signs.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace ddprun::agent {
namespace {

// In lower case. Each is what a library says when its peer went away, never what a fault of one's
// own says.
constexpr std::array<std::string_view, 22> kVictimPhrases = {
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
    "timed out waiting for",
    "watchdog caught collective operation timeout",
    "peer was lost",
};

// How a line begins that announces a traceback.
constexpr std::array<std::string_view, 3> kBeginnings = {
    "Traceback (most recent call last)",
    "terminate called",
    "Exception in thread",
};

// How a line begins that says what went wrong.
constexpr std::array<std::string_view, 9> kMessages = {
    "Fatal Python error",
    "Segmentation fault",
    "Bus error",
    "*** Error in",
    "free(): ",
    "malloc(): ",
    "Error: ",
    "ERROR: AddressSanitizer",
    "FATAL: ",
};

bool begins_with_any(std::string_view line, const auto& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [line](std::string_view beginning) { return line.starts_with(beginning); });
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

}  // namespace

std::string_view victim_phrase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view phrase : kVictimPhrases) {
    if (lower.find(phrase) != std::string::npos) return phrase;
  }
  return {};
}

std::string_view LineSigns::without_rank(std::string_view line) {
  if (line.starts_with("[rank")) {
    const auto end = line.find("]: ");
    const bool number =
        end != std::string_view::npos && end > 5 &&
        line.substr(5, end - 5).find_first_not_of("0123456789") == std::string_view::npos;
    if (number) line.remove_prefix(end + 3);
  }
  return line;
}

LineSigns::Sign LineSigns::sign_of(std::string_view line) {
  line = without_rank(line);
  if (line.empty()) return Sign::none;
  if (begins_with_any(line, kBeginnings)) return Sign::beginning;
  if (begins_with_any(line, kMessages) || is_exception_line(line) || is_assertion(line))
    return Sign::message;
  // What a C++ exception says stands below `terminate called`.
  return line.starts_with("  what():  ") ? Sign::message : Sign::none;
}

}  // namespace ddprun::agent
