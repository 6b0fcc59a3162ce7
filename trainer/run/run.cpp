#include "trainer/run/run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/model/model.hpp"
#include "trainer/nccl/sum_memory.hpp"
#include "trainer/run/advice.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/gpu_memory.hpp"
#include "trainer/run/machine_memory.hpp"
#include "trainer/run/memory_check.hpp"
#include "trainer/run/memory_remedy.hpp"
#include "trainer/run/rendezvous.hpp"
#include "trainer/run/run_data.hpp"
#include "trainer/run/run_folder.hpp"
#include "trainer/run/run_memory.hpp"
#include "trainer/run/start.hpp"
#include "trainer/run/statistic_ranges.hpp"
#include "trainer/run/train_loop.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kMetricsFile = "metrics.jsonl";

std::string number_list(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

CheckpointLayout make_layout(const Options& options, const Graph& graph, const DataSet& set) {
  CheckpointLayout layout;
  layout.parameters = graph.parameters();
  layout.arena_size = graph.arena_size();
  layout.moments = moment_names(optimizer_config(options));
  // What a reader needs to feed the network.
  layout.metadata = {{"model", to_string(options.model)},
                     {"stem", to_string(options.stem)},
                     {"decoder", to_string(options.decoder)},
                     {"data", set.name()},
                     {"classes", std::to_string(graph.classes())}};
  if (set.has_texts()) {
    layout.metadata.insert({"size", to_string(options.size)});
    layout.metadata.insert({"vocabulary", std::to_string(graph.text().vocabulary)});
  } else {
    layout.metadata.insert({"image_shape", to_string(set.shape())});
    layout.metadata.insert({"mean", number_list(set.normalization().mean)});
    layout.metadata.insert({"deviation", number_list(set.normalization().deviation)});
  }
  return layout;
}

/// What this run sets out to do. `epochs`: of them all.
std::string start_text(const TrainPlan& plan, const DataFacts& data, const StartingPoint& start,
                       const std::string& out, const WorkerEnvironment& environment, int epochs,
                       const std::string& device, const std::string& memory) {
  if (start.snapshot && start.snapshot->state.step >= plan.last_step) {
    const std::string all = plan.last_step < plan.total_steps
                                ? fmt::format("{} steps", plan.last_step)
                                : fmt::format("{} epoch{}", epochs, epochs == 1 ? "" : "s");
    return fmt::format("nothing to do: all {} are in {}", all, start.path);
  }
  std::string from = "from step 0";
  if (start.snapshot) {
    from = fmt::format("from step {} of {}", start.snapshot->state.step, start.path);
  } else if (!out.empty()) {
    from += ", checkpoints in " + out;
  }
  return fmt::format("training on {} ({} samples), {} worker{} on {}, V={}, b={}, memory {}, {}",
                     data.name, data.samples, environment.world_size,
                     environment.world_size == 1 ? "" : "s", device, plan.shards, plan.batch,
                     memory, from);
}

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

struct Meeting {
  std::unique_ptr<Communicator> communicator;
  std::optional<int> exit_code;  ///< set: the others did not come
};

Meeting meet(Rendezvous& rendezvous, const CommOptions& comm, const ChosenDevice& chosen,
             std::chrono::nanoseconds timeout, Report& report) {
  CommSetup setup =
      make_device_communicator(chosen, comm, timeout, rendezvous.exchange(), rendezvous.deadline());
  if (setup.communicator) return {.communicator = std::move(setup.communicator), .exit_code = {}};
  if (setup.refused) throw DataError(setup.result.detail);
  report.error(fmt::format("rendezvous failed: {}", setup.result.detail));
  return {.communicator = nullptr, .exit_code = kExitPeerLost};
}

/// A disk that is full costs the protection, not the run.
std::optional<DirectoryClaim> claim_directory(const std::filesystem::path& out,
                                              const WorkerEnvironment& environment,
                                              Report& report) {
  if (!environment.epoch) return std::nullopt;
  try {
    return DirectoryClaim(out, {environment.run_id, static_cast<std::uint64_t>(*environment.epoch),
                                static_cast<std::uint64_t>(environment.round)});
  } catch (const std::system_error& error) {
    report.warning(
        fmt::format("cannot claim the directory of checkpoints for this round: {}", error.what()));
    return std::nullopt;
  }
}

std::unique_ptr<CheckpointKeeper> make_keeper(const Options& options, const StartingPoint& start,
                                              const std::filesystem::path& out,
                                              CheckpointLayout layout,
                                              std::optional<DirectoryClaim> claim, Report& report) {
  return std::make_unique<CheckpointKeeper>(
      CheckpointKeeper::Settings{
          .every = options.checkpoint_every,
          .sequence_next = start.sequence_next,
          .step_on_disk = start.snapshot ? start.snapshot->state.step : -1,
          .path_on_disk = start.path,
          .writer = {.directory = out,
                     .keep = static_cast<std::size_t>(options.keep),
                     .layout = std::move(layout),
                     .claim = std::move(claim),
                     .on_failure = {}},
          .warn = [&report](const std::string& text) { report.warning(text); }},
      Clock::now());
}

/// Tells the other ranks that this one has failed, unless it has come to its end: else they would
/// wait for it, and NCCL here for them.
class AbortOnFailure {
 public:
  explicit AbortOnFailure(Communicator& communicator) : communicator_(communicator) {}
  ~AbortOnFailure() {
    if (!ended_) communicator_.abort("it failed before training began");
  }
  AbortOnFailure(const AbortOnFailure&) = delete;
  AbortOnFailure& operator=(const AbortOnFailure&) = delete;
  void ended() { ended_ = true; }

 private:
  Communicator& communicator_;
  bool ended_ = false;
};

/// For the text about an error.
struct Begun {
  const char* phase = "while the data was loaded";
  RunMemory memory{};  ///< what it plans to take, once that is known
  bool is_on_gpu = false;
};

std::string text_of(const std::exception& error, const Begun& begun) {
  if (dynamic_cast<const cuda::OutOfGpuMemory*>(&error) != nullptr)
    return out_of_memory_text(begun.memory, error.what());
  // What a GPU's run takes of the host's memory is not planned.
  if (const auto* const refused = dynamic_cast<const std::bad_alloc*>(&error))
    return out_of_memory_text(
        begun.is_on_gpu ? RunMemory{.choices = begun.memory.choices} : begun.memory, *refused,
        begun.phase, machine_memory());
  return error.what();
}

int run_on(const ChosenDevice& chosen, const Options& options, const WorkerEnvironment& environment,
           Begun& begun) {
  const bool first_rank = environment.rank == 0;
  const bool keeps = options.checkpoint_every.kind != CheckpointEvery::Kind::off;
  const Target target = target_of(options.model);
  begun.memory.choices = memory_choices(options, options.batch.value_or(1));
  // As it is before this worker loads its data.
  const MachineMemory there = machine_memory();
  const TrainAndTest sets = load_sets(options, environment.local_world_size, there);
  begun.phase = "before training";
  DataFacts data = facts_of(*sets.train, *sets.test);
  const Graph graph = make_graph({.model = options.model,
                                  .shape = sets.train->shape(),
                                  .classes = head_classes(options, data),
                                  .dropout = options.dropout,
                                  .stem = options.stem,
                                  .decoder = options.decoder,
                                  .positive_weight = options.positive_weight,
                                  .vocabulary = sets.train->text().vocabulary,
                                  .size = options.size,
                                  .normal_init = options.normal_init});
  check_sets(sets, graph, options);
  const std::unique_ptr<Device>& device = chosen.device;
  const std::string compute = compute_text(chosen, options.precision, environment.world_size);
  // What a GPU's run takes of the host's memory beside its data is not counted.
  MemoryCheck memory_check({.options = options,
                            .environment = environment,
                            .graph = graph,
                            .sets = sets,
                            .device = *device,
                            .order = chosen.order,
                            .there = chosen.gpu ? MachineMemory{} : there});
  const CheckpointLayout layout = make_layout(options, graph, *sets.train);

  // Rank 0 alone looks at checkpoints: the others may not see its disk.
  std::filesystem::path out = choose_out(options, environment, current_folder());
  const bool writes = first_rank && (keeps || !options.out.empty());
  std::optional<RunDirectory> directory;
  if (writes && keeps && !environment.restarted()) {
    directory.emplace(out);
    // Another job may have taken the free one in the meantime.
    while (!names_its_run(options, environment) && !directory->is_new() && is_there(out)) {
      out = choose_out(options, environment, current_folder());
      directory.emplace(out);
    }
  }
  Report report({.rank = environment.rank,
                 .json = options.json,
                 .quiet = options.quiet,
                 .place = {.world_size = environment.world_size, .round = environment.round},
                 .score = score_of(target),
                 .metrics = writes ? out / kMetricsFile : std::filesystem::path()});
  if (first_rank && !chosen.warning.empty()) report.warning(chosen.warning);
  if (first_rank && device->storage(options.precision) == Storage::rounded_to_bf16)
    report.warning(
        "--precision bf16: this CPU has no instructions for it (avx512_bf16), so values are only "
        "rounded to bf16, and a step takes as long as in fp32");
  StartingPoint start;
  std::optional<DirectoryClaim> claim;
  std::optional<int> shards_there;
  InitialWeights initial;
  FloatBuffer parameters;  // the first ones, until the learner has them
  if (first_rank) {
    // Part of what tells whether a checkpoint is of this run.
    if (options.init_from) {
      memory_check.before_weights(data, states_in(out));
      parameters = FloatBuffer(graph.arena_size());
      initial = initialize_weights(options, graph, parameters.span());
    }
    data.initial_weights = initial.hash;
    // Before it looks, so that no older round publishes a newer checkpoint than the one it finds.
    if (keeps && environment.restarted()) claim = claim_directory(out, environment, report);
    start = find_start(
        options, environment, data, out, layout, compute,
        [&](const TrainPlan& plan) { memory_check.before_checkpoint(plan); }, report);
    if (start.snapshot) parameters = {};
    if (start.snapshot) shards_there = shards_of(start.snapshot->state.config);
    // Refused here where it can be, before anybody is waited for.
    shards_there = make_plan(options, environment, data, shards_there).shards;
  }
  Rendezvous rendezvous(environment, options.rendezvous_timeout);
  const AgreedShards agreed = rendezvous.agree_on_shards(shards_there.value_or(0),
                                                         chosen.gpu != nullptr, chosen.why_no_gpu);
  if (!agreed.result.ok()) {
    report.error(fmt::format("rendezvous failed: {}", agreed.result.detail));
    return kExitPeerLost;
  }
  shards_there = agreed.shards;
  const TrainPlan plan = make_plan(options, environment, data, shards_there);
  if (first_rank)
    for (const std::string& line :
         advice_on(options, environment, plan, chosen.gpu ? kNoCores : usable_cores()))
      report.warning(line);
  const CommOptions comm{.rank = environment.rank,
                         .world_size = environment.world_size,
                         .shards = plan.shards,
                         .order = chosen.order,
                         .arena_floats = graph.arena_size(),
                         .grad_comm = chosen.grad_comm,
                         .statistics = statistic_ranges(graph.parameters()),
                         .group = rendezvous.group(),
                         .on_phase = {}};
  RunMemory memory = memory_check.before_training(plan, start.snapshot.has_value(), report);
  if (chosen.gpu && environment.world_size > 1) memory.exchange = nccl::gpu_bytes_of_sums(comm);
  begun.memory = memory;
  if (chosen.gpu)
    if (const std::string why = why_too_large(memory, chosen.gpu->facts(), chosen.gpu_workers);
        !why.empty())
      throw DataError(why);
  Meeting meeting = meet(rendezvous, comm, chosen, options.comm_timeout, report);
  if (meeting.exit_code) return *meeting.exit_code;
  AbortOnFailure abort_on_failure(*meeting.communicator);

  Learner learner(graph, *device,
                  {.optimizer = optimizer_config(options),
                   .scaler = plan.scaler,
                   .precision = options.precision,
                   .shards = plan.shards});
  TrainingState state = start.snapshot ? start.snapshot->state : fresh_state(plan);
  state.config = plan.config;
  if (start.snapshot) {
    restore(*start.snapshot, learner);
  } else if (first_rank) {
    if (!options.init_from) {
      parameters = FloatBuffer(graph.arena_size());
      initial = initialize_weights(options, graph, parameters.span());
    }
    learner.copy_in(0, parameters.span());
    parameters = {};
  }
  const CommResult same =
      distribute(*meeting.communicator, plan, state, learner, options.rendezvous_timeout);
  if (!same.ok()) {
    report.error(fmt::format("lost another rank at the start: {}", same.detail));
    meeting.communicator->abort(same.detail);
    return kExitPeerLost;
  }
  learner.set_step_state(state.step_state);
  state.run = environment.run_id;
  state.compute = compute;
  state.best_metric = score_of(target).held_out_key();
  state.best_is = Score::best_is;
  state.world_size = environment.world_size;
  state.round = environment.round;
  state.restarts = environment.restart_count;

  if (directory) directory->keep();
  if (writes && keeps) mark_run(options, environment, out);
  if (first_rank && keeps && !claim) claim = claim_directory(out, environment, report);
  std::unique_ptr<CheckpointKeeper> keeper;
  if (first_rank) keeper = make_keeper(options, start, out, layout, std::move(claim), report);
  if (options.init_from && start.snapshot) {
    report.note("--init-from was not used, as the run goes on from its checkpoint");
  } else if (options.init_from) {
    report.note(initial.note);
  }
  // Another start of the same command may be another run.
  const std::string folder = options.out.empty()
                                 ? fmt::format("{0} (--out={0} goes on there)", out.string())
                                 : out.string();
  report.note(start_text(plan, data, start, keeps ? folder : "", environment, options.epochs,
                         chosen.name,
                         chosen.gpu ? gpu_memory_text(memory) : bytes_text(memory.total())));
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  Lanes lanes(choose_lanes(options, environment, usable_cores(), run.count));
  TrainLoop loop({.options = options,
                  .environment = environment,
                  .plan = plan,
                  .sets = sets,
                  .graph = graph,
                  .device = *device,
                  .lanes = lanes,
                  .communicator = *meeting.communicator,
                  .report = report,
                  .keeper = keeper.get(),
                  .state = state,
                  .learner = learner});
  int code = kExitFailure;
  begun.phase = "in training";
  try {
    code = loop.run();
  } catch (const std::exception& error) {
    // Printed first: the others lose this rank now, and what is destroyed may wait for its device.
    report.error(text_of(error, begun));
    meeting.communicator->abort("it failed");
    if (dynamic_cast<const DataError*>(&error) != nullptr) code = kExitUsage;
  }
  if (keeper && code != kExitSuccess) keeper->abandon();
  abort_on_failure.ended();
  if (chosen.gpu && code != kExitSuccess) {
    // A GPU that hangs would be waited for by all that is in its memory. The driver cleans up.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace

int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus) {
  const ChosenDevice chosen = choose_device(options, environment, gpus);
  Begun begun{.is_on_gpu = chosen.gpu != nullptr};
  Options used = options;
  if (chosen.gpu) used.lanes = 1;  // its work comes from one thread
  try {
    return run_on(chosen, used, environment, begun);
  } catch (const std::bad_alloc& error) {
    throw DataError(text_of(error, begun));
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("rank {}: {}", environment.rank, error.what()));
  }
}

}  // namespace ddprun::trainer
