#include "trainer/run/gpu_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/cuda/graph_nodes.hpp"
#include "trainer/run/memory_remedy.hpp"
#include "trainer/run/stored_sets.hpp"

namespace ddprun::trainer {
namespace {

int gpu_arenas(const RunMemory& planned) { return planned.arenas - planned.host_arenas; }
std::uint64_t gpu_lane(const RunMemory& planned) {
  return planned.lane - planned.host_lane + planned.inputs;
}

std::string by_kind(const RunMemory& planned) {
  const int arenas = gpu_arenas(planned);
  std::string text = fmt::format(
      "{} for parameters, gradients and moments ({} arena{} of {}), {} for the "
      "samples of a shard",
      bytes_text(planned.arena * static_cast<std::uint64_t>(arenas)), arenas,
      arenas == 1 ? "" : "s", bytes_text(planned.arena), bytes_text(gpu_lane(planned)));
  if (planned.rounded_weights > 0)
    text += fmt::format(", {} for rounded weights", bytes_text(planned.rounded_weights));
  if (planned.exchange > 0)
    text += fmt::format(", {} for the exchange with other workers", bytes_text(planned.exchange));
  return text;
}

/// Of a kind: an epoch's last shard is smaller.
constexpr int kSizes = 2;

}  // namespace

std::uint64_t graph_bytes(const Graph& graph, int tokens, int shards) {
  const int widths = std::max(1, padded_length(tokens, graph.text().positions) / kLengthUnit);
  // The first shard overwrites the gradients, the others add to them.
  const int kinds = kSizes * widths * std::min(shards, 2);
  // Evaluation, which has no backward, has less than half of the nodes.
  const std::size_t nodes =
      std::min(static_cast<std::size_t>(kinds), GraphExecutor::kRepeatedMax) *
          cuda::graph_nodes(graph) +
      static_cast<std::size_t>(kSizes * widths) * cuda::graph_nodes(graph) / 2;
  return std::min(nodes, Capture::kNodesMost) * Capture::kBytesPerNode;
}

std::uint64_t gpu_bytes(const RunMemory& planned) {
  return planned.arena * static_cast<std::uint64_t>(gpu_arenas(planned)) + planned.rounded_weights +
         gpu_lane(planned) + planned.exchange;
}

std::uint64_t samples_most(const RunMemory& planned, std::uint64_t free, int workers) {
  const std::uint64_t mine = free / static_cast<std::uint64_t>(workers);
  const std::uint64_t taken = gpu_bytes(planned) + planned.graphs;
  return mine <= taken ? 0 : (mine - taken) / StoredSets::kShareOfFree;
}

std::string gpu_memory_text(const RunMemory& planned) {
  std::string text =
      bytes_text(gpu_bytes(planned) + planned.graphs + planned.samples) + " of the GPU";
  if (planned.samples > 0)
    text += fmt::format(" ({} of it for data sets)", bytes_text(planned.samples));
  return text;
}

std::string why_too_large(const RunMemory& planned, const cuda::GpuFacts& gpu, int workers) {
  const std::uint64_t need = gpu_bytes(planned) * static_cast<std::uint64_t>(workers);
  if (need <= gpu.memory) return "";
  const std::string needs =
      workers == 1 ? "this run needs" : fmt::format("the {} workers on this GPU need", workers);
  return fmt::format("{} {} of GPU memory ({}{}), but {} has {}: {}", needs, bytes_text(need),
                     workers == 1 ? "" : "each: ", by_kind(planned), gpu.name,
                     bytes_text(gpu.memory), gpu_memory_remedy(planned, workers));
}

std::string out_of_memory_text(const RunMemory& planned, const std::string& what) {
  std::string more;
  if (planned.samples > 0) more += fmt::format(", {} for data sets", bytes_text(planned.samples));
  if (planned.graphs > 0)
    more += fmt::format(", about {} for CUDA graphs", bytes_text(planned.graphs));
  return fmt::format(
      "out of GPU memory: {}; this run needs {}{}, and CUDA and its libraries need more: {}", what,
      by_kind(planned), more, gpu_memory_remedy(planned));
}

}  // namespace ddprun::trainer
