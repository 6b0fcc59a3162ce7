// How a run ends that is asked to: all ranks after the same step, with a checkpoint.
#include <fmt/format.h>

#include <algorithm>

#include "base/describe.hpp"
#include "base/duration.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/loop/train_loop.hpp"

namespace ddprun::trainer {
namespace {

/// For the ranks that wait for rank 0's checkpoint: longer than that may take.
constexpr auto kWrittenWait = std::chrono::minutes(6);

}  // namespace

int TrainLoop::asked() const {
  return parts_.asked == nullptr ? 0 : parts_.asked->load(std::memory_order_relaxed);
}

bool TrainLoop::exchange(Shared mine, Clock::duration longer) {
  mine.stop_signal = asked();
  mine.world_changes = parts_.elastic != nullptr && parts_.elastic->world_changes();
  const CommResult result = parts_.communicator.all_gather(
      std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(shared_)),
      deadline() + longer);
  if (!result.ok()) return lost(result);
  for (const Shared& rank : shared_) {
    ending_.stop_signal = std::max(ending_.stop_signal, rank.stop_signal);
    ending_.world_changes = ending_.world_changes || rank.world_changes;
  }
  return true;
}

/// All ranks have exchanged the same, so all leave after the same step; not after the last one.
bool TrainLoop::leaves_for_next_round() {
  if (!ending_.world_changes || parts_.elastic == nullptr ||
      parts_.state.step >= parts_.plan.last_step)
    return false;
  ending_.exit_code.reset();
  return true;
}

/// All ranks have exchanged the same signals, so they come to the same answer.
bool TrainLoop::ends_as_asked() {
  if (ending_.stop_signal == 0) return false;
  TrainingState& state = parts_.state;
  progress_.at(state.step, "last checkpoint");
  const int signal = asked() != 0 ? asked() : ending_.stop_signal;
  ending_.exit_code = kExitSignalBase + signal;
  // Else a launcher that was not asked itself would find nothing in the output of this rank.
  if (asked() == 0) {
    const auto first = std::find_if(shared_.begin(), shared_.end(),
                                    [](const Shared& rank) { return rank.stop_signal != 0; });
    parts_.report.warning(fmt::format("rank {} got {}: all end after step {}",
                                      first - shared_.begin(), signal_name(signal), state.step));
  }
  const auto written_by =
      Clock::now() + std::max<Clock::duration>(kWrittenWait, parts_.options.comm.timeout);
  if (parts_.keeper != nullptr) {
    const auto now = Clock::now();
    state.seconds = seconds_before_ + seconds_between(began_, now);
    // share() has reported the last step itself.
    if (state.step > std::max(first_step_, state.interval.first_step) &&
        state.step < parts_.plan.last_step)
      report_interval(now, /*is_last=*/true);
    const bool is_saved = parts_.keeper->finish(state, parts_.learner);
    const Options& options = parts_.options;
    parts_.report.end(
        StoppedRun{.signal = signal_name(signal),
                   .step = state.step,
                   .checkpoint = parts_.keeper->newest(),
                   .is_saved = is_saved,
                   .is_off = options.checkpoints.every.kind == CheckpointEvery::Kind::off,
                   .is_named = !options.checkpoints.out.empty(),
                   .is_resumed = options.checkpoints.resume != Resume::never});
  }
  // Only now, so that a launcher does not take the first rank to leave for a failed one.
  const CommResult all_end = parts_.communicator.barrier(written_by);
  // Rank 0 has said where its checkpoint is.
  if (!all_end.ok() && parts_.keeper == nullptr)
    parts_.report.error(
        fmt::format("{}; {} had asked it to end; the last checkpoint may not be written",
                    all_end.detail, signal_name(signal)));
  return true;
}

}  // namespace ddprun::trainer
