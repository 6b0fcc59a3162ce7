#include "trainer/run/worker_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/describe.hpp"
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
  const auto began = Clock::now();
  load();
  find_folder();
  // Where other ranks hold a newer state, that is the one to go on from.
  if (!environment_.source_rank) find_starting_point();
  rounds_.start_took = Clock::now() - began;
  if (!agree_on_plan() || !meet() || !begin()) return kExitPeerLost;
  if (options_.eval) return evaluate();
  if (may_go_on(options_, environment_)) rounds_.connection = Elastic::open();
  if (rounds_.connection && !make_room_to_go_back(chosen_.gpu.get(), *learner_, memory_.planned))
    rounds_.connection.reset();
  while (true) {
    if (const std::optional<int> code = train()) return *code;
    if (!go_on()) {
      const int signal = stop_.asked().load();
      return signal == 0 ? kExitPeerLost : kExitSignalBase + signal;
    }
  }
}

void WorkerRun::load() {
  memory_.there = machine_memory();
  if (options_.eval) input_.evaluated = metadata_of_weights(*options_.model.init_from, is_first());
  input_.sets = load_sets(options_, environment_.local_world_size, memory_.there,
                          environment_.source_rank.has_value());
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

void WorkerRun::find_folder() {
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
  make_report();
  if (!is_first()) return;
  if (!chosen_.warning.empty()) report_->warning(chosen_.warning);
  if (!input_.sets.warning.empty()) report_->warning(input_.sets.warning);
  if (chosen_.device->storage(options_.precision.format) == Storage::rounded_to_bf16)
    report_->warning(
        "--precision bf16: this CPU has no instructions for it (avx512_bf16), so values are only "
        "rounded to bf16, and a step takes as long as in fp32");
}

void WorkerRun::make_report() {
  report_.emplace(Report::Settings{
      .rank = environment_.rank,
      .json = options_.report.json,
      .quiet = options_.report.quiet,
      .place = {.world_size = environment_.world_size, .round = environment_.round},
      .score = score_of(input_.graph->target(), options_.checkpoints.best_by),
      .metrics = writes() ? folder_.out / kMetricsFile : std::filesystem::path(),
      .events = writes() && options_.report.tensorboard ? folder_.out : std::filesystem::path(),
      .log_every = options_.report.log_every});
}

/// Rank 0 alone looks at checkpoints: the others may not see its disk.
void WorkerRun::find_starting_point() {
  if (!is_first()) return;
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
  if (keeps_checkpoints() && environment_.restarted() && !folder_.claim)
    folder_.claim = claim_directory(folder_.out, environment_, *report_);
  folder_.start = find_start(
      options_, environment_, input_.facts, folder_.out,
      make_layout(options_, *input_.graph, input_.sets, *input_.preparation),
      compute_text(chosen_, options_.precision.format, environment_.world_size),
      [&](const TrainPlan& plan) { checked_memory(memory_parts(), plan, true); }, *report_);
  if (folder_.start.snapshot) weights_.parameters = {};
}

TrainParts WorkerRun::parts() {
  return {.options = options_,
          .environment = environment_,
          .plan = plan_,
          .sets = input_.sets,
          .preparation = *input_.preparation,
          .graph = *input_.graph,
          .device = *chosen_.device,
          .lanes = *lanes_,
          .communicator = *ranks_.communicator,
          .report = *report_,
          .keeper = keeper_.get(),
          .state = state_,
          .learner = *learner_,
          .asked = &stop_.asked(),
          .stored = &stored_,
          .elastic = rounds_.connection.get(),
          .is_handed_over = rounds_.handover.source >= 0 && rounds_.handover.damage.empty()};
}

std::optional<int> WorkerRun::train() {
  const ShardRun run = shard_run(plan_.shards, environment_.world_size, environment_.rank);
  lanes_.emplace(choose_lanes(options_, environment_, usable_cores(), run.count));
  if (phase_ != Phase::training && !stored_.copy_to(*chosen_.device))
    report_->warning(
        "the data set was to stay in the GPU's memory, but other programs have taken that: its "
        "samples are sent as they are needed");
  loop_.emplace(parts());
  phase_ = Phase::training;
  stop_.begin_training();
  // An interruption that has come already ends the first sum.
  if (Elastic* const connection = rounds_.connection.get())
    connection->watch(environment_.world_size > 1 ? ranks_.communicator.get() : nullptr);
  const std::optional<int> code = loop_->run();
  if (rounds_.connection) rounds_.connection->unwatch();
  if (keeper_ && code && *code != kExitSuccess) keeper_->abandon();
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
