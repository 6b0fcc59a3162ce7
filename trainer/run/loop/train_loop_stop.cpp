// How a run ends that is asked to: all ranks after the same step, with a checkpoint. Or some of
// them, without one, where the others go on in another round.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/describe.hpp"
#include "base/duration.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/loop/train_loop.hpp"

namespace ddprun::trainer {
namespace {

/// For the ranks that wait for rank 0's checkpoint: longer than that may take.
constexpr auto kWrittenWait = std::chrono::minutes(6);

/// From the first rank's signal until each rank has got it, or knows that it goes on.
constexpr auto kSettledWithin = std::chrono::seconds(1);
constexpr auto kLookEvery = std::chrono::milliseconds(1);

/// Another rank has a signal. It is on its way to this one, too; or the news is that this one goes
/// on, because some nodes leave a job.
void await_settlement(const TrainParts& parts) {
  const auto until = Clock::now() + kSettledWithin;
  while (parts.elastic != nullptr && !parts.elastic->world_changes() && parts.asked != nullptr &&
         parts.asked->load() == 0 && Clock::now() < until)
    std::this_thread::sleep_for(kLookEvery);
}

}  // namespace

int TrainLoop::asked() const {
  return parts_.asked == nullptr ? 0 : parts_.asked->load(std::memory_order_relaxed);
}

bool TrainLoop::exchange(Shared mine, Clock::duration longer) {
  mine.stop_signal = asked();
  mine.is_elastic = parts_.elastic != nullptr;
  mine.world_changes = mine.is_elastic && parts_.elastic->world_changes();
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

/// Whether this rank's part in the round is over: directly after all have exchanged the same, so
/// that each comes to the answer that fits those of the others.
bool TrainLoop::is_over() {
  const bool is_asked = ending_.stop_signal != 0;
  const bool may_go_on = std::any_of(shared_.begin(), shared_.end(),
                                     [](const Shared& rank) { return rank.is_elastic; });
  if (is_asked && may_go_on && !ending_.world_changes) {
    await_settlement(parts_);
    if (!exchange({}, kSettledWithin)) return true;
  }
  if (is_asked && !ending_.world_changes) {
    end_as_asked();
    return true;
  }
  // The others may be too few to go on, or be asked to end, too.
  if (is_asked && parts_.keeper != nullptr) {
    parts_.state.seconds = seconds_before_ + seconds_between(began_, Clock::now());
    parts_.keeper->finish(parts_.state, parts_.learner);
  }
  if (is_asked && (asked() != 0 || parts_.elastic == nullptr)) {
    const int signal = asked() != 0 ? asked() : ending_.stop_signal;
    ending_.exit_code = kExitSignalBase + signal;
    if (parts_.environment.local_rank == 0)
      parts_.report.warning(fmt::format("{}: this node leaves after step {}, and others go on",
                                        signal_name(signal), parts_.state.step));
    return true;
  }
  // What is left to do after the last step takes no longer than the next round.
  const bool is_done = parts_.state.step >= parts_.plan.last_step && !is_asked;
  if (!ending_.world_changes || parts_.elastic == nullptr || is_done) return false;
  ending_.exit_code.reset();
  return true;
}

void TrainLoop::end_as_asked() {
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
}

}  // namespace ddprun::trainer
