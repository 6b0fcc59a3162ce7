#include "trainer/run/run_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "trainer/compute/buffer.hpp"
#include "trainer/compute/gathered_loss.hpp"
#include "trainer/compute/memory_plan.hpp"
#include "trainer/run/compute_lane.hpp"
#include "trainer/run/memory_remedy.hpp"

namespace ddprun::trainer {
namespace {

int count_moments(const MemoryQuestion& question) {
  return static_cast<int>(moment_names(question.optimizer).size());
}

/// Parameters and moments.
int count_learner(const MemoryQuestion& question) { return 1 + count_moments(question); }

/// Those that a checkpoint is written from. At the start, before there are any, one arena holds the
/// values on their way to the learner.
int count_copies(const MemoryQuestion& question) {
  return question.keeps_checkpoints ? 1 + count_moments(question) : 1;
}

/// Of replicas other than the first: weights and gradients.
int count_of_replicas(const MemoryQuestion& question) {
  return std::max(0, question.replicas - 1) * 2;
}

/// Of the learner, or of one replica.
std::uint64_t rounded_bytes(const Graph& graph, Storage storage) {
  return storage == Storage::fp32 ? 0 : graph.arena_size() * bytes_of(storage);
}

std::vector<TreeNode> nodes_of(const MemoryQuestion& question) {
  return local_nodes(question.shards, question.run, question.order);
}

/// The learner, gradients: of the local nodes of the shard tree and of the shards under way;
/// copies.
int count_arenas(const MemoryQuestion& question) {
  const std::vector<TreeNode> nodes = nodes_of(question);
  int largest = 1;
  for (const TreeNode& node : nodes) largest = std::max(largest, node.count);
  // In a chain all shards are added in one arena.
  const int partial_sums =
      question.order == SumOrder::chain ? 0 : std::bit_width(static_cast<unsigned>(largest)) - 1;
  const int further_lanes = largest > 1 && question.replicas == 0 ? question.lanes - 1 : 0;
  return count_learner(question) + static_cast<int>(nodes.size()) + partial_sums + further_lanes +
         count_of_replicas(question) + count_copies(question);
}

/// What is held at one time before training.
struct Start {
  int arenas = 0;
  std::uint64_t rounded_weights = 0;
  std::uint64_t buffers = 0;
};

/// The largest one, as floats.
std::uint64_t tensor_bytes(const Graph& graph) {
  std::size_t largest = 0;
  for (const Parameter& parameter : graph.parameters())
    largest = std::max(largest, parameter.count);
  return largest * sizeof(float);
}

/// The most that is held at once: while --init-from is read (a tensor at a time, as the file has it
/// and as floats), while a checkpoint is (its files are read whole, one behind the other), and when
/// the learner takes over what was read. By then the workers have met, with memory for gradients.
Start largest_start(const Graph& graph, const MemoryQuestion& question, Storage storage) {
  const std::uint64_t tensor = tensor_bytes(graph);
  const std::uint64_t arena = graph.arena_size() * sizeof(float);
  const int moments = count_moments(question);
  const int read = question.reads_checkpoint ? 1 + moments : 1;
  const int gradients = static_cast<int>(nodes_of(question).size());
  Start most{.arenas = count_learner(question) + gradients + read,
             .rounded_weights = rounded_bytes(graph, storage)};
  const auto consider = [&](const Start& other) {
    const auto bytes = [&](const Start& one) {
      return one.rounded_weights + one.buffers + arena * static_cast<std::uint64_t>(one.arenas);
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

std::uint64_t gathered_bytes(const Graph& graph, const MemoryQuestion& question, Storage storage) {
  if (question.replicas == 0) return 0;
  return GatheredLoss::bytes(graph, {.pieces = question.replicas, .batch = question.executor.batch},
                             storage);
}

RunMemory need_of(const Graph& graph, const MemoryQuestion& question, Storage storage,
                  std::uint64_t executor_bytes) {
  const Start start = largest_start(graph, question, storage);
  const std::uint64_t samples =
      ComputeLane::host_bytes(graph, question.executor.batch, question.stored);
  const std::size_t counted =
      question.counts_classes ? graph.logits().count() * question.executor.batch : 0;
  const std::uint64_t logits = counted * sizeof(float);
  return {.data = question.data,
          .arena = graph.arena_size() * sizeof(float),
          .arenas = count_arenas(question),
          .lane = executor_bytes + samples + logits,
          .lanes = question.lanes,
          .rounded_weights = rounded_bytes(graph, storage) *
                             static_cast<std::uint64_t>(std::max(1, question.replicas)),
          .buffers = question.keeps_checkpoints ? tensor_bytes(graph) : 0,
          .gathered = gathered_bytes(graph, question, storage),
          .host_arenas = count_copies(question),
          .host_lane = samples + logits,
          .inputs = 2 * samples,
          .start_arenas = start.arenas,
          .start_rounded_weights = start.rounded_weights,
          .start_buffers = start.buffers,
          .choices = question.choices};
}

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool is_most_at_start(const RunMemory& need) { return need.start() > need.training(); }

std::string training_kinds(const RunMemory& need) {
  return fmt::format("{} of {} for parameters and gradients, {} of {} for the samples of a shard",
                     counted(need.arenas, "arena"), bytes_text(need.arena),
                     counted(need.lanes, need.choices.has_replicas ? "replica" : "lane"),
                     bytes_text(need.lane));
}

std::string start_kinds(const RunMemory& need) {
  return fmt::format("{} of {} for parameters, gradients, moments and what is read of files",
                     counted(need.start_arenas, "arena"), bytes_text(need.arena));
}

std::string kinds(const RunMemory& need) {
  const bool at_start = is_most_at_start(need);
  std::string text = at_start ? start_kinds(need) : training_kinds(need);
  const std::uint64_t rounded = at_start ? need.start_rounded_weights : need.rounded_weights;
  const std::uint64_t buffers = at_start ? need.start_buffers : need.buffers;
  if (rounded > 0) text += fmt::format(", {} for rounded weights", bytes_text(rounded));
  if (buffers > 0)
    text += fmt::format(", {} for {}", bytes_text(buffers),
                        at_start ? "tensors on their way" : "a tensor on its way to a checkpoint");
  if (!at_start && need.gathered > 0)
    text += fmt::format(", {} for gathered outputs", bytes_text(need.gathered));
  if (need.data > 0) text += fmt::format(", {} for the data sets", bytes_text(need.data));
  return text;
}

std::string needing(int workers) {
  return workers == 1 ? "this run needs" : fmt::format("the {} workers here need", workers);
}

std::string having(const MachineMemory& there) {
  return fmt::format("{} {}", there.is_cgroup ? "the cgroup's limit is" : "this machine has",
                     bytes_text(there.most));
}

std::string limit_text(const MachineMemory& there) {
  return fmt::format("the limit of a process's address space (ulimit -v) is {}",
                     bytes_text(there.address_space));
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
  std::size_t most = plan(question.executor.batch, false);
  for (const int batch : question.train_batches) most = std::max(most, plan(batch, true));
  return need_of(graph, question, storage, most);
}

RunMemory planned_memory(const Graph& graph, Device& device, const MemoryQuestion& question) {
  GraphExecutor executor(graph, device, question.executor);
  // Passes of all sizes share one piece of memory. A smaller one may take more of it: libraries
  // choose other algorithms.
  std::size_t most = 0;
  for (const int batch : question.train_batches)
    most = std::max(most, executor.bytes_needed(batch, question.width));
  return need_of(graph, question, device.storage(question.executor.precision), most);
}

MemoryVerdict judge_memory(const RunMemory& need, std::uint64_t others, int workers,
                           const MachineMemory& there) {
  const char* const when = is_most_at_start(need) ? " before training" : "";
  if (there.address_space > 0 && need.total() > there.address_space) {
    const std::string text = fmt::format(
        "a worker needs {} of memory{} ({}), but {}: raise it, or {}", bytes_text(need.total()),
        when, kinds(need), limit_text(there), memory_remedy(need, 1));
    return {.refusal = text, .warning = {}};
  }
  const std::uint64_t total = need.total() + others * static_cast<std::uint64_t>(workers - 1);
  if (there.most == 0 || total <= std::min(there.most, there.available)) return {};
  const bool never = total > there.most;
  const std::string text = fmt::format(
      "{} {} of memory{} ({}{}), but {}{}: {}", needing(workers), bytes_text(total), when,
      workers == 1 ? "" : "this one: ", kinds(need), having(there),
      never ? "" : fmt::format(", of which {} are available now", bytes_text(there.available)),
      memory_remedy(need, workers));
  return never ? MemoryVerdict{.refusal = text, .warning = {}}
               : MemoryVerdict{.refusal = {}, .warning = text};
}

std::string why_data_too_large(std::uint64_t bytes, int workers, const MachineMemory& there,
                               const MemoryChoices& choices) {
  const std::uint64_t total = bytes * static_cast<std::uint64_t>(workers);
  const bool passes_limit = there.address_space > 0 && bytes > there.address_space;
  if (!passes_limit && (there.most == 0 || total <= there.most)) return "";
  return fmt::format(
      "{} {} of memory for the data sets{}, but {}: {}", needing(workers), bytes_text(total),
      workers == 1 ? "" : fmt::format(" ({} each)", bytes_text(bytes)),
      passes_limit ? limit_text(there) : having(there), data_remedy(choices, workers));
}

std::string out_of_memory_text(const RunMemory& planned, const std::bad_alloc& refused,
                               const std::string& when, const MachineMemory& there) {
  std::string text = fmt::format("out of memory {}", when);
  if (const auto* const asked = dynamic_cast<const OutOfMemory*>(&refused))
    text += fmt::format(" ({} were asked for)", bytes_text(asked->bytes()));
  if (planned.total() > 0)
    text += fmt::format("; this worker needs {} ({}), and the program itself some more",
                        bytes_text(planned.total()), kinds(planned));
  if (there.address_space > 0)
    return fmt::format("{}, but {}: raise it, or {}", text, limit_text(there),
                       memory_remedy(planned, 1));
  return fmt::format("{}: {}", text, memory_remedy(planned, 1));
}

std::string bytes_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count < 1e6) return fmt::format("{:.0f} kB", count / 1e3);
  if (count < 1e9) return fmt::format("{:.0f} MB", count / 1e6);
  if (count < 1e12) return fmt::format("{:.2f} GB", count / 1e9);
  return fmt::format("{:.2f} TB", count / 1e12);
}

}  // namespace ddprun::trainer
