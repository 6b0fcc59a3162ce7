#include "trainer/run/plan/run_memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/cgroup_places.hpp"
#include "base/duration.hpp"
#include "base/small_file.hpp"
#include "trainer/compute/gathered_loss.hpp"
#include "trainer/compute/memory_plan.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/error.hpp"
#include "trainer/nccl/nccl_communicator.hpp"
#include "trainer/run/plan/run_data.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t times(std::uint64_t bytes, int count) {
  return bytes * static_cast<std::uint64_t>(count);
}

int count_moments(const MemoryQuestion& question) {
  return static_cast<int>(moment_names(question.optimizer).size());
}

int count_arenas(const MemoryQuestion& question) {
  const std::vector<TreeNode> nodes = local_nodes(question.shards, question.run, question.order);
  int largest = 1;
  for (const TreeNode& node : nodes) largest = std::max(largest, node.count);
  // In a chain all shards are added in one arena.
  const int partial_sums =
      question.order == SumOrder::chain ? 0 : std::bit_width(static_cast<unsigned>(largest)) - 1;
  const int further_lanes = largest > 1 && question.replicas == 0 ? question.lanes - 1 : 0;
  const int of_replicas = 2 * std::max(0, question.replicas - 1);
  return 1 + count_moments(question) + static_cast<int>(nodes.size()) + partial_sums +
         further_lanes + of_replicas;
}

RunMemory memory_of(const Graph& graph, const MemoryQuestion& question, Storage storage,
                    std::uint64_t lane) {
  const int batch = question.executor.batch;
  std::uint64_t others = 0;
  if (storage != Storage::fp32)
    others += times(graph.arena_size() * bytes_of(storage), std::max(1, question.replicas));
  if (question.replicas > 0)
    others += GatheredLoss::bytes(graph, {.pieces = question.replicas, .batch = batch}, storage);
  return {.data = question.data,
          .arena = graph.arena_size() * sizeof(float),
          .arenas = count_arenas(question),
          // Before training one arena holds the first values on their way to the learner.
          .copies = question.has_copies ? 1 + count_moments(question) : 1,
          .lane = lane,
          .samples = batch_bytes(graph, batch, question.stored),
          .lanes = question.lanes,
          .others = others,
          .batch = batch};
}

/// A lower bound without what the operations want beside their tensors: quick at any size.
std::uint64_t least_lane(const Graph& graph, Storage storage, const MemoryQuestion& question) {
  const Graph wide = graph.at_length(question.width);
  const std::vector<OperationMemory> nothing(wide.layers().size());
  const auto pass = [&](int batch, bool trains) {
    return plan_memory(wide, batch, bytes_of(storage), trains, nothing).bytes;
  };
  // The first shards of an epoch are the largest.
  return std::max(pass(question.train_batches.front(), true), pass(question.executor.batch, false));
}

/// Samples of a shard in the steps of an epoch that has `of_shard` for it: the last one may be
/// smaller, and the libraries may want more for it.
std::vector<int> train_batches(std::size_t of_shard, std::size_t batch) {
  std::vector<int> sizes{static_cast<int>(std::min(of_shard, batch))};
  if (of_shard > batch && of_shard % batch != 0)
    sizes.push_back(static_cast<int>(of_shard % batch));
  return sizes;
}

/// Names the one thing that makes most of it smaller.
std::string remedy(const RunMemory& need) {
  const std::uint64_t lanes = times(need.lane + need.samples, need.lanes);
  const std::uint64_t arenas = times(need.arena, need.arenas + need.copies);
  if (need.data >= lanes && need.data >= arenas)
    return "use fewer samples, or less memory for them (--image-shape, --max-tokens, "
           "--data-memory)";
  return lanes > arenas && need.batch > 1 ? "use a smaller --batch" : "use a smaller --model";
}

std::string limit_text(const MachineMemory& there) {
  return fmt::format("the limit of a process's address space (ulimit -v) is {}: raise it, or ",
                     bytes_text(there.address_space));
}

std::string needing(int workers, const char* where) {
  return workers == 1 ? "this run needs" : fmt::format("the {} workers {} need", workers, where);
}

MemoryQuestion question_of(const MemoryParts& parts, const TrainPlan& plan, bool has_copies) {
  const auto& [options, environment, graph, sets, chosen, there, lanes] = parts;
  const auto shards = static_cast<std::size_t>(plan.shards);
  const std::size_t of_shard = (sets.train->size() + shards - 1) / shards;
  const int longest = std::max(text_shape(*sets.train).positions, text_shape(*sets.test).positions);
  const ShardRun run = shard_run(plan.shards, environment.world_size, environment.rank);
  return {
      .data = sets.train->bytes() + sets.test->bytes() +
              reader_bytes(sets, reader_settings(plan, environment)),
      .executor = {.batch = plan.batch,
                   .precision = options.precision.format,
                   .threads = options.device.threads_per_shard},
      .optimizer = optimizer_config(options),
      .train_batches = train_batches(of_shard, static_cast<std::size_t>(plan.batch)),
      .width = sets.train->texts() != nullptr ? padded_length(longest, graph.text().positions) : 0,
      .stored = image_shape(*sets.train),
      .shards = plan.shards,
      .run = run,
      .order = chosen.order,
      .lanes = choose_lanes(options, environment, usable_cores(), run.count),
      .replicas = options.device.parallel == Parallel::dp ? plan.replicas : 0,
      .has_copies = has_copies};
}

