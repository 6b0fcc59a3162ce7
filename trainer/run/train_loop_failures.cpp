// How a run ends that cannot go on.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/run/exit_codes.hpp"
#include "trainer/run/train_loop.hpp"

namespace ddprun::trainer {
namespace {

/// Of a shard with a loss that is not finite, in the message.
constexpr int kShownSamplesMax = 16;

/// With loss scaling a run ends that has skipped so many steps in a row with the smallest scale.
constexpr std::uint64_t kStuckSteps = 100;

}  // namespace

/// `counters`: of all ranks, since they last met. All of them come to the same answer.
bool TrainLoop::is_sound(const Counters& counters) {
  const TrainingState& state = parts_.state;
  // With loss scaling such a step is skipped.
  if (counters.not_finite > 0 && !parts_.plan.scaler.enabled)
    return end_broken(where_not_finite(counters),
                      advice("this sample", place_of(counters).step > 0));
  if (state.step_state.stuck >= kStuckSteps)
    return end_broken(fmt::format("the gradients overflowed in {} steps in a row, by step {}, with "
                                  "the smallest loss scale",
                                  state.step_state.stuck, state.step),
                      advice("the data"));
  if (shared_[0].broken)
    return end_broken(fmt::format("{} is not finite by step {}", broken_, state.step),
                      advice("the data"));
  return true;
}

std::string TrainLoop::where_not_finite(const Counters& counters) const {
  const SamplePlace place = place_of(counters);
  const std::int64_t block = place.step - (parts_.state.step - parts_.state.block);
  const auto sample = [&](int item) {
    return order_.sample(static_cast<std::size_t>(block), place.shard, item);
  };
  const int count = order_.batch_of(static_cast<std::size_t>(block));
  std::string all;
  for (int item = 0; item < std::min(count, kShownSamplesMax); ++item)
    all += fmt::format("{}{}", item == 0 ? "" : ", ", sample(item));
  if (count > kShownSamplesMax) all += fmt::format(" and {} more", count - kShownSamplesMax);
  return fmt::format(
      "the loss is not finite in step {} (shard {}, sample {} of the training set; the shard's "
      "samples are {})",
      place.step + 1, place.shard, sample(place.item), all);
}

/// Of the first sample with a loss that is not finite.
SamplePlace TrainLoop::place_of(const Counters& counters) const {
  return SamplePlace::of(counters.first_not_finite, parts_.plan.shards, parts_.plan.batch);
}

/// No learning rate is the cause where none has changed the weights.
std::string TrainLoop::advice(const char* look_at, bool was_updated) const {
  const bool is_zero = base_rate(parts_.options) == 0;
  if (was_updated && !is_zero) return "lower --lr, or use --warmup";
  return fmt::format("{}: look at {} and {}",
                     was_updated ? "--lr is 0" : "no update was made before it", look_at,
                     parts_.options.init_from ? "the weights of --init-from" : "at --init");
}

std::string TrainLoop::advice(const char* look_at) const {
  return advice(look_at, parts_.state.step_state.updates > 0);
}

bool TrainLoop::end_broken(const std::string& what, const std::string& advice) {
  // The others end after rank 0, so that a launcher does not take them for the first to fail.
  if (parts_.keeper == nullptr) return lost(parts_.communicator.barrier(deadline()));
  exit_code_ = kExitFailure;
  parts_.keeper->abandon();
  const std::string newest = parts_.keeper->newest();
  parts_.report.error(
      fmt::format("{}: {}; {}", what, advice,
                  newest.empty() ? "there is no checkpoint" : "the last checkpoint is " + newest));
  return false;
}

bool TrainLoop::lost(const CommResult& result) {
  exit_code_ = kExitPeerLost;
  parts_.report.error(fmt::format("gave up in step {}: {}", parts_.state.step, result.detail));
  parts_.communicator.abort(result.detail);
  return false;
}

}  // namespace ddprun::trainer
