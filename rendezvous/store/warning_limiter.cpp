#include "rendezvous/store/warning_limiter.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv {

bool WarningLimiter::admit(std::size_t kind, Instant now) {
  Kind& state = kinds_[kind];
  if (now >= state.end && state.held_back == 0) {
    state.end = now + kPeriod;
    state.lines = 0;
  }
  if (state.lines < kLinesMax) {
    ++state.lines;
    return true;
  }
  if (state.held_back++ == 0) ++holding_;
  return false;
}

std::optional<WarningLimiter::Instant> WarningLimiter::due() const {
  std::optional<Instant> first;
  for (const Kind& kind : kinds_) {
    if (kind.held_back > 0) first = first ? std::min(*first, kind.end) : kind.end;
  }
  return first;
}

std::vector<std::string> WarningLimiter::reports(Instant now) {
  std::vector<std::string> lines;
  for (Kind& kind : kinds_) {
    if (kind.held_back == 0 || now < kind.end) continue;
    --holding_;
    lines.push_back(
        fmt::format("and {} more like it: {}", std::exchange(kind.held_back, 0), kind.last));
  }
  return lines;
}

}  // namespace ddprun::rdzv
