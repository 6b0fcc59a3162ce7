// How a run ends that cannot go on.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/describe.hpp"
#include "base/duration.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/loop/train_loop.hpp"

namespace ddprun::trainer {
namespace {

/// The most samples of a shard with a loss that is not finite that the message names.
constexpr int kShownSamplesMax = 16;

/// With loss scaling a run ends that has skipped so many steps in a row with the smallest scale.
constexpr std::uint64_t kStuckSteps = 100;

/// Where the first sample with a loss that is not finite is.
SamplePlace place_of(const Counters& counters, const TrainPlan& plan) {
  return SamplePlace::of(counters.first_not_finite, plan.shards, plan.batch);
}

}  // namespace

/// `counters`: of all ranks, since they last met. All of them come to the same answer.
bool TrainLoop::is_sound(const Counters& counters) {
  const TrainingState& state = parts_.state;
  // With loss scaling such a step is skipped.
  if (counters.not_finite > 0 && !parts_.plan.scaler.enabled)
    return end_broken(where_not_finite(counters),
                      advice("this sample", place_of(counters, parts_.plan).step > 0));
  const LossScale& scale = parts_.options.precision.loss_scale;
  if (shared_[0].stuck >= kStuckSteps)
    return end_broken(
        fmt::format("the gradients overflowed in {} steps in a row, by step {}, with {}",
                    shared_[0].stuck, state.step,
                    scale.kind == LossScale::Kind::fixed
                        ? fmt::format("--loss-scale={:g}", scale.value)
                        : "the smallest loss scale"),
        scale.kind == LossScale::Kind::fixed ? "use a smaller one, or --loss-scale=dynamic"
                                             : advice("the data", was_updated()));
  if (shared_[0].weights.is_broken)
    return end_broken(fmt::format("{} is not finite by step {}", broken_, state.step),
                      advice("the data", was_updated()));
  return true;
}

/// Each rank looks at its own memory. What it finds is exchanged before anything is decided: on
/// GPUs, ranks may differ.
bool TrainLoop::agree_on_weights() {
  const std::string broken_here = parts_.learner.non_finite();
  Shared mine;
  mine.weights = {.hash = parts_.learner.hash(), .is_broken = !broken_here.empty()};
  if (!exchange(mine)) return false;
  std::vector<RankWeights> all;
  for (const Shared& rank : shared_) all.push_back(rank.weights);
  if (const std::vector<int> broken = broken_ranks(all); !broken.empty()) {
    const std::string alone = alone_text(broken, all.size());
    return end_broken(
        fmt::format("{} is not finite after step {}{}", broken_here, parts_.state.step, alone),
        alone.empty() ? advice("the data", was_updated())
                      : "faulty memory, or machines with different arithmetic",
        broken.front());
  }
  if (const std::string why = why_different(all); !why.empty())
    throw std::runtime_error(fmt::format("after step {} {}", parts_.state.step, why));
  return true;
}

std::string TrainLoop::where_not_finite(const Counters& counters) const {
  const SamplePlace place = place_of(counters, parts_.plan);
  const std::int64_t block = place.step - (parts_.state.step - parts_.state.block);
  const auto sample = [&](int item) {
    return samples_.order().sample(static_cast<std::size_t>(block), place.shard, item);
  };
  const int count = samples_.order().batch_of(static_cast<std::size_t>(block));
  std::string all;
  for (int item = 0; item < std::min(count, kShownSamplesMax); ++item)
    all += fmt::format("{}{}", item == 0 ? "" : ", ", sample(item));
  if (count > kShownSamplesMax) all += fmt::format(" and {} more", count - kShownSamplesMax);
  return fmt::format(
      "the loss is not finite in step {} (shard {}, sample {} of the training set; the shard's "
      "samples are {})",
      place.step + 1, place.shard, sample(place.item), all);
}

/// No learning rate is the cause where none has changed the weights.
std::string TrainLoop::advice(const char* look_at, bool was_updated) const {
  const Options& options = parts_.options;
  const bool is_zero = base_rate(options) == 0;
  if (was_updated && !is_zero) {
    const bool has_no_scale = options.precision.format == Precision::fp16 &&
                              options.precision.loss_scale.kind == LossScale::Kind::none;
    return std::string("lower --lr, or use --warmup") +
           (has_no_scale ? ", or --loss-scale=dynamic" : "");
  }
  return fmt::format("{}: look at {} and {}",
                     was_updated ? "--lr is 0" : "no update was made before it", look_at,
                     options.model.init_from ? "the weights of --init-from" : "at --init");
}

/// `what` is known to the rank `reporter`.
bool TrainLoop::end_broken(const std::string& what, const std::string& advice, int reporter) {
  // The others end after that one, so that a launcher does not take them for the first to fail.
  if (parts_.communicator.rank() != reporter)
    return lost(parts_.communicator.barrier(deadline()), /*may_go_on=*/false);
  ending_.exit_code = kExitFailure;
  std::string text = what + ": " + advice;
  if (parts_.keeper != nullptr) text += newest_checkpoint();
  parts_.report.error(text);
  return false;
}

/// `may_go_on`: what this worker holds is good.
bool TrainLoop::lost(const CommResult& result, bool may_go_on) {
  const int signal = asked();
  if (may_go_on && signal == 0 && result.status == CommStatus::aborted && resume_point_.go_back()) {
    parts_.state.seconds = seconds_before_ + seconds_between(began_, Clock::now());
    ending_.exit_code.reset();
    return false;
  }
  ending_.exit_code = signal == 0 ? kExitPeerLost : kExitSignalBase + signal;
  std::string text = fmt::format("gave up in step {}: {}", parts_.state.step, result.detail);
  if (signal != 0) text += fmt::format("; {} had asked it to end", signal_name(signal));
  if (signal != 0 && parts_.keeper != nullptr) text += newest_checkpoint();
  parts_.report.error(text);
  parts_.communicator.abort(result.detail);
  return false;
}

/// What it leaves, after a moment for the one that is being written.
std::string TrainLoop::newest_checkpoint() {
  parts_.keeper->abandon();
  const std::string newest = parts_.keeper->newest();
  return newest.empty() ? "; there is no checkpoint" : "; the last checkpoint is " + newest;
}

}  // namespace ddprun::trainer
