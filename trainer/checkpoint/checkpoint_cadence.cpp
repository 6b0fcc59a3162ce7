#include "trainer/checkpoint/checkpoint_cadence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/duration.hpp"
#include "base/number_in.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

using std::chrono::nanoseconds;

CheckpointEvery parse_checkpoint_every(const std::string& text) {
  using Kind = CheckpointEvery::Kind;
  if (text == "auto") return {};
  if (text == "off") return {.kind = Kind::off};
  if (text == "epoch") return {.kind = Kind::epoch};
  const auto steps = number_in<std::int64_t>(text);
  if (steps && *steps > 0) return {.kind = Kind::steps, .steps = *steps};
  // A number without a unit is a number of steps, and never seconds.
  const auto duration =
      text.find_first_of("smhSMH") == std::string::npos ? std::nullopt : parse_duration(text);
  if (duration && duration->count() > 0) return {.kind = Kind::duration, .duration = *duration};
  throw DataError(
      fmt::format("--checkpoint-every {}: must be auto, off, epoch, a number of steps such as 500, "
                  "or a duration such as 5s",
                  text));
}

bool CheckpointCadence::due(std::int64_t step, Time now) const {
  switch (every_.kind) {
    case CheckpointEvery::Kind::off:
    case CheckpointEvery::Kind::epoch:
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
