#include "launcher/ssh/node_output.hpp"

#include <algorithm>
#include <utility>

#include "base/number_in.hpp"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kGreeting =
    "\x1e"
    "ddprun-node ";
/// A mark, a length, and the newline are shorter.
constexpr std::size_t kHeaderBytesMax = 256;

/// How many bytes at the end of `text` may be the beginning of `word`.
std::size_t begun(std::string_view text, std::string_view word) {
  for (std::size_t bytes = std::min(text.size(), word.size() - 1); bytes > 0; --bytes) {
    if (text.ends_with(word.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace

std::string WholeLines::add(std::string_view bytes) {
  const auto newline = bytes.rfind('\n');
  if (newline == std::string_view::npos) {
    begun_ += bytes;
    return begun_.size() > kLineBytesMax ? std::exchange(begun_, "") : "";
  }
  std::string lines = std::exchange(begun_, std::string(bytes.substr(newline + 1)));
  lines += bytes.substr(0, newline + 1);
  return lines;
}

std::string WholeLines::rest() {
  if (begun_.empty()) return "";
  return std::exchange(begun_, "") + "\n";
}

std::string NodeErrors::add(std::string_view bytes) {
  last_ += bytes;
  std::string lines;
  if (!is_greeted_) {
    const auto begin = last_.find(kGreeting);
    const auto end = begin == std::string::npos ? begin : last_.find('\n', begin);
    if (end != std::string::npos) {
      is_greeted_ = true;
      last_.erase(0, end + 1);
      lines = lines_.add(last_);
    }
  } else {
    lines = lines_.add(bytes);
  }
  if (last_.size() > kBannerBytesMax) last_.erase(0, last_.size() - kBannerBytesMax);
  return lines;
}

std::string NodeErrors::rest() { return is_greeted_ ? lines_.rest() : ""; }

NodeOutput::Taken NodeOutput::add(std::string_view bytes) {
  Taken taken;
  waiting_ += bytes;
  if (!is_greeted_) take_greeting(taken);
  if (is_greeted_ && !in_record_) take_output(taken);
  if (in_record_) take_record(taken);
  return taken;
}

std::string NodeOutput::rest() {
  if (!is_greeted_ || in_record_) return "";
  std::string lines = lines_.add(std::exchange(waiting_, ""));
  return lines + lines_.rest();
}

void NodeOutput::take_greeting(Taken& taken) {
  const auto begin = waiting_.find(kGreeting);
  if (begin == std::string::npos) {
    if (waiting_.size() > kBannerBytesMax)
      taken.problem = "it prints without end, and no ddprun answers";
    return;
  }
  const auto version = begin + kGreeting.size();
  const auto newline = waiting_.find('\n', version);
  if (newline == std::string::npos) {
    if (waiting_.size() - begin > kHeaderBytesMax) taken.problem = "its greeting has no end";
    return;
  }
  taken.version = waiting_.substr(version, newline - version);
  is_greeted_ = true;
  waiting_.erase(0, newline + 1);
}

void NodeOutput::take_output(Taken& taken) {
  const auto begin = waiting_.find(mark_);
  if (begin != std::string::npos) {
    taken.lines += lines_.add(std::string_view(waiting_).substr(0, begin));
    // In front of the record a line may have been begun by a worker that writes itself.
    taken.lines += lines_.rest();
    waiting_.erase(0, begin + mark_.size());
    in_record_ = true;
    return;
  }
  const std::size_t whole = waiting_.size() - begun(waiting_, mark_);
  taken.lines += lines_.add(std::string_view(waiting_).substr(0, whole));
  waiting_.erase(0, whole);
}

void NodeOutput::take_record(Taken& taken) {
  const auto newline = waiting_.find('\n');
  if (newline == std::string::npos) {
    if (waiting_.size() > kHeaderBytesMax) taken.problem = "the record of its end is wrong";
    return;
  }
  const auto bytes = number_in<std::size_t>(std::string_view(waiting_).substr(0, newline));
  if (!bytes || *bytes > kEndBytesMax) {
    taken.problem = "the record of its end is wrong";
    return;
  }
  if (waiting_.size() - newline - 1 < *bytes) return;
  auto end = decode_end(std::string_view(waiting_).substr(newline + 1, *bytes));
  if (end) {
    taken.end = std::move(*end);
  } else {
    taken.problem = "the record of its end is wrong: " + end.error();
  }
  waiting_.clear();
  in_record_ = false;
}

namespace {

constexpr std::string_view kOwn = "ddprun: ";

}  // namespace

std::string OwnLines::take(const std::string& host, std::string_view lines) {
  std::string shown;
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end);
    if (!line.starts_with(kOwn)) {
      shown += line;
      continue;
    }
    const std::string_view text = line.substr(kOwn.size());
    if (known_.size() >= kLinesMax && known_.find(text) == known_.end()) known_.clear();
    Line& known = known_[std::string(text)];
    if (++known.by[host] <= known.shown) continue;
    ++known.shown;
    shown.append(kOwn).append(host).append(": ").append(text);
  }
  return shown;
}

}  // namespace ddprun::launcher
