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
    return end_broken(where_not_finite(counters), advice_on(counters));
  if (state.step_state.stuck >= kStuckSteps)
    return end_broken(
        fmt::format("the gradients overflowed in {} steps in a row, by step {}, with "
                    "the smallest loss scale",
                    state.step_state.stuck, state.step));
  if (shared_[0].broken)
    return end_broken(fmt::format("{} is not finite by step {}", broken_, state.step));
  return true;
}

std::string TrainLoop::where_not_finite(const Counters& counters) const {
  const TrainPlan& plan = parts_.plan;
  const SamplePlace place = SamplePlace::of(counters.first_not_finite, plan.shards, plan.batch);
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

/// Of the first step no learning rate is the cause.
std::string TrainLoop::advice_on(const Counters& counters) const {
  const TrainPlan& plan = parts_.plan;
  if (SamplePlace::of(counters.first_not_finite, plan.shards, plan.batch).step > 0)
    return kLowerRate;
  return fmt::format("no update was made before it: look at this sample and {}",
                     parts_.options.init_from ? "the weights of --init-from" : "at --init");
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
