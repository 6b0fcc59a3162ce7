#include "trainer/run/loop/train_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/duration.hpp"
#include "base/small_file.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/plan/run_data.hpp"

namespace ddprun::trainer {
namespace {

/// The ranks exchange their metrics about this often, and at least every kShareStepsMax steps.
constexpr double kShareSeconds = 0.05;
constexpr std::int64_t kShareStepsMax = 256;

/// For a rank that was not asked to end, and so evaluates to the end.
constexpr auto kEvaluationWait = std::chrono::hours(1);

/// Until the ranks meet again, after `seconds` for the steps since they last did.
std::int64_t steps_to_next(const TrainingState& state, double seconds) {
  const OpenInterval& interval = state.interval;
  const auto steps = std::max<std::int64_t>(1, state.step - interval.first_step);
  const double mean = (interval.seconds + seconds) / static_cast<double>(steps);
  const double wanted = mean > 0 ? kShareSeconds / mean : 1;
  return std::clamp(static_cast<std::int64_t>(wanted), std::int64_t{1}, kShareStepsMax);
}

/// Whether something is to be written after this step, and not when there is time for it.
bool is_due(const Options& options, std::int64_t step) {
  const CheckpointEvery& every = options.checkpoints.every;
  if (every.kind == CheckpointEvery::Kind::steps && step % every.steps == 0) return true;
  return options.report.log_every > 0 && step % options.report.log_every == 0;
}

EpochEnding ending(const TrainParts& parts, EpochEnd end) {
  return {.end = end,
          .epochs = parts.options.batches.epochs,
          .step = parts.state.step,
          .learning_rate = static_cast<double>(parts.state.step_state.learning_rate)};
}

PeakMemory memory_so_far(const TrainParts& parts, const TrainingStep& step) {
  const std::string rows = read_small_file("/proc/self/status").value_or("");
  return {.device = parts.device.peak_bytes() + parts.communicator.shared_arena_bytes() +
                    step.further_peak_bytes(),
          .process = counter_in(rows, "VmHWM:").value_or(0) * 1024};
}

}  // namespace

TrainLoop::TrainLoop(TrainParts parts)
    : parts_(parts),
      score_(score_of(parts.graph.target(), parts.options.checkpoints.best_by)),
      saves_(progress_, parts.options.checkpoints.every),
      step_(make_training_step({.options = parts.options,
                                .plan = parts.plan,
                                .preparation = parts.preparation,
                                .graph = parts.graph,
                                .device = parts.device,
                                .lanes = parts.lanes,
                                .communicator = parts.communicator,
                                .learner = parts.learner,
                                .stored = parts.stored})),
      samples_(
          *parts.sets.train, parts.plan, parts.options.seed,
          shard_run(parts.plan.shards, parts.communicator.world_size(), parts.communicator.rank()),
          reader_settings(parts.plan, parts.environment)),
      test_samples_(*parts.sets.test, reader_settings(parts.plan, parts.environment)),
      rate_share_(plateau_after(parts.state.epochs, parts.options, parts.plan.schedule).share),
      shared_(static_cast<std::size_t>(parts.communicator.world_size())),
      resume_point_(parts.communicator, parts.learner, parts.state, parts.elastic != nullptr),
      share_at_(parts.state.step + 1),
      first_step_(parts.state.step),
      pace_(static_cast<std::int64_t>(parts.sets.test->size())),
      began_(Clock::now()),
      seconds_before_(parts.state.seconds) {}

bool TrainLoop::is_epoch_trained() const {
  return parts_.state.block == parts_.plan.steps_per_epoch;
}

std::optional<int> TrainLoop::run() {
  // What was due after the step at which the last round was left.
  if (parts_.is_handed_over) {
    if (!share()) return ending_.exit_code;
    resume_point_.met();
    if (is_over()) return ending_.exit_code;
  }
  // The run before was asked to end when it had trained an epoch and not evaluated it.
  if (is_epoch_trained() && !end_epoch()) return ending_.exit_code;
  while (parts_.state.step < parts_.plan.last_step) {
    if (!step()) return ending_.exit_code;
    const bool epoch_ends = is_epoch_trained();
    const bool must_share = epoch_ends || parts_.state.step == parts_.plan.last_step ||
                            is_due(parts_.options, parts_.state.step);
    if (must_share || parts_.state.step >= share_at_) {
      if (!share()) return ending_.exit_code;
      resume_point_.met();
    }
    if (is_over()) return ending_.exit_code;
    if (epoch_ends && !end_epoch()) return ending_.exit_code;
  }
  return finish();
}

bool TrainLoop::step() {
  TrainingState& state = parts_.state;
  const auto began = Clock::now();
  samples_.select(state.epoch, state.block);
  parts_.learner.set_learning_rate(
      static_cast<float>(learning_rate(parts_.plan.schedule, state.step, rate_share_)));
  StepInputs inputs{.order = samples_.order(),
                    .epoch = static_cast<std::uint64_t>(state.epoch),
                    .step = static_cast<std::size_t>(state.block),
                    .first_place = samples_.first_place(state.block),
                    .weights = parts_.learner.weights(),
                    .first_shard = parts_.learner.state(),
                    .others = parts_.learner.state()};
  if (parts_.options.precision.inject_overflow_at == state.step)
    inputs.first_shard = make_overflow();

  progress_.at(state.step, "compute");
  step_->compute(samples_.reader(), inputs);
  if (resume_point_.kind() == ResumePoint::Kind::notes) {
    mine_.counts.counters += step_->take_counters();
    StepCounts counts = mine_.counts;
    counts.step_seconds += seconds_between(began, Clock::now());
    resume_point_.leave_note(counts);
  }
  progress_.at(state.step, "all-reduce");
  const CommResult result = step_->sum(deadline());
  if (!result.ok()) return lost(result);
  step_->update();
  warn_of_step();

  ++state.step;
  ++state.block;
  mine_.counts.step_seconds += seconds_between(began, Clock::now());
  mine_.counts.exposed_seconds +=
      std::chrono::duration<double>(step_->exposed().value_or(Clock::duration::zero())).count();
  return true;
}

const StepState* TrainLoop::make_overflow() {
  StepState state = parts_.learner.step_state();
  state.scaler.scale = std::numeric_limits<float>::infinity();
  overflowing_ = parts_.device.allocate(sizeof state);
  parts_.device.copy_in(std::as_bytes(std::span(&state, 1)), overflowing_.data());
  return overflowing_.as<StepState>().data();
}

bool TrainLoop::share() {
  TrainingState& state = parts_.state;
  progress_.at(state.step, "share metrics");
  // A device may be behind the host: its time is known once its numbers are there.
  const auto waits_from = Clock::now();
  mine_.counts.counters += step_->take_counters();
  state.step_state = parts_.learner.step_state();
  mine_.counts.step_seconds += seconds_between(waits_from, Clock::now());
  mine_.steps_to_next = steps_to_next(state, mine_.counts.step_seconds);
  mine_.stuck = state.step_state.stuck;
  mine_.interval_from = state.interval.first_step;
  mine_.save = saves_.word(state.step, parts_.keeper);
  if (!exchange(mine_)) return false;
  saves_.hear(shared_);
  StepCounts all;
  for (const Shared& rank : shared_) all.add_rank(rank.counts);
  share_at_ = state.step + shared_[0].steps_to_next;
  mine_ = {};
  if (!is_sound(all.counters)) return false;
  // Any rank may be the one that gives its state to a new rank 0.
  if (state.interval.first_step != shared_[0].interval_from)
    state.interval = {.first_step = shared_[0].interval_from};
  all.add_to(state);
  const auto now = Clock::now();
  state.seconds = seconds_before_ + seconds_between(began_, now);
  if (parts_.keeper == nullptr) {
    const std::int64_t every = parts_.options.report.log_every;
    if (every > 0 && state.step % every == 0) state.interval = {.first_step = state.step};
    return true;
  }

  const bool is_last = state.step == parts_.plan.last_step;
  const bool is_news = state.step > state.interval.first_step;
  if (is_news && (is_last || parts_.report.interval_due(state.step, now)))
    report_interval(now, is_last);
  // At the end of an epoch, or of the run, the state is saved when it is evaluated.
  if (is_epoch_trained() || is_last) return true;
  // Only a rank that was interrupted comes here with no step of the epoch done.
  const bool best = state.block == 0 && !state.epochs.empty() &&
                    score_.best_value(state.epochs.back()) == state.best_so_far.score;
  offer_checkpoint(best, now);
  return true;
}

void TrainLoop::report_interval(Time now, bool is_last) {
  const TrainingState& state = parts_.state;
  const OpenInterval& open = state.interval;
  const Counters& counters = open.counters;
  const double rate = open.seconds > 0 ? static_cast<double>(counters.count) / open.seconds : 0;
  pace_.trained(counters.count, open.seconds);
  Interval interval{.step = state.step,
                    .steps = state.step - open.first_step,
                    .last_step = parts_.plan.last_step,
                    .epoch = state.epoch,
                    .epochs = parts_.options.batches.epochs,
                    .loss = mean_loss(counters),
                    .score = score_.of(counters),
                    .learning_rate = static_cast<double>(state.step_state.learning_rate),
                    .loss_scale = std::nullopt,
                    .gradient_norm = std::nullopt,
                    .skipped = state.step_state.skipped,
                    .samples_per_second = rate,
                    .exposed_share = std::nullopt,
                    .seconds_left = seconds_left(0),
                    .is_last = is_last};
  if (parts_.plan.scaler.enabled) {
    interval.loss_scale = static_cast<double>(state.step_state.scaler.scale);
  }
  if (parts_.options.optimizer.grad_clip > 0)
    interval.gradient_norm = state.step_state.gradient_norm;
  if (step_->exposed())
    interval.exposed_share = open.seconds > 0 ? open.exposed_seconds / open.seconds : 0;
  if (parts_.report.interval(interval, now)) parts_.state.interval = {.first_step = state.step};
}

double TrainLoop::seconds_left(double of_evaluation_done) const {
  const TrainPlan& plan = parts_.plan;
  const TrainingState& state = parts_.state;
  const auto evaluations = evaluations_left(plan.last_step, plan.steps_per_epoch, state.epoch);
  return pace_.seconds_for((plan.last_step - state.step) * plan.shards * plan.batch,
                           static_cast<double>(evaluations) - of_evaluation_done);
}

void TrainLoop::report_evaluation(double share, Time began) {
  const TrainingState& state = parts_.state;
  progress_.at(state.step, "evaluate");
  if (parts_.keeper == nullptr) return;
  const auto now = Clock::now();
  pace_.evaluated(seconds_between(began, now), share);
  parts_.report.evaluation({.step = state.step,
                            .last_step = parts_.plan.last_step,
                            .epoch = state.epoch,
                            .epochs = parts_.options.batches.epochs,
                            .share = share,
                            .seconds_left = seconds_left(share)},
                           began, now);
}

void TrainLoop::warn_of_step() {
  for (const std::string& line : step_->take_warnings()) parts_.report.warning(line);
}

bool TrainLoop::evaluate(Counters& total) {
  const auto began = Clock::now();
  progress_.at(parts_.state.step, "evaluate");
  pace_.trained(parts_.state.epoch_counters.count, parts_.state.epoch_seconds);
  if (!agree_on_weights() || is_over()) return false;
  step_->evaluate(test_samples_, [&](double share) {
    report_evaluation(share, began);
    return asked() == 0 && (parts_.elastic == nullptr || !parts_.elastic->is_interrupted());
  });
  warn_of_step();
  Shared mine;
  mine.memory = memory_so_far(parts_, *step_);
  mine.counts.counters = step_->take_counters();
  // A rank that was asked to end has given up an evaluation that others still do.
  const Clock::duration longer =
      asked() == 0 ? Clock::duration{} : Clock::duration(kEvaluationWait);
  if (!exchange(mine, longer)) return false;
  // Where only the world changes, all have evaluated to the end: that counts first.
  if (ending_.stop_signal != 0 && is_over()) return false;
  pace_.evaluated(seconds_between(began, Clock::now()));  // until the slowest rank had done it
  total = {};
  for (const Shared& rank : shared_) total += rank.counts.counters;
  if (total.not_finite > 0) {
    const std::string when = fmt::format(" after step {}", parts_.state.step);
    return end_broken(held_out_not_finite(total, when), advice("this sample", was_updated()));
  }
  return true;
}

EpochSummary TrainLoop::summarize(const Counters& test) const {
  const TrainingState& state = parts_.state;
  const Counters& train = state.epoch_counters;
  return {.epoch = state.epoch,
          .train_loss = mean_loss(train),
          .train_score = score_.of(train),
          .test_loss = mean_loss(test),
          .test_score = score_.of(test),
          .seconds = state.epoch_seconds,
          .samples_per_second =
              state.epoch_seconds > 0 ? static_cast<double>(train.count) / state.epoch_seconds : 0};
}

/// Whether it is the best of all so far: then the next ones have to be better than it.
bool TrainLoop::note_if_best(const EpochSummary& summary) {
  const double value = score_.best_value(summary);
  const bool best = score_.is_better(value, parts_.state.best_so_far.score);
  if (best) parts_.state.best_so_far.score = value;
  return best;
}

bool TrainLoop::end_epoch() {
  TrainingState& state = parts_.state;
  Counters test;
  // The next epoch's first images are decoded during the evaluation.
  if (state.step < parts_.plan.last_step) samples_.select(state.epoch + 1, 0);
  if (!evaluate(test)) return false;
  const EpochSummary summary = summarize(test);
  state.epochs.push_back(summary);
  const bool best = note_if_best(summary);
  ++state.epoch;
  state.block = 0;
  state.epoch_counters = {};
  state.epoch_seconds = 0;
  // Rank 0 alone shows it.
  parts_.report.epoch(summary, ending(parts_, EpochEnd::complete));
  lower_rate();
  if (parts_.keeper != nullptr) {
    const auto now = Clock::now();
    state.seconds = seconds_before_ + seconds_between(began_, now);
    offer_checkpoint(best, now);
  }
  resume_point_.met();
  return !is_over();
}

/// All ranks have the same losses, so the same rate.
void TrainLoop::lower_rate() {
  const Schedule& schedule = parts_.plan.schedule;
  const double before = rate_share_;
  rate_share_ = plateau_after(parts_.state.epochs, parts_.options, schedule).share;
  if (rate_share_ != before)
    parts_.report.note(
        fmt::format("learning rate {:.3g} from here on: the loss was not better for "
                    "more epochs than --plateau-patience={}",
                    schedule.base_rate * rate_share_, schedule.plateau.patience));
}

std::optional<int> TrainLoop::finish() {
  TrainingState& state = parts_.state;
  Outcome outcome{.epochs = state.epochs,
                  .weights_hash = hash_text(parts_.learner.hash()),
                  .shards = parts_.plan.shards,
                  .batch = parts_.plan.batch,
                  .threads_per_shard = parts_.options.device.threads_per_shard,
                  .compute = state.origin.compute,
                  .steps = state.step,
                  .skipped = state.step_state.skipped,
                  .restarts = state.origin.restarts,
                  .seconds = 0,
                  .checkpoint = ""};
  bool best = false;
  bool is_news = false;
  // An epoch that --max-steps cut off: a later run goes on within it, but what is there now is what
  // the user gets.
  if (state.block != 0) {
    Counters test;
    if (!evaluate(test)) return ending_.exit_code;
    const EpochSummary& summary = outcome.epochs.emplace_back(summarize(test));
    const auto is_this = [&](const CutOffEpoch& epoch) { return epoch.step == state.step; };
    // Else a run that has nothing to do.
    if (std::none_of(state.cut_off.begin(), state.cut_off.end(), is_this)) {
      state.cut_off.push_back({.step = state.step, .summary = summary});
      best = note_if_best(summary);
      is_news = true;
      parts_.report.epoch(summary, ending(parts_, EpochEnd::cut_off));
    }
  }
  outcome.best = best_of(evaluations_of(state, parts_.plan.steps_per_epoch), score_);
  if (parts_.keeper == nullptr) return kExitSuccess;
  progress_.at(state.step, "last checkpoint");
  const bool written = parts_.keeper->finish(state, parts_.learner, best, is_news);
  if (written) saves_.meet_all();
  outcome.checkpoint = parts_.keeper->newest();
  outcome.seconds = seconds_before_ + seconds_between(began_, Clock::now());
  if (state.step > first_step_) {
    // With what the last checkpoint took.
    shared_[0].memory = memory_so_far(parts_, *step_);
    for (const Shared& rank : shared_) outcome.memory.push_back(rank.memory);
    step_->report_to(outcome);
  }
  parts_.report.end(outcome);
  return written ? kExitSuccess : kExitFailure;
}

void TrainLoop::offer_checkpoint(bool best, Time now) {
  progress_.at(parts_.state.step, "checkpoint");
  broken_ = parts_.keeper->offer(parts_.state, parts_.learner, best, now, saves_.asked_for());
  mine_.weights.is_broken = !broken_.empty();
}

}  // namespace ddprun::trainer
