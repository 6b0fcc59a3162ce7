#include "trainer/run/worker_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>

#include "base/latest_link.hpp"
#include "base/time_stamp.hpp"
#include "trainer/error.hpp"
#include "trainer/model/model.hpp"
#include "trainer/run/cli/evaluation_arguments.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/plan/run_checkpoints.hpp"
#include "trainer/run/plan/run_data.hpp"
#include "trainer/run/plan/run_folder.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr auto kLockWait = 3s;

std::filesystem::path current_folder() {
  std::error_code failed;
  auto folder = std::filesystem::current_path(failed);
  if (failed) throw DataError("the current folder has been deleted: cd to another one");
  return folder;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

WorkerRun::WorkerRun(const ChosenDevice& chosen, const Options& options,
                     const WorkerEnvironment& environment, StopSignals& stop)
    : chosen_(chosen), options_(options), environment_(environment), stop_(stop) {
  stop_.set_clean_up([this] { folder_.made.reset(); });
}

WorkerRun::~WorkerRun() { stop_.set_clean_up({}); }

int WorkerRun::run() {
  load();
  find_starting_point();
  if (!agree_on_plan() || !meet() || !begin()) return kExitPeerLost;
  return options_.eval ? evaluate() : train();
}

void WorkerRun::load() {
  memory_.there = machine_memory();
  if (options_.eval) input_.evaluated = metadata_of_weights(*options_.model.init_from, is_first());
  input_.sets = load_sets(options_, environment_.local_world_size, memory_.there);
  phase_ = Phase::before_training;
  input_.facts = facts_of(*input_.sets.train, *input_.sets.test);
  check_classes_of_writer(input_.evaluated, input_.sets.class_names,
                          options_.model.init_from.value_or(""));
  input_.preparation.emplace(options_.data.preparation, *input_.sets.train);
  input_.graph = make_graph({.model = options_.model.name,
                             .shape = input_.preparation->shape(),
                             .classes = head_classes(options_, input_.facts),
                             .dropout = options_.model.dropout,
                             .stem = options_.model.stem,
                             .decoder = options_.model.decoder,
                             .positive_weight = positive_weight_of(options_, input_.facts),
                             .vocabulary = input_.facts.text.vocabulary,
                             .size = options_.model.size,
                             .normal_init = options_.model.normal_init});
  check_sets(input_.sets, *input_.graph);
}

MemoryParts WorkerRun::memory_parts() {
  return {.options = options_,
          .environment = environment_,
          .graph = *input_.graph,
          .sets = input_.sets,
          .chosen = chosen_,
          .there = memory_.there,
          .lanes = memory_.lanes};
}

void WorkerRun::make_directory() {
  const auto held = stop_.hold_ends();
  folder_.made.emplace(folder_.out);
}

void WorkerRun::give_up_directory() {
  const auto held = stop_.hold_ends();
  folder_.made.reset();
}

/// Two runs would mix their checkpoints and lines of metrics.
void WorkerRun::lock_directory() {
  if (!keeps_checkpoints()) {
    try {
      make_directory();
    } catch (const DataError&) {
      // Only metrics go there: Report warns that they cannot.
    }
  }
  // The round before may still be ending.
  try {
    folder_.lock.emplace(folder_.out, environment_.restarted() ? kLockWait : 0s);
  } catch (const DataError&) {
    // Where rounds have claims, these decide between them.
    if (!environment_.restarted() || !environment_.epoch) throw;
  }
}

/// Rank 0 alone looks at checkpoints: the others may not see its disk.
void WorkerRun::find_starting_point() {
  folder_.out = choose_out(options_, environment_, current_folder(),
                           time_stamp(std::chrono::system_clock::now()));
  if (writes() && keeps_checkpoints() && !environment_.restarted()) {
    make_directory();
    // Another job may have taken the free one in the meantime.
    while (!names_its_run(options_, environment_) && !folder_.made->is_new() &&
           is_there(folder_.out)) {
      folder_.out = choose_out(options_, environment_, current_folder(),
                               time_stamp(std::chrono::system_clock::now()));
      make_directory();
    }
  }
  if (writes()) lock_directory();
  report_.emplace(Report::Settings{
      .rank = environment_.rank,
      .json = options_.report.json,
      .quiet = options_.report.quiet,
      .place = {.world_size = environment_.world_size, .round = environment_.round},
      .score = score_of(input_.graph->target(), options_.checkpoints.best_by),
      .metrics = writes() ? folder_.out / kMetricsFile : std::filesystem::path(),
      .events = writes() && options_.report.tensorboard ? folder_.out : std::filesystem::path(),
      .log_every = options_.report.log_every});
  if (!is_first()) return;
  if (!chosen_.warning.empty()) report_->warning(chosen_.warning);
  if (!input_.sets.warning.empty()) report_->warning(input_.sets.warning);
  if (device().storage(options_.precision.format) == Storage::rounded_to_bf16)
    report_->warning(
        "--precision bf16: this CPU has no instructions for it (avx512_bf16), so values are only "
        "rounded to bf16, and a step takes as long as in fp32");
  // Part of what tells whether a checkpoint is of this run.
  if (options_.model.init_from) {
    // Which checkpoint the run goes on from depends on the weights, and V on the checkpoint.
    if (states_in(folder_.out).empty())
      checked_memory(memory_parts(), make_plan(options_, environment_, input_.facts, std::nullopt),
                     false);
    weights_.parameters = FloatBuffer(input_.graph->arena_size());
    weights_.initial = initialize_weights(options_, *input_.graph, weights_.parameters.span());
  }
  input_.facts.initial_weights = weights_.initial.hash;
  // Before it looks, so that no older round publishes a newer checkpoint than the one it finds.
  if (keeps_checkpoints() && environment_.restarted())
    folder_.claim = claim_directory(folder_.out, environment_, *report_);
  folder_.start = find_start(
      options_, environment_, input_.facts, folder_.out,
      make_layout(options_, *input_.graph, input_.sets, *input_.preparation),
      compute_text(chosen_, options_.precision.format, environment_.world_size),
      [&](const TrainPlan& plan) { checked_memory(memory_parts(), plan, true); }, *report_);
  if (folder_.start.snapshot) weights_.parameters = {};
}

bool WorkerRun::agree_on_plan() {
  std::optional<int> shards;
  if (is_first()) {
    if (folder_.start.snapshot) shards = shards_of(folder_.start.snapshot->state.config);
    // Refused here where it can be, before anybody is waited for.
    shards = make_plan(options_, environment_, input_.facts, shards).shards;
  }
  ranks_.rendezvous.emplace(environment_, options_.comm.rendezvous_timeout);
  const AgreedShards agreed = ranks_.rendezvous->agree_on_shards(
      shards.value_or(0), chosen_.gpu != nullptr, chosen_.why_no_gpu);
  if (!agreed.result.ok()) {
    report_->error(fmt::format("rendezvous failed: {}", agreed.result.detail));
    return false;
  }
  plan_ = make_plan(options_, environment_, input_.facts, agreed.shards);
  if (is_first() && !options_.eval)
    for (const std::string& line :
         advice_on(options_, environment_, plan_, chosen_.gpu ? kNoCores : usable_cores()))
      report_->warning(line);
  memory_.planned = checked_memory(memory_parts(), plan_, folder_.start.snapshot.has_value());
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
                                              .on_phase = {}},
                                             options_.comm.timeout, ranks_.rendezvous->exchange(),
                                             ranks_.rendezvous->deadline());
  ranks_.communicator = std::move(setup.communicator);
  if (!setup.how.empty()) ranks_.sums_text = " (" + setup.how + ")";
  if (ranks_.communicator) return true;
  if (setup.refused) throw DataError(setup.result.detail);
  report_->error(fmt::format("rendezvous failed: {}", setup.result.detail));
  return false;
}

