#include "trainer/run/run_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "trainer/compute/memory_plan.hpp"
#include "trainer/run/shard_computer.hpp"

namespace ddprun::trainer {
namespace {

int count_moments(const MemoryQuestion& question) {
  return static_cast<int>(moment_names(question.optimizer).size());
}

/// Parameters, those that layers read, moments.
int count_learner(const MemoryQuestion& question, Storage storage) {
  return 1 + (storage == Storage::fp32 ? 0 : 1) + count_moments(question);
}

/// Those that a checkpoint is written from. At the start, before there are any, one arena holds the
/// values on their way to the learner.
int count_copies(const MemoryQuestion& question) {
  return question.keeps_checkpoints ? 1 + count_moments(question) : 1;
}

/// The learner, gradients: of the local nodes of the shard tree and of the shards under way;
/// copies.
int count_arenas(const MemoryQuestion& question, Storage storage) {
  const std::vector<TreeNode> nodes = local_nodes(question.shards, question.run, question.order);
  int largest = 1;
  for (const TreeNode& node : nodes) largest = std::max(largest, node.count);
  const bool is_chain = question.order == SumOrder::chain;
  const int partial_sums =
      is_chain ? std::min(largest - 1, 1) : std::bit_width(static_cast<unsigned>(largest)) - 1;
  const int further_lanes = largest > 1 ? question.lanes - 1 : 0;
  return count_learner(question, storage) + static_cast<int>(nodes.size()) + partial_sums +
         further_lanes + count_copies(question);
}

/// What is held at one time before training.
struct Start {
  int arenas = 0;
  std::uint64_t buffers = 0;
};

/// The most that is held at once: while --init-from is read (a tensor at a time, as the file has it
/// and as floats), while a checkpoint is (its files are read whole, one behind the other), and when
/// the learner takes over what was read.
Start largest_start(const Graph& graph, const MemoryQuestion& question, Storage storage) {
  std::size_t largest = 0;
  for (const Parameter& parameter : graph.parameters())
    largest = std::max(largest, parameter.count);
  const std::uint64_t tensor = largest * sizeof(float);
  const std::uint64_t arena = graph.arena_size() * sizeof(float);
  const int moments = count_moments(question);
  const int read = question.reads_checkpoint ? 1 + moments : 1;
  Start most{.arenas = count_learner(question, storage) + read};
  const auto consider = [&](const Start& other) {
    const auto bytes = [&](const Start& one) {
      return one.buffers + arena * static_cast<std::uint64_t>(one.arenas);
    };
    if (bytes(other) > bytes(most)) most = other;
  };
  if (question.reads_weights) consider({.arenas = 1, .buffers = 2 * tensor});
  if (question.reads_checkpoint) {
    const int weights = question.reads_weights ? 1 : 0;
    consider({.arenas = weights + 1 + moments + std::max(1, moments), .buffers = tensor});
  }
  return most;
}

RunMemory need_of(const Graph& graph, const MemoryQuestion& question, Storage storage,
                  std::uint64_t executor_bytes) {
  const Start start = largest_start(graph, question, storage);
  const std::uint64_t samples = ShardComputer::host_bytes(graph, question.executor.batch);
  return {.arena = graph.arena_size() * sizeof(float),
          .arenas = count_arenas(question, storage),
          .lane = executor_bytes + samples,
          .lanes = question.lanes,
          .host_arenas = count_copies(question),
          .host_lane = samples,
          .converted = storage == Storage::fp32 ? 0 : samples,
          .start_arenas = start.arenas,
          .start_buffers = start.buffers};
}

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string training_kinds(const RunMemory& need) {
  return fmt::format("{} of {} for parameters and gradients, {} of {} for the samples of a shard",
                     counted(need.arenas, "arena"), bytes_text(need.arena),
                     counted(need.lanes, "lane"), bytes_text(need.lane));
}

std::string start_kinds(const RunMemory& need) {
  std::string text = fmt::format("{} of {} for parameters, moments and what is read of files",
                                 counted(need.start_arenas, "arena"), bytes_text(need.arena));
  if (need.start_buffers > 0)
    text += fmt::format(", {} for tensors on their way", bytes_text(need.start_buffers));
  return text;
}

}  // namespace

MemoryQuestion of_other_worker(MemoryQuestion question) {
  question.keeps_checkpoints = false;
  question.reads_weights = false;
  question.reads_checkpoint = false;
  return question;
}

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

MemoryVerdict judge_memory(const RunMemory& need, std::uint64_t others, int workers,
                           const MachineMemory& there) {
  const std::uint64_t total = need.total() + others * static_cast<std::uint64_t>(workers - 1);
  if (there.most == 0 || total <= std::min(there.most, there.available)) return {};
  const bool never = total > there.most;
  const std::string needs =
      workers == 1 ? "this run needs" : fmt::format("the {} workers here need", workers);
  const std::string where = there.is_cgroup ? "the cgroup's limit is" : "this machine has";
  const bool at_start = need.start() > need.training();
  const std::string text = fmt::format(
      "{} {} of memory{} ({}{}), but {} {}{}: {}", needs, bytes_text(total),
      at_start ? " before training" : "",
      workers == 1 ? "" : "this one: ", at_start ? start_kinds(need) : training_kinds(need), where,
      bytes_text(there.most),
      never ? "" : fmt::format(", of which {} are available now", bytes_text(there.available)),
      at_start ? "use fewer workers on this machine or another --model"
               : "use a smaller --batch, fewer --lanes, smaller images or another --model");
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
