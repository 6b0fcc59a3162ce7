// How the ranks of a round agree on what they do, and with which weights and state they begin.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/latest_link.hpp"
#include "trainer/error.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/plan/run_checkpoints.hpp"
#include "trainer/run/plan/run_data.hpp"
#include "trainer/run/plan/run_folder.hpp"
#include "trainer/run/worker_run.hpp"
#include "trainer/run/worker_run_texts.hpp"

namespace ddprun::trainer {
namespace {

/// Times as long as this worker took to be ready for others.
constexpr int kNewRanksMayTake = 4;

/// Which epoch is best depends on --best: after another one it is found again. Gives a warning
/// about that (`place`: of the best checkpoint); empty: nothing has changed.
std::string judge_by(const Score& score, std::int64_t steps_per_epoch, const std::string& place,
                     TrainingState& state) {
  BestSoFar& so_far = state.best_so_far;
  std::string warning;
  if (so_far.metric != score.best_key()) {
    const auto best = best_of(evaluations_of(state, steps_per_epoch), score);
    if (best && !so_far.metric.empty())
      warning =
          fmt::format("--best goes by {} now: {} is that of the {} {} until an epoch is better",
                      score.best_key(), place, so_far.is, so_far.metric);
    so_far.score = best ? score.best_value(best->epoch) : -1;
  }
  so_far.metric = score.best_key();
  so_far.is = score.best_is();
  return warning;
}

}  // namespace

bool WorkerRun::agree_on_plan() {
  std::optional<int> shards;
  const int root = environment_.source_rank.value_or(0);
  if (environment_.rank == root) {
    if (learner_) shards = plan_.shards;
    if (folder_.start.snapshot) shards = shards_of(folder_.start.snapshot->state.config);
    // Refused here where it can be, before anybody is waited for.
    shards = make_plan(options_, environment_, input_.facts, shards).shards;
  }
  // New ranks are still to load what this one has; where files come from a colder disk, more
  // slowly.
  const std::chrono::nanoseconds for_new_ranks =
      rounds_.is_entering ? kNewRanksMayTake * rounds_.start_took : std::chrono::nanoseconds(0);
  ranks_.rendezvous.emplace(environment_, options_.comm.rendezvous_timeout + for_new_ranks,
                            rounds_.given_up(stop_.asked()));
  const AgreedShards agreed = ranks_.rendezvous->agree_on_shards(
      shards.value_or(0), chosen_.gpu != nullptr, chosen_.why_no_gpu, root);
  if (!agreed.result.ok()) return give_up(agreed.result, "rendezvous failed");
  plan_ = make_plan(options_, environment_, input_.facts, agreed.shards);
  if (is_first() && !options_.eval && !environment_.source_rank)
    for (const std::string& line :
         advice_on(options_, environment_, plan_, chosen_.gpu ? kNoCores : usable_cores()))
      report_->warning(line);
  memory_.planned = checked_memory(memory_parts(), plan_, folder_.start.snapshot.has_value());
  if (learner_) return true;
  // A set that is read once is sent once either way.
  const bool reads_once = options_.eval || plan_.last_step <= plan_.steps_per_epoch;
  if (chosen_.gpu && !reads_once)
    stored_.choose({input_.sets.train.get(), input_.sets.test.get()},
                   StoredSets::bytes_most(chosen_.gpu->free_memory(), chosen_.gpu_workers,
                                          memory_.planned.on_gpu().total()));
  memory_.planned.stored = stored_.bytes();
  return true;
}

bool WorkerRun::meet() {
  CommSetup setup = make_device_communicator(chosen_,
                                             {.rank = environment_.rank,
                                              .world_size = environment_.world_size,
                                              .shards = plan_.shards,
                                              .order = chosen_.order,
                                              .arena_floats = input_.graph->arena_size(),
                                              .group = ranks_.rendezvous->group(),
                                              .on_phase = {},
                                              .keeps_notes = may_go_on(options_, environment_),
                                              .is_given_up = rounds_.given_up(stop_.asked())},
                                             options_.comm.timeout, ranks_.rendezvous->exchange(),
                                             ranks_.rendezvous->deadline());
  ranks_.communicator = std::move(setup.communicator);
  if (!setup.how.empty()) ranks_.sums_text = " (" + setup.how + ")";
  if (ranks_.communicator) return true;
  if (setup.refused) throw DataError(setup.result.detail);
  return give_up(setup.result, "rendezvous failed");
}

/// Before training: a rank that is gone is no error where there is another round.
bool WorkerRun::give_up(const CommResult& why, const std::string& text) {
  rounds_.has_lost_peer = rounds_.connection != nullptr && why.status == CommStatus::aborted &&
                          stop_.asked().load() == 0;
  if (!rounds_.has_lost_peer) report_->error(fmt::format("{}: {}", text, why.detail));
  if (ranks_.communicator) ranks_.communicator->abort(why.detail);
  return false;
}

bool WorkerRun::begin() {
  const bool is_handed_over = environment_.source_rank.has_value();
  if (is_handed_over ? !begin_as_handed_over() : !begin_as_stored()) return false;
  if (options_.eval) {
    report_->note(evaluation_text(options_, input_.facts.name, input_.sets.test->size(),
                                  environment_.world_size, chosen_.name, plan_.batch));
    const auto held_out = input_.evaluated.find("test_data");
    if (is_first() && held_out != input_.evaluated.end() &&
        held_out->second != input_.facts.test_content)
      report_->warning(
          "these are not the samples that were held out when the weights were trained");
    return true;
  }
  if (is_first()) {
    CheckpointLayout layout =
        make_layout(options_, *input_.graph, input_.sets, *input_.preparation);
    layout.metadata.insert({"batch", std::to_string(plan_.batch)});
    keeper_ = make_keeper(options_, folder_.start, folder_.out, std::move(layout),
                          std::exchange(folder_.claim, std::nullopt), *report_);
  }
  if (rounds_.handover.source >= 0 && rounds_.handover.damage.empty()) {
    report_->note(handover_text(rounds_.handover, environment_, state_.step));
    return true;
  }
  if (options_.model.init_from && folder_.start.snapshot) {
    report_->note("--init-from was not used, as the run goes on from its checkpoint");
  } else if (options_.model.init_from) {
    report_->note(weights_.initial.note);
  }
  report_->note(start_text());
  return true;
}

/// With rank 0's weights and state: those of a checkpoint, or the first ones.
bool WorkerRun::begin_as_stored() {
  rounds_.held.is_there = false;
  // Anew, also where this worker was kept: all moments are 0 then.
  learner_.emplace(*input_.graph, *chosen_.device,
                   Learner::Settings{.optimizer = optimizer_config(options_),
                                     .scaler = plan_.scaler,
                                     .precision = options_.precision.format,
                                     .shards = statistic_shards(plan_)});
  if (rounds_.connection && !make_room_to_go_back(chosen_.gpu.get(), *learner_, memory_.planned))
    rounds_.connection.reset();
  state_ = folder_.start.snapshot ? folder_.start.snapshot->state : fresh_state(plan_);
  state_.config = plan_.config;
  if (folder_.start.snapshot) {
    restore(*folder_.start.snapshot, *learner_);
  } else if (is_first()) {
    if (!options_.model.init_from) {
      weights_.parameters = FloatBuffer(input_.graph->arena_size());
      weights_.initial = initialize_weights(options_, *input_.graph, weights_.parameters.span());
    }
    learner_->copy_in(0, weights_.parameters.span());
    weights_.parameters = {};
  }
  const CommResult same =
      distribute(*ranks_.communicator, plan_, state_, *learner_, options_.comm.rendezvous_timeout);
  if (!same.ok()) return give_up(same, "lost another rank at the start");
  begin_as_rank();
  return true;
}

/// With the state of the rank that has done the most steps. Where ranks that have done as many do
/// not hold the same, nobody can tell which one is right: with that of the newest checkpoint.
bool WorkerRun::begin_as_handed_over() {
  if (!learner_)
    learner_.emplace(*input_.graph, *chosen_.device,
                     Learner::Settings{.optimizer = optimizer_config(options_),
                                       .scaler = plan_.scaler,
                                       .precision = options_.precision.format,
                                       .shards = statistic_shards(plan_)});
  Handover& handover = rounds_.handover = {};
  const CommResult done = hand_over(*ranks_.communicator, plan_, state_, *learner_,
                                    options_.comm.rendezvous_timeout, rounds_.held, handover);
  if (!done.ok()) return give_up(done, "lost another rank while it got the state");
  if (handover.source < 0 || !handover.damage.empty()) {
    if (is_first() && !handover.damage.empty())
      report_->warning(
          fmt::format("{}: faulty memory somewhere; all ranks go back to the newest checkpoint",
                      handover.damage));
    find_starting_point();
    // The identity of the run has the first weights, which only that has found.
    plan_ = make_plan(options_, environment_, input_.facts, plan_.shards);
    return begin_as_stored();
  }
  begin_as_rank();
  if (is_first() && keeps_checkpoints()) {
    remove_stale(folder_.out);
    LastCheckpoint last = find_last(folder_.out, state_.origin.lineage);
    folder_.start = {.snapshot = std::nullopt,
                     .path = last.path.string(),
                     .sequence_next = last.sequence_next,
                     .step_on_disk = last.step,
                     .block_on_disk = last.block};
  }
  return true;
}

/// What of the state and the directory belongs to this round and rank.
void WorkerRun::begin_as_rank() {
  const auto init_from =
      std::find_if(state_.config.begin(), state_.config.end(),
                   [](const ConfigEntry& entry) { return entry.name == kInitFromEntry; });
  if (init_from != state_.config.end() && input_.facts.initial_weights.empty()) {
    input_.facts.initial_weights = to_string(init_from->value);
    plan_ = make_plan(options_, environment_, input_.facts, plan_.shards);
  }
  state_.config = plan_.config;
  state_.step_state.scaler = resumed_scaler(plan_.scaler, state_.step_state.scaler);
  learner_->set_step_state(state_.step_state);
  state_.origin.run = environment_.run_id;
  state_.origin.compute = compute_text(chosen_, options_.precision.format, environment_.world_size);
  const std::string other_best =
      judge_by(score_of(input_.graph->target(), options_.checkpoints.best_by),
               plan_.steps_per_epoch, (folder_.out / "best").string(), state_);
  if (is_first() && !other_best.empty()) report_->warning(other_best);
  state_.origin.world_size = environment_.world_size;
  state_.origin.round = environment_.round;
  state_.origin.restarts = environment_.restart_count;
  report_->starts_after(state_.step);

  if (folder_.made) {
    const auto held = stop_.hold_ends();
    folder_.made->keep();
  }
  if (writes() && keeps_checkpoints()) {
    mark_run(options_, environment_, folder_.out);
    // A restart that goes on with its run is not newer than a run that has begun since.
    const bool goes_on =
        environment_.restarted() && (folder_.start.snapshot || rounds_.handover.source >= 0);
    if (options_.checkpoints.out.empty() && !goes_on)
      lead_latest_to(folder_.out.parent_path(), folder_.out);
  }
  if (is_first() && keeps_checkpoints() && !folder_.claim)
    folder_.claim = claim_directory(folder_.out, environment_, *report_);
}

}  // namespace ddprun::trainer