/// With rank 0's weights and state.
bool WorkerRun::begin() {
  learner_.emplace(*input_.graph, device(),
                   Learner::Settings{.optimizer = optimizer_config(options_),
                                     .scaler = plan_.scaler,
                                     .precision = options_.precision.format,
                                     .shards = statistic_shards(plan_)});
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
  if (!same.ok()) {
    report_->error(fmt::format("lost another rank at the start: {}", same.detail));
    ranks_.communicator->abort(same.detail);
    return false;
  }
  state_.step_state.scaler = resumed_scaler(plan_.scaler, state_.step_state.scaler);
  learner_->set_step_state(state_.step_state);
  state_.origin.run = environment_.run_id;
  state_.origin.compute = compute_text(chosen_, options_.precision.format, environment_.world_size);
  judge_by(score_of(input_.graph->target(), options_.checkpoints.best_by));
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
    const bool goes_on = environment_.restarted() && folder_.start.snapshot;
    if (options_.checkpoints.out.empty() && !goes_on)
      lead_latest_to(folder_.out.parent_path(), folder_.out);
  }
  if (is_first() && keeps_checkpoints() && !folder_.claim)
    folder_.claim = claim_directory(folder_.out, environment_, *report_);
  if (options_.eval) {
    report_->note(evaluation_text());
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
                          std::move(folder_.claim), *report_);
  }
  if (options_.model.init_from && folder_.start.snapshot) {
    report_->note("--init-from was not used, as the run goes on from its checkpoint");
  } else if (options_.model.init_from) {
    report_->note(weights_.initial.note);
  }
  report_->note(start_text());
  return true;
}

