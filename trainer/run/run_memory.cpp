#include "trainer/run/run_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "trainer/compute/memory_plan.hpp"
#include "trainer/run/shard_computer.hpp"

namespace ddprun::trainer {
namespace {

/// Parameters, those that layers read, moments, gradients: of the local nodes of the shard tree and
/// of the shards under way; the copies that a checkpoint is written from. At the start, before
/// there are any, one arena holds the values on their way to the learner.
int count_arenas(const MemoryQuestion& question, Storage storage) {
  const auto moments = static_cast<int>(moment_names(question.optimizer).size());
  const std::vector<TreeNode> nodes = local_nodes(question.shards, question.run);
  int largest = 1;
  for (const TreeNode& node : nodes) largest = std::max(largest, node.count);
  const int partial_sums = std::bit_width(static_cast<unsigned>(largest)) - 1;
  const int further_lanes = largest > 1 ? question.lanes - 1 : 0;
  const int stored = storage == Storage::fp32 ? 0 : 1;
  const int copies = question.keeps_checkpoints ? 1 + moments : 1;
  return 1 + stored + moments + static_cast<int>(nodes.size()) + partial_sums + further_lanes +
         copies;
}

RunMemory need_of(const Graph& graph, const MemoryQuestion& question, Storage storage,
                  std::uint64_t executor_bytes) {
  return {.arena = graph.arena_size() * sizeof(float),
          .arenas = count_arenas(question, storage),
          .lane = executor_bytes + ShardComputer::host_bytes(graph, question.executor.batch),
          .lanes = question.lanes};
}

}  // namespace

RunMemory least_memory(const Graph& graph, const MemoryQuestion& question, Storage storage) {
  const Graph wide = graph.at_length(question.width);
  const std::vector<OperationMemory> nothing(wide.layers().size());
  const auto plan = [&](int batch, bool trains) {
    return plan_memory(wide, batch, bytes_of(storage), trains, nothing).bytes;
  };
  return need_of(graph, question, storage,
                 std::max(plan(question.train_batch, true), plan(question.executor.batch, false)));
}

RunMemory planned_memory(const Graph& graph, Device& device, const MemoryQuestion& question) {
  GraphExecutor executor(graph, device, question.executor);
  return need_of(graph, question, device.storage(question.executor.precision),
                 executor.bytes_needed(question.train_batch, question.width));
}

MemoryVerdict judge_memory(const RunMemory& need, int workers, const MachineMemory& there) {
  const std::uint64_t total = need.total() * static_cast<std::uint64_t>(workers);
  if (there.most == 0 || total <= std::min(there.most, there.available)) return {};
  const bool never = total > there.most;
  const std::string needs =
      workers == 1 ? "this run needs" : fmt::format("the {} workers here need", workers);
  const std::string where = there.is_cgroup ? "the cgroup's limit is" : "this machine has";
  const auto counted = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string text = fmt::format(
      "{} {} of memory ({}{} of {} for parameters and gradients, {} of {} for the samples of a "
      "shard), but {} {}{}: use a smaller --batch, fewer --lanes, smaller images or another "
      "--model",
      needs, bytes_text(total), workers == 1 ? "" : "each: ", counted(need.arenas, "arena"),
      bytes_text(need.arena), counted(need.lanes, "lane"), bytes_text(need.lane), where,
      bytes_text(there.most),
      never ? "" : fmt::format(", of which {} are available now", bytes_text(there.available)));
  return never ? MemoryVerdict{.refusal = text, .warning = {}}
               : MemoryVerdict{.refusal = {}, .warning = text};
}

std::string bytes_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count < 1e6) return fmt::format("{:.0f} kB", count / 1e3);
  if (count < 1e9) return fmt::format("{:.0f} MB", count / 1e6);
  if (count < 1e12) return fmt::format("{:.2f} GB", count / 1e9);
  return fmt::format("{:.2f} TB", count / 1e12);
}

}  // namespace ddprun::trainer
