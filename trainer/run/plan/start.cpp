#include "trainer/run/plan/start.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/printable.hpp"
#include "trainer/checkpoint/initial_weights.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/error.hpp"
#include "trainer/run/plan/other_run.hpp"

namespace ddprun::trainer {
namespace {

/// How a run can go on from a checkpoint, or why it cannot with these options.
struct Continuation {
  TrainPlan plan;
  std::string reason_against;  ///< empty: it can
};

Continuation continuation_of(const TrainingState& there, const Options& options,
                             const WorkerEnvironment& environment, const DataFacts& data) {
  try {
    TrainPlan plan = make_plan(options, environment, data, shards_of(there.config));
    std::string reason = why_another_run(differences_of(there.config, plan.config));
    return {std::move(plan), std::move(reason)};
  } catch (const DataError& error) {
    return {{}, error.what()};
  }
}

/// One for all that have the same reason.
std::vector<std::string> skipped_lines(const FoundCheckpoint& found) {
  std::vector<std::string> lines;
  for (auto first = found.skipped.begin(); first != found.skipped.end();) {
    const auto last = std::find_if(first + 1, found.skipped.end(), [&](const auto& one) {
      return one.names_file || one.reason != first->reason;
    });
    lines.push_back(last - first == 1
                        ? fmt::format("skipped a checkpoint: {}", first->text())
                        : fmt::format("skipped {} checkpoints: {} and older ones: {}", last - first,
                                      first->path.string(), first->reason));
    first = last;
  }
  if (!found.snapshot && !lines.empty()) lines.back() += "; starting from step 0";
  return lines;
}

std::string random_name() {
  std::uint64_t value = 0;
  // 8 bytes are never interrupted; where there is no randomness at all, a shared name does no harm
  // but pruning.
  if (::getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) {
    value = static_cast<std::uint64_t>(::getpid());
  }
  return fmt::format("{:016x}", value);
}

}  // namespace

StartingPoint find_start(const Options& options, const WorkerEnvironment& environment,
                         const DataFacts& data, const std::filesystem::path& out,
                         const CheckpointLayout& layout, const std::string& compute,
                         const std::function<void(const TrainPlan&)>& before_reading,
                         Report& report) {
  StartingPoint start;
  remove_stale(out);
  FoundCheckpoint found = find_newest(out, layout, [&](const TrainingState& there) -> std::string {
    if (options.checkpoints.resume == Resume::never) return "not wanted";
    const Continuation continuation = continuation_of(there, options, environment, data);
    if (continuation.reason_against.empty()) before_reading(continuation.plan);
    return continuation.reason_against;
  });
  start.sequence_next = found.sequence_next;
  if (options.checkpoints.resume == Resume::never) return start;
  if (options.checkpoints.resume == Resume::strict && !found.skipped.empty()) {
    throw DataError(fmt::format(
        "--resume=strict: a checkpoint cannot be used: {}. Remove it, or use --resume=auto to skip "
        "it{}",
        found.skipped.front().text(),
        found.snapshot ? fmt::format(" and go on from {}", found.path.string()) : ""));
  }
  // To start from step 0 would move `latest` to a run that nobody asked for.
  if (!found.skipped.empty() && found.other_formats == found.skipped.size() && !found.snapshot) {
    throw DataError(
        fmt::format("no checkpoint in {} can be resumed: {}; --resume=never begins a new run there",
                    out.string(), found.skipped.front().text()));
  }
  for (const std::string& line : skipped_lines(found)) report.warning(line);
  if (!found.snapshot) {
    if (found.skipped.empty() && environment.restarted() &&
        options.checkpoints.every.kind != CheckpointEvery::Kind::off) {
      report.warning(
          fmt::format("these workers follow others of the same job, but there is no checkpoint in "
                      "{}: starting from step 0. If rank 0 ran on another machine before, --out "
                      "must be in a folder that all machines share",
                      out.string()));
    }
    return start;
  }
  const TrainingState& there = found.snapshot->state;
  const TrainPlan plan = make_plan(options, environment, data, shards_of(there.config));
  const std::string changed = other_settings_text(differences_of(there.config, plan.config));
  if (!changed.empty()) report.warning(found.path.string() + changed);
  if (there.origin.compute != compute) {
    report.warning(fmt::format("{} was computed with {}, here it is {}: the last bits may differ",
                               found.path.string(), there.origin.compute, compute));
  }
  start.path = found.path.string();
  start.step_on_disk = there.step;
  start.block_on_disk = there.block;
  start.snapshot = std::move(found.snapshot);
  return start;
}

InitialWeights initialize_weights(const Options& options, const Graph& graph,
                                  std::span<float> parameters) {
  initialize(graph.parameters(), parameters, options.seed);
  if (!options.model.init_from) return {};
  const LeftOut left_out =
      load_weights(*options.model.init_from, graph.parameters(), options.model.init_skip,
                   parameters, options.eval ? WeightsUse::evaluation : WeightsUse::training);
  InitialWeights weights;
  // A hash of the values that the run begins with, so that neither the file's name nor what is left
  // out of it matters.
  weights.hash = hash_text(hash_floats(parameters));
  weights.note = fmt::format("initial weights from {} (hash {})",
                             printable(*options.model.init_from), weights.hash);
  if (!options.model.init_skip.empty()) {
    weights.note += fmt::format("; parameters that keep seeded values: {}; tensors not used: {}",
                                shown_names(left_out.kept), shown_names(left_out.unused));
  }
  return weights;
}

TrainingState fresh_state(const TrainPlan& plan) {
  TrainingState state;
  state.origin.lineage = random_name();
  state.step_state.scaler = initial_scaler(plan.scaler);
  return state;
}

void restore(Snapshot& snapshot, Learner& learner) {
  learner.copy_in(0, snapshot.parameters.span());
  snapshot.parameters = {};
  for (std::size_t i = 0; i < snapshot.moments.size(); ++i)
    learner.copy_in(1 + i, snapshot.moments[i].span());
  snapshot.moments.clear();
}

CommResult distribute(Communicator& communicator, const TrainPlan& plan, TrainingState& state,
                      Learner& learner, std::chrono::nanoseconds timeout, const Giving& giving) {
  if (communicator.world_size() == 1) return {};
  const auto broadcast = [&](std::span<std::byte> bytes) {
    return communicator.broadcast(bytes, giving.root, Clock::now() + timeout);
  };
  const bool is_root = communicator.rank() == giving.root;
  const auto is_of_init_from = [](const ConfigEntry& entry) {
    return entry.name == kInitFromEntry;
  };
  RunConfig alike = plan.config;
  alike.insert(alike.end(), plan.loop.begin(), plan.loop.end());
  state.config = alike;
  std::string text = is_root ? to_json(state, {}) : "";
  std::uint64_t size = text.size();
  CommResult result = broadcast(std::as_writable_bytes(std::span(&size, 1)));
  if (!result.ok()) return result;
  text.resize(size);
  result = broadcast(std::as_writable_bytes(std::span(text)));
  if (!result.ok()) return result;
  state.config = plan.config;
  if (!is_root) {
    state = parse_state(text, fmt::format("the state sent by rank {}", giving.root)).first;
    RunConfig there = std::move(state.config);
    state.config = plan.config;
    const auto init_from = std::find_if(there.begin(), there.end(), is_of_init_from);
    if (init_from != there.end()) {
      std::erase_if(state.config, is_of_init_from);
      state.config.push_back(*init_from);
      there.erase(init_from);
    }
    std::erase_if(alike, is_of_init_from);
    const ConfigDifference difference = compare(there, alike);
    const std::string& unlike =
        difference.identity.empty() ? difference.settings : difference.identity;
    if (!unlike.empty()) {
      throw DataError(fmt::format("rank {} was started with other options than rank {} (there): {}",
                                  communicator.rank(), giving.root, unlike));
    }
  }
  if (!giving.gives_arenas) return result;
  // By way of the host's memory, one arena at a time: once for each run.
  FloatBuffer arena(learner.arena_size());
  for (std::size_t i = 0; i < learner.arenas(); ++i) {
    if (is_root) learner.copy_out(i, arena.span());
    result = broadcast(std::as_writable_bytes(arena.span()));
    if (!result.ok()) return result;
    if (!is_root && giving.takes_arenas) learner.copy_in(i, arena.span());
  }
  return result;
}

/// One alone has no other that could die. Nodes of a job that has no restarts may still change, if
/// their number may.
bool may_go_on(const Options& options, const WorkerEnvironment& environment) {
  const bool may_have_others = std::max(environment.world_size, environment.max_world_size) > 1;
  const bool may_have_rounds = environment.may_restart || environment.max_world_size > 0;
  return options.device.parallel == Parallel::ddp && may_have_others && may_have_rounds &&
         !environment.job_socket.empty() && !options.eval;
}

bool make_room_to_go_back(cuda::Gpu* gpu, Learner& learner, const RunMemory& planned) {
  if (gpu == nullptr) return true;
  const std::uint64_t copy = learner.arenas() * learner.arena_size() * sizeof(float);
  // Some of the plan is allocated already: so this is on the safe side.
  if (gpu->free_memory() < planned.on_gpu().total() + copy) return false;
  try {
    learner.make_room_to_keep();
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

RunDirectory::RunDirectory(const std::filesystem::path& path) {
  const auto refuse = [&](int error) {
    // A full disk may have room again before the first checkpoint is due.
    if (error == ENOSPC || error == EDQUOT) return;
    throw DataError(
        fmt::format("--out {}: cannot write there: {} (choose another directory, or "
                    "--checkpoint-every=off)",
                    path.string(), std::strerror(error)));
  };
  std::error_code error;
  for (std::filesystem::path part = path;
       !part.empty() && !std::filesystem::exists(part, error) && part != part.parent_path();
       part = part.parent_path()) {
    made_.push_back(part);
  }
  is_new_ = std::filesystem::create_directories(path, error);
  if (!is_new_) made_.clear();  // another process may have been quicker
  if (error) {
    refuse(error.value());
  } else if (!std::filesystem::is_directory(path)) {
    refuse(ENOTDIR);
  } else if (::access(path.c_str(), W_OK | X_OK) != 0) {
    refuse(errno);
  }
}

RunDirectory::~RunDirectory() {
  for (const std::filesystem::path& part : made_) {
    if (::rmdir(part.c_str()) != 0) return;  // no longer empty
  }
}

}  // namespace ddprun::trainer
