#include "launcher/ssh/own_lines.hpp"

#include <algorithm>

namespace ddprun::launcher {
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
