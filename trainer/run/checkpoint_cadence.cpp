#include "trainer/run/checkpoint_cadence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using std::chrono::nanoseconds;

constexpr double kDurationSecondsMax = 366.0 * 24 * 3600;

std::optional<nanoseconds> duration_of(const std::string& text) {
  static constexpr std::array<std::pair<const char*, double>, 4> kUnits{
      {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  const std::string unit(stop, end);
  for (const auto& [name, seconds] : kUnits) {
    const double total = value * seconds;
    if (unit == name && total > 0 && total <= kDurationSecondsMax) {
      return nanoseconds(std::llround(total * 1e9));
    }
  }
  return std::nullopt;
}

}  // namespace

std::chrono::nanoseconds parse_duration(const std::string& text, const std::string& option) {
  const auto duration = duration_of(text);
  if (!duration) {
    throw DataError(
        fmt::format("{} {}: must be a duration above zero with its unit, such as 200ms, 30s, 10m",
                    option, text));
  }
  return *duration;
}

CheckpointEvery parse_checkpoint_every(const std::string& text) {
  using Kind = CheckpointEvery::Kind;
  if (text == "auto") return {};
  if (text == "off") return {.kind = Kind::off};
  std::int64_t steps = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, steps);
  if (error == std::errc() && stop == end && steps > 0)
    return {.kind = Kind::steps, .steps = steps};
  if (const auto duration = duration_of(text))
    return {.kind = Kind::duration, .duration = *duration};
  throw DataError(
      fmt::format("--checkpoint-every {}: must be auto, off, a number of steps such as 500, or a "
                  "duration such as 5s",
                  text));
}

bool CheckpointCadence::due(std::int64_t step, Time now) const {
  switch (every_.kind) {
    case CheckpointEvery::Kind::off:
      return false;
    case CheckpointEvery::Kind::steps:
      return step % every_.steps == 0;
    case CheckpointEvery::Kind::duration:
      return now - last_ >= every_.duration;
    case CheckpointEvery::Kind::automatic:
      return now - last_ >= interval();
  }
  return false;
}

void CheckpointCadence::measured(nanoseconds cost, nanoseconds until_written) {
  cost_ = cost;
  until_written_ = until_written;
}

nanoseconds CheckpointCadence::interval() const {
  // Seldom enough to cost less than the share, with a margin of two where the bound allows it. What
  // is lost at a crash is the time since the last one on disk: the interval and the writing.
  const auto cheap =
      nanoseconds(static_cast<std::int64_t>(static_cast<double>(cost_.count()) / kCostShare));
  const auto safe = kLossBound - until_written_ - kIntervalMin;
  return std::max({cheap, kIntervalMin, std::min(2 * cheap, nanoseconds(safe))});
}

}  // namespace ddprun::trainer