void refuse(const MemoryParts& parts, const RunMemory& need) {
  const ChosenDevice& chosen = parts.chosen;
  const std::string why =
      chosen.gpu ? why_too_large(need, chosen.gpu_workers, chosen.gpu->facts())
                 : why_too_large(need, parts.environment.local_world_size, parts.there);
  if (!why.empty()) throw DataError(why);
}

}  // namespace

MachineMemory machine_memory(const std::filesystem::path& root_path) {
  constexpr std::uint64_t kKilobyte = 1024;
  const std::string root = root_path == "/" ? "" : root_path.string();
  const std::string rows = read_small_file(root + "/proc/meminfo").value_or("");
  const std::uint64_t ram = counter_in(rows, "MemTotal:").value_or(0);
  if (ram == 0) return {};
  MachineMemory memory{.most = (ram + counter_in(rows, "SwapTotal:").value_or(0)) * kKilobyte};
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    memory.address_space = limit.rlim_cur;
  for (CgroupPlace& place : own_cgroups("memory", root)) {
    const char* const file = place.unified ? "/memory.max" : "/memory.limit_in_bytes";
    while (true) {
      const std::string text =
          read_small_file(root + place.mount_point + place.path + file).value_or("");
      std::uint64_t most = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), most);
      if (read.ec == std::errc{} && most < memory.most) {
        memory.most = most;
        memory.is_cgroup = true;
      }
      if (place.path.empty()) break;
      place.path.resize(place.path.rfind('/'));  // it begins with one
    }
  }
  return memory;
}

std::uint64_t RunMemory::total() const {
  return data + times(arena, arenas + copies) + times(lane + samples, lanes) + others;
}

RunMemory RunMemory::on_gpu() const {
  return {.arena = arena,
          .arenas = arenas,
          .lane = lane,
          .samples = 2 * samples,
          .others = others,
          .stored = stored,
          .batch = batch};
}

RunMemory RunMemory::beside_gpu() const { return {.data = data, .arena = arena, .copies = copies}; }

RunMemory planned_memory(const Graph& graph, Device& device, const MemoryQuestion& question) {
  GraphExecutor executor(graph, device, question.executor);
  std::uint64_t lane = 0;
  for (const int batch : question.train_batches)
    lane = std::max<std::uint64_t>(lane, executor.bytes_needed(batch, question.width));
  return memory_of(graph, question, device.storage(question.executor.precision), lane);
}

std::string why_too_large(const RunMemory& need, int workers, const MachineMemory& there,
                          const char* what) {
  if (there.address_space > 0 && need.total() > there.address_space)
    return fmt::format("a worker needs {} of {}, but {}{}", bytes_text(need.total()), what,
                       limit_text(there), remedy(need));
  const std::uint64_t other = need.total() - times(need.arena, std::max(0, need.copies - 1));
  const std::uint64_t all = need.total() + times(other, workers - 1);
  if (there.most == 0 || all <= there.most) return "";
  return fmt::format("{} {} of {}, but {} {}: {}", needing(workers, "here"), bytes_text(all), what,
                     there.is_cgroup ? "the cgroup's limit is" : "this machine has",
                     bytes_text(there.most), remedy(need));
}

std::string why_too_large(const RunMemory& need, int workers, const cuda::GpuFacts& gpu) {
  const RunMemory part = need.on_gpu();
  const std::uint64_t all = times(part.total(), workers);
  if (all <= gpu.memory) return "";
  return fmt::format("{} {} of GPU memory, but {} has {}: {}", needing(workers, "on this GPU"),
                     bytes_text(all), gpu.name, bytes_text(gpu.memory), remedy(part));
}

std::string out_of_memory_text(const std::string& what, const RunMemory& planned,
                               const MachineMemory& there) {
  std::string text = what;
  if (const std::uint64_t bytes = planned.total() + planned.stored; bytes > 0)
    text += fmt::format("; this worker needs {}, and the program and its libraries some more",
                        bytes_text(bytes));
  return text + (there.address_space > 0 ? ", but " + limit_text(there) : ": ") + remedy(planned);
}

RunMemory checked_memory(const MemoryParts& parts, const TrainPlan& plan, bool reads_checkpoint) {
  const auto& [options, environment, graph, sets, chosen, there, lanes] = parts;
  const bool writes = options.checkpoints.every.kind != CheckpointEvery::Kind::off;
  const MemoryQuestion question =
      question_of(parts, plan, environment.rank == 0 && (writes || reads_checkpoint));
  const Storage storage = chosen.device->storage(options.precision.format);
  RunMemory need = memory_of(graph, question, storage, least_lane(graph, storage, question));
  if (chosen.gpu && environment.world_size > 1)
    need.others += nccl::gpu_bytes_of_sums({.rank = environment.rank,
                                            .world_size = environment.world_size,
                                            .shards = plan.shards,
                                            .order = chosen.order,
                                            .arena_floats = graph.arena_size(),
                                            .on_phase = {}});
  refuse(parts, need);  // where the lower bound does not fit, nothing is made
  auto known = lanes.find(plan.shards);
  if (known == lanes.end())
    known = lanes.emplace(plan.shards, planned_memory(graph, *chosen.device, question).lane).first;
  need.lane = known->second;
  refuse(parts, need);
  return need;
}

}  // namespace ddprun::trainer