/// Which epoch is best depends on --best: after another one it is found again.
void WorkerRun::judge_by(const Score& score) {
  if (state_.best_so_far.metric != score.best_key()) {
    const auto best = best_of(evaluations_of(state_, plan_.steps_per_epoch), score);
    if (is_first() && best && !state_.best_so_far.metric.empty())
      report_->warning(
          fmt::format("--best goes by {} now: {} is that of the {} {} until an epoch is better",
                      score.best_key(), (folder_.out / "best").string(), state_.best_so_far.is,
                      state_.best_so_far.metric));
    state_.best_so_far.score = best ? score.best_value(best->epoch) : -1;
  }
  state_.best_so_far.metric = score.best_key();
  state_.best_so_far.is = score.best_is();
}

TrainParts WorkerRun::parts() {
  return {.options = options_,
          .environment = environment_,
          .plan = plan_,
          .sets = input_.sets,
          .preparation = *input_.preparation,
          .graph = *input_.graph,
          .device = device(),
          .lanes = *lanes_,
          .communicator = *ranks_.communicator,
          .report = *report_,
          .keeper = keeper_.get(),
          .state = state_,
          .learner = *learner_,
          .asked = &stop_.asked(),
          .stored = &stored_};
}

int WorkerRun::train() {
  const ShardRun run = shard_run(plan_.shards, environment_.world_size, environment_.rank);
  lanes_.emplace(choose_lanes(options_, environment_, usable_cores(), run.count));
  if (!stored_.copy_to(device()))
    report_->warning(
        "the data set was to stay in the GPU's memory, but other programs have taken that: its "
        "samples are sent as they are needed");
  loop_.emplace(parts());
  phase_ = Phase::training;
  stop_.begin_training();
  const int code = loop_->run();
  if (keeper_ && code != kExitSuccess) keeper_->abandon();
  return code;
}

int WorkerRun::evaluate() {
  const auto batches = static_cast<int>(std::min<std::size_t>(
      input_.sets.test->size() / static_cast<std::size_t>(plan_.batch) + 1, kShardsMax));
  lanes_.emplace(choose_lanes(options_, environment_, usable_cores(), batches));
  phase_ = Phase::training;
  return evaluate_held_out(parts());
}

int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus,
               StopSignals& stop) {
  check_parallel(options, environment);
  const ChosenDevice chosen = choose_device(options, environment, gpus);
  Options used = options;
  if (chosen.gpu) used.device.lanes = 1;  // its work comes from one thread
  WorkerRun run(chosen, used, environment, stop);
  int code = kExitFailure;
  try {
    code = run.run();
  } catch (const std::exception& error) {
    code = run.failed(error);
  }
  if (chosen.gpu && code != kExitSuccess) {
    // A GPU that hangs would be waited for by all that is in its memory. The driver cleans up.
    run.give_up_directory();
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace ddprun::trainer
